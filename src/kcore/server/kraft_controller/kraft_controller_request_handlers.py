"""Handles the requests of a KRaft controller: passes raft's requests to the node, all others to the controller.

Source: ControllerApis.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Final

from kcore.controller.kraft.brokers.heartbeats import Contact
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.departures import LEADERS_NAMED
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.errors import DisconnectedError, NetworkError
from kcore.metadata.acl_codes import ALTER, CLUSTER_ACTION, DESCRIBE
from kcore.net.adoption import Direct
from kcore.net.request_context import ClientSession
from kcore.net.requests import Answer
from kcore.net.server import RequestContext
from kcore.net.versions import api_name
from kcore.node.error_responses import DEFAULT_MESSAGES, refused
from kcore.node.parsed import is_parsed
from kcore.node.quotas import IP
from kcore.protocol_errors import Errors
from kcore.raft.node import REQUEST_HANDLERS
from kcore.releases.known import RELEASES
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest
from kcore.schema.cluster_metadata import DescribeClusterResponse
from kcore.schema.configs import DescribeConfigsRequest
from kcore.schema.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from kcore.schema.structure import Message
from kcore.server.clock import Clock
from kcore.server.kraft_controller.envelope_requests import EnvelopeRequests
from kcore.server.kraft_controller.finalized_features import FinalizedFeatures
from kcore.server.kraft_controller.heartbeat_feed import HeartbeatFeed
from kcore.server.kraft_controller.registrations import Registrations
from kcore.server.large_descriptions import described_in_parts
from kcore.server.quorum_node.answer_loop import AnswerLoop, Feed
from kcore.server.quorum_node.observer_feed import ObserverFeed
from kcore.server.quorum_node.quorum_request_handlers import IsOfObserver, QuorumRequestHandlers, TakeRequest
from kcore.server.request_parts import answered_in_parts
from kcore.server.security.audit import AuditLog
from kcore.server.security.log_credentials import NOT_LOADED
from kcore.server.security.request_throttle import KnownByImage, RequestThrottle
from kcore.server.security.rights import OF_THE_CLUSTER

NEEDS: Final = {DescribeQuorumRequest: DESCRIBE, AddRaftVoterRequest: ALTER, RemoveRaftVoterRequest: ALTER}
LOOPBACK: Final = "127.0.0.1"
_DIRECT: Final = {FetchRequest.api_key, BrokerHeartbeatRequest.api_key, BrokerRegistrationRequest.api_key}
# Request quotas exempt raft's requests and those of cluster nodes (sendResponseExemptThrottle). Kafka also throttles
# heartbeats and registrations; kcore answers these first, and most heartbeats in the compiled loop.
_EXEMPT: Final = frozenset(
    {*REQUEST_HANDLERS, AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest, EnvelopeRequest}
)
NOT_ALLOWED: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
_VOTER_CHANGES: Final = (AddRaftVoterResponse, RemoveRaftVoterResponse)

TakeControl = Callable[[Message, RequestInfo, Hashable], None]


def _invalid(context: RequestContext, request: Message) -> NetworkError:
    """The error that closes the connection of a client, for a request that Kafka's parser refuses."""
    return NetworkError(f"{api_name(type(request))} of {context.client_address} is invalid")


def _without_leader(response: Message | None) -> Message | None:
    """Removes the leader from the response of a node that does not lead, as Kafka does ("standbys-name-no-leader")."""
    if isinstance(response, DescribeQuorumResponse):
        for partition in (each for topic in response.topics for each in topic.partitions):
            if partition.error_code == Errors.NOT_LEADER_OR_FOLLOWER:
                partition.leader_id = partition.leader_epoch = 0
    elif isinstance(response, _VOTER_CHANGES) and response.error_code == Errors.NOT_LEADER_OR_FOLLOWER:
        response.error_message = ""
    return response


class KraftControllerRequestHandlers(QuorumRequestHandlers):
    """The request handlers of a KRaft controller."""

    _urgent = frozenset({BrokerHeartbeatRequest.api_key})

    def __init__(
        self,
        release: str,
        level: str,
        listener: str,
        take: TakeRequest,
        control: TakeControl,
        context: Callable[[], ControllerContext],
        clocks: Callable[[], tuple[int, int]],
        leader_id: Callable[[], int],
        has_loaded: Callable[[], bool],
        is_of_observer: IsOfObserver,
        heartbeat_receiver: tuple[KraftController, Clock] | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """`take` begins raft's requests, `control` the controller's. `clocks`: monotonic time and wall time, in ms.

        `has_loaded`: whether the image has reached the high watermark once, so that it has all ACLs. `is_of_observer`:
        as for QuorumRequestHandlers. `heartbeat_receiver`: the controller that gets the heartbeats which the answer
        loop answers, and its clock; needed for this loop. `audit`: gets a line for each request.
        """
        config = context().config
        throttle = RequestThrottle(
            KnownByImage(lambda: context().image),
            lambda: clocks()[0],
            lambda request, version: type(request) in _EXEMPT,
            config.node.quota_window_num,
            config.node.quota_window_size_seconds,
        )
        envelopes = EnvelopeRequests(RELEASES[release].apis, context, self._is_allowed, self._reading)
        super().__init__(
            *(level, take, DescribeClusterResponse, listener),
            is_of_observer=is_of_observer,
            audit=audit,
            throttle=throttle,
            carriers={EnvelopeRequest: envelopes},
            may_be_exempt=self._may_be_exempt,
            wall_ms=lambda: clocks()[1],
        )
        self._release, self._control, self._context = release, control, context
        self._clocks, self._leader_id, self._has_loaded = clocks, leader_id, has_loaded
        self._features = FinalizedFeatures(release)
        self._heartbeat_receiver = heartbeat_receiver
        self._heartbeats: HeartbeatFeed | None = None
        self._registrations = Registrations(self._look)

    def _apis(self) -> Mapping[str, tuple[int, int]]:
        return RELEASES[self._release].apis

    def _rate_of(self, address: str) -> float | None:
        """connection_creation_rate of the address, or the one for all other addresses (KIP-612); None if not set."""
        quotas = self._context().image.quotas
        if not quotas:
            return None
        names = [address, "localhost"] if address == LOOPBACK else [address]
        found = (quotas.get(((IP, name),), {}).get("connection_creation_rate") for name in (*names, None))
        return next((rate for rate in found if rate is not None), None)

    def show_decided(self, controller: KraftController) -> None:
        """Puts the finalized levels into ApiVersions responses, once they are committed."""
        self._features.show(controller, None if self._server is None else self._server.apis.versions_answer)

    def _feeds(self, handlers: AnswerLoop, followers: ObserverFeed) -> list[Feed]:
        assert self._heartbeat_receiver is not None
        self._heartbeats = HeartbeatFeed(handlers, followers, *self._heartbeat_receiver, self._may_go_on)
        return [followers, self._heartbeats]

    def _may_go_on(self, direct: Direct) -> bool:
        return self._is_allowed(direct.context, CLUSTER_ACTION)

    def _is_node(self, session: ClientSession) -> bool:
        info = RequestInfo(0, 0, principal=session.principal, client_address=session.client_address)
        return self._context().is_authorized(info, CLUSTER_ACTION)

    def follow(self) -> None:
        super().follow()
        if self._heartbeats is not None:
            self._heartbeats.follow()

    def contacts(self) -> list[Contact]:
        """The heartbeats that the loop has answered since the last call."""
        return [] if self._heartbeats is None else self._heartbeats.contacts()

    async def close(self) -> None:
        self._registrations.clear()
        await super().close()

    def takes(self, api_key: int) -> bool:
        """True for Fetch, heartbeats and registrations: all brokers send them at once, so they run without a task."""
        return api_key in _DIRECT

    def begin(self, context: RequestContext, request: Message, answer: Answer) -> None:
        if isinstance(request, BrokerHeartbeatRequest):
            self.pending.begin(partial(self._control, request, self._info(context)), answer)
        elif isinstance(request, BrokerRegistrationRequest):
            self.pending.begin(partial(self._register, context, request), answer)
        else:
            super().begin(context, request, answer)

    def refuse(self, context: RequestContext, request: Message) -> Message | None:
        """See `Refuse`. The controller checks the rights of the requests that it decides."""
        kind = type(request)
        if context.through is None:
            self._check(context, request)  # The envelope of a forwarded request is checked instead.
        if kind in HANDLERS or kind not in REQUEST_HANDLERS:
            return None
        is_allowed = self._is_allowed(context, NEEDS.get(kind, CLUSTER_ACTION))
        return None if is_allowed else refused(request, NOT_ALLOWED, DEFAULT_MESSAGES[NOT_ALLOWED])

    def _check(self, context: RequestContext, request: Message) -> None:
        """Raises the error that closes the connection if the request is invalid, or if the ACLs are not loaded yet.

        Before the ACLs are loaded, the rule for resources without ACLs could admit any client. Source:
        StandardAuthorizerData.findAclRule, AuthorizerNotReadyException.
        """
        if not is_parsed(request):
            raise _invalid(context, request)
        config = self._context().config.node
        if config.has_authorizer and not self._has_loaded() and str(context.principal) not in config.super_users:
            raise DisconnectedError(NOT_LOADED)

    def _register(self, context: RequestContext, request: Message, reply_to: Hashable) -> None:
        self._registrations.add(lambda: self._control(request, self._info(context), reply_to))

    async def handle(self, context: RequestContext, request: Message) -> Message | None:
        kind = type(request)
        if kind in HANDLERS:
            if kind is BrokerRegistrationRequest:
                response = await self.pending.answered(context, partial(self._register, context, request))
            else:
                response = await self._response_of_controller(context, request)
            if isinstance(response, DescribeClusterResponse) and not response.error_code:
                leader_id = self._leader_id()
                known = {each.broker_id for each in response.brokers}
                response.controller_id = leader_id if leader_id in known else -1
            if response is None and not (context.gone is not None and context.gone.done()):
                raise _invalid(context, request)
            return response
        if kind in REQUEST_HANDLERS:
            response = await answered_in_parts(
                request, lambda part: self.pending.answered(context, partial(self._take, part, context.version))
            )
            return _without_leader(response) if LEADERS_NAMED in self._context().config.kafka_way else response
        return refused(request, Errors.UNKNOWN_SERVER_ERROR)

    async def _response_of_controller(self, context: RequestContext, request: Message) -> Message | None:
        """The controller's response. The controller gets entries that it refuses or reads in parts, one in a turn.

        It gets entries that it decides together, and decides them in parts of its own.
        """

        def ask(part: Message) -> Awaitable[Message | None]:
            return self.pending.answered(context, partial(self._control, part, self._info(context)))

        if isinstance(request, DescribeConfigsRequest):
            return await described_in_parts(request, ask)
        needed = OF_THE_CLUSTER.get(api_name(type(request)))
        if self._context().is_standby or not (needed is None or self._is_allowed(context, needed)):
            return await answered_in_parts(request, ask)
        return await ask(request)

    def _info(self, context: RequestContext) -> RequestInfo:
        (now_ms, wall_ms), session = self._clocks(), context.session
        return RequestInfo(
            *(context.version, now_ms, wall_ms, session.principal, session.client_address),
            is_forwarded=context.through is not None,
            is_token_authenticated=session.is_token_authenticated,
            listener=session.listener_name,
            client_id=context.header.client_id,
            security_protocol=session.security_protocol,
        )

    def _may_be_exempt(self, context: RequestContext, request: Message, response: Message) -> bool:
        """Whether the sender has the right of a cluster node: a response without an error proves it."""
        if getattr(response, "error_code", None) == Errors.NONE:
            return True
        return self._is_allowed(context, NEEDS.get(type(request), CLUSTER_ACTION))

    def _is_allowed(self, context: RequestContext, operation: int) -> bool:
        return self._context().is_authorized(self._info(context), operation)
