"""Requests and tasks on their way through the active controller: to be decided, written, committed."""

import logging
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kcore.controller.kraft.decision import SINGLES_AT_ONCE, Decision, Rest, Steps, Versioned
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.controller.kraft.kafka_way.unreadable_settings import check_min_isr
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.log_lines import NOTHING_TOLD, Notice, NoticeMaker, fault_line
from kcore.controller.kraft.outputs import Clocks, LogLine, Output
from kcore.controller.kraft.writing import Written, encoding, in_groups, is_long, taking_effect, written
from kcore.controller.rules.error_responses import refused
from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.protocol_errors import Errors
from kcore.raft.log.batches import split_batches
from kcore.schema.structure import Message

T = TypeVar("T")
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
    rest: Rest | None = None  # What is decided once this is answered.
    # Called once it is decided and written for the first time, with the number of records and `has_failed`.
    on_written: Callable[[int, bool], None] | None = None

    def forget_decision(self) -> None:
        """It is decided anew: what the last decision used of a quota is there again."""
        self.response, self.rest, self.notice = None, None, NOTHING_TOLD
        self.has_failed = self.gives_up = False
        if self.quota is not None:
            self.quota.give_back()
            self.quota = None

    def tell_written(self, count: int) -> None:
        """It is decided, and all its records are written."""
        if self.on_written is not None:
            on_written, self.on_written = self.on_written, None
            on_written(count, self.has_failed)

    def failed(self, error: Exception, outputs: list[Output]) -> Message | None:
        """An exception in its decision, or in the writing of it, fails this request alone: its answer."""
        self.has_failed, self.gives_up = True, isinstance(error, ControllerFaultError)
        outputs.append(LogLine(logging.ERROR, f"{self.name} failed and wrote nothing: {fault_line(error)}"))
        if self.request is None:
            return None
        if isinstance(error, ControllerFaultError):
            return error.answer(self.request)
        return refused(self.request, Errors.UNKNOWN_SERVER_ERROR, UNEXPECTED_ERROR)


def using_quota(context: ControllerContext, pending: Pending, decide: Callable[[], T]) -> T:
    """Makes a decision, or a part of one; the request has the quota on mutations that was used for it."""
    context.used_quota = None
    try:
        return decide()
    finally:
        pending.quota = pending.quota or context.used_quota


class Deciding(NamedTuple):
    """A decision that is being made, part by part."""

    pending: Pending
    steps: Steps


class Writing:
    """A decision whose records are being encoded and applied to the state, part by part; they are appended after that.

    What the controller decides by itself and may be in the log in parts is appended group by group: `parts` yields what
    is to be appended now, or None. It raises what `written` and `taking_effect` raise; then the state is as it was
    behind the last append.
    """

    def __init__(
        self, pending: Pending, decision: Decision, context: ControllerContext, epoch: int, clocks: Clocks
    ) -> None:
        self.pending, self.decision = pending, decision
        # What is being applied and is not appended; None before its records are encoded, and where there are none.
        self.made: Written | None = None
        self.count = 0  # Records of the log that are made so far.
        self._context, self._epoch, self._clocks = context, epoch, clocks
        self._notice = NoticeMaker(context.image, pending.request)
        self.parts = self._write()

    def _write(self) -> Generator[Written | None, None, None]:
        decision, records = self.decision, self.decision.records
        check_min_isr(self._context, decision)
        pauses = is_long(records)
        if pauses:
            yield None
        in_parts = self.pending.request is None and not decision.is_atomic
        for number, group in enumerate(in_groups(records) if in_parts else [records]):
            if number:
                made, self.made = self.made, None
                yield made
            yield from self._write_group(Decision(records=group, is_atomic=decision.is_atomic), pauses=pauses)
        self.pending.notice = self._notice.notice()

    def _write_group(self, decision: Decision, *, pauses: bool) -> Generator[None, None, None]:
        context, epoch, clocks = self._context, self._epoch, self._clocks
        encoded = []
        for part in encoding(context, decision):
            encoded.append(part)
            if pauses:
                yield
        begin = context.image.end_offset
        try:
            self.made = yield from written(context, decision, encoded, epoch, clocks.wall_ms())
            if self.made is None:
                return
            for place, each in enumerate(decision.records, 1):
                self._notice.add(each)
                if pauses and (place % SINGLES_AT_ONCE == 0 or not isinstance(each, Versioned)):
                    yield
            yield from taking_effect(context, self.made, decision, epoch, clocks.now_ms())
            self.count += self.made.end - begin
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

    @classmethod
    def of(cls, made: Written) -> "Uncommitted":
        """Of a decision, or a part of one."""
        return cls(made.begin, made.end, made.batches if made.is_transaction else b"")

    def part_below(self, offset: int) -> bytes:
        """The batches of the transaction that begin below that offset."""
        batches = split_batches(self.transaction, check_crc=False)[0]
        return b"".join(each.data for each in batches if each.base_offset < offset)
