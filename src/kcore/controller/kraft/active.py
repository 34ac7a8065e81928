"""The active controller of one epoch: it decides requests and periodic tasks, and appends their records.

Source: QuorumController, its QuorumMetaLogListener and ControllerWriteEvent.
"""

import logging
from collections.abc import Hashable
from typing import ClassVar

from kcore.controller.kraft.activation import activation
from kcore.controller.kraft.controller_state import ControllerState
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.kraft_error_responses import not_controller
from kcore.controller.kraft.log_lines import Notices, log_lines, resigned_line
from kcore.controller.kraft.outputs import Output, Outputs, RequestAnswer
from kcore.controller.kraft.pending import Pending
from kcore.controller.kraft.periodic import PeriodicTasks
from kcore.controller.kraft.pipeline import Pipeline
from kcore.raft.state_machine import AnyAppend
from kcore.schema.structure import Message


class Active:
    """Decides on the latest state; the pipeline appends the decision's records, and replays them at once."""

    is_at_work: ClassVar[bool] = False

    def __init__(
        self, state: ControllerState, epoch: int, offset: int, periodic: PeriodicTasks, notices: Notices
    ) -> None:
        """`offset`: the end of the log, where the first append begins."""
        self.epoch, self._state, self._periodic, self._notices = epoch, state, periodic, notices
        state.image.end_offset = state.committed = offset
        state.renew_context()
        self._context = state.context
        self._context.is_standby = False
        self.pipeline = Pipeline(state, epoch)

    @property
    def stable(self) -> int:
        return self.pipeline.stable

    @property
    def is_busy(self) -> bool:
        return self.pipeline.is_busy

    @property
    def next_due_ms(self) -> int | None:
        return None if self.is_busy else self._periodic.next_due_ms

    def snapshot_offset(self) -> int | None:
        return None if self.pipeline.inherits_transaction else self.pipeline.kept_end

    def activate(self) -> Outputs:
        """Write the first records, and schedule the periodic tasks. Raises any error in the first records."""
        state, now_ms = self._state, self._state.clocks.now_ms()
        self._context.activate(now_ms)
        made = activation(state.image, state.config, state.bootstrap, is_empty=state.is_empty)
        line = f"this node is the active controller of epoch {self.epoch}: {made.log_text}"
        first = Pending("activation", lambda: made.decision, is_vital=True)
        outputs = [*log_lines([line]), *self.pipeline.begin(first)]
        self._periodic.activate(self._context, now_ms)
        return outputs

    def on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> Outputs:
        """Decide a request; queue it if a long decision is in progress."""
        handler, pipeline = HANDLERS[type(request)], self.pipeline
        pending = Pending(type(request).__name__, lambda: handler(self._context, request, info), request, reply_to)
        outputs = pipeline.add(pending)
        if not pipeline.is_busy:
            self._periodic.on_change(self._context, info.now_ms)
        return outputs + pipeline.work_on() + log_lines(self._notices.due(info.now_ms))

    def on_work(self) -> Outputs:
        """Make the next part of a decision. When the decision is written, decide one waiting request per call."""
        outputs = self.pipeline.go_on()
        if not self.pipeline.is_in_parts:
            self._periodic.on_change(self._context, self._state.clocks.now_ms())
        return outputs + self.pipeline.work_on()

    def on_timer(self) -> Outputs:
        clocks, outputs = self._state.clocks, list[Output]()
        while not self.is_busy:
            now_ms = clocks.now_ms()
            self._context.wall_ahead_ms = clocks.wall_ms() - now_ms
            task = self._periodic.due(now_ms)
            if task is None:
                break
            outputs += self.pipeline.begin(self._periodic.pending(task, self._context, now_ms))
        return outputs + self.pipeline.work_on() + log_lines(self._notices.due(clocks.now_ms()))

    def on_committed(self, batches: bytes, end_offset: int) -> Outputs:
        """Answer the requests whose records are committed, with all records that they have read."""
        assert not batches, "the active controller has already replayed all records of its log"
        outputs = list[Output]()
        for pending in self.pipeline.commit(end_offset):
            outputs += log_lines(self._notices.committed(pending.notice, self._state.clocks.now_ms()))
            outputs += log_lines(pending.notice.warnings, logging.WARNING)
            if pending.request is not None:
                outputs.append(self.pipeline.answer(pending))
        return outputs + self.pipeline.work_on()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Outputs:
        """Make the refused decision and all later ones again, after the control record that the node wrote first."""
        again = self.pipeline.take_back(append.expected_offset, next_offset)
        self._periodic.forget(self._context)
        return self.pipeline.decide_again(again) + self.pipeline.work_on()

    def resign(self) -> list[Output]:
        """Answer every request NOT_CONTROLLER. The caller reverts the pipeline's records."""
        pending = [*self.pipeline.unanswered, *self.pipeline.undecided]
        waiting = [(each.reply_to, each.request) for each in pending if each.request is not None]
        answers = [RequestAnswer(to, not_controller(request, self._state.config)) for to, request in waiting]
        lines = [*self._notices.rest(), resigned_line(self.epoch, len(answers))]
        return [*log_lines(lines), *answers]
