"""Handles the requests of clients and followers, for brokers of both modes."""

from collections.abc import Awaitable, Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kcore.broker.replicas.deleting import on_delete_records
from kcore.broker.replicas.describing import on_describe_producers
from kcore.broker.replicas.fetch_sessions import replica_of
from kcore.broker.replicas.fetching import on_fetch
from kcore.broker.replicas.markers import on_write_txn_markers
from kcore.broker.replicas.offsets import on_list_offsets, on_offset_for_leader_epoch, repeated_in
from kcore.broker.replicas.producing import drop_repeated, on_produce
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.constants import CONSUMER_REPLICA_ID
from kcore.errors import DisconnectedError
from kcore.net.limits.work_in_parts import run_steps
from kcore.net.request_context import ClientSession
from kcore.net.server import RequestContext
from kcore.net.versions import response_of
from kcore.node.authorization import Authorizer
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest, MetadataResponse
from kcore.schema.fetch import FetchRequest
from kcore.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcore.schema.group_listing import ListGroupsRequest, ListGroupsResponse
from kcore.schema.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kcore.schema.log_dirs import DescribeLogDirsRequest
from kcore.schema.produce import ProduceRequest, ProduceResponse
from kcore.schema.producers import DescribeProducersRequest, ListTransactionsRequest, ListTransactionsResponse
from kcore.schema.structure import Message
from kcore.schema.topics import DeleteRecordsRequest
from kcore.schema.transactions import InitProducerIdRequest, InitProducerIdResponse, WriteTxnMarkersRequest
from kcore.server.broker import coordination
from kcore.server.broker.broker_authorization import BrokerAuthorization, fetch_right
from kcore.server.broker.group_coordinators import TOPICS, TRANSACTIONS, coordinator_row
from kcore.server.broker.logs import BrokerLogs, describe_log_dirs
from kcore.server.broker.record_checks import RecordChecks
from kcore.server.broker.replica_requests import ReplicaRequests
from kcore.server.broker.topic_creation import TopicCreation
from kcore.server.cluster_view import ClusterView
from kcore.server.pipeline import OF_SASL
from kcore.server.request_parts import (
    SPLITTINGS,
    Splitting,
    answered_in_parts,
    checked_in_parts,
    in_turns,
    splitting_of,
)
from kcore.server.security.byte_quotas import ByteQuotas, ConsumerQuota
from kcore.server.security.rights import OF_GROUP, OF_TRANSACTION, Checked, is_cluster_node
from kcore.types import Uuid

# The versions of 3.9.1 whose records have magic 2.
APIS: Final = {
    "Produce": (3, 11),
    "Fetch": (4, 17),
    "ListOffsets": (1, 9),
    "Metadata": (0, 12),
    "FindCoordinator": (0, 6),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (0, 4),
    "DescribeCluster": (0, 1),
    "WriteTxnMarkers": (0, 1),
    "DescribeProducers": (0, 0),
    "DeleteRecords": (0, 2),
    "DescribeLogDirs": (0, 4),
    "DescribeConfigs": (0, 4),
    **coordination.APIS,
    **{"ListGroups": (0, 5), "ListTransactions": (0, 1)},  # The lists are empty.
    **OF_SASL,
}
REFUSED: Final = "a Produce with acks=0 was refused: the closed connection makes its producer look for another leader"
NOT_ALLOWED: Final = dict((OF_GROUP, OF_TRANSACTION))
WHOLE: Final = Splitting([])  # The splitting of a request that the replicas answer as a whole.
EMPTY: Final[dict[type[Message], type[Message]]] = {
    ListGroupsRequest: ListGroupsResponse,
    ListTransactionsRequest: ListTransactionsResponse,
}


def is_exempt(request: Message, version: int) -> bool:
    """Whether the request is exempt from request quotas, if a cluster node sent it (sendResponseExemptThrottle)."""
    if isinstance(request, FetchRequest):
        return replica_of(request, version)[0] != CONSUMER_REPLICA_ID
    return isinstance(request, WriteTxnMarkersRequest)


@dataclass
class _Whole:
    """A client's request, as far as the answer to a part of it depends on the other parts."""

    repeated: Container[Key] = ()  # The partitions that a ListOffsets request names twice.
    described: set[Key] = field(default_factory=set)  # The partitions that DescribeProducers has described already.


class HandlerParts(NamedTuple):
    """The arguments that the request handlers of both modes share."""

    manager: ReplicaManager
    logs: BrokerLogs
    now_ms: Callable[[], int]  # A monotonic clock.
    date_ms: Callable[[], int]  # The time of day.
    replicas: ReplicaRequests
    next_producer_id: Callable[[], Awaitable[int]]
    topic_creation: TopicCreation
    quotas: ByteQuotas


class ModeRequestHandlers(Protocol):
    """The requests that only one mode has, and its view of the cluster."""

    @property
    def authorization(self) -> type[BrokerAuthorization]:
        """The rights of a client in this mode."""

    def refuse(self, context: RequestContext, request: Message) -> Message | None:
        """See `Refuse` of the pipeline."""

    def view(self, listener: str) -> ClusterView:
        """The cluster as clients of this listener see it."""

    def cordoned(self) -> Collection[Uuid]:
        """The cordoned log directories, which get no new replicas (KIP-1066)."""

    async def may_coordinate(self) -> bool:
        """Whether the cluster has brokers that can coordinate groups and transactions."""

    async def administer(self, context: RequestContext, request: Message) -> Message | None:
        """The response to a request that only this mode has; None for other requests."""


M = TypeVar("M", bound=ModeRequestHandlers)


class BrokerRequestHandlers(Generic[M]):
    """Handles the requests of clients and followers, and passes the others to the handlers of the broker's mode."""

    def __init__(self, parts: HandlerParts, mode: M, authorizer: Authorizer | None = None) -> None:
        """`authorizer`: None if every client may do everything."""
        self.mode, self._authorizer = mode, authorizer
        self._manager, self._logs, self._now_ms, self._date_ms, self._replicas = parts[:5]
        self._next_producer_id, self._topic_creation, self.quotas = parts[5:]
        self._record_checks = RecordChecks()

    def is_node(self, session: ClientSession) -> bool:
        """Whether the client has the rights of a cluster node."""
        return is_cluster_node(self._authorizer, session)

    async def handle(self, context: RequestContext, request: Any) -> Message | None:
        """The response; None after a Produce with acks=0."""
        answer: Message | None = None
        try:
            answer = await self._answered(context, request)
        finally:
            if isinstance(request, ProduceRequest):  # Also a refused request: its bytes have arrived.
                self.quotas.produced(context, answer)
        return answer

    async def _answered(self, context: RequestContext, request: Any) -> Message | None:
        """The response to the request, whose entries are decided one by one in parts, or together."""
        splitting, whole = splitting_of(request), _Whole()
        if isinstance(request, ListOffsetsRequest):
            whole.repeated = await run_steps(repeated_in(request))
        if splitting is None or splitting.are_decided_together:
            return await self._checked(context, request, whole)
        return await answered_in_parts(request, lambda part: self._checked(context, part, whole))

    async def _checked(self, context: RequestContext, request: Any, whole: _Whole) -> Message | None:
        """The response to the allowed part of the request, with the errors of the refused part."""
        if self._authorizer is None:
            return await self._handle(context, request, None, whole)
        authorization = self.mode.authorization(self._authorizer, context)
        checked = await checked_in_parts(request, lambda part: authorization.check(part, context.version))
        is_silent = isinstance(request, ProduceRequest) and not request.acks
        if not isinstance(checked, Checked):
            if is_silent:
                raise DisconnectedError(REFUSED)
            return checked
        if checked.is_empty:
            answer: Message | None = response_of(type(checked.request))()
        else:
            answer = await self._handle(context, checked.request, authorization, whole)
        if is_silent:
            answer, refused = None, ProduceResponse()
            checked.complete(refused)
            if refused.responses:
                raise DisconnectedError(REFUSED)
        if answer is not None:
            checked.complete(answer)
        return answer

    async def _handle(
        self, context: RequestContext, request: Any, authorization: BrokerAuthorization | None, whole: _Whole
    ) -> Message | None:
        """The response to an allowed request."""
        manager = self._manager
        match request:
            case ProduceRequest():
                return await self._produce(context, request)
            case FetchRequest():
                return await self._fetch(context, request, authorization)
            case ListOffsetsRequest():
                return on_list_offsets(manager, request, context.version, whole.repeated)
            case OffsetForLeaderEpochRequest():
                return on_offset_for_leader_epoch(manager, request)
            case MetadataRequest():
                return await self._metadata(context, request, authorization)
            case DescribeClusterRequest():
                described = self.mode.view(context.listener_name).describe(request)
                if authorization is not None:
                    authorization.cut(described)
                return described
            case InitProducerIdRequest():  # It may wait for an active controller.
                return await context.while_here(self._init_producer_id(request))
            case WriteTxnMarkersRequest():
                with self._replicas.request(context) as waiting:
                    on_write_txn_markers(manager, waiting.begin(), request, self._now_ms(), self._date_ms())
                    return await waiting.response(WHOLE)
            case DeleteRecordsRequest():
                with self._replicas.request(context) as waiting:
                    async for part in in_turns(request):
                        on_delete_records(manager, waiting.begin(), part, self._now_ms())
                    return await waiting.response(SPLITTINGS[type(request)])
            case DescribeProducersRequest():
                return on_describe_producers(manager, request, whole.described)
            case FindCoordinatorRequest():
                return await self._find_coordinator(context, request, authorization)
            case DescribeLogDirsRequest():
                return describe_log_dirs(self._logs, request, self.mode.cordoned())
        if (answer := await self.mode.administer(context, request)) is not None:
            return answer
        if type(request) in EMPTY:
            return EMPTY[type(request)]()
        return coordination.refuse(manager, request, context.version, authorization)

    async def _metadata(
        self, context: RequestContext, request: MetadataRequest, authorization: BrokerAuthorization | None
    ) -> MetadataResponse:
        """Answers Metadata, and creates unknown topics of the request if the client and the broker allow it."""
        creates, filter_of = self._topic_creation, None
        if authorization is not None:
            filter_of = (
                authorization.topic_filter_for_creation if creates.creates_ordinary else authorization.topic_filter
            )
        answer = await self.mode.view(context.listener_name).metadata(request, context.version, filter_of)
        if authorization is not None:
            authorization.cut(answer)
        if creates.creates_ordinary and request.topics is not None and request.allow_auto_topic_creation:
            unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
            names = [each.name for each in answer.topics if each.error_code == unknown and each.name]
            creates.create(names, context)
        return answer

    async def _fetch(
        self, context: RequestContext, request: FetchRequest, authorization: BrokerAuthorization | None
    ) -> Message | None:
        may_read = fetch_right(authorization, request, context.version)
        is_consumer = replica_of(request, context.version)[0] == CONSUMER_REPLICA_ID
        quota = ConsumerQuota(self.quotas, context) if is_consumer else None
        with self._replicas.request(context) as waiting:
            fetch = waiting.begin(), request, context.version, self._now_ms(), may_read, quota
            await run_steps(on_fetch(self._manager, *fetch))
            return await waiting.response(WHOLE)

    async def _produce(self, context: RequestContext, request: ProduceRequest) -> Message | None:
        manager, date_ms = self._manager, self._date_ms()
        await run_steps(drop_repeated(request))
        with self._replicas.request(context) as waiting:
            async for part in in_turns(request):
                prechecked = await self._record_checks.checked(manager, part, date_ms, context)
                times_ms = self._now_ms(), date_ms
                on_produce(manager, waiting.begin(), part, *times_ms, context.version, prechecked)
            answer = await waiting.response(SPLITTINGS[type(request)])
        if request.acks or answer is None:
            return answer
        assert isinstance(answer, ProduceResponse)
        if any(each.error_code for topic in answer.responses for each in topic.partition_responses):
            raise DisconnectedError(REFUSED)
        return None

    async def _init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            error = coordination.refusal_of(self._manager, request.transactional_id, TRANSACTIONS)
            return InitProducerIdResponse(error_code=error, producer_epoch=-1)
        return InitProducerIdResponse(
            error_code=Errors.NONE, producer_id=await self._next_producer_id(), producer_epoch=0
        )

    async def _find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest, authorization: BrokerAuthorization | None
    ) -> FindCoordinatorResponse:
        """The coordinator of a group or transaction: the leader of its partition of an internal topic.

        The first authorized request creates the topic, if the cluster has brokers that coordinate.
        """
        nodes, version = self.mode.view(context.listener_name).nodes(), context.version
        topic = TOPICS.get(request.key_type, "")
        is_there = topic in self._manager.cluster.table.topics
        may_come = is_there or await self.mode.may_coordinate()
        keys = request.coordinator_keys if version >= 4 else [request.key]
        found, is_wanted = [], False
        for key in keys:
            missing = None
            if authorization is not None and request.key_type in TOPICS:
                missing = authorization.coordinator_error(request, version, key, request.key_type)
            if missing is not None:
                found.append(_no_coordinator(key, missing, "" if version >= 4 else NOT_ALLOWED[missing]))
            else:
                found.append(self._coordinator(key, request.key_type, nodes, may_come=may_come))
                is_wanted = True
        if is_wanted and topic and may_come and not is_there:
            self._topic_creation.create([topic])
        if version >= 4:
            return FindCoordinatorResponse(coordinators=found)
        [one] = found
        fields = {name: getattr(one, name) for name in ("error_code", "error_message", "node_id", "host", "port")}
        return FindCoordinatorResponse(**fields)

    def _coordinator(
        self, key: str, key_type: int, nodes: Mapping[int, tuple[str, int, str | None]], *, may_come: bool
    ) -> Coordinator:
        """The coordinator; without one, an error that is retriable only if there may be one later.

        `may_come`: the cluster has brokers that coordinate, so that one may lead this key's partition later.
        """
        if key_type not in TOPICS:
            return _no_coordinator(key, Errors.INVALID_REQUEST, f"key type {key_type}")
        table = self._manager.cluster.table
        row = coordinator_row(table, key, key_type)
        leader = -1 if row is None else table.state(row).leader
        if row is not None and leader == self._manager.broker_id:
            where = f"partition {table.partition_index__p[row]} of {TOPICS[key_type]}"
            why = f"broker {leader} leads {where} and coordinates nothing; kafka-reassign-partitions can move it"
            return _no_coordinator(key, Errors.UNSUPPORTED_VERSION, why)
        if row is None and not may_come:
            why = "no broker of this cluster coordinates groups or transactions"
            return _no_coordinator(key, Errors.UNSUPPORTED_VERSION, why)
        if leader not in nodes:
            return _no_coordinator(key, Errors.COORDINATOR_NOT_AVAILABLE, None)
        host, port, _ = nodes[leader]
        return Coordinator(key=key, node_id=leader, host=host, port=port, error_code=0, error_message=None)


def _no_coordinator(key: str, error: Errors, why: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=why)
