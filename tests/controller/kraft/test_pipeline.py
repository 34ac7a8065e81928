"""The invariants of Pipeline hold after every event, in any order of events."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from controller.kraft.active import counted_from_zero
from controller.kraft.runtime import controller_of, pipeline_of, setting
from kcore.controller.kraft import writing
from kcore.controller.kraft.decision import Decision, Rest, Steps, Versioned
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.outputs import ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.periodic import Task
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import AppendBatches, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.schema.metadata_records_log import EndTransactionRecord
from kcore.schema.partitions import ListPartitionReassignmentsRequest
from kcore.schema.structure import Message
from kcore.wire.records import decode_records
from seeds import seeds

STEPS: Final = 150  # Events of a seed.
PERIOD_MS: Final = 100
MANY: Final = 10  # Records that are applied in several parts, if two are applied at once.
LARGE: Final = 300  # Bytes of a value: a few fill a batch.
SNAPSHOTS: Final = 2  # Most snapshots that are written at the same time.
SLICES: Final = 8  # Most slices of a snapshot between two events.
DONE: Final = UnregisterBrokerResponse()


def _in_parts(count: int, *records: Versioned, **fields: Any) -> Steps:
    for _ in range(count):
        yield
    return Decision(DONE, records, **fields)


class Leaderships:
    """A controller under random events of a raft node that has no peers: its log, its commits, its leaderships."""

    def __init__(self, seed: int) -> None:
        self.random, self.now_ms, self.epoch = Random(seed), 0, 1
        task = Task("a task", PERIOD_MS, lambda context, now_ms: self._task())
        self.controller = controller_of(lambda: self.now_ms, [task], seed=seed)
        self.log: list[StoredBatch] = []
        self.works = 0  # WorkOns that the edge has not performed.
        self.requested: set[int] = set()
        self.answered: set[int] = set()
        self._lead()

    # The node.

    @property
    def end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    @property
    def leads(self) -> bool:
        return self.controller.epoch is not None

    def image_of(self, end: int) -> ClusterImage:
        """The state that a replay of the log makes."""
        image = ClusterImage()
        for each in self.log:
            if each.last_offset < end:
                replay(image, decode_records(each.data))
        return image

    def perform(self, outputs: Iterable[Any]) -> None:
        """The outputs of one event, as StateMachineDriver performs them."""
        waiting, was_refused = deque(outputs), False
        while waiting:
            each = waiting.popleft()
            if isinstance(each, AppendBatches) and each.expected_offset != self.end:
                assert not was_refused, "refused twice"
                was_refused = True
                waiting = deque(other for other in waiting if not isinstance(other, AppendBatches))
                waiting.extend(self.controller.on_refused(each, self.end))
            elif isinstance(each, AppendBatches):
                assert each.epoch == self.epoch
                self.log += split_batches(each.batches)[0]
            elif isinstance(each, RequestAnswer):
                assert each.reply_to in self.requested - self.answered, "answered twice"
                self.answered.add(each.reply_to)  # type: ignore[arg-type]
            elif isinstance(each, WorkOn):
                self.works += 1
            elif isinstance(each, ReadSnapshotSlice):
                waiting.extend(self.controller.on_read_slice())

    def _lead(self) -> None:
        self._follow()
        while self.works:
            self._work()
        self.perform(self.controller.on_leader(self.epoch, self.end))

    def _unread(self) -> list[StoredBatch]:
        return [each for each in self.log if each.base_offset >= self.controller.committed]

    def _write_control(self) -> None:
        self.log += split_batches(control_batch([kraft_version_record(1)], self.end, self.epoch, 0))[0]

    # Decisions.

    def decide(self, context: ControllerContext, request: Any, info: RequestInfo) -> Decision | Steps:
        """The handler of all requests here: `plans` has what it decides about a request."""
        return self.plans(Random(request.broker_id))()

    def list(self, context: ControllerContext, request: Any, info: RequestInfo) -> Steps:
        """A read in parts."""
        return _in_parts(request.timeout_ms % 3)

    def plans(self, random: Random) -> Callable[[], Decision | Steps]:
        names, parts = [f"{random.randrange(20)}-{place}" for place in range(MANY)], random.randrange(4)
        many, large = map(setting, names), (setting(name, "x" * LARGE) for name in names)
        rest = Rest("rest", lambda: _in_parts(parts, setting("rest")))
        return random.choice(
            (
                lambda: Decision(DONE),
                lambda: Decision(DONE, [setting(names[0])]),
                lambda: _in_parts(parts, *many),
                lambda: _in_parts(parts, *large),
                lambda: Decision(DONE, [setting(names[0])], rest=rest),
                lambda: Decision(DONE, rest=rest),
                lambda: Decision(DONE, [setting(names[0]), Versioned(EndTransactionRecord())]),
                lambda: {}["a fault"],
            )
        )

    def _task(self) -> Decision:
        records = [setting(f"task-{place}") for place in range(self.random.randrange(MANY))]
        return Decision(records=records, is_atomic=False)

    # Events.

    def step(self) -> None:
        """One random event."""
        if self.controller.is_at_work and self.random.random() < 0.5:
            self._work()
        elif self.leads:
            events = [self._ask] * 4 + [self._work] * 6 + [self._commit] * 3 + [self._tick, self._write_control]
            self.random.choice([*events, self._resign] if self.random.random() < 0.3 else events)()
        else:
            self.random.choice((self._ask, self._work, self._follow, self._load, self._lead_next))()

    def _ask(self) -> None:
        number = len(self.requested)
        self.requested.add(number)
        request: Message = self.random.choice(
            (
                UnregisterBrokerRequest(broker_id=number),
                BrokerHeartbeatRequest(broker_id=number),
                ListPartitionReassignmentsRequest(timeout_ms=number),
            )
        )
        self.perform(self.controller.on_request(request, RequestInfo(0, self.now_ms), number))

    def _work(self) -> None:
        if self.works:
            self.works -= 1
            self.perform(self.controller.on_work())

    def _tick(self) -> None:
        self.now_ms += PERIOD_MS
        self.perform(self.controller.on_timer())

    def _commit(self) -> None:
        ends = [each.last_offset + 1 for each in self._unread()]
        if ends:
            self.perform(self.controller.on_committed(b"", self.random.choice(ends)))

    def _resign(self) -> None:
        """The next leader has none of the records that are not committed."""
        self.perform(self.controller.on_resigned(self.epoch))
        self.epoch += 1
        self.log = [each for each in self.log if each.last_offset < self.controller.committed]

    def _follow(self) -> None:
        self._write_control()
        self.perform(self.controller.on_committed(b"".join(each.data for each in self._unread()), self.end))

    def _load(self) -> None:
        """The snapshot of another node: the state at the committed offset."""
        offset = self.controller.committed
        image = self.image_of(offset)
        if image.in_transaction or not image.features:
            return
        data = counted_from_zero(b"".join(snapshot_slices(image, None, self.epoch, 0, lambda: None)))
        snapshot = OffsetAndEpoch(offset, self.epoch)
        reader = SnapshotReader(snapshot, lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
        self.perform(self.controller.on_snapshot(reader))

    def _lead_next(self) -> None:
        self.epoch += 1
        self._lead()

    # The invariants.

    def check(self) -> None:
        """The invariants that the docstring of Pipeline numbers."""
        controller = self.controller
        if not self.leads:
            assert self.answered == self.requested, "3"
            if not controller.is_at_work:
                assert controller.image == self.image_of(controller.committed), "7"
            return
        pipeline = pipeline_of(controller)
        assert pipeline.deciding is None or pipeline.writing is None, "1"
        assert self.works == 1 if pipeline.is_busy else self.works <= 1, "2"
        in_parts = [each.pending for each in (pipeline.deciding, pipeline.writing) if each is not None]
        pending = [*in_parts, *pipeline.behind, *pipeline.unanswered]
        places = [each.reply_to for each in pending if each.request is not None]
        assert sorted(places) == sorted(self.requested - self.answered), "3"
        ends = [end for begin, after, _ in pipeline.uncommitted for end in (begin, after)]
        assert ends == sorted(ends) and all(end > controller.committed for end in ends[1::2]), "4"
        offsets = [each.offset for each in pipeline.unanswered]
        assert offsets == sorted(offsets) and all(offset > controller.stable for offset in offsets), "5"
        if pipeline.writing is None:
            assert controller.image == self.image_of(self.end), "6"


@dataclass
class Writing:
    """A snapshot that is being written; `image` has the records of the slices so far."""

    offset: int
    release: Callable[[], None]
    slices: Iterator[bytes]
    image: ClusterImage


class Snapshots:
    """Snapshots of the controller. Their slices are written between events, as the edge writes them."""

    def __init__(self, world: Leaderships, seed: int) -> None:
        self.world, self.random = world, Random(seed)
        self.writing: list[Writing] = []
        self.written = 0

    def step(self) -> None:
        """Begin a snapshot, or write slices of one."""
        if self.world.controller.is_at_work:  # This is rare, and `snapshot_offset` ends it.
            while self.writing:
                self._write_slice(self.writing[0])
        elif len(self.writing) < SNAPSHOTS and self.random.random() < 0.3:
            self._begin()
        elif self.writing:
            snapshot = self.random.choice(self.writing)
            for _ in range(self.random.randrange(SLICES)):
                self._write_slice(snapshot)

    def _begin(self) -> None:
        controller = self.world.controller
        offset = controller.snapshot_offset()
        if offset is None or not self.world.image_of(offset).features:
            return
        release = controller.snapshots.hold(offset)
        if offset in {each.offset for each in self.writing}:
            release()  # The raft node refuses a snapshot that is being written.
            return
        slices = snapshot_slices(controller.snapshots.image(controller.image), offset, self.world.epoch, 0, release)
        self.writing.append(Writing(offset, release, slices, ClusterImage()))

    def _write_slice(self, snapshot: Writing) -> None:
        batches = next(snapshot.slices, None)
        if batches is not None:
            replay(snapshot.image, decode_records(batches))
        elif snapshot in self.writing:
            self.writing.remove(snapshot)
            snapshot.release()
            self.written += 1
            assert snapshot.image.configs == self.world.image_of(snapshot.offset).configs, "8"


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_the_invariants_hold_after_every_event(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    world = Leaderships(seed)
    monkeypatch.setitem(HANDLERS, UnregisterBrokerRequest, world.decide)
    monkeypatch.setitem(HANDLERS, BrokerHeartbeatRequest, world.decide)
    monkeypatch.setitem(HANDLERS, ListPartitionReassignmentsRequest, world.list)
    monkeypatch.setattr(writing, "APPLIED_AT_ONCE", 2)
    monkeypatch.setattr(writing, "BATCH_BYTES", 4 * LARGE)
    snapshots = Snapshots(world, seed)
    for _ in range(STEPS):
        world.step()
        world.check()
        snapshots.step()
    assert snapshots.written
