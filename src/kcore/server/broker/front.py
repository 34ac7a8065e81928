"""The requests that a broker answers: control requests as columns, the others as messages, each by its machine."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kcore.broker.fetching import on_fetch
from kcore.broker.offsets import on_list_offsets, on_offset_for_leader_epoch
from kcore.broker.producing import on_produce
from kcore.broker.replica_manager import ReplicaManager
from kcore.controller.requests.live_brokers import LiveBroker
from kcore.errors import DisconnectedError
from kcore.metadata.broker_table import Endpoint
from kcore.net.server import RequestContext
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kcore.schema.produce import ProduceRequest, ProduceResponse
from kcore.schema.structure import Message
from kcore.schema.transactions import InitProducerIdRequest, InitProducerIdResponse
from kcore.server.broker.group_coordinators import coordinator_row
from kcore.server.controller.cluster_view import ClusterView
from kcore.wire.codec import decode_from, encode

# With the versions of 3.9.1, from where records have magic 2.
APIS: Final = {
    "Produce": (3, 11),
    "Fetch": (4, 17),
    "ListOffsets": (1, 9),
    "Metadata": (0, 12),
    "LeaderAndIsr": (0, 7),
    "StopReplica": (0, 4),
    "UpdateMetadata": (0, 8),
    "FindCoordinator": (0, 6),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (0, 4),
    "DescribeCluster": (0, 1),
}
CONTROL: Final = {each.api_key: each for each in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)}


class ControlPath:
    """LeaderAndIsr, StopReplica and UpdateMetadata go in as bytes: no object is made for each partition."""

    def __init__(self, answer: Callable[[type[Message], int, memoryview], Awaitable[bytes]]) -> None:
        self._answer = answer

    def takes(self, api_key: int, version: int) -> bool:
        """Whether it is one of the three."""
        return api_key in CONTROL and version in CONTROL[api_key].versions

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The answer's header and body. DecodeError for other bytes."""
        api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        message = CONTROL[api_key]
        header, at = decode_from(RequestHeader, message.header_version(version), frame)
        body = await self._answer(message, version, memoryview(frame)[at:])
        head = ResponseHeader(correlation_id=header.correlation_id)
        return bytes(encode(head, response_of(message).header_version(version))) + bytes(body)

    def forget(self, connection_id: int) -> None:
        """Nothing is kept of a connection."""


class BrokerFront:
    """What clients and followers ask."""

    def __init__(
        self,
        manager: ReplicaManager,
        listener: str,
        cluster_id: str,
        now_ms: Callable[[], int],
        perform: Callable[[], None],
        next_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        """`perform` does what the machine asks for; it calls `answer`. `next_producer_id` gives one of its own."""
        self._manager, self._listener, self._cluster_id = manager, listener, cluster_id
        self._now_ms, self._perform, self._next_producer_id = now_ms, perform, next_producer_id
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._requests = 0

    def answer(self, request_id: int, response: Message) -> None:
        """To whoever waits for it."""
        future = self._waiting.pop(request_id, None)
        if future is not None and not future.done():
            future.set_result(response)

    async def handle(self, context: RequestContext, request: Any) -> Message | None:
        """The answer; None after a Produce with acks 0."""
        manager = self._manager
        match request:
            case ProduceRequest():
                return await self._produce(context, request)
            case FetchRequest():
                return await self._waited(
                    context, lambda id_, now: on_fetch(manager, id_, request, context.version, now)
                )
            case ListOffsetsRequest():
                return on_list_offsets(manager, request, context.version)
            case OffsetForLeaderEpochRequest():
                return on_offset_for_leader_epoch(manager, request)
            case MetadataRequest():
                return self._view().metadata(request, context.version)
            case DescribeClusterRequest():
                return self._view().describe(request)
            case InitProducerIdRequest():  # It waits for an active controller.
                return await context.while_here(self._init_producer_id(request))
        assert isinstance(request, FindCoordinatorRequest)
        return self._find_coordinator(request, context.version)

    async def _waited(self, context: RequestContext, start: Callable[[int, int], None]) -> Message | None:
        """The machine's answer, when it has one; None if the client is gone before."""
        self._requests += 1
        request_id = self._requests
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        start(request_id, self._now_ms())
        self._perform()
        if future.done():
            return future.result()
        answer = await context.while_here(future)
        if answer is None:
            self._waiting.pop(request_id, None)
            self._manager.forget(request_id)
        return answer

    async def _produce(self, context: RequestContext, request: ProduceRequest) -> Message | None:
        answer = await self._waited(context, lambda id_, now: on_produce(self._manager, id_, request, now))
        if request.acks or answer is None:
            return answer
        assert isinstance(answer, ProduceResponse)
        if any(each.error_code for topic in answer.responses for each in topic.partition_responses):
            raise DisconnectedError("a Produce with acks 0 was refused: its producer is to look for another leader")
        return None

    def _view(self) -> ClusterView:
        table, controller_id = self._manager.table, self._manager.controller_id
        endpoints: tuple[Endpoint, ...] = ()
        rack = None
        if controller_id in table.brokers and self._manager.is_alive(controller_id):
            row = table.brokers.row(controller_id)
            endpoints, rack = tuple(table.brokers.endpoints[row]), table.brokers.racks[row]
        controller = LiveBroker(controller_id, endpoints, rack)
        offline = self._manager.offline_replicas
        return ClusterView(table, self._listener, controller, self._cluster_id, offline=offline)

    async def _init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            return InitProducerIdResponse(error_code=Errors.NOT_COORDINATOR, producer_epoch=-1)
        return InitProducerIdResponse(
            error_code=Errors.NONE, producer_id=await self._next_producer_id(), producer_epoch=0
        )

    def _find_coordinator(self, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        """Of a group: who leads its partition of __consumer_offsets, but never this broker, which holds no groups."""
        if version >= 4:
            found = [self._coordinator(key, request.key_type) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found)
        one = self._coordinator(request.key, request.key_type)
        return FindCoordinatorResponse(
            error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port, error_message=None
        )

    def _coordinator(self, key: str, key_type: int) -> Coordinator:
        table, nodes = self._manager.table, self._view().nodes()
        row = coordinator_row(table, key, key_type)
        broker_id = -1 if row is None else table.state(row).leader
        if broker_id == self._manager.broker_id or broker_id not in nodes:
            unavailable = Errors.COORDINATOR_NOT_AVAILABLE
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=unavailable, error_message=None)
        host, port, _ = nodes[broker_id]
        return Coordinator(key=key, node_id=broker_id, host=host, port=port, error_code=0, error_message=None)
