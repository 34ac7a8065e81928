"""kcore's brokers with ZooKeeper in memory, and a short controller that a test drives."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kazoo.protocol.serialization import GetChildren

import kcore
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Security
from kcore.net.server import RequestContext, Server, serve
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, UpdateMetadataRequest
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kcore.schema.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kcore.schema.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kcore.schema.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kcore.server.zk_broker.zk_broker_server import ZkBrokerServer
from kcore.types import Uuid
from kcore.wire.record_batch import TRANSACTIONAL
from storage import building
from zookeeper.tree import Tree

TOPIC_ID = Uuid(b"t" * 16)
CONTROLLER = 9
APIS = {
    "AlterPartition": (0, 3),
    "AllocateProducerIds": (0, 0),
    "ControlledShutdown": (0, 3),
    "AddPartitionsToTxn": (0, 5),
    "CreateTopics": (2, 7),
}


class SessionOnTree(Tree):
    """A session whose watches fire when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.watches: list[tuple[str, Any]] = []

    async def open(self, within_s: float) -> None:
        """There is nothing to wait for."""

    async def close(self) -> None:
        """Nothing is left."""

    async def ask(self, request: Any) -> Any:
        if not isinstance(request, GetChildren):
            return await super().ask(request)
        return [path.rpartition("/")[2] for path in self.nodes if path.rpartition("/")[0] == request.path]

    def watch(self, path: str, on_watch: Any, **_: Any) -> Any:
        self.watches.append((path, on_watch))
        return None

    def fire(self, path: str) -> None:
        for watched, on_watch in [*self.watches]:
            if watched == path:
                self.watches.remove((watched, on_watch))
                on_watch(path, "children")


class FakeController:
    """Stores the requests that it gets; `refusals` are answered first. It may coordinate transactions."""

    def __init__(self) -> None:
        self.apis = {**APIS}
        self.requests: list[Any] = []
        self.refusals: list[Errors] = []
        self.server: Server | None = None

    async def open(self, stack: AsyncExitStack) -> "FakeController":
        self.server = await stack.enter_async_context(await serve("127.0.0.1", 0, self._handle, self.apis))
        return self

    def of(self, kind: Any) -> list[Any]:
        return [each for each in self.requests if isinstance(each, kind)]

    async def _handle(self, context: RequestContext, request: Any) -> Any:
        self.requests.append(request)
        error = self.refusals.pop(0) if self.refusals else Errors.NONE
        if isinstance(request, ControlledShutdownRequest):
            return ControlledShutdownResponse(error_code=error, remaining_partitions=[])
        if isinstance(request, AddPartitionsToTxnRequest):
            return _verified(request, error)
        if isinstance(request, AllocateProducerIdsRequest):
            first = 1000 * len(self.of(AllocateProducerIdsRequest))
            return AllocateProducerIdsResponse(error_code=error, producer_id_start=first, producer_id_len=2)
        if isinstance(request, CreateTopicsRequest):
            results = [CreatableTopicResult(name=each.name, error_code=error, configs=[]) for each in request.topics]
            return CreateTopicsResponse(topics=results)
        assert isinstance(request, AlterPartitionRequest)
        [topic] = request.topics
        [asked] = topic.partitions
        isr = [each.broker_id for each in asked.new_isr_with_epochs]
        data = AlterPartitionResponsePartitionData(
            partition_index=0,
            leader_id=request.broker_id,
            leader_epoch=asked.leader_epoch,
            isr=isr,
            partition_epoch=asked.partition_epoch + 1,
        )
        topics = [AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=[data])]
        return AlterPartitionResponse(error_code=error, topics=topics)


def _verified(request: AddPartitionsToTxnRequest, error: Errors) -> AddPartitionsToTxnResponse:
    results = []
    for each in request.transactions:
        assert each.verify_only
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                    for index in topic.partitions
                ],
            )
            for topic in each.topics
        ]
        results.append(AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topics))
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _json_of(endpoint: Endpoint) -> dict[str, Any]:
    where = {"port": endpoint.port, "host": endpoint.host, "listener": endpoint.listener}
    return where | {"securityProtocol": endpoint.security_protocol}


class Brokers:
    """Brokers 1 and 2 with one partition, t-0."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self.stack, self.folder, self.tree = stack, folder, SessionOnTree()
        self.controller = FakeController()
        self.servers: dict[int, ZkBrokerServer] = {}
        self.epoch = 0
        self.protocol = 0  # The port of the inter-broker listener.
        self.orders: str | None = None  # The listener of control requests, if it is another.
        self.security: Security | None = None  # The controller's id.

    async def open(
        self, *, directories: int = 1, server: Mapping[str, Any] | None = None, **settings: Any
    ) -> "Brokers":
        """`server`: options of ZkBrokerServer; `settings`: of BrokerConfig."""
        await self.controller.open(self.stack)
        self.elected(1)
        for broker_id in (1, 2):
            config = BrokerConfig(broker_id, replica_fetch_backoff_ms=50, replica_fetch_wait_max_ms=50, **settings)
            beside = [self.folder / f"{broker_id}-{number}" for number in range(2, directories + 1)]
            made = ZkBrokerServer(config, "nowhere:1", [self.folder / str(broker_id), *beside], **(server or {}))
            made._zookeeper.session = self.tree  # type: ignore[assignment]
            self.servers[broker_id] = await self.stack.enter_async_context(made)
        return self

    def elected(self, controller_epoch: int, controller_id: int = CONTROLLER) -> None:
        """Sets `/controller` and `/controller_epoch`."""
        self.tree.nodes[znodes.CONTROLLER_EPOCH] = znodes.encode_controller_epoch(controller_epoch), 0, 0, 0
        self.tree.nodes[znodes.CONTROLLER] = znodes.encode_controller(controller_id, 0), 0, 0, 5

    async def elect(self, leader: int, *live: int) -> None:
        """Tells all that live."""
        self.epoch += 1
        alive = live or (1, 2)
        state = {
            "partitionIndex": 0,
            "controllerEpoch": 1,
            "leader": leader,
            "leaderEpoch": self.epoch,
            "isr": [*alive],
            "replicas": [1, 2],
        }
        assert self.controller.server is not None
        listener = self.servers[1].listening.listeners.inter_broker
        ports = {each: self.servers[each].port for each in alive} | {CONTROLLER: self.controller.server.port}
        endpoints = {
            each: [{"port": port, "host": "127.0.0.1", "listener": listener, "securityProtocol": self.protocol}]
            for each, port in ports.items()
        }
        lives = [{"id": each, "endpoints": endpoints[each], "rack": None} for each in endpoints]
        cached = state | {"zkVersion": self.epoch, "offlineReplicas": []}
        led = state | {"partitionEpoch": self.epoch, "addingReplicas": [], "removingReplicas": [], "isNew": False}
        for each in alive:
            await self._send(each, UpdateMetadataRequest, 8, [cached], liveBrokers=lives)
            states = [led | {"leaderRecoveryState": 0}]
            await self._send(each, LeaderAndIsrRequest, 7, states, type=0, liveLeaders=[])

    async def set_leader(self, topic: str, leader: int, port: int | None = None) -> None:
        """Both learn the leader of the one partition of another topic; `port`: of a live broker."""
        state = {"partitionIndex": 0, "controllerEpoch": 1, "leader": leader, "leaderEpoch": 1, "isr": [leader]}
        cached = state | {"replicas": [leader], "zkVersion": 1, "offlineReplicas": []}
        for each, server in self.servers.items():
            brokers = server.runtime.manager.cluster.table.brokers
            known = {int(brokers.ids[row]): [*brokers.endpoints[row]] for row in brokers.live.nonzero()[0]}
            if port is not None:
                known[leader] = [Endpoint(port, "127.0.0.1", "PLAINTEXT", 0)]
            lives = [{"id": id_, "endpoints": [*map(_json_of, known[id_])], "rack": None} for id_ in known]
            await self._send(each, UpdateMetadataRequest, 8, [cached], topic=topic, liveBrokers=lives)

    async def _send(
        self, broker_id: int, message: Any, version: int, states: list[Any], topic: str = "t", **fields: Any
    ) -> None:
        topic_id = TOPIC_ID if topic == "t" else Uuid(topic[-16:].encode())
        named = {"topicName": topic, "topicId": str(topic_id), "partitionStates": states}
        epochs = {"controllerEpoch": 1, "brokerEpoch": self.servers[broker_id].runtime.manager.broker_epoch}
        who = {"controllerId": CONTROLLER, "isKRaftController": False}
        request = kcore.from_json(message.__name__, version, who | epochs | {"topicStates": [named]} | fields)
        answer = await self.ask(broker_id, request, version)
        assert answer.error_code == Errors.NONE
        for response in getattr(answer, "topics", []):
            assert [each.error_code for each in response.partition_errors] == [0]

    async def ask(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        """As a client would."""
        server = self.servers[broker_id]
        port = server.listening.ports[self.orders or server.listening.listeners.inter_broker]
        async with await connect("127.0.0.1", port, security=self.security) as connection:
            return await connection.send(request, version)

    @asynccontextmanager
    async def connected(self, broker_id: int) -> AsyncIterator[Connection]:
        """For many requests."""
        async with await connect("127.0.0.1", self.servers[broker_id].port) as connection:
            yield connection

    async def produce(
        self, broker_id: int, *values: bytes, acks: int = -1, transaction: str | None = None, sequence: int = 0
    ) -> Any:
        """With a transaction: of producer 7, in its epoch 0."""
        producer = (7, 0, sequence) if transaction else (-1, -1, -1)
        batch = building.batch(0, values, producer=producer, attributes=TRANSACTIONAL if transaction else 0)
        topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=transaction, acks=acks, timeout_ms=5_000, topic_data=topics)
        answer = await self.ask(broker_id, request, 9)
        return answer.responses[0].partition_responses[0]

    async def fetch(self, broker_id: int, offset: int = 0, **fields: Any) -> Any:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000)
        topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[partition])]
        request = FetchRequest(max_wait_ms=50, min_bytes=1, topics=topics, forgotten_topics_data=[], **fields)
        return await self.ask(broker_id, request, 13)
