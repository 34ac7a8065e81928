"""A fleet restarts while topics come and go by the ten thousand: no broker whose heartbeats arrive is fenced."""

from collections.abc import Iterable

import pytest

from controller.kraft.runtime import BEGIN_MS, Stage, controller_of
from kcore.controller.kraft.brokers.heartbeats import BrokerHeartbeats
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.tasks import all_tasks
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord, FenceBrokerRecord
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

BROKERS = range(1, 21)
BEAT_MS = 2_000
SLICE_MS = 40  # The duration of each part of a decision here.
TOPICS = 10_000


class Fleet(Stage):
    """Brokers with a heartbeat every two seconds, under a clock of their own; each part of a decision takes time."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        controller = controller_of(lambda: self.now_ms)
        controller.periodic = type(controller.periodic)(all_tasks(controller.config))
        super().__init__(controller)
        self.works_on = False
        self.beats_ms = {broker: BEGIN_MS + broker * BEAT_MS // len(BROKERS) for broker in BROKERS}
        self.starts = 0
        self.leaving: set[int] = set()

    def register(self, broker: int) -> None:
        self.starts += 1
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id="a cluster",
            incarnation_id=Uuid(self.starts.to_bytes(16)),
            listeners=[Listener(name="A", host="h", port=9092)],
            features=[Feature(name="metadata.version", min_supported_version=1, max_supported_version=30)],
            log_dirs=[Uuid((1_000 + broker).to_bytes(16))],
        )
        self.ask(request, f"start {self.starts}", 4)
        self.beats_ms[broker] = self.now_ms

    def beat(self, broker: int) -> None:
        brokers, name = self.controller.image.brokers, ("beat", broker, self.now_ms)
        if broker not in brokers:
            return
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=int(brokers.epochs[brokers.row(broker)]),
            current_metadata_offset=self.controller.image.end_offset,
            want_shut_down=broker in self.leaving,
        )
        self.submit(self.controller.on_request(request, RequestInfo(1, self.now_ms), name))
        self.beats_ms[broker] = self.now_ms + BEAT_MS

    def run(self, span_ms: int) -> None:
        """Time goes on: heartbeats, the controller's own timer, parts of decisions, commits."""
        until = self.now_ms + span_ms
        while self.now_ms < until:
            self.now_ms += SLICE_MS
            if self.parts_wanted:
                self.work()
            for broker, at_ms in self.beats_ms.items():
                if at_ms <= self.now_ms:
                    self.beat(broker)
            if (due_ms := self.controller.next_due_ms) is not None and due_ms <= self.now_ms:
                self.submit(self.controller.on_timer())
            self.commit()

    def may_stop(self, broker: int) -> bool:
        answers = [
            each for name, each in self.answers.items() if isinstance(name, tuple) and name[:2] == ("beat", broker)
        ]
        return isinstance(last := answers[-1], BrokerHeartbeatResponse) and last.should_shut_down

    def fenced(self) -> list[int]:
        """The id of each broker that a record fences."""
        data = self.node.log.read(0, 1 << 30, self.node.log.end_offset)
        found = (decode_metadata_record(each.value)[0] for each in decode_records(data) if each.control is None)
        return [
            each.id if isinstance(each, FenceBrokerRecord) else each.broker_id
            for each in found
            if isinstance(each, FenceBrokerRecord)
            or (isinstance(each, BrokerRegistrationChangeRecord) and each.fenced == 1)
        ]


def creation(names: Iterable[str]) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=topics)


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    for broker in BROKERS:
        fleet.register(broker)
    fleet.run(2 * BEAT_MS)
    assert fleet.controller.image.brokers.live.sum() == len(BROKERS)
    return fleet


def test_20_brokers_restart_one_after_the_other_while_topics_come_and_go(fleet: Fleet) -> None:
    expected: list[int] = []
    for broker in BROKERS:
        names = [f"{broker}-{number}" for number in range(TOPICS // len(BROKERS))]
        fleet.ask(creation(names), f"create {broker}", 7)
        fleet.leaving.add(broker)
        while not fleet.may_stop(broker):
            fleet.run(BEAT_MS)
        expected.append(broker)
        fleet.leaving.remove(broker)
        states = [DeleteTopicState(name=name) for name in names]
        fleet.ask(DeleteTopicsRequest(topics=states), f"delete {broker}", 6)
        fleet.register(broker)
        fleet.run(2 * BEAT_MS)
    assert fleet.fenced() == expected  # Each when it left, and nobody else.
    assert fleet.controller.image.brokers.live.sum() == len(BROKERS)


def test_nobody_is_fenced_though_a_decision_takes_several_sessions(fleet: Fleet) -> None:
    sessions: BrokerHeartbeats = fleet.controller.context.heartbeats
    fleet.ask(creation(f"t{number}" for number in range(30 * TOPICS // 10)), "many", 7)
    begin_ms = fleet.now_ms
    while fleet.controller.is_busy:
        fleet.run(SLICE_MS)
        fleet.now_ms += 1_000  # A slow machine: the loop comes to nothing else for a second.
    assert fleet.now_ms - begin_ms > 3 * sessions.session_timeout_ms
    fleet.run(2 * sessions.session_timeout_ms)
    assert not fleet.fenced() and fleet.controller.image.topics.count == 3 * TOPICS
