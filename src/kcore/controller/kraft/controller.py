"""The active controller and the standby, as the state machine on a raft node: events in, appends and answers out.

The active controller decides on the latest state, appends the decision's records and replays them at once. It answers
when these records, and all records that the decision has read, are committed. When its node stops leading, the state
reverts to the last commit and every pending request is answered NOT_CONTROLLER. When the node refuses an append because
it has written a control record first, the controller makes the refused decision and all later decisions again. A
standby replays commits.

A request for many topics or partitions is decided, encoded and applied in parts; then all of its records are appended
together. Between the parts the controller answers heartbeats, and reads until the first record is applied. Requests
that change the state, and periodic tasks, wait until the long decision is written, so that every decision uses the
latest state.

Source: QuorumController, its QuorumMetaLogListener and ControllerWriteEvent, and OffsetControlManager.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import ClassVar

from kcore.controller.kraft.activation import Bootstrap, activation
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.handlers import HANDLERS, READS
from kcore.controller.kraft.kafka_way.shadow import shadow_of
from kcore.controller.kraft.kraft_context import TOO_LARGE, ControllerContext, RaftView, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.kraft_error_responses import not_controller
from kcore.controller.kraft.log_lines import Notices, log_lines, resigned_line
from kcore.controller.kraft.outputs import Clocks, Output, Outputs, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.pending import Deciding, Pending, Uncommitted, Writing, using_quota
from kcore.controller.kraft.periodic import PeriodicTasks, Task
from kcore.controller.kraft.snapshot_slices import SnapshotLoading, SnapshotNeed
from kcore.controller.kraft.standby import Following, checked, is_refused_at_once
from kcore.controller.kraft.writing import Written
from kcore.controller.rules.error_responses import refused
from kcore.errors import LevelError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replaying
from kcore.metadata.newer_records import check_records
from kcore.protocol_errors import Errors
from kcore.raft.state_machine import AnyAppend, AppendBatches, Resign, SnapshotReader, UpgradeKraftVersion
from kcore.releases.known import RELEASES
from kcore.replication.java_random import JavaRandom
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.records import Records, decode_records


class KraftController:
    """The controller of one node. Every public method is one event and returns its outputs in order."""

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
        """`bootstrap`: the records for an empty log. `random` and `new_uuid`: as in ControllerContext."""
        self.config = config
        self.leader_id = -1  # Set by the edge; NOT_CONTROLLER answers name the active controller.
        self.committed = 0  # All records below this offset are committed.
        self.snapshots = SnapshotNeed(config)
        self.epoch: int | None = None  # The epoch that this node leads; None for a standby.
        self.raft = RaftView()
        self._held: int | None = None
        self.periodic = PeriodicTasks(tasks)
        self._notices = Notices()
        self._bootstrap, self._clocks, self._random, self._new_uuid = bootstrap, clocks, random, new_uuid
        self._is_empty = True  # True while only control records are committed.
        self._pending: deque[Pending] = deque()  # In the order of their offsets.
        self._uncommitted: deque[Uncommitted] = deque()
        self._deciding: Deciding | None = None
        self._writing: Writing | None = None
        self._waiting: deque[Pending] = deque()  # Waiting for the end of the long decision, in order of arrival.
        self._following = Following()
        self._inherits_transaction = False  # True while an earlier leader's transaction is open in the committed log.
        self._loading: SnapshotLoading | None = None
        self._shadow = shadow_of(config.kafka_way)
        self._begin_with(ClusterImage())

    def _begin_with(self, image: ClusterImage) -> None:
        image.keep_journal()
        self.context = ControllerContext(self.config, image, self._random, self._new_uuid)
        self.context.shadow = self._shadow
        self.context.is_standby = self.epoch is None
        self.context.raft = self.raft
        self.context.wall_ahead_ms = self._clocks.wall_ms() - self._clocks.now_ms()

    @property
    def image(self) -> ClusterImage:
        """The state after all decisions, committed or not."""
        return self.context.image

    @property
    def stable(self) -> int:
        """All records below this offset are committed and outside an open transaction of this node
        (OffsetControlManager).
        """
        first = self._uncommitted[0] if self._uncommitted else None
        return self.committed if first is None or not first.transaction else min(first.begin, self.committed)

    def snapshot_offset(self) -> int | None:
        """The offset at which a snapshot may end now; None while a transaction of another node is open (KIP-868).

        A standby first applies the rest of the last commit.
        """
        self._following.finish()
        is_open = self.image.in_transaction if self.epoch is None else self._inherits_transaction
        return None if is_open else self.stable

    # Requests.

    def on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> Outputs:
        """Handle a request that HANDLERS names. The answer is among the outputs of this event or of a later one."""
        if self.epoch is None:
            return self._as_standby(request, info, reply_to)
        handler = HANDLERS[type(request)]
        pending = Pending(type(request).__name__, lambda: handler(self.context, request, info), request, reply_to)
        outputs: list[Output] = []
        if self._must_wait(request):
            self._wait(pending, outputs)
        else:
            was_busy = self.is_busy
            self._decide(pending, outputs)
            if not self.is_busy:
                self.periodic.on_change(self.context, info.now_ms)
            elif not was_busy:
                outputs += self._work_on_waiting()
            outputs += log_lines(self._notices.due(info.now_ms))
        return outputs

    def _as_standby(self, request: Message, info: RequestInfo, reply_to: Hashable) -> Outputs:
        if is_refused_at_once(self.config, request):
            return [RequestAnswer(reply_to, not_controller(request, self.config, self.leader_id))]
        self._following.finish()
        outputs: list[Output] = []
        pending = Pending(type(request).__name__, lambda: checked(self.context, request, info, self.leader_id), request)
        decision = self._decision(pending, outputs)
        assert decision is not None  # A standby decides without parts.
        return [*outputs, RequestAnswer(reply_to, decision.response)]

    @property
    def is_at_work(self) -> bool:
        """True while the standby still applies committed records or reverts uncommitted ones (StateMachine)."""
        return self._following.is_at_work

    @property
    def is_busy(self) -> bool:
        """True if requests that change the state must wait."""
        return self._is_in_parts or bool(self._waiting)

    @property
    def _is_in_parts(self) -> bool:
        return self._deciding is not None or self._writing is not None

    def _must_wait(self, request: Message) -> bool:
        """True if the request must wait for a long decision; reads wait only while its records are being applied."""
        return self.is_busy and (self._writing is not None or not isinstance(request, READS))

    @property
    def next_due_ms(self) -> int | None:
        """The time of the next `on_timer`; None if no task is scheduled, or while a long decision delays all tasks."""
        return None if self.is_busy else self.periodic.next_due_ms

    def _wait(self, pending: Pending, outputs: list[Output]) -> None:
        """Queue a request until the long decision is written. Heartbeats that write nothing are answered at once."""
        decision = self._decision(pending, outputs) if isinstance(pending.request, BrokerHeartbeatRequest) else None
        if decision is None or decision.records:
            self._waiting.append(pending)
        else:
            self._settle(pending, decision, outputs)

    # Decisions.

    def _decide(self, pending: Pending, outputs: list[Output]) -> None:
        """Decide on the latest state, append and replay; answer now if the answer needs no commit."""
        decision = self._decision(pending, outputs)
        if decision is not None:
            self._settle(pending, decision, outputs)

    def _settle(self, pending: Pending, decision: Decision, outputs: list[Output]) -> None:
        if decision.records:
            assert self.epoch is not None
            self._write_on(Writing(pending, decision, self.context, self.epoch, self._clocks), outputs)
        else:
            self._finish(pending, decision, None, outputs)

    def _append(self, made: Written, outputs: list[Output]) -> None:
        assert self.epoch is not None
        self._uncommitted.append(Uncommitted.of(made))
        self._shadow.on_written(made.batches)
        self.snapshots.count(len(made.batches))
        outputs.append(AppendBatches(made.batches, self.epoch, made.begin))

    def _finish(
        self, pending: Pending, decision: Decision, made: Written | None, outputs: list[Output], count: int = 0
    ) -> None:
        """`made`: the records that are not appended yet. `count`: the number of all records of the decision."""
        assert self.epoch is not None
        kraft_version = self._shadow.kraft_version_to_write(decision.kraft_version, has_records=made is not None)
        if kraft_version is not None:
            outputs.append(UpgradeKraftVersion(kraft_version, self.epoch))
        pending.response = decision.response if pending.response is None else pending.response
        pending.rest = None if pending.has_failed else decision.rest
        if made is not None:
            self._append(made, outputs)
        pending.offset = self._decided_end
        if self._uncommitted and not pending.has_failed and (pending.request is not None or made is not None):
            self._pending.append(pending)
        elif pending.request is not None:
            outputs.append(self._answer(pending))
        pending.report_written(count)
        if pending.resigns:
            outputs.append(Resign(self.epoch))

    def _answer(self, pending: Pending) -> RequestAnswer:
        """The answer to a request. The rest of its decision becomes the next decision."""
        if pending.rest is not None:
            self._waiting.appendleft(Pending(*pending.rest))
        return RequestAnswer(pending.reply_to, pending.response)

    @property
    def _decided_end(self) -> int:
        """The offset after the records of all appended decisions."""
        if self._writing is not None and self._writing.made is not None:
            return self._writing.made.begin
        return self.image.end_offset

    def _decision(self, pending: Pending, outputs: list[Output]) -> Decision | None:
        """The decision; None if it continues in later events.

        An exception in a handler fails only its own request: nothing is appended, and the node stays leader.
        """
        pending.forget_decision()
        try:
            decided = using_quota(self.context, pending, pending.decide)
        except Exception as error:
            if pending.is_vital:
                raise
            return Decision(pending.failed(error, outputs))
        return decided if isinstance(decided, Decision) else self._decide_on(Deciding(pending, decided), outputs)

    def _decide_on(self, deciding: Deciding, outputs: list[Output]) -> Decision | None:
        """Make the next part of a decision."""
        try:
            using_quota(self.context, deciding.pending, lambda: next(deciding.steps))
        except StopIteration as done:
            decision: Decision = done.value
            return decision
        except Exception as error:
            return Decision(deciding.pending.failed(error, outputs))
        if self._is_in_parts:  # The decision of a read, between the parts of another decision, begins again later.
            self._waiting.append(deciding.pending)
            return None
        self._deciding = deciding
        outputs.append(WorkOn(deciding.pending.name))
        return None

    def on_work(self) -> Outputs:
        """Make the next part of a decision. When the decision is written, decide one waiting request per call."""
        outputs: list[Output] = []
        if self.epoch is None:
            return [WorkOn()] if self._following.go_on() else outputs
        if self._deciding is not None:
            deciding, self._deciding = self._deciding, None
            decision = self._decide_on(deciding, outputs)
            if decision is not None:
                self._settle(deciding.pending, decision, outputs)
        elif self._writing is not None:
            writing, self._writing = self._writing, None
            self._write_on(writing, outputs)
        elif self._waiting:
            self._decide(self._waiting.popleft(), outputs)
        if not self._is_in_parts:
            self.periodic.on_change(self.context, self._clocks.now_ms())
        return [*outputs, *self._work_on_waiting()]

    def _work_on_waiting(self) -> list[Output]:
        """A WorkOn for the oldest waiting request; empty if none waits, or while a decision is unfinished."""
        return [] if self._is_in_parts or not self._waiting else [WorkOn(self._waiting[0].name)]

    def _write_on(self, writing: Writing, outputs: list[Output]) -> None:
        """Write the next part of a decision.

        If the records cannot be written, the state before the decision returns.
        """
        pending = writing.pending
        try:
            for made in writing.parts:
                if made is not None:
                    self._append(made, outputs)
                if not pending.is_vital:
                    self._writing = writing
                    outputs.append(WorkOn(pending.name))
                    return
        except Exception as error:
            if pending.is_vital:
                raise
            if not isinstance(error, LevelError):
                pending.response = pending.failed(error, outputs)
            elif pending.request is not None:
                pending.response = refused(pending.request, Errors.POLICY_VIOLATION, TOO_LARGE)
        self._finish(pending, writing.decision, writing.made, outputs, count=writing.count)

    # Periodic work.

    def on_timer(self) -> Outputs:
        """Run the periodic tasks that are due; may be called at any time."""
        outputs: list[Output] = []
        while self.epoch is not None and not self.is_busy:
            now_ms = self._clocks.now_ms()
            self.context.wall_ahead_ms = self._clocks.wall_ms() - now_ms
            task = self.periodic.due(now_ms)
            if task is None:
                break
            self._decide(self.periodic.pending(task, self.context, now_ms), outputs)
        outputs += log_lines(self._notices.due(self._clocks.now_ms()))
        return outputs

    # Events of the raft node (kcore.raft.state_machine.StateMachine).

    def on_leader(self, epoch: int, offset: int) -> Outputs:
        now_ms = self._clocks.now_ms()
        self._following.finish()
        self.epoch = epoch
        self.image.end_offset = self.committed = offset
        self._inherits_transaction = self.image.in_transaction
        self._begin_context()
        self.context.activate(now_ms)
        outputs: list[Output] = []
        first = Pending("activation", lambda: self._activation(outputs), is_vital=True)
        self._decide(first, outputs)
        self.periodic.activate(self.context, now_ms)
        return outputs

    def _begin_context(self) -> None:
        """Make a new context over the same state, because a standby does not keep all of the context up to date."""
        heartbeats, mutation_quotas = self.context.heartbeats, self.context.mutation_quotas
        self._begin_with(self.image)
        self.context.heartbeats, self.context.mutation_quotas = heartbeats, mutation_quotas

    def _activation(self, outputs: list[Output]) -> Decision:
        made = activation(self.image, self.config, self._bootstrap, is_empty=self._is_empty)
        outputs += log_lines([f"this node is the active controller of epoch {self.epoch}: {made.log_text}"])
        return made.decision

    def on_committed(self, batches: bytes, end_offset: int) -> Outputs:
        if self.epoch is None:
            return [WorkOn()] if self._following.begin(self._follow(batches, end_offset)) else ()
        self.committed = end_offset
        while self._uncommitted and self._uncommitted[0].end <= end_offset:
            self._uncommitted.popleft()
            self._is_empty = self._inherits_transaction = False
        # The node may have written control records after all decisions.
        if not self._uncommitted and self._writing is None:
            self.image.end_offset = max(self.image.end_offset, end_offset)
        self._commit(self.stable)
        self._shadow.on_committed(end_offset)
        outputs: list[Output] = []
        was_busy = self.is_busy
        while self._pending and self._pending[0].offset <= self.stable:
            pending = self._pending.popleft()
            outputs += log_lines(self._notices.committed(pending.notice, self._clocks.now_ms()))
            outputs += log_lines(pending.notice.warnings, logging.WARNING)
            if pending.request is not None:
                outputs.append(self._answer(pending))
        return outputs if was_busy else [*outputs, *self._work_on_waiting()]

    def _follow(self, batches: bytes, end_offset: int) -> Iterator[None]:
        if batches:
            records = decode_records(batches)
            check_records(records, RELEASES[self.config.release], start_offset=self.image.end_offset)
            self._shadow.on_replayed(batches)
            yield from self._replay(records)
        self.image.end_offset = max(self.image.end_offset, end_offset)
        self.committed = end_offset
        self._commit(end_offset)

    def _replay(self, records: Records) -> Iterator[None]:
        yield from replaying(self.image, records, self.image.end_offset)
        self._is_empty = self._is_empty and bool(records.is_control.all())
        self.snapshots.count(len(records.data))

    def on_resigned(self, epoch: int) -> Outputs:
        """Revert to the last commit. Committed batches of an open transaction stay: the next leader aborts it."""
        first = self._uncommitted[0] if self._uncommitted else None
        parts = self._reverting(min(self.stable, self._decided_end), first)
        pending = [*self._pending, *self._undecided()]
        self.epoch = None
        self.periodic.deactivate()
        self._pending.clear()
        self._uncommitted.clear()
        has_more = self._following.begin(parts)
        waiting = [(each.reply_to, each.request) for each in pending if each.request is not None]
        answers = [RequestAnswer(reply_to, not_controller(request, self.config)) for reply_to, request in waiting]
        lines = [*self._notices.rest(), resigned_line(epoch, len(answers))]
        return [*log_lines(lines), *answers, *([WorkOn()] if has_more else [])]

    def _reverting(self, stable: int, first: Uncommitted | None) -> Iterator[None]:
        yield from self.image.reverting_to(stable)
        if first is not None and first.transaction and first.begin < self.committed:
            yield from self._replay(decode_records(first.part_below(self.committed)))
            self._commit(self.committed)
        self._shadow.on_reverted(self.committed)
        self.image.end_offset = self.committed
        self._begin_context()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Outputs:
        """Make the refused decision and all later ones again, after the control record that the node wrote first."""
        begin = append.expected_offset
        if self._writing is not None:
            self._writing.parts.close()
        self.image.revert_to(begin)
        self._shadow.on_reverted(begin)
        self.context.heartbeats.changed.update(self.context.heartbeats.brokers)
        self.image.end_offset = next_offset
        while self._uncommitted and self._uncommitted[-1].begin >= begin:
            self._uncommitted.pop()
        was_busy = self.is_busy
        again = deque(self._undecided())
        while self._pending and self._pending[-1].offset > begin:
            again.appendleft(self._pending.pop())
        self.periodic.forget(self.context)
        outputs: list[Output] = []
        for each in again:
            each.forget_decision()
        while again and not self.is_busy:
            self._decide(again.popleft(), outputs)
        self._waiting += again
        outputs += self._work_on_waiting()
        # If the controller was busy, the server has a WorkOn already.
        return [each for each in outputs if not (was_busy and isinstance(each, WorkOn))]

    def _undecided(self) -> list[Pending]:
        """Remove and return all requests and tasks that wait or are being decided or written, in order."""
        in_parts = [each.pending for each in (self._deciding, self._writing) if each is not None]
        undecided = [*in_parts, *self._waiting]
        self._deciding = self._writing = None
        self._waiting.clear()
        return undecided

    # Snapshots.

    def _commit(self, offset: int) -> None:
        """Discard the journal below `offset`, except for changes that a snapshot being written needs.

        The node may commit a control record at the offset where a decision that is being written begins. The journal of
        this decision stays, because the decision is reverted when its append is refused.
        """
        offset = offset if self._held is None else min(offset, self._held)
        self.image.commit(min(offset, self._decided_end) if self._writing is not None else offset)

    def hold(self, offset: int) -> None:
        """Keep the image's journal from `offset` on, so that a snapshot of the state at `offset` can be written."""
        self._held = offset
        self._shadow.hold(offset)

    def release(self) -> None:
        """End a `hold`: no snapshot needs the journal any more. May be called without a `hold`."""
        self._held = None
        self._shadow.hold(None)

    @property
    def snapshot_image(self) -> ClusterImage:
        """The image that snapshots are written from. It differs from `image` only if a departure is switched back."""
        return self._shadow.snapshot_image(self.image)

    def on_snapshot(self, reader: SnapshotReader) -> Outputs:
        self._following.finish()
        self._loading = SnapshotLoading(reader, self.config)
        return [ReadSnapshotSlice()]

    def on_read_slice(self) -> Outputs:
        """Read a slice of the snapshot; after the last slice, replace the state by the snapshot's state."""
        loading = self._loading
        if loading is None:
            return ()
        if loading.read_slice():
            return [ReadSnapshotSlice()]
        self._loading = None
        if loading.is_lost:
            return ()
        self._is_empty = self._is_empty and loading.is_empty
        image, snapshot = loading.whole(), loading.snapshot
        self._bootstrap = loading.bootstrap or self._bootstrap
        self.committed = snapshot.offset
        self._shadow = loading.shadow
        self._begin_with(image)
        self.image.commit(snapshot.offset)
        self.snapshots.begin(snapshot.offset, self._clocks.wall_ms())
        self.snapshots.has_size(loading.size)
        count = image.table.partition_count
        return log_lines([f"snapshot {snapshot.offset}-{snapshot.epoch} is loaded: {count:,} partitions"])
