"""The way of requests and tasks through the active controller, from their arrival until their answers."""

from collections import deque
from collections.abc import Iterator

from kcore.controller.kraft.controller_state import ControllerState
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.handlers import READS
from kcore.controller.kraft.kraft_context import TOO_LARGE
from kcore.controller.kraft.outputs import Output, RequestAnswer, WorkOn
from kcore.controller.kraft.pending import Deciding, Pending, Uncommitted, Writing
from kcore.controller.kraft.writing import Written
from kcore.errors import LevelError
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.raft.state_machine import AppendBatches, Resign, UpgradeKraftVersion
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.wire.records import decode_records


class Pipeline:
    """The decisions of one leadership: being decided, being written, not committed yet, and not begun yet.

        behind ──▶ deciding ──▶ writing ──▶ unanswered ──▶ the answer
                                       └──▶ uncommitted ──▶ committed

    A request for many topics or partitions is decided, encoded and applied in parts; then all of its records are
    appended together. Between the parts heartbeats are answered, and reads until the first record is applied. Requests
    that change the state wait `behind` the long decision, so that every decision uses the latest state. An answer waits
    until the decision's records, and all records that the decision has read, are committed.

    Invariants, after the edge has performed the outputs of an event:

    1. At most one decision is in parts: `deciding` or `writing` is None.
    2. While the pipeline is busy, the edge has exactly one WorkOn.
    3. Each request is in one place, or is answered; it is answered once.
    4. The appends in `uncommitted` ascend and do not overlap. Each one ends above the committed offset.
    5. The offsets in `unanswered` ascend. Each one is above `stable`.
    6. Unless a decision is being written, the image is what a replay of the log makes.
    7. The journal reaches back far enough: `reverting` makes the image what a replay of the committed log makes.
    8. A snapshot that is begun at `kept_end` is what a replay of the log up to its offset makes, whatever happens until
       it is written.
    """

    def __init__(self, state: ControllerState, epoch: int) -> None:
        self._state, self._context, self._epoch = state, state.context, epoch
        self.behind: deque[Pending] = deque()  # In order of arrival.
        self.deciding: Deciding | None = None
        self.writing: Writing | None = None
        self.unanswered: deque[Pending] = deque()
        self.uncommitted: deque[Uncommitted] = deque()
        self._edge_works_on = False  # True from a WorkOn until the edge calls `on_work`.
        self.inherits_transaction = state.image.in_transaction  # An earlier leader's is open in the committed log.

    @property
    def is_in_parts(self) -> bool:
        """True while a decision is unfinished."""
        return self.deciding is not None or self.writing is not None

    @property
    def is_busy(self) -> bool:
        """True if requests that change the state must wait."""
        return self.deciding is not None or self.writing is not None or bool(self.behind)

    @property
    def stable(self) -> int:
        """All records below this offset are committed and outside an open transaction of this node
        (OffsetControlManager).
        """
        committed, first = self._state.committed, self.uncommitted[0] if self.uncommitted else None
        return committed if first is None or not first.transaction else min(first.begin, committed)

    @property
    def _decided_end(self) -> int:
        """The offset after the records of all appended decisions."""
        if self.writing is not None and self.writing.made is not None:
            return self.writing.made.begin
        return self._state.image.end_offset

    @property
    def kept_end(self) -> int:
        """Records below this offset are never reverted. A snapshot may end here.

        The node may commit a control record at the offset where a decision that is being written begins. This decision
        is still reverted when its append is refused, or when the node resigns.
        """
        return min(self.stable, self._decided_end)

    @property
    def undecided(self) -> list[Pending]:
        """All requests and tasks that wait or are being decided or written, in order."""
        return [*(each.pending for each in (self.deciding, self.writing) if each is not None), *self.behind]

    # Decisions.

    def add(self, pending: Pending) -> list[Output]:
        """Decide a request, or queue it while the pipeline is busy.

        Heartbeats that write nothing are answered at once. So are reads, unless records are being applied, or the read
        itself needs several parts.
        """
        if not self.is_busy:
            return self.begin(pending)
        is_read = isinstance(pending.request, READS) and self.writing is None
        if is_read or isinstance(pending.request, BrokerHeartbeatRequest):
            decision = pending.begin(self._context)
            if isinstance(decision, Decision) and not decision.records:
                return self._settle(pending, decision)
        self.behind.append(pending)
        return []

    def begin(self, pending: Pending) -> list[Output]:
        """Decide on the latest state, append and replay; answer now if the answer needs no commit."""
        return self._settle(pending, pending.begin(self._context))

    def go_on(self) -> list[Output]:
        """Make the next part of the decision in progress, or begin the oldest request that waits."""
        deciding, writing = self.deciding, self.writing
        self.deciding = self.writing = None
        self._edge_works_on = False
        if deciding is not None:
            return self._settle(deciding.pending, deciding.go_on(self._context))
        if writing is not None:
            return self._write_on(writing)
        return self.begin(self.behind.popleft()) if self.behind else []

    def work_on(self) -> list[Output]:
        """A WorkOn, if the pipeline is busy and the edge has none. Every event ends with it."""
        if self._edge_works_on or not self.is_busy:
            return []
        self._edge_works_on = True
        in_parts = self.deciding or self.writing
        return [WorkOn((in_parts.pending if in_parts is not None else self.behind[0]).name)]

    def _settle(self, pending: Pending, decision: Decision | Deciding) -> list[Output]:
        if isinstance(decision, Deciding):
            self.deciding = decision
            return []
        if decision.records:
            return self._write_on(Writing(pending, decision, self._context, self._epoch, self._state.clocks))
        return self._finish(pending, decision, None)

    def _write_on(self, writing: Writing) -> list[Output]:
        """Write the next part of a decision.

        If the records cannot be written, the state before the decision returns.
        """
        pending, outputs = writing.pending, list[Output]()
        try:
            for made in writing.parts:
                outputs += self._append(made)
                if not pending.is_vital:
                    self.writing = writing
                    return outputs
        except Exception as error:
            if pending.is_vital or not isinstance(error, LevelError):
                pending.response = pending.failed(error)
            elif pending.request is not None:
                pending.response = refused(pending.request, Errors.POLICY_VIOLATION, TOO_LARGE)
        return outputs + self._finish(pending, writing.decision, writing.made, writing.count)

    def _append(self, made: Written | None) -> list[Output]:
        if made is None:
            return []
        self.uncommitted.append(Uncommitted(made.begin, made.end, made.batches if made.is_transaction else b""))
        self._context.shadow.on_written(made.batches)
        self._state.snapshots.need.count(len(made.batches))
        return [AppendBatches(made.batches, self._epoch, made.begin)]

    def _finish(self, pending: Pending, decision: Decision, made: Written | None, count: int = 0) -> list[Output]:
        """`made`: the records that are not appended yet. `count`: the number of all records of the decision."""
        version = self._context.shadow.kraft_version_to_write(decision.kraft_version, has_records=made is not None)
        upgrade = [] if version is None else [UpgradeKraftVersion(version, self._epoch)]
        pending.response = decision.response if pending.response is None else pending.response
        pending.rest = None if pending.fault is not None else decision.rest
        outputs: list[Output] = [*pending.fault_lines, *upgrade, *self._append(made)]
        pending.offset = self._decided_end
        if self.uncommitted and pending.fault is None and (pending.request is not None or made is not None):
            self.unanswered.append(pending)
        elif pending.request is not None:
            outputs.append(self.answer(pending))
        pending.report_written(count)
        if pending.fault is not None and pending.fault.resigns:
            outputs.append(Resign(self._epoch))
        return outputs

    def answer(self, pending: Pending) -> RequestAnswer:
        """The answer to a request. The rest of its decision becomes the next decision."""
        if pending.rest is not None:
            self.behind.appendleft(Pending(*pending.rest))
        return RequestAnswer(pending.reply_to, pending.response)

    # Commits, refused appends, and the end of the leadership.

    def commit(self, end_offset: int) -> list[Pending]:
        """Commit all records below the offset; returns the decisions that may be answered now, in order."""
        state, image = self._state, self._state.image
        state.committed = end_offset
        while self.uncommitted and self.uncommitted[0].end <= end_offset:
            self.uncommitted.popleft()
            state.is_empty = self.inherits_transaction = False
        # The node may have written control records after all decisions.
        if not self.uncommitted and self.writing is None:
            image.end_offset = max(image.end_offset, end_offset)
        state.commit(self.kept_end)
        self._context.shadow.on_committed(end_offset)
        answered = []
        while self.unanswered and self.unanswered[0].offset <= self.stable:
            answered.append(self.unanswered.popleft())
        return answered

    def take_back(self, begin: int, next_offset: int) -> deque[Pending]:
        """Revert all records from `begin` on; returns the decisions to be made again, in order.

        `next_offset`: where the next append must begin.
        """
        if self.writing is not None:
            self.writing.parts.close()
        image, heartbeats = self._state.image, self._context.heartbeats
        image.revert_to(begin)
        self._context.shadow.on_reverted(begin)
        heartbeats.changed.update(heartbeats.brokers)
        image.end_offset = next_offset
        while self.uncommitted and self.uncommitted[-1].begin >= begin:
            self.uncommitted.pop()
        again = deque(self.undecided)
        self.deciding = self.writing = None
        self.behind.clear()
        while self.unanswered and self.unanswered[-1].offset > begin:
            again.appendleft(self.unanswered.pop())
        for each in again:
            each.forget_decision()
        return again

    def decide_again(self, again: deque[Pending]) -> list[Output]:
        """Decide what `take_back` returned."""
        outputs = list[Output]()
        while again and not self.is_busy:
            outputs += self.begin(again.popleft())
        self.behind += again
        return outputs

    def reverting(self) -> Iterator[None]:
        """Revert to the last commit, in parts.

        Committed batches of an open transaction stay: the next leader aborts it.
        """
        state, first = self._state, self.uncommitted[0] if self.uncommitted else None
        yield from state.image.reverting_to(self.kept_end)
        if first is not None and first.transaction and first.begin < state.committed:
            yield from state.replay(decode_records(first.part_below(state.committed)))
            state.commit(state.committed)
        self._context.shadow.on_reverted(state.committed)
        state.image.end_offset = state.committed
        state.renew_context()
