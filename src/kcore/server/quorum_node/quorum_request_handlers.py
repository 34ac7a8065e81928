"""Handles the requests to a node of a quorum: the node answers raft's requests; requests to a controller are refused.

One controller request is handled, in `features.py`: UpdateFeatures of kraft.version.

The advertised APIs are those that Kafka advertises for a CONTROLLER listener (ApiMessageType).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from itertools import count
from typing import ClassVar, Final

from kcore.constants import KRAFT_VERSION, MAX_BROKERS
from kcore.controller.rules.error_responses import DEFAULT_MESSAGES, refused
from kcore.net.adoption import Direct
from kcore.net.connection_metrics import Metrics
from kcore.net.framed_connection import Encoded
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession
from kcore.net.requests import Answer
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext
from kcore.net.server import Handler, RequestContext, Server, serve
from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.raft.membership.replicas import Endpoints
from kcore.raft.membership.voters import MAX_KRAFT_VERSION
from kcore.raft.node import RaftNode
from kcore.schema.api_versions import SupportedFeatureKey
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
from kcore.server.quorum_node.follower_feed import FollowerFeed
from kcore.server.quorum_node.peers import NEWEST
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
# Before a client is known they are `net/security/sasl_server.py`'s; later ones come too late.
OF_SASL: Final = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
MOST_CONNECTIONS: Final = 4 * MAX_BROKERS  # Two of a broker; Kafka's max.connections has no bound either.
LIMITS: Final = Limits(connections=MOST_CONNECTIONS)
WRITTEN_AT_ONCE: Final = 64  # Answers between two looks at what has come.
_SASL: Final = {message_class(f"{name}Request") for name in OF_SASL}
NOT_ALLOWED: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
_OTHERS: Final = {message_class(f"{name}Request") for name in OTHERS}

TakeRequest = Callable[[Message, int, Hashable], None]


def apis_of(level: str) -> dict[str, tuple[int, int]]:
    """By name the lowest and the highest version, as a release's controllers have them."""
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
    }  # The latter of kraft.version alone.


class QuorumRequestHandlers:
    """The server of a node."""

    _urgent: ClassVar[frozenset[int]] = frozenset()  # API keys of requests that are begun before others.
    audit: AuditLog | None = None  # May be set before it is open.
    throttle: RequestThrottle | None = None  # Where there are quotas of clients.
    _tells_itself: ClassVar[bool] = False  # Whether a subclass writes its lines.

    def __init__(
        self,
        level: str,
        take: TakeRequest,
        describe: Callable[[], DescribeClusterResponse],
        listener: str | None = None,
        super_users: Collection[str] | None = None,
    ) -> None:
        """`take` gets a request that is not answered here, its version, and what `answer` is to be called with.

        `listener`: the name of the listener in the requests' context. `super_users`: the only users that are answered.
        """
        self.metrics = Metrics()
        self._listener, self._super_users = listener, super_users
        self._level, self._take, self._describe = level, take, describe
        self._waiting: dict[Hashable, asyncio.Future[Message | None]] = {}
        self._direct: dict[Hashable, Answer] = {}  # The answers of requests without a task.
        self._begins: Hashable = None  # The one of them that is being asked now.
        self._late: deque[tuple[Answer, Message | None]] = deque()  # Answers that are to be written.
        self._ids = count()
        self._server: Server | None = None
        self._compiled: AnswerLoop | None = None
        self._followers: FollowerFeed | None = None

    async def open(
        self,
        host: str,
        port: int,
        *,
        tls: TlsContext | None = None,
        sasl: SaslListener | None = None,
        limits: Limits | None = None,
        before_listening: Callable[[], None] | None = None,
    ) -> int:
        """Listens; returns the port, also where 0 was asked for. OSError if it cannot be had.

        `before_listening` runs once the address is had, before any request comes.
        """
        listening = serve(
            *(host, port, self._handler(), self._apis()),
            tls=tls,
            sasl=sasl,
            listener_name=self._listener,
            limits=limits or LIMITS,
            metrics=self.metrics,
            before_listening=before_listening,
        )
        server = await listening
        server.quotas.rate_of, server.throttle = self._rate_of, self.throttle
        server.is_node = self._is_node
        self._server, server.direct = server, self
        server.versions_answer.supported_features = [
            # A leader asks a node for that before it makes it a voter (KIP-853).
            SupportedFeatureKey(name=KRAFT_VERSION, min_version=0, max_version=MAX_KRAFT_VERSION)
        ]
        return server.port

    def _handler(self) -> Handler:
        return self._handle if self._tells_itself else audited(self._handle, self.audit, wall_ms)

    def compile(self, node: RaftNode, clock: Clock, fail: Callable[[Exception], None]) -> None:
        """Once it is open: the loop of `compiled` answers what changes nothing; `fail`: it has ended by itself."""
        assert self._server is not None
        handlers = AnswerLoop(self._server, fail)
        followers = FollowerFeed(handlers, node, clock, self._may_go_on)
        handlers.begin(self._feeds(handlers, followers), self._urgent)
        self._compiled, self._followers = handlers, followers
        self.follow()

    def _rate_of(self, address: str) -> float | None:
        """How many connections of an address it takes a second; None: any number."""
        return None

    def _feeds(self, handlers: AnswerLoop, followers: FollowerFeed) -> list[Feed]:
        """What the loop answers."""
        return [followers]

    def _may_go_on(self, direct: Direct) -> bool:
        """Whether the sender of such a request has the right to it now."""
        return self._is_known(direct.context)

    def _is_known(self, context: RequestContext | ClientSession) -> bool:
        return self._super_users is None or str(context.principal) in self._super_users

    def _is_node(self, session: ClientSession) -> bool:
        """Whether whoever asks may do what nodes of the cluster do."""
        return self._is_known(session)

    def follow(self) -> None:
        """Passes changes of the node to the answer loop, after each event."""
        if self._followers is not None:
            self._followers.follow()

    def fold_progress(self) -> None:
        """Before whatever reads the observers' progress: the node learns what the loop knows of it."""
        if self._followers is not None:
            self._followers.fold_progress()

    def count(self) -> None:
        """Before whatever reads the server's metrics: they learn what the loop has done."""
        if self._compiled is not None:
            self._compiled.count()

    def _look(self) -> None:
        """Begins urgent requests that have come, where much else is done in a row."""
        if self._compiled is not None and self._compiled.direct_connections is not None:
            self._compiled.direct_connections.look()

    def _apis(self) -> Mapping[str, tuple[int, int]]:
        """What it serves."""
        return apis_of(self._level)

    async def close(self) -> None:
        """Waiting requests get no response; their connections are closed."""
        if self._compiled is not None:
            await self._compiled.close()
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()
        for answer in self._direct.values():
            answer(None)
        self._direct.clear()
        if self._server is not None:
            await self._server.close()

    def answer(self, answer: SendResponse) -> None:
        """Hands the response to the waiting request."""
        self.answer_to(answer.reply_to, answer.response)

    def answer_to(self, reply_to: Hashable, response: Message | None) -> None:
        """Hands the response to that request; None closes its connection."""
        if (answer := self._direct.pop(reply_to, None)) is None:
            future = self._waiting.pop(reply_to, None)
            if future is not None and not future.done():
                future.set_result(response)
        elif reply_to == self._begins:
            answer(response)
        else:
            self._late.append((answer, response))
            if len(self._late) == 1:
                asyncio.get_running_loop().call_soon(self._write_late)

    def _write_late(self) -> None:
        """Some of the answers: one record may be for thousands of followers, and heartbeats come in between."""
        for _ in range(min(WRITTEN_AT_ONCE, len(self._late))):
            answer, response = self._late.popleft()
            answer(response)
        if self._late:
            asyncio.get_running_loop().call_soon(self._write_late)

    # Requests without a task each (DirectHandler).

    def takes(self, api_key: int) -> bool:
        """Fetches come from all brokers at once whenever there is a record."""
        return api_key == FetchRequest.api_key

    def begin(self, context: RequestContext, request: Message, answer: Answer) -> None:
        """As `_handle`."""
        if not self._is_known(context):
            answer(refused(request, NOT_ALLOWED, DEFAULT_MESSAGES[NOT_ALLOWED]))
            return
        if self._followers is not None and (owed := self._followers.owed_to(context.connection_id, request)):
            answer(owed)
            return
        self._begin(partial(self._take, request, context.version), answer)

    def _begin(self, ask: Callable[[Hashable], None], answer: Answer) -> None:
        reply_to = self._begins = next(self._ids)
        self._direct[reply_to] = answer
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
        return await self._answered(context, partial(self._take, request, context.version))

    async def _answered(self, context: RequestContext, ask: Callable[[Hashable], None]) -> Message | None:
        """Calls `ask` with a new reply id and returns the response to it; None if the client leaves before."""
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
