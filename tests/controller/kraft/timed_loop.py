"""The events of an only controller on a disk, one after the other as its process runs them, each timed on its own."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.outputs import Clocks, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, Effect, Flush, LeaderChanged, SnapshotLoaded
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import AppendBatches
from kcore.replication.java_random import JavaRandom
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest, Feature, Listener
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.types import Uuid
from kraft_configs import controller_config

import_module("numpy.ma")  # As the process does before its first event.
CLUSTER_ID = "a cluster"
DIRECTORY = Uuid(bytes([1] * 16))
ENDPOINTS = {"CONTROLLER": Address("localhost", 1)}
RACKS = 3
TOPICS_AT_ONCE = 90


class TimedLoop:
    """A controller that leads alone. `longest_ms`: by kind of event, the most CPU time that one of them took."""

    def __init__(self, folder: Path, brokers: int = 20) -> None:
        self.log = DiskRaftLog(folder / "__cluster_metadata-0")
        self.now_ms = 1_000
        self.longest_ms: dict[str, float] = {}
        self.answers: list[Message | None] = []
        self._soon: deque[tuple[str, Callable[[], Any]]] = deque()
        self._snapshot: Any = None
        self.on_answer: Callable[[Message | None], None] = lambda answer: None
        self.on_append: Callable[[AppendBatches], None] = lambda append: None  # Called before the node takes it.
        self.start()
        self.brokers = range(1, brokers + 1)
        for broker in self.brokers:
            self.ask(_registration(broker), 4)
            self.beat(broker)

    def start(self) -> None:
        """A process on that disk; a new one knows nothing but what is there."""
        self.controller, self._is_killed = self.new_controller(), False
        voters = (Voter(ReplicaKey(1, DIRECTORY), ENDPOINTS),)
        raft = RaftConfig(CLUSTER_ID, 1, DIRECTORY, ENDPOINTS, Random(1).randrange, voters=voters)
        self.node = RaftNode(raft, self.log)
        effects = self.node.start(None, self.now_ms)
        self.driver = StateMachineDriver[Any](self.node, self.controller)
        self.run("start", lambda: effects)
        while not self.node.leads:
            self.now_ms += 100
            self.run("timer of the node", lambda: self.node.on_timer(self.now_ms))

    def new_controller(self) -> KraftController:
        """A standby that has applied nothing."""
        random = Random(1)
        config = controller_config(1, CLUSTER_ID)
        clocks = Clocks(lambda: self.now_ms, lambda: self.now_ms)
        bootstrap = Bootstrap.of_features({"metadata.version": 30}, "a test")
        new_uuid = lambda: Uuid(random.randbytes(16))  # noqa: E731
        return KraftController(config, bootstrap, all_tasks(config), clocks, JavaRandom(1), new_uuid)

    def stop(self) -> None:
        """The process is killed: what it has not done yet is not done."""
        self._soon.clear()
        self._is_killed = True

    def ask(self, request: Message, version: int) -> Message | None:
        """The answer, once all that came of the request is done."""
        info = RequestInfo(version, self.now_ms)
        self._event(type(request).__name__, lambda: self.controller.on_request(request, info, None))
        self.run_all()
        return self.answers[-1]

    def beat(self, broker: int, *, want_shut_down: bool = False) -> Any:
        """Its answer; the broker has applied what is in the log."""
        table = self.controller.image.brokers
        end, epoch = self.controller.image.end_offset, int(table.epochs[table.row(broker)])
        beat = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=end)
        beat.want_shut_down = want_shut_down
        return self.ask(beat, 1)

    def create(self, topics: int, partitions: int) -> None:
        """Topics of so many partitions each, by requests like those of a storm."""
        names = [f"t{number:06}" for number in range(topics)]
        for begin in range(0, topics, TOPICS_AT_ONCE):
            made = [
                CreatableTopic(name=name, num_partitions=partitions, replication_factor=3, assignments=[], configs=[])
                for name in names[begin : begin + TOPICS_AT_ONCE]
            ]
            self.ask(CreateTopicsRequest(topics=made), 7)

    def lose(self, lost: Iterable[int]) -> None:
        """All other brokers send heartbeats until the sessions of these end."""
        silent = {*lost}
        step_ms = self.controller.config.broker_session_timeout_ms // 8
        for _ in range(9):
            self.now_ms += step_ms
            for broker in self.brokers:
                if broker not in silent:
                    self.beat(broker)
            self._event("timer", self.controller.on_timer)
            self.run_all()

    def resign(self) -> None:
        self._take("resignation", lambda: self.node.resign(self.node.epoch, self.now_ms))
        self.run_all()

    def begin_snapshot(self) -> None:
        """A snapshot of the committed state; its slices come between other events."""
        controller, offset = self.controller, self.controller.snapshot_offset()
        assert offset is not None
        snapshot = OffsetAndEpoch(offset, self.log.epoch_at(offset - 1))
        release = controller.snapshots.hold(offset)
        image = controller.snapshots.image(controller.image)
        slices = snapshot_slices(image, offset, snapshot.epoch, self.now_ms, release, None)
        writer = self.node.begin_snapshot(snapshot, self.now_ms, self.now_ms)
        assert writer is not None
        self._snapshot = slices, writer
        self._soon.append(("snapshot", self._write_slice))

    def _write_slice(self) -> tuple[()]:
        slices, writer = self._snapshot
        batches = next(slices, None)
        if batches is None:
            writer.flush()()
            writer.freeze()
        else:
            writer.add(batches)
            self._soon.append(("snapshot", self._write_slice))
        return ()

    # The loop.

    def run(self, kind: str, event: Callable[[], Iterable[Effect]]) -> None:
        """An event of the node, and all that comes of it."""
        self._take(kind, event)
        self.run_all()

    def run_all(self) -> None:
        while self._soon:
            kind, event = self._soon.popleft()
            self._event(kind, event)

    def _event(self, kind: str, event: Callable[[], Iterable[Any]]) -> None:
        """An event of the controller, and its outputs."""
        self._timed(kind, lambda: self._submit(event()))

    def _take(self, kind: str, event: Callable[[], Iterable[Effect]]) -> None:
        self._timed(kind, lambda: self._perform(event()))

    def _timed(self, kind: str, work: Callable[[], None]) -> None:
        begin = time.thread_time()
        work()
        if self.driver.has_more:
            self._submit(self.driver.catch_up())
        took_ms = (time.thread_time() - begin) * 1e3
        self.longest_ms[kind] = max(self.longest_ms.get(kind, 0.0), took_ms)
        if self.driver.has_more and not any(kind == "catch up" for kind, _ in self._soon):
            self._soon.append(("catch up", tuple))

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Flush):
                self._soon.append(("flushed", lambda effect=effect: self._flush(effect)))  # type: ignore[misc]
            elif isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
                self._submit(self.driver.note(effect))

    def _flush(self, effect: Flush) -> tuple[()]:
        self.log.flush()
        self._perform(self.node.on_flushed(effect, self.now_ms))
        return ()

    def _submit(self, outputs: Iterable[Any]) -> None:
        outputs = [*outputs]
        for each in outputs:
            if isinstance(each, AppendBatches):
                self.on_append(each)
        effects, own = self.driver.submit(outputs, self.now_ms)
        self._perform(effects)
        for each in own:
            if self._is_killed:
                return
            if isinstance(each, RequestAnswer):
                self.answers.append(each.response)
                self.on_answer(each.response)
            elif isinstance(each, WorkOn):
                kind = "next part" if self.controller.epoch is not None else "next part of a standby"
                self._soon.append((kind, self.controller.on_work))
            elif isinstance(each, ReadSnapshotSlice):
                self._soon.append(("slice of a snapshot that is read", self.controller.on_read_slice))


def _registration(broker: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=CLUSTER_ID,
        incarnation_id=Uuid(bytes([broker] * 16)),
        rack=f"rack-{broker % RACKS}",
        listeners=[Listener(name="A", host="h", port=9092)],
        features=[Feature(name="metadata.version", min_supported_version=1, max_supported_version=30)],
        log_dirs=[Uuid(bytes([9, broker] * 8))],
    )
