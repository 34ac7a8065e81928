"""Brokers without sockets and a controller that a test drives, on the simulator's kernel."""

from collections.abc import Callable, Sequence
from typing import Any

import kcore
from broker.controlled import ControlledManager
from broker.memory_log import MemoryLog, MemoryLogs
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetching import on_fetch
from kcore.broker.replicas.markers import on_write_txn_markers
from kcore.broker.replicas.offsets import on_list_offsets, on_offset_for_leader_epoch, repeated_in
from kcore.broker.replicas.outputs import (
    FetchFrom,
    IsrChangesWait,
    LogFailed,
    Notice,
    SendInSteps,
    SendResponse,
    Verify,
)
from kcore.broker.replicas.partition import Partition
from kcore.broker.replicas.producing import on_produce, on_verified
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kcore.sim.kernel.clock import Clock
from kcore.sim.kernel.events import Kernel
from kcore.sim.kernel.simulated_process import Process
from kcore.steps import finished
from kcore.types import Uuid
from kcore.wire.column_codec import decode_columns
from kcore.wire.record_batch import TRANSACTIONAL, scan_batches
from kcore.wire.records import decode_records
from storage import building

KEY = ("t", 0)
TOPIC_ID = Uuid(b"t" * 16)
VERSIONS = {LeaderAndIsrRequest: 7, UpdateMetadataRequest: 8, StopReplicaRequest: 4}


class Cluster(Kernel):
    """One partition on some brokers; nothing moves unless the test says so, or a world above queues its events."""

    def __init__(self, brokers: int = 3, seed: int = 1, **settings: Any) -> None:
        super().__init__(seed, "")
        self.handlers = (self._on_event,) * len(self.handlers)
        self.clock = Clock(1_000_000, drift=0.0)
        self.ids = [*range(1, brokers + 1)]
        self.settings = settings
        self.logs = {each: MemoryLogs() for each in self.ids}
        self.brokers: dict[int, ControlledManager] = {}
        self.processes: dict[int, Process] = {}  # By broker: its last incarnation.
        self.answers: dict[int, Any] = {}
        self.failed_logs: list[LogFailed] = []
        self.verifications: list[Verify] = []  # Verifications that coordinators have not answered.
        self.requests = 0
        self.leader, self.epoch, self.partition_epoch, self.isr = 1, 0, 0, [*self.ids]
        self.paused: set[int] = set()  # Left out by `run`, `settle_isr` and `pass_time`.
        for each in self.ids:
            self.start(each)

    @property
    def now_ms(self) -> int:
        return self.clock.ms(self.now_us)

    def _on_event(self, process: Process | None, do: Callable[[], None]) -> None:
        """An event of an incarnation that crashed is lost with it."""
        if process is None or (process.index in self.brokers and self.processes[process.index] is process):
            do()

    def start(self, broker_id: int) -> None:
        """A new incarnation, with the log that the last one left."""
        config = BrokerConfig(broker_id, **self.settings)
        self.brokers[broker_id] = ControlledManager(config, 100 + self.requests, self.logs[broker_id])
        self.processes[broker_id] = Process(broker_id)

    def log(self, broker_id: int) -> MemoryLog:
        return self.logs[broker_id].by_key[KEY]

    def partition(self, broker_id: int) -> Partition:
        return self.brokers[broker_id].partitions[KEY]

    # The controller.

    def control(self, broker_id: int, message: Any, body: dict[str, Any]) -> Any:
        version, name = VERSIONS[message], message.__name__
        common = {"controllerId": 9, "isKRaftController": False, "controllerEpoch": 1, "brokerEpoch": -1}
        data = kcore.encode(kcore.from_json(name, version, common | body), version)
        answer = self.brokers[broker_id].control(message, version, decode_columns(message, version, data), self.now_ms)
        self.perform(broker_id)
        return kcore.decode(name.replace("Request", "Response"), version, answer)

    def update_metadata(self, live: Sequence[int] | None = None, offline: Sequence[int] = ()) -> None:
        alive = self.ids if live is None else live
        state = self.state() | {"zkVersion": self.partition_epoch, "offlineReplicas": [*offline]}
        topic = {"topicName": "t", "topicId": str(TOPIC_ID), "partitionStates": [state]}
        brokers = [{"id": each, "endpoints": [], "rack": None} for each in alive]
        for each in self.brokers:
            self.control(each, UpdateMetadataRequest, {"topicStates": [topic], "liveBrokers": brokers})

    def state(self) -> dict[str, Any]:
        return {
            "partitionIndex": 0,
            "controllerEpoch": 1,
            "leader": self.leader,
            "leaderEpoch": self.epoch,
            "isr": self.isr,
            "replicas": self.ids,
        }

    def leader_and_isr(self, *to: int, type_: int = 0, topic_id: Uuid = TOPIC_ID, index: int = 0) -> list[int]:
        """Tells these brokers, or all; their error codes. `index`: of the partition."""
        state = self.state() | {
            "partitionIndex": index,
            "partitionEpoch": self.partition_epoch,
            "addingReplicas": [],
            "removingReplicas": [],
            "isNew": False,
            "leaderRecoveryState": 0,
        }
        topic = {"topicName": "t", "topicId": str(topic_id), "partitionStates": [state]}
        body = {"type": type_, "topicStates": [topic], "liveLeaders": []}
        answers = [self.control(each, LeaderAndIsrRequest, body) for each in to or self.brokers]
        return [answer.topics[0].partition_errors[0].error_code for answer in answers]

    def elect(self, leader: int, isr: Sequence[int] | None = None, *to: int) -> list[int]:
        self.leader, self.isr = leader, [*(self.isr if isr is None else isr)]
        self.epoch, self.partition_epoch = self.epoch + 1, self.partition_epoch + 1
        self.update_metadata()
        return self.leader_and_isr(*to)

    def stop_replica(self, broker_id: int, *, delete: bool, epoch: int | None = None) -> int:
        state = {"partitionIndex": 0, "leaderEpoch": self.epoch if epoch is None else epoch, "deletePartition": delete}
        topics = [{"topicName": "t", "partitionStates": [state]}]
        return self.control(broker_id, StopReplicaRequest, {"topicStates": topics}).partition_errors[0].error_code

    def alter_partition(self, broker_id: int) -> AlterPartitionRequest:
        """The broker's waiting AlterPartition request."""
        return self.brokers[broker_id].isr_changes.next_request(self.brokers[broker_id].broker_epoch)

    def answer_isr(self, broker_id: int, error: Errors = Errors.NONE, **state: Any) -> None:
        response_to = {
            "leader_id": self.leader,
            "leader_epoch": self.epoch,
            "isr": self.isr,
            "leader_recovery_state": 0,
        }
        response_to |= {"partition_epoch": self.partition_epoch} | state
        data = AlterPartitionResponsePartitionData(partition_index=0, error_code=error, **response_to)
        topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[data])
        self.brokers[broker_id].on_alter_partition(AlterPartitionResponse(topics=[topic]), self.now_ms)
        self.perform(broker_id)

    def settle_isr(self, whose: Sequence[int] | None = None) -> None:
        """The controller takes what leaders ask for, if their epochs are right. `whose`: all that are not paused."""
        for broker_id in [each for each in self.brokers if each not in self.paused] if whose is None else whose:
            broker = self.brokers[broker_id]
            while broker.isr_changes.wait_ms(self.now_ms) == 0:
                asked = self.alter_partition(broker_id).topics[0].partitions[0]
                if asked.leader_epoch != self.epoch or broker_id != self.leader:
                    self.answer_isr(broker_id, Errors.FENCED_LEADER_EPOCH)
                elif asked.partition_epoch != self.partition_epoch:
                    self.answer_isr(broker_id, Errors.INVALID_UPDATE_VERSION)
                else:
                    self.isr = [member.broker_id for member in asked.new_isr_with_epochs]
                    self.partition_epoch += 1
                    self.answer_isr(broker_id)

    # Clients and followers.

    def perform(self, broker_id: int) -> None:
        for output in self.brokers[broker_id].take_outputs():
            match output:
                case SendResponse(request_id, response):
                    assert request_id not in self.answers
                    self.answers[request_id] = response
                case SendInSteps(request_id, steps):
                    assert request_id not in self.answers
                    self.answers[request_id] = finished(steps)
                case LogFailed():
                    self.failed_logs.append(output)
                case Verify():
                    self.verifications.append(output)
                case FetchFrom() | IsrChangesWait() | Notice():
                    pass

    def produce(
        self,
        to: int,
        *values: bytes,
        acks: int = -1,
        producer: tuple[int, int, int] = (-1, -1, -1),
        data: Any = None,
        transaction: str | None = None,
    ) -> int:
        """The request's id: `code(id)` tells what was answered."""
        self.requests += 1
        attributes = 0 if transaction is None else TRANSACTIONAL
        records = building.batch(0, values, producer=producer, attributes=attributes) if data is None else data
        partition = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name="t", partition_data=[partition])
        request = ProduceRequest(transactional_id=transaction, acks=acks, timeout_ms=10_000, topic_data=[topic])
        on_produce(self.brokers[to], self.requests, request, self.now_ms, self.now_ms)
        self.perform(to)
        return self.requests

    def verify(self, broker_id: int, error: Errors = Errors.NONE) -> None:
        """The coordinators answer all that this broker asked."""
        asked, self.verifications = self.verifications, []
        for each in asked:
            refused = {} if error is Errors.NONE else dict.fromkeys(each.keys, error)
            on_verified(self.brokers[broker_id], each.request_id, refused, self.now_ms)
        self.perform(broker_id)

    def end(self, to: int, producer: tuple[int, int], *, commit: bool, coordinator_epoch: int = 0) -> int:
        """A coordinator's WriteTxnMarkers; its id: `marked(id)` tells what was answered."""
        self.requests += 1
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
        marker = WritableTxnMarker(producer_id=producer[0], producer_epoch=producer[1], topics=[topic])
        marker.transaction_result, marker.coordinator_epoch = commit, coordinator_epoch
        request = WriteTxnMarkersRequest(markers=[marker])
        on_write_txn_markers(self.brokers[to], self.requests, request, self.now_ms, building.TIME_MS)
        self.perform(to)
        return self.requests

    def marked(self, request_id: int) -> Errors | None:
        if request_id not in self.answers:
            return None
        return Errors(self.answers[request_id].markers[0].topics[0].partitions[0].error_code)

    def response_to(self, request_id: int) -> Any:
        """A producer's answer for the partition."""
        return self.answers[request_id].responses[0].partition_responses[0]

    def code(self, request_id: int) -> Errors | None:
        return Errors(self.response_to(request_id).error_code) if request_id in self.answers else None

    def fetch(self, to: int, offset: int, *, version: int = 12, wait_ms: int = 0, epoch: int = -1, **asked: Any) -> Any:
        """A consumer's fetch; the partition's part of the answer, None while it waits."""
        self.requests += 1
        partition = FetchPartition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=100_000
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[partition])],
            forgotten_topics_data=[],
            **asked,
        )
        finished(on_fetch(self.brokers[to], self.requests, request, version, self.now_ms))
        self.perform(to)
        return self.fetched(self.requests)

    def fetched(self, request_id: int) -> Any:
        answer = self.answers.get(request_id)
        return answer.responses[0].partitions[0] if answer is not None and answer.responses else answer

    def values(self, to: int, offset: int = 0) -> list[bytes]:
        """The records that a consumer reads."""
        found = []
        while records := self.fetch(to, offset).records:
            found += [record.value or b"" for record in decode_records(records)]
            offset = int(scan_batches(records).last_offset[-1]) + 1
        return found

    def follow(self, broker_id: int, rounds: int = 1) -> int:
        """Lets a follower ask its leader; how many requests that were."""
        count = 0
        for fetcher in [*self.brokers[broker_id].fetchers.values()]:
            for _ in range(rounds):
                ask = fetcher.next_request(self.now_ms)
                if ask is None:
                    break
                count += 1
                if fetcher.leader_id not in self.brokers:
                    fetcher.failed(self.now_ms)
                    break
                fetcher.answered(self.ask(fetcher.leader_id, ask.fitted(ask.version), ask.version), self.now_ms)
                self.perform(broker_id)
        return count

    def ask(self, leader_id: int, request: Any, version: int) -> Any:
        """One broker of another, over the wire's bytes."""
        leader = self.brokers[leader_id]
        request = kcore.decode(type(request), version, kcore.encode(request, version))
        if isinstance(request, ListOffsetsRequest):
            return on_list_offsets(leader, request, version, finished(repeated_in(request)))
        if isinstance(request, OffsetForLeaderEpochRequest):
            return on_offset_for_leader_epoch(leader, request)
        assert isinstance(request, FetchRequest)
        self.requests += 1
        request_id, request.max_wait_ms = self.requests, 0
        finished(on_fetch(leader, request_id, request, version, self.now_ms))
        self.perform(leader_id)
        answer = self.answers[request_id]
        return kcore.decode("FetchResponse", version, kcore.encode(answer, version))

    def run(self, rounds: int = 6) -> None:
        """All followers fetch in turn, the controller answers, time passes."""
        for _ in range(rounds):
            for each in self.ids:
                if each not in self.paused and each in self.brokers:
                    self.follow(each)
            self.settle_isr()
            self.pass_time(10)

    def pass_time(self, ms: int) -> None:
        self.run_us(ms * 1_000)
        for broker_id in self.brokers:
            if broker_id not in self.paused:
                self.tick(broker_id)

    def tick(self, broker_id: int) -> None:
        """Runs the broker's time-outs."""
        self.brokers[broker_id].tick(self.now_ms)
        self.brokers[broker_id].shrink_isrs(self.now_ms)
        self.perform(broker_id)


def led(**settings: Any) -> Cluster:
    """Broker 1 leads, all three are in sync."""
    cluster = Cluster(**settings)
    cluster.elect(1)
    cluster.run(2)
    return cluster
