"""Requests and tasks on their way through the active controller: to be decided, written, committed."""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from kcore.controller.kraft.admin.mutation_quotas import MutationQuota
from kcore.controller.kraft.context import ControllerContext
from kcore.controller.kraft.decision import Decision, Steps
from kcore.controller.kraft.notices import NOTHING_TOLD, Notice, notice_of
from kcore.controller.kraft.outputs import Clocks
from kcore.controller.kraft.writing import Written, encoding, is_long, taking_effect, written
from kcore.schema.structure import Message


@dataclass(slots=True, eq=False)
class Pending:
    """A request or a task whose decision is to be made, or is made and not committed yet."""

    name: str
    decide: Callable[[], Decision | Steps]
    request: Message | None = None
    reply_to: Hashable = None
    response: Message | None = None
    offset: int = 0  # The request is answered once all records below this offset are committed.
    notice: Notice = NOTHING_TOLD  # What the log says once it is committed.
    is_vital: bool = False  # The node cannot lead without it: an exception in it is raised.
    quota: MutationQuota | None = None  # What it used of its quota on mutations when it was decided last.
    has_failed: bool = False  # When it was decided last, by an exception.
    # Called once it is decided and written for the first time, with the number of records and `has_failed`.
    on_written: Callable[[int, bool], None] | None = None

    def forget_decision(self) -> None:
        """It is decided anew: what the last decision used of a quota is there again."""
        self.response, self.notice, self.has_failed = None, NOTHING_TOLD, False
        if self.quota is not None:
            self.quota.give_back()
            self.quota = None


class Deciding(NamedTuple):
    """A decision that is being made, part by part."""

    pending: Pending
    steps: Steps


class Writing:
    """A decision whose records are being encoded and applied to the state, part by part; they are appended after that.

    `parts` raises what `written` and `taking_effect` raise; then the state is as before.
    """

    def __init__(
        self, pending: Pending, decision: Decision, context: ControllerContext, epoch: int, clocks: Clocks
    ) -> None:
        self.pending, self.decision = pending, decision
        self.made: Written | None = None  # None before the records are encoded, and where there are none.
        self.parts = self._write(context, epoch, clocks)

    def _write(self, context: ControllerContext, epoch: int, clocks: Clocks) -> Generator[None, None, None]:
        pauses = is_long(self.decision.records)
        if pauses:
            yield
        parts = []
        for part in encoding(context, self.decision):
            parts.append(part)
            if pauses:
                yield
        begin = context.image.end_offset
        try:
            self.made = written(context, self.decision, parts, epoch, clocks.wall_ms())
            if self.made is None:
                return
            notice = notice_of(context.image, self.decision, self.pending.request)
            yield from taking_effect(context, self.made, self.decision, epoch, clocks.now_ms())
            self.pending.notice = notice
        except Exception:
            self.made = None
            context.image.revert_to(begin)
            context.image.end_offset = begin
            raise


class Uncommitted(NamedTuple):
    """An append that is not committed. `transaction`: its batches, if it is one, for only some may get committed."""

    begin: int
    end: int
    transaction: bytes
