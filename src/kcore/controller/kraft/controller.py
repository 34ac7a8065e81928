"""The active controller and the standby, as the state machine on a raft node: events in, appends and answers out.

The active one decides upon the latest state, appends, replays at once, and answers when what was decided, or seen, is
committed. It appends nothing but that. When its node leads no more, the state goes back to the last commit and every
open request is answered NOT_CONTROLLER. Where an append is refused because a control record of the node's came before
it, everything that was decided behind is decided anew. A standby replays what is committed.

Source: QuorumController, its QuorumMetaLogListener and ControllerWriteEvent, and OffsetControlManager.
"""

import logging
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias

from kcore.controller.kraft.activation import Bootstrap, activation
from kcore.controller.kraft.config import KraftControllerConfig
from kcore.controller.kraft.context import ControllerContext, RequestInfo
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.error_responses import refused
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.notices import lines_of
from kcore.controller.kraft.periodic import PeriodicTasks, Task
from kcore.controller.kraft.slices import SnapshotNeed
from kcore.controller.kraft.writing import Written, take_effect, written
from kcore.errors import LevelError
from kcore.metadata.image import ClusterImage
from kcore.metadata.replay import replay
from kcore.protocol_errors import Errors
from kcore.raft.batches import split_batches
from kcore.raft.state_machine import AnyAppend, AppendBatches, Resign, SnapshotReader, UpgradeKraftVersion
from kcore.replication.java_random import JavaRandom
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.configs import DescribeConfigsRequest
from kcore.schema.partitions import ListPartitionReassignmentsRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.records import decode_records

# What a standby answers, too, out of what is committed.
READS: Final = (
    *(DescribeClusterRequest, DescribeConfigsRequest, DescribeAclsRequest, ListPartitionReassignmentsRequest),
    DescribeUserScramCredentialsRequest,
)
TOO_LARGE: Final = "Unable to perform excessively large batch operation."  # BoundedList's.


class Answered(NamedTuple):
    """The response to the request that came under `reply_to`; None: its connection is closed."""

    reply_to: Hashable
    response: Message | None


class Told(NamedTuple):
    """A line for the operator's log; `level` is one of `logging`."""

    level: int
    text: str


class ReadOn(NamedTuple):
    """A snapshot is being read: `on_read` is wanted, behind other events."""


Output: TypeAlias = AnyAppend | Resign | Answered | Told | UpgradeKraftVersion | ReadOn
Outputs: TypeAlias = Sequence[Output]


class Clocks(NamedTuple):
    """What the edge hands in."""

    now_ms: Callable[[], int]  # It only goes forward.
    wall_ms: Callable[[], int]  # For time stamps.


@dataclass(slots=True, eq=False)
class _Open:
    """A decision that is to be made, or is made and not committed."""

    name: str
    decide: Callable[[], Decision]
    request: Message | None = None
    reply_to: Hashable = None
    response: Message | None = None
    offset: int = 0  # All below must be committed before it is answered.


class _Uncommitted(NamedTuple):
    """Records that were appended; of a transaction the batches, too, in case only some of them are committed."""

    begin: int
    end: int
    transaction: bytes


class KraftController:
    """Of one node. Every public method is one event; it returns what must be done, in order."""

    reads_batches: ClassVar[bool] = True

    def __init__(
        self,
        config: KraftControllerConfig,
        bootstrap: Bootstrap,
        tasks: Sequence[Task],
        clocks: Clocks,
        random: JavaRandom,
        new_uuid: Callable[[], Uuid],
    ) -> None:
        """`bootstrap`: for an empty log. `random` and `new_uuid`: as ControllerContext has them."""
        self.config = config
        self.leader_id = -1  # As the edge knows it: whom others are told to ask.
        self.committed = 0  # All records below it are committed.
        self.snapshots = SnapshotNeed(config)
        self.epoch: int | None = None  # That it leads.
        self.kraft_version_problem: Callable[[int], str | None] | None = None  # Set by the edge, as the context has it.
        self._kraft_version = 0
        self._held: int | None = None
        self.periodic = PeriodicTasks(tasks)
        self._bootstrap, self._clocks, self._random, self._new_uuid = bootstrap, clocks, random, new_uuid
        self._is_empty = True  # No record was replayed yet.
        self._open: deque[_Open] = deque()  # In the order of their offsets.
        self._uncommitted: deque[_Uncommitted] = deque()
        self._reader: SnapshotReader | None = None
        self._loading: ClusterImage | None = None
        self._begin_with(ClusterImage())

    def _begin_with(self, image: ClusterImage) -> None:
        image.keep_journal()
        self.context = ControllerContext(self.config, image, self._random, self._new_uuid)
        self.context.kraft_version = self._kraft_version
        if self.kraft_version_problem is not None:
            self.context.kraft_version_problem = self.kraft_version_problem
        self.context.wall_ahead_ms = self._clocks.wall_ms() - self._clocks.now_ms()

    @property
    def kraft_version(self) -> int:
        """Raft's own level, as the edge knows it."""
        return self._kraft_version

    @kraft_version.setter
    def kraft_version(self, version: int) -> None:
        self._kraft_version = self.context.kraft_version = version

    @property
    def image(self) -> ClusterImage:
        """The state that was decided, committed or not."""
        return self.context.image

    @property
    def stable(self) -> int:
        """All below is committed, and no transaction is open there (OffsetControlManager.lastStableOffset)."""
        first = self._uncommitted[0] if self._uncommitted else None
        if first is not None and first.transaction and first.begin < self.committed:
            return first.begin
        return self.committed

    # Requests.

    def on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> Outputs:
        """A request that one of HANDLERS decides. It is answered once: now, at a commit, or at a resignation."""
        handler = HANDLERS[type(request)]
        if self.epoch is None and not isinstance(request, READS):
            return [Answered(reply_to, self._not_controller(request))]
        name = type(request).__name__
        opened = _Open(name, lambda: handler(self.context, request, info), request, reply_to)
        outputs: list[Output] = []
        if self.epoch is None:
            self._read(opened, outputs)
        else:
            self._decide(opened, outputs)
            self.periodic.on_change(self.context, info.now_ms)
        return outputs

    def _read(self, opened: _Open, outputs: list[Output]) -> None:
        decision = self._decision(opened, outputs)
        outputs.append(Answered(opened.reply_to, decision.response))

    def _not_controller(self, request: Message) -> Message:
        is_known = self.leader_id not in (-1, self.config.node_id)
        text = f"The active controller appears to be node {self.leader_id}." if is_known else NOBODY
        return refused(request, Errors.NOT_CONTROLLER, text)

    # Decisions.

    def _decide(self, opened: _Open, outputs: list[Output]) -> None:
        """Decides upon the latest state, appends, replays; the answer comes now where it depends on no commit."""
        assert self.epoch is not None
        decision = self._decision(opened, outputs)
        made = self._made(opened, decision, outputs)
        if decision.kraft_version is not None and made is not None:
            outputs.append(UpgradeKraftVersion(decision.kraft_version, self.epoch))
        opened.response = decision.response if opened.response is None else opened.response
        if made is not None:
            transaction = made.batches if made.is_transaction else b""
            self._uncommitted.append(_Uncommitted(made.begin, made.end, transaction))
            self.snapshots.count(len(made.batches))
            self._is_empty = False
            outputs.append(AppendBatches(made.batches, self.epoch, made.begin))
        opened.offset = self.image.end_offset
        if self._uncommitted and (opened.request is not None or made is not None):
            self._open.append(opened)
        elif opened.request is not None:
            outputs.append(Answered(opened.reply_to, opened.response))

    def _decision(self, opened: _Open, outputs: list[Output]) -> Decision:
        """A fault in a handler costs its request alone: nothing is appended, and the node stays leader."""
        opened.response = None
        try:
            return opened.decide()
        except Exception:
            return Decision(self._fault(opened, outputs))

    def _made(self, opened: _Open, decision: Decision, outputs: list[Output]) -> Written | None:
        """What was decided, as batches, and in the state; None where there is nothing, or it cannot be."""
        assert self.epoch is not None
        if not decision.records:
            return None
        begin = self.image.end_offset
        try:
            made = written(self.context, decision, self.epoch, self._clocks.wall_ms())
            if made is not None:
                told = [*lines_of(self.image, decision)]
                take_effect(self.context, made, decision, self.epoch, self._clocks.now_ms())
                outputs += [Told(logging.INFO, line) for line in told]
            return made
        except LevelError:
            if opened.request is not None:
                opened.response = refused(opened.request, Errors.POLICY_VIOLATION, TOO_LARGE)
        except Exception:
            opened.response = self._fault(opened, outputs)
        self.image.revert_to(begin)
        self.image.end_offset = begin
        return None

    def _fault(self, opened: _Open, outputs: list[Output]) -> Message | None:
        text = traceback.format_exc().strip().replace("\n", " | ")
        outputs.append(Told(logging.ERROR, f"{opened.name} failed and wrote nothing: {text}"))
        if opened.request is None:
            return None
        return refused(opened.request, Errors.UNKNOWN_SERVER_ERROR, UNEXPECTED)

    # Periodic work.

    def on_timer(self) -> Outputs:
        """Does what is due of the controller's own; at any time."""
        outputs: list[Output] = []
        while self.epoch is not None:
            now_ms = self._clocks.now_ms()
            self.context.wall_ahead_ms = self._clocks.wall_ms() - now_ms
            task = self.periodic.due(now_ms)
            if task is None:
                break
            self._run_task(task, now_ms, outputs)
        return outputs

    def _run_task(self, task: Task, now_ms: int, outputs: list[Output]) -> None:
        before = len(outputs)
        decision = Decision()

        def decide() -> Decision:
            nonlocal decision
            decision = task.work(self.context, now_ms) or Decision()
            return decision

        opened = _Open(task.name, decide)
        end = self.image.end_offset
        self._decide(opened, outputs)
        failed = any(isinstance(each, Told) and each.level == logging.ERROR for each in outputs[before:])
        written = self.image.end_offset - end
        self.periodic.ran(task, self.context, now_ms, written=written, failed=failed, has_more=decision.has_more)
        self.periodic.on_change(self.context, now_ms)

    # What the node tells (kcore.raft.state_machine.StateMachine).

    def on_leader(self, epoch: int, offset: int) -> Outputs:
        now_ms = self._clocks.now_ms()
        self.epoch = epoch
        self.image.end_offset = self.committed = offset
        self._begin_context()
        self.context.activate(now_ms)
        outputs: list[Output] = []
        first = _Open("activation", lambda: self._activation(outputs))
        self._decide(first, outputs)
        self.periodic.activate(self.context, now_ms)
        return outputs

    def _begin_context(self) -> None:
        """What is kept beside the state is made anew: as a standby nobody kept it up to date."""
        heartbeats = self.context.heartbeats
        self._begin_with(self.image)
        self.context.heartbeats = heartbeats

    def _activation(self, outputs: list[Output]) -> Decision:
        made = activation(self.image, self.config, self._bootstrap, is_empty=self._is_empty)
        outputs.append(Told(logging.INFO, f"this node is the active controller of epoch {self.epoch}: {made.told}"))
        return made.decision

    def on_committed(self, batches: bytes, end_offset: int) -> Outputs:
        self.committed = end_offset
        if self.epoch is None:
            if batches:
                self._replay(self.image, batches)
            self.image.end_offset = max(self.image.end_offset, end_offset)
            self._commit(end_offset)
            return ()
        while self._uncommitted and self._uncommitted[0].end <= end_offset:
            self._uncommitted.popleft()
        # What is committed behind the last decision is a control record of the node's: the next decision goes behind it.
        self.image.end_offset = max(self.image.end_offset, end_offset)
        self._commit(self.stable)
        outputs: list[Output] = []
        while self._open and self._open[0].offset <= self.stable:
            opened = self._open.popleft()
            if opened.request is not None:
                outputs.append(Answered(opened.reply_to, opened.response))
        return outputs

    def _replay(self, image: ClusterImage, batches: bytes) -> None:
        records = decode_records(batches)
        replay(image, records, image.end_offset)
        self._is_empty = self._is_empty and bool((records.control_type >= 0).all())
        self.snapshots.count(len(batches))

    def on_resigned(self, epoch: int) -> Outputs:
        """Back to the last commit; what is committed of an open transaction waits for another leader to end it."""
        first = self._uncommitted[0] if self._uncommitted else None
        self.image.revert_to(self.stable)
        if first is not None and first.transaction and first.begin < self.committed:
            parts = [each.data for each in split_batches(first.transaction, check_crc=False)[0]]
            there = [each for each in parts if int.from_bytes(each[:8]) < self.committed]
            self._replay(self.image, b"".join(there))
            self._commit(self.committed)
        self.image.end_offset = self.committed
        self.epoch = None
        self.periodic.deactivate()
        self._begin_context()
        opened, self._open = self._open, deque()
        self._uncommitted.clear()
        answers = [
            Answered(each.reply_to, refused(each.request, Errors.NOT_CONTROLLER, NOBODY))
            for each in opened
            if each.request is not None
        ]
        told = f"this node controls no more since epoch {epoch}: {len(answers)} requests are answered NOT_CONTROLLER"
        return [Told(logging.INFO, told), *answers]

    def on_refused(self, append: AnyAppend, next_offset: int) -> Outputs:
        """A control record of the node's came first: all that was decided from there on is decided anew behind it."""
        begin = append.expected_offset
        self.image.revert_to(begin)
        self.image.end_offset = next_offset
        while self._uncommitted and self._uncommitted[-1].begin >= begin:
            self._uncommitted.pop()
        again: deque[_Open] = deque()
        while self._open and self._open[-1].offset > begin:
            again.appendleft(self._open.pop())
        outputs: list[Output] = []
        for opened in again:
            self._decide(opened, outputs)
        return outputs

    # Snapshots.

    def _commit(self, offset: int) -> None:
        """What is below cannot be taken back any more, but for a copy of the state where a snapshot needs that."""
        self.image.commit(offset if self._held is None else min(offset, self._held))

    def hold(self, offset: int) -> None:
        """Until `release` the state at `offset`, which is `stable`, can be had from the image's journal."""
        self._held = offset

    def release(self) -> None:
        """No snapshot needs the journal any more; at any time."""
        self._held = None

    def on_snapshot(self, reader: SnapshotReader) -> Outputs:
        self._reader, self._loading = reader, ClusterImage()
        return [ReadOn()]

    def on_read(self) -> Outputs:
        """Takes a slice of the snapshot; once it is read, the state is what it says."""
        reader, loading = self._reader, self._loading
        if reader is None or loading is None:
            return ()
        batches = next(reader, None)
        if batches is not None:
            records = decode_records(batches)
            replay(loading, records)
            self._is_empty = self._is_empty and bool((records.control_type >= 0).all())
            return [ReadOn()]
        self._reader = self._loading = None
        if reader.is_lost:
            return ()
        loading.end_offset, loading.epoch = reader.snapshot.offset, reader.snapshot.epoch
        self.committed = reader.snapshot.offset
        self._begin_with(loading)
        self.image.commit(reader.snapshot.offset)
        self.snapshots.begin(reader.snapshot.offset, self._clocks.wall_ms())
        where = f"snapshot {reader.snapshot.offset}-{reader.snapshot.epoch}"
        return [Told(logging.INFO, f"{where} is loaded: {loading.table.partition_count:,} partitions")]


NOBODY: Final = "No controller appears to be active."
UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."
