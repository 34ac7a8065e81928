"""Handles the requests to a node of a quorum: the node answers raft's requests; requests to a controller are refused.

Two controller requests are handled: DescribeCluster here, and UpdateFeatures of kraft.version in `features.py`.

The advertised APIs are those that Kafka advertises for a CONTROLLER listener (ApiMessageType).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from itertools import count
from typing import ClassVar, Final, NamedTuple

from kcore.constants import KRAFT_VERSION, MAX_BROKERS
from kcore.net.adoption import Direct
from kcore.net.connection_metrics import Metrics
from kcore.net.framed_connection import Encoded
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.time_share import TimeShare
from kcore.net.request_context import ClientSession
from kcore.net.requests import Answer, ServerParts
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext
from kcore.net.server import Handler, RequestContext, Server, serve
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
from kcore.server.quorum_node.answer_loop import AnswerLoop, Feed
from kcore.server.quorum_node.observer_feed import ObserverFeed
from kcore.server.quorum_node.peers import NEWEST
from kcore.server.request_parts import answered_in_parts
from kcore.server.security.audit import AuditLog
from kcore.server.security.audited import audited
from kcore.server.security.request_throttle import RequestThrottle

# Requests for the active controller, which this node never is: the client tries another node.
OTHERS: Final = {
    "BrokerHeartbeat": (0, 2),
    "BrokerRegistration": (0, 4),
    "ControllerRegistration": (0, 0),
    "Envelope": (0, 0),
}
# `net/security/sasl_server.py` answers these until the client has authenticated; here they are refused.
OF_SASL: Final = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
MOST_CONNECTIONS: Final = 4 * MAX_BROKERS  # A broker has two connections. Kafka's default is no bound.
LIMITS: Final = Limits(connections=MOST_CONNECTIONS)
WRITTEN_AT_ONCE: Final = 64  # Responses that are written in one iteration of the event loop.
_SASL: Final = {message_class(f"{name}Request") for name in OF_SASL}
NOT_ALLOWED: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
_OTHERS: Final = {message_class(f"{name}Request") for name in OTHERS}

TakeRequest = Callable[[Message, int, Hashable], None]
IsOfObserver = Callable[[FetchRequest], bool]


class _Unanswered(NamedTuple):
    """A request without a task that has no answer yet."""

    answer: Answer
    may_wait: bool


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
    throttle: RequestThrottle | None = None  # Applies request quotas of clients, if there are any.
    _audits_itself: ClassVar[bool] = False  # Whether a subclass writes the audit log's lines.

    def __init__(
        self,
        level: str,
        take: TakeRequest,
        describe: Callable[[], DescribeClusterResponse],
        listener: str | None = None,
        super_users: Collection[str] | None = None,
        is_of_observer: IsOfObserver = _is_unknown,
        audit: AuditLog | None = None,
    ) -> None:
        """`take` gets a request that the node answers, its version, and the reply id for `answer_to`.

        `listener`: the name of the listener in the requests' context. `super_users`: the only users answered.
        `is_of_observer`: True for a Fetch that an observer sends to this node while it leads; such fetches may wait.
        `audit`: gets a line for each request.
        """
        self.metrics = Metrics()
        self._listener, self._super_users = listener, super_users
        self._level, self._take, self._describe = level, take, describe
        self._is_of_observer, self._audit = is_of_observer, audit
        self._waiting: dict[Hashable, asyncio.Future[Message | None]] = {}
        self._direct: dict[Hashable, _Unanswered] = {}  # The requests without a task.
        self._observers = TimeShare()  # Fetches of observers that Python answers, and their late responses.
        self._begins: Hashable = None  # The reply id of the request that `take` is handling; None between requests.
        self._late: deque[tuple[Answer, Message | None]] = deque()  # Responses that `_write_late` writes.
        self._ids = count()
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
        parts = ServerParts(
            direct=self,
            adopter=self._compiled,
            urgent=self._urgent,
            throttle=self.throttle,
            is_node=self._is_node,
            advertised=_advertised,
        )
        listening = serve(
            *(host, port, self._handler(), self._apis()),
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

    def _handler(self) -> Handler:
        return self._handle if self._audits_itself else audited(self._handle, self._audit, wall_ms)

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
        return self._is_known(direct.context)

    def _is_known(self, context: RequestContext | ClientSession) -> bool:
        return self._super_users is None or str(context.principal) in self._super_users

    def _is_node(self, session: ClientSession) -> bool:
        """Whether the client has the rights of a cluster node."""
        return self._is_known(session)

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
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()
        self._observers.clear()
        for each in self._direct.values():
            each.answer(None)
        self._direct.clear()
        if self._server is not None:
            await self._server.close()

    def answer(self, answer: SendResponse) -> None:
        """Hands the response to the waiting request."""
        self.answer_to(answer.reply_to, answer.response)

    def answer_to(self, reply_to: Hashable, response: Message | None) -> None:
        """Hands the response to the request with this reply id; None closes the request's connection."""
        if (request := self._direct.pop(reply_to, None)) is None:
            future = self._waiting.pop(reply_to, None)
            if future is not None and not future.done():
                future.set_result(response)
        elif reply_to == self._begins:
            request.answer(response)
        elif request.may_wait:
            self._observers.add(partial(request.answer, response))
        else:
            self._late.append((request.answer, response))
            if len(self._late) == 1:
                asyncio.get_running_loop().call_soon(self._write_late)

    def _write_late(self) -> None:
        """Writes some late responses, and leaves others to later calls, so that heartbeats do not wait long."""
        for _ in range(min(WRITTEN_AT_ONCE, len(self._late))):
            answer, response = self._late.popleft()
            answer(response)
        if self._late:
            asyncio.get_running_loop().call_soon(self._write_late)

    # Requests without a task each (DirectHandler).

    def takes(self, api_key: int) -> bool:
        """Whether requests of this API run without a task: Fetch, which all brokers send at once after a record."""
        return api_key == FetchRequest.api_key

    def begin(self, context: RequestContext, request: Message, answer: Answer) -> None:
        """Handles a request as `_handle` does, but without a task."""
        if not self._is_known(context):
            answer(refused(request, NOT_ALLOWED, DEFAULT_MESSAGES[NOT_ALLOWED]))
            return
        if self._followers is not None and (owed := self._followers.owed_to(context.connection_id, request)):
            answer(owed)
            return
        is_counted = self.throttle is not None and self.throttle.is_on  # A quota counts the time until `begin` returns.
        may_wait = isinstance(request, FetchRequest) and not is_counted and self._is_of_observer(request)
        self._begin(partial(self._take, request, context.version), answer, may_wait=may_wait)

    def _begin(self, ask: Callable[[Hashable], None], answer: Answer, *, may_wait: bool = False) -> None:
        reply_to = next(self._ids)
        self._direct[reply_to] = _Unanswered(answer, may_wait)
        if may_wait:
            self._observers.add(partial(self._ask, ask, reply_to))
        else:
            self._ask(ask, reply_to)

    def _ask(self, ask: Callable[[Hashable], None], reply_to: Hashable) -> None:
        self._begins = reply_to
        try:
            ask(reply_to)
        finally:
            self._begins = None

    async def _handle(self, context: RequestContext, request: Message) -> Message | Encoded | None:
        if type(request) in _SASL:
            return refused(request, Errors.ILLEGAL_SASL_STATE)
        if not self._is_known(context):
            return refused(request, NOT_ALLOWED, DEFAULT_MESSAGES[NOT_ALLOWED])
        if type(request) in _OTHERS:
            return refused(request, Errors.NOT_CONTROLLER)
        if isinstance(request, DescribeClusterRequest):
            return self._described(request)
        return await answered_in_parts(
            request, lambda part: self._answered(context, partial(self._take, part, context.version))
        )

    async def _answered(self, context: RequestContext, ask: Callable[[Hashable], None]) -> Message | None:
        """Calls `ask` with a new reply id. Returns the response to it; None if the client disconnects first."""
        reply_to = next(self._ids)
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        self._waiting[reply_to] = answer
        try:
            ask(reply_to)
            return await context.while_here(answer)
        finally:
            self._waiting.pop(reply_to, None)

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
