"""Requests and tasks on their way through the active controller: to be decided, written, committed."""

import logging
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kcore.controller.kraft.admin.mutation_quotas import MutationQuota
from kcore.controller.kraft.context import ControllerContext
from kcore.controller.kraft.decision import Decision, Steps
from kcore.controller.kraft.error_responses import refused
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.controller.kraft.kafka_way.unreadable_settings import check_min_isr
from kcore.controller.kraft.notices import NOTHING_TOLD, Notice, fault_line, notice_of
from kcore.controller.kraft.outputs import Clocks, LogLine, Output
from kcore.controller.kraft.writing import Written, encoding, is_long, taking_effect, written
from kcore.protocol_errors import Errors
from kcore.raft.batches import split_batches
from kcore.schema.structure import Message

UNEXPECTED_ERROR: Final = "The server experienced an unexpected error when processing the request."


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
    gives_up: bool = False  # So has Kafka's controller, which gives up its leadership then.
    # Called once it is decided and written for the first time, with the number of records and `has_failed`.
    on_written: Callable[[int, bool], None] | None = None

    def forget_decision(self) -> None:
        """It is decided anew: what the last decision used of a quota is there again."""
        self.response, self.notice = None, NOTHING_TOLD
        self.has_failed = self.gives_up = False
        if self.quota is not None:
            self.quota.give_back()
            self.quota = None

    def failed(self, error: Exception, outputs: list[Output]) -> Message | None:
        """An exception in its decision, or in the writing of it, fails this request alone: its answer."""
        self.has_failed, self.gives_up = True, isinstance(error, ControllerFaultError)
        outputs.append(LogLine(logging.ERROR, f"{self.name} failed and wrote nothing: {fault_line(error)}"))
        if self.request is None:
            return None
        if isinstance(error, ControllerFaultError):
            return error.answer(self.request)
        return refused(self.request, Errors.UNKNOWN_SERVER_ERROR, UNEXPECTED_ERROR)


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
        check_min_isr(context, self.decision)
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

    def part_below(self, offset: int) -> bytes:
        """The batches of the transaction that begin below that offset."""
        batches = split_batches(self.transaction, check_crc=False)[0]
        return b"".join(each.data for each in batches if each.base_offset < offset)
