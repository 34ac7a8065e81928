"""Handles the requests of a KRaft controller: passes raft's requests to the node, all others to the controller.

Source: ControllerApis.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kcore.constants import KRAFT_VERSION
from kcore.controller.kraft.brokers.heartbeats import Contact
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.departures import LEADERS_NAMED
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.errors import DisconnectedError, NetworkError
from kcore.java_hash import hash_map_order
from kcore.metadata.acl_codes import ALTER, CLUSTER_ACTION, DESCRIBE
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.adoption import Direct
from kcore.net.framed_connection import PIECE_BYTES, Encoded
from kcore.net.limits.connection_limits import CLIENT_VALUES, REQUEST_VALUES
from kcore.net.limits.large_requests import let_go, long_lists
from kcore.net.request_context import PLAINTEXT, ClientSession
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
from kcore.schema.api_versions import FinalizedFeatureKey, SupportedFeatureKey
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest
from kcore.schema.cluster_metadata import DescribeClusterResponse
from kcore.schema.configs import DescribeConfigsRequest
from kcore.schema.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from kcore.schema.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kcore.schema.structure import Message
from kcore.server.answers import in_turns
from kcore.server.clock import Clock
from kcore.server.envelopes import Forwarded, is_refused_change_of_voters, opened, wrapped
from kcore.server.kraft_controller.heartbeat_feed import HeartbeatFeed
from kcore.server.large_descriptions import described_in_parts
from kcore.server.quorum_node.answer_loop import AnswerLoop, Feed
from kcore.server.quorum_node.observer_feed import ObserverFeed
from kcore.server.quorum_node.quorum_request_handlers import IsOfObserver, QuorumRequestHandlers, TakeRequest
from kcore.server.request_parts import answered_in_parts
from kcore.server.security.audit import AuditLog
from kcore.server.security.log_credentials import NOT_LOADED
from kcore.server.security.request_throttle import KnownByImage, May, RequestThrottle
from kcore.server.security.rights import OF_THE_CLUSTER

NEEDS: Final = {DescribeQuorumRequest: DESCRIBE, AddRaftVoterRequest: ALTER, RemoveRaftVoterRequest: ALTER}
LOOPBACK: Final = "127.0.0.1"
_DIRECT: Final = {FetchRequest.api_key, BrokerHeartbeatRequest.api_key, BrokerRegistrationRequest.api_key}
# Request quotas exempt raft's requests and those of cluster nodes (sendResponseExemptThrottle). Kafka also throttles
# heartbeats and registrations; kcore answers these first, and most heartbeats in the compiled loop.
_EXEMPT: Final = frozenset(
    {*REQUEST_HANDLERS, AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest, EnvelopeRequest}
)
REGISTERED_AT_ONCE: Final = 4  # Registrations begun together, before registered brokers may connect.
NOT_ALLOWED: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
_VOTER_CHANGES: Final = (AddRaftVoterResponse, RemoveRaftVoterResponse)
ALREADY: Final = "SaslAuthenticate request received after successful authentication"

TakeControl = Callable[[Message, RequestInfo, Hashable], None]


class _Received(NamedTuple):
    """A request with its client: the sender, or the client in the envelope."""

    request: Message
    version: int
    principal: KafkaPrincipal
    client_address: str
    listener: str
    is_forwarded: bool = False
    is_token_authenticated: bool = False
    client_id: str | None = None
    security_protocol: str = PLAINTEXT


def _received_of(context: RequestContext, request: Message) -> _Received:
    return _Received(
        *(request, context.version, context.principal, context.client_address, context.listener_name),
        client_id=context.header.client_id,
        is_token_authenticated=context.session.is_token_authenticated,
        security_protocol=context.session.security_protocol,
    )


def _senseless(received: _Received) -> NetworkError:
    """The error that closes the connection, where Kafka's parser of requests would throw."""
    return NetworkError(f"{api_name(type(received.request))} of {received.client_address} is invalid")


def _without_leader(response: Message | None) -> Message | None:
    """Removes the leader from the response of a node that does not lead, as Kafka does ("standbys-name-no-leader")."""
    if isinstance(response, DescribeQuorumResponse):
        for partition in (each for topic in response.topics for each in topic.partitions):
            if partition.error_code == Errors.NOT_LEADER_OR_FOLLOWER:
                partition.leader_id = partition.leader_epoch = 0
    elif isinstance(response, _VOTER_CHANGES) and response.error_code == Errors.NOT_LEADER_OR_FOLLOWER:
        response.error_message = ""
    return response


def _listed(names: list[str]) -> list[str]:
    """Sorts finalized features as Kafka's response does, which copies a HashMap: each copy has the least capacity.

    Source: FinalizedFeatures, whose constructor adds metadata.version, and setFinalizedLevel.
    """
    listed = hash_map_order(sorted({*names} - {FEATURE_NAME, KRAFT_VERSION}))
    listed = hash_map_order([*listed, FEATURE_NAME], capacity=_capacity(listed))
    if KRAFT_VERSION not in names:
        return listed
    listed = hash_map_order([*listed, KRAFT_VERSION], capacity=_capacity(listed))
    return hash_map_order(listed, capacity=_capacity(listed))


def _capacity(names: list[str]) -> int:
    """The capacity that `new HashMap(map)` takes."""
    return int(len(names) / 0.75 + 1)


class KraftControllerRequestHandlers(QuorumRequestHandlers):
    """The request handlers of a KRaft controller."""

    _urgent = frozenset({BrokerHeartbeatRequest.api_key})
    _audits_itself = True  # The line has the principal of an envelope, if there is one.

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
        super().__init__(level, take, DescribeClusterResponse, listener, is_of_observer=is_of_observer, audit=audit)
        self._release, self._control, self._context = release, control, context
        self._clocks, self._leader_id, self._has_loaded = clocks, leader_id, has_loaded
        self._decided = -1, -1  # The number of feature records, and the end offset of the last one's batch.
        self._advertised: tuple[dict[str, int], int] | None = None
        self._heartbeat_receiver = heartbeat_receiver
        self._heartbeats: HeartbeatFeed | None = None
        self._registrations: deque[Callable[[], None]] = deque()  # Registrations that wait to begin.
        config = context().config
        self.throttle: RequestThrottle = RequestThrottle(
            KnownByImage(lambda: context().image),
            lambda: clocks()[0],
            lambda request, version: type(request) in _EXEMPT,
            config.node.quota_window_num,
            config.node.quota_window_size_seconds,
        )

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
        """Puts the finalized levels into ApiVersions responses, once they are committed (FeaturesPublisher).

        finalized_features_epoch is the last offset of the batch with the last FeatureLevelRecord, even if this record
        changes nothing. Before the first record it is -1, and metadata.version is the release's oldest.
        """
        image, (count, end_offset) = controller.image, self._decided
        if image.feature_records != count or end_offset > image.end_offset:
            self._decided = image.feature_records, image.end_offset
        if controller.stable >= self._decided[1]:
            level = controller.raft.kraft_version
            if RELEASES[self._release].rules.kraft_version_is_a_feature:  # Shown if raft's level is 0.
                level = level or image.written_kraft_version
            oldest = {} if image.features else {FEATURE_NAME: controller.context.version.feature_level}
            self._show({**oldest, **image.features, KRAFT_VERSION: level}, -1 if oldest else self._decided[1] - 1)

    def _show(self, finalized: Mapping[str, int], offset: int) -> None:
        if self._server is None or self._advertised == (dict(finalized), offset):
            return
        self._advertised = dict(finalized), offset
        answer, supported = self._server.apis.versions_answer, self._context().config.node.supported_features
        answer.supported_features = [
            SupportedFeatureKey(name=name, min_version=supported[name][0], max_version=supported[name][1])
            for name in hash_map_order(supported)
        ]
        answer.finalized_features_epoch = offset
        answer.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=finalized[name], max_version_level=finalized[name])
            for name in _listed([name for name, level in finalized.items() if level > 0])
        ]

    def _feeds(self, handlers: AnswerLoop, followers: ObserverFeed) -> list[Feed]:
        assert self._heartbeat_receiver is not None
        self._heartbeats = HeartbeatFeed(handlers, followers, *self._heartbeat_receiver, self._may_go_on)
        return [followers, self._heartbeats]

    def _may_go_on(self, direct: Direct) -> bool:
        return self._is_allowed(_received_of(direct.context, direct.request), CLUSTER_ACTION)

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
        received = _received_of(context, request)
        self._check(received)
        if not self.throttle.is_on:
            self._begin_direct(context, received, answer)
            return
        watched = self.throttle.watched(context, request, answer, self._right_of(received))
        self._begin_direct(context, received, watched)
        watched.begun()

    def _begin_direct(self, context: RequestContext, received: _Received, answer: Answer) -> None:
        request = received.request
        if not isinstance(request, FetchRequest):
            answer = self._audited(received, answer)
        if isinstance(request, BrokerHeartbeatRequest):
            self._begin(partial(self._control, request, self._info(received)), answer)
        elif isinstance(request, BrokerRegistrationRequest):
            self._begin(partial(self._register_in_turn, received), answer)
        elif self._is_allowed(received, CLUSTER_ACTION):
            super().begin(context, request, answer)
        else:
            self._audited(received, answer)(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED))

    def _check(self, received: _Received) -> None:
        """Raises the error that closes the connection if the request is invalid, or if the ACLs are not loaded yet.

        Before the ACLs are loaded, the rule for resources without ACLs could admit any client. Source:
        StandardAuthorizerData.findAclRule, AuthorizerNotReadyException.
        """
        if not is_parsed(received.request):
            raise _senseless(received)
        config = self._context().config.node
        if config.has_authorizer and not self._has_loaded() and str(received.principal) not in config.super_users:
            raise DisconnectedError(NOT_LOADED)

    def _register_in_turn(self, received: _Received, reply_to: Hashable) -> None:
        self._registrations.append(lambda: self._control(received.request, self._info(received), reply_to))
        if len(self._registrations) == 1:
            asyncio.get_running_loop().call_soon(self._register_some)

    def _register_some(self) -> None:
        """Begins some waiting registrations. Before the next ones, registered brokers can fetch and send heartbeats.

        With thousands of registrations, the last one does not end later than it would if all began at once.
        """
        for _ in range(REGISTERED_AT_ONCE):
            if self._registrations:
                self._registrations.popleft()()
                self._look()
        if self._registrations:
            asyncio.get_running_loop().call_soon(self._register_some)

    async def _handle(self, context: RequestContext, request: Message) -> Message | Encoded | None:
        received, version = _received_of(context, request), context.version
        self._check(received)
        if isinstance(request, EnvelopeRequest):
            return await self._enveloped(context, request, received)
        response = await self._audited_response(context, received)
        self.throttle.answered(context, request, response, self._right_of(received))
        return None if response is None else await in_turns(response, version)

    async def _enveloped(
        self, context: RequestContext, envelope: EnvelopeRequest, outer: _Received
    ) -> Message | Encoded:
        """Handles a forwarded request with its client's rights; the sender of the envelope needs CLUSTER_ACTION."""
        found = await self._opened(envelope, outer)
        if isinstance(found, Errors):
            answer = EnvelopeResponse(error_code=found.value)
            self.throttle.answered(context, envelope, answer, self._right_of(outer))
            self._write_audit(outer, answer)
            return answer
        version = found.header.request_api_version
        received = _Received(
            *(found.request, version, found.principal, found.client_address, outer.listener),
            is_forwarded=True,
            client_id=found.header.client_id,
            is_token_authenticated=found.is_token_authenticated,
            security_protocol=outer.security_protocol,
        )
        response = await self._audited_response(context, received, through=outer)
        if response is None:
            return EnvelopeResponse(error_code=Errors.UNKNOWN_SERVER_ERROR.value)
        self.throttle.answered_through(context.session, received.principal, received.client_id, response)
        if LEADERS_NAMED not in self._context().config.kafka_way and is_refused_change_of_voters(response):
            return EnvelopeResponse(error_code=Errors.NOT_CONTROLLER.value)
        enclosed = await wrapped(found, response)
        if len(envelope.request_data) > PIECE_BYTES or isinstance(enclosed, Encoded):
            lists = [*long_lists(found.request), *long_lists(response)]
            del found, received, response
            await let_go(lists)
        return enclosed

    async def _opened(self, envelope: EnvelopeRequest, outer: _Received) -> Forwarded | Errors:
        if not self._is_allowed(outer, CLUSTER_ACTION):
            return Errors.CLUSTER_AUTHORIZATION_FAILED
        assert self._server is not None
        most = CLIENT_VALUES if self._context().config.node.has_authorizer else REQUEST_VALUES
        found = await opened(envelope, most, self._server.apis.reading)
        if isinstance(found, Errors):
            return found
        lowest, highest = self._apis().get(api_name(type(found.request)), (0, -1))
        is_known = lowest <= found.header.request_api_version <= highest
        return found if is_known else Errors.UNSUPPORTED_VERSION

    async def _audited_response(
        self, context: RequestContext, received: _Received, through: _Received | None = None
    ) -> Message | None:
        """The response to a request; writes its audit log line. `through`: the envelope that the request came in."""
        response = await self._response_to(context, received)
        self._write_audit(received, response, through)
        return response

    def _write_audit(self, received: _Received, response: Message | None, through: _Received | None = None) -> None:
        if self._audit is not None:
            via = (None, None) if through is None else (through.principal, through.client_address)
            wall_ms = self._clocks()[1]
            self._audit.write(wall_ms, received.principal, received.client_address, received.request, response, *via)

    def _audited(self, received: _Received, answer: Answer) -> Answer:
        """Wraps `answer` for a request without a task: it also writes the audit log line."""

        def audited_answer(response: Message | None) -> None:
            self._write_audit(received, response)
            answer(response)

        return answer if self._audit is None else audited_answer

    async def _response_to(self, context: RequestContext, received: _Received) -> Message | None:
        request = received.request
        kind = type(request)
        if kind in HANDLERS:
            if kind is BrokerRegistrationRequest:
                ask = partial(self._register_in_turn, received)
                response = await self._answered(context, ask)
            else:
                response = await self._response_of_controller(context, received)
            if isinstance(response, DescribeClusterResponse) and not response.error_code:
                leader_id = self._leader_id()
                known = {each.broker_id for each in response.brokers}
                response.controller_id = leader_id if leader_id in known else -1
            if response is None and not self._is_gone(context):
                raise _senseless(received)
            return response
        if kind in REQUEST_HANDLERS:
            if not self._is_allowed(received, NEEDS.get(kind, CLUSTER_ACTION)):
                return refused(request, NOT_ALLOWED, DEFAULT_MESSAGES[NOT_ALLOWED])
            response = await answered_in_parts(
                request, lambda part: self._answered(context, partial(self._take, part, received.version))
            )
            return _without_leader(response) if LEADERS_NAMED in self._context().config.kafka_way else response
        if isinstance(request, SaslHandshakeRequest):
            return refused(request, Errors.ILLEGAL_SASL_STATE)
        if isinstance(request, SaslAuthenticateRequest):
            return refused(request, Errors.ILLEGAL_SASL_STATE, ALREADY)
        return refused(request, Errors.UNKNOWN_SERVER_ERROR)

    async def _response_of_controller(self, context: RequestContext, received: _Received) -> Message | None:
        """The controller's response. The controller gets entries that it refuses or reads in parts, one in a turn.

        It gets entries that it decides together, and decides them in parts of its own.
        """

        def ask(part: Message) -> Awaitable[Message | None]:
            return self._answered(context, partial(self._control, part, self._info(received)))

        request, kind = received.request, type(received.request)
        if isinstance(request, DescribeConfigsRequest):
            return await described_in_parts(request, ask)
        needed = OF_THE_CLUSTER.get(api_name(kind))
        if self._context().is_standby or not (needed is None or self._is_allowed(received, needed)):
            return await answered_in_parts(request, ask)
        return await ask(request)

    @staticmethod
    def _is_gone(context: RequestContext) -> bool:
        return context.gone is not None and context.gone.done()

    def _info(self, received: _Received) -> RequestInfo:
        now_ms, wall_ms = self._clocks()
        return RequestInfo(
            *(received.version, now_ms, wall_ms, received.principal, received.client_address),
            is_forwarded=received.is_forwarded,
            is_token_authenticated=received.is_token_authenticated,
            listener=received.listener,
            client_id=received.client_id,
            security_protocol=received.security_protocol,
        )

    def _right_of(self, received: _Received) -> May:
        """A function that says if the sender has the right of a cluster node: a response without an error proves it."""

        def may(response: Message) -> bool:
            if getattr(response, "error_code", None) == Errors.NONE:
                return True
            return self._is_allowed(received, NEEDS.get(type(received.request), CLUSTER_ACTION))

        return may

    def _is_allowed(self, received: _Received, operation: int) -> bool:
        return self._context().is_authorized(self._info(received), operation)
