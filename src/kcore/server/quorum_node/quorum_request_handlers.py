"""Handles the requests to a node of a quorum: the node answers raft's requests; requests to a controller are refused.

Two controller requests are handled: DescribeCluster here, and UpdateFeatures of kraft.version in `features.py`.

The advertised APIs are those that Kafka advertises for a CONTROLLER listener (ApiMessageType).
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from kcore.constants import KRAFT_VERSION, MAX_BROKERS
from kcore.net.adoption import Direct
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession
from kcore.net.requests import Answer
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext
from kcore.net.server import RequestContext, Server, serve
from kcore.node.error_responses import DEFAULT_MESSAGES, refused
from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.raft.membership.replicas import Endpoints
from kcore.raft.membership.voters import MAX_KRAFT_VERSION
from kcore.raft.node import RaftNode
from kcore.schema.api_versions import ApiVersionsResponse, SupportedFeatureKey
from kcore.schema.cluster_metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    EndpointType,
)
from kcore.schema.fetch import FetchRequest
from kcore.schema.index import message_class
from kcore.schema.structure import Message
from kcore.server.clock import Clock, wall_ms
from kcore.server.pipeline import OF_SASL, Carrier, MayBeExempt, RequestPipeline
from kcore.server.quorum_node.answer_loop import AnswerLoop, Feed
from kcore.server.quorum_node.observer_feed import ObserverFeed
from kcore.server.quorum_node.peers import NEWEST
from kcore.server.quorum_node.pending_requests import PendingRequests
from kcore.server.request_parts import answered_in_parts
from kcore.server.security.audit import AuditLog
from kcore.server.security.request_throttle import RequestThrottle

# Requests for the active controller, which this node never is: the client tries another node.
OTHERS: Final = {
    "BrokerHeartbeat": (0, 2),
    "BrokerRegistration": (0, 4),
    "ControllerRegistration": (0, 0),
    "Envelope": (0, 0),
}
MOST_CONNECTIONS: Final = 4 * MAX_BROKERS  # A broker has two connections. Kafka's default is no bound.
LIMITS: Final = Limits(connections=MOST_CONNECTIONS)
NOT_ALLOWED: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
_OTHERS: Final = {message_class(f"{name}Request") for name in OTHERS}

TakeRequest = Callable[[Message, int, Hashable], None]
IsOfObserver = Callable[[FetchRequest], bool]


def _is_unknown(_: FetchRequest) -> bool:
    return False


def _advertised(answer: ApiVersionsResponse) -> ApiVersionsResponse:
    """A leader reads this level in a node's ApiVersions response before it adds the node as a voter (KIP-853)."""
    answer.supported_features = [SupportedFeatureKey(name=KRAFT_VERSION, min_version=0, max_version=MAX_KRAFT_VERSION)]
    return answer


def apis_of(level: str) -> dict[str, tuple[int, int]]:
    """The lowest and the highest version of each API, by its name, that a release's controllers serve."""
    raft = {
        request.__name__.removesuffix("Request"): (max(request.versions.lowest, 0), newest)
        for request, newest in NEWEST[level].items()
    }
    if level == "3.9":
        return {**raft, **OTHERS, **OF_SASL, "DescribeCluster": (0, 1)}
    return {
        **raft,
        **OTHERS,
        **OF_SASL,
        "DescribeCluster": (0, 2),
        "UpdateFeatures": (0, 2),
    }  # UpdateFeatures changes kraft.version only.


class QuorumRequestHandlers:
    """The request handlers of a node of a quorum, with the server that passes them requests."""

    _urgent: ClassVar[frozenset[int]] = frozenset()  # API keys of requests that are begun before others.

    def __init__(
        self,
        level: str,
        take: TakeRequest,
        describe: Callable[[], DescribeClusterResponse],
        listener: str | None = None,
        super_users: Collection[str] | None = None,
        is_of_observer: IsOfObserver = _is_unknown,
        audit: AuditLog | None = None,
        *,
        throttle: RequestThrottle | None = None,
        carriers: Mapping[type[Message], Carrier] | None = None,
        may_be_exempt: MayBeExempt | None = None,
        wall_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """`take` gets a request that the node answers, its version, and the reply id for `answer_to`.

        `listener`: the name of the listener in the requests' context. `super_users`: the only users answered.
        `is_of_observer`: True for a Fetch that an observer sends to this node while it leads; such fetches may wait.
        `audit`: gets a line for each request. The other arguments: see RequestPipeline.
        """
        self.metrics = Metrics()
        self._listener, self._super_users = listener, super_users
        self._level, self._take, self._describe = level, take, describe
        self._is_of_observer, self.pending = is_of_observer, PendingRequests()
        self.pipeline = RequestPipeline(
            *(self.handle, self._is_node),
            refuse=self.refuse,
            carriers=carriers,
            direct=self,
            throttle=throttle,
            may_be_exempt=may_be_exempt,
            audit=audit,
            wall_ms=wall_ms,
        )
        self._server: Server | None = None
        self._compiled: AnswerLoop | None = None
        self._followers: ObserverFeed | None = None

    async def open(
        self,
        host: str,
        port: int,
        *,
        tls: TlsContext | None = None,
        sasl: SaslListener | None = None,
        limits: Limits | None = None,
        before_listening: Callable[[], None] | None = None,
        fail: Callable[[Exception], None] | None = None,
    ) -> int:
        """Listens; returns the bound port. OSError if the address is not available.

        `before_listening` runs once the address is bound, before any request arrives. `fail` is called if the answer
        loop ends by itself; without `fail` there is no answer loop.
        """
        limits = limits or LIMITS
        if fail is not None:
            self._compiled = AnswerLoop(limits, self.metrics, fail)
        parts = replace(self.pipeline.parts, adopter=self._compiled, urgent=self._urgent, advertised=_advertised)
        listening = serve(
            *(host, port, self.pipeline.handle, self._apis()),
            tls=tls,
            sasl=sasl,
            listener_name=self._listener,
            limits=limits,
            metrics=self.metrics,
            parts=parts,
            rate_of=self._rate_of,
            before_listening=before_listening,
        )
        self._server = await listening
        return self._server.port

    def begin_answer_loop(self, node: RaftNode, clock: Clock) -> None:
        """Starts the answer loop, after `open`; no effect without this loop."""
        if self._compiled is not None:
            self._followers = ObserverFeed(self._compiled, node, clock, self._may_go_on)
            self._compiled.begin(self._feeds(self._compiled, self._followers))
            self.follow()

    def _rate_of(self, address: str) -> float | None:
        """The connections that the server accepts from an address in a second; None: any number."""
        return None

    def _feeds(self, handlers: AnswerLoop, followers: ObserverFeed) -> list[Feed]:
        """The feeds of the requests that the loop answers."""
        return [followers]

    def _may_go_on(self, direct: Direct) -> bool:
        """Whether the sender still has the right to send this request."""
        return self._is_node(direct.context.session)

    def _is_node(self, session: ClientSession) -> bool:
        """Whether the client has the rights of a cluster node."""
        return self._super_users is None or str(session.principal) in self._super_users

    def follow(self) -> None:
        """Passes changes of the node to the answer loop, after each event."""
        if self._followers is not None:
            self._followers.follow()

    def fold_progress(self) -> None:
        """Updates the node with the progress of the loop's observers; called before this progress is read."""
        if self._followers is not None:
            self._followers.fold_progress()

    def count(self) -> None:
        """Adds the loop's figures to the server's metrics; called before a caller reads the metrics."""
        if self._compiled is not None:
            self._compiled.count()

    def _reading(self) -> asyncio.Lock:
        """The lock that is held while a large request is decoded."""
        assert self._server is not None
        return self._server.apis.reading

    def _look(self) -> None:
        """Begins the urgent requests that have arrived; called between parts of long work."""
        if self._server is not None and self._server.direct_connections is not None:
            self._server.direct_connections.look()

    def _apis(self) -> Mapping[str, tuple[int, int]]:
        """The served versions of each API, by its name."""
        return apis_of(self._level)

    async def close(self) -> None:
        """Closes all connections; waiting requests get no response."""
        if self._compiled is not None:
            await self._compiled.close()
        self.pending.close()
        if self._server is not None:
            await self._server.close()

    def answer(self, answer: SendResponse) -> None:
        """Hands the response to the waiting request."""
        self.pending.answer_to(answer.reply_to, answer.response)

    # Requests without a task each (DirectHandler).

    def takes(self, api_key: int) -> bool:
        """Whether requests of this API run without a task: Fetch, which all brokers send at once after a record."""
        return api_key == FetchRequest.api_key

    def begin(self, context: RequestContext, request: Message, answer: Answer) -> None:
        """Handles a request as `handle` does, but without a task."""
        if self._followers is not None and (owed := self._followers.owed_to(context.connection_id, request)):
            answer(owed)
            return
        throttle = self.pipeline.throttle
        is_counted = throttle is not None and throttle.is_on  # A quota counts the time until `begin` returns.
        may_wait = isinstance(request, FetchRequest) and not is_counted and self._is_of_observer(request)
        self.pending.begin(partial(self._take, request, context.version), answer, may_wait=may_wait)

    # The steps of the pipeline.

    def refuse(self, context: RequestContext, request: Message) -> Message | None:
        """See `Refuse`: answers only super users."""
        is_known = self._is_node(context.session)
        return None if is_known else refused(request, NOT_ALLOWED, DEFAULT_MESSAGES[NOT_ALLOWED])

    async def handle(self, context: RequestContext, request: Message) -> Message | None:
        """The response of the node to a request of one of its super users."""
        if type(request) in _OTHERS:
            return refused(request, Errors.NOT_CONTROLLER)
        if isinstance(request, DescribeClusterRequest):
            return self._described(request)
        return await answered_in_parts(
            request, lambda part: self.pending.answered(context, partial(self._take, part, context.version))
        )

    def _described(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != EndpointType.CONTROLLER:
            return DescribeClusterResponse(
                error_code=Errors.MISMATCHED_ENDPOINT_TYPE.value,
                error_message="The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of "
                "type BROKER",
            )
        return self._describe()


def described(cluster_id: str, leader_id: int, voters: dict[int, Endpoints], listener: str) -> DescribeClusterResponse:
    """The voters at a listener, for DescribeCluster of controllers."""
    nodes = [
        DescribeClusterBroker(broker_id=node_id, host=endpoints[listener].host, port=endpoints[listener].port)
        for node_id, endpoints in sorted(voters.items())
        if listener in endpoints
    ]
    return DescribeClusterResponse(
        endpoint_type=EndpointType.CONTROLLER, cluster_id=cluster_id, controller_id=leader_id, brokers=nodes
    )
