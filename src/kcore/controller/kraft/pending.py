"""Requests and tasks on their way through the active controller: being decided, being written, uncommitted."""

import logging
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kcore.controller.kraft.decision import SINGLES_AT_ONCE, Decision, Rest, Steps, Versioned
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.controller.kraft.kafka_way.unreadable_settings import check_min_isr
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.log_lines import NO_NOTICE, Notice, NoticeMaker, fault_line, log_lines
from kcore.controller.kraft.outputs import Clocks, Output
from kcore.controller.kraft.writing import Written, encoding, in_groups, is_long, taking_effect, written
from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.raft.log.batches import split_batches
from kcore.schema.structure import Message

UNEXPECTED_ERROR: Final = "The server experienced an unexpected error when processing the request."


class Fault(NamedTuple):
    """An exception in a decision or in its writing. It fails only this request: nothing of the decision is written."""

    line: str
    resigns: bool  # The controller resigns, as Kafka's does after this failure.


@dataclass(slots=True, eq=False)
class Pending:
    """A request or a task whose decision is not made or not committed yet."""

    name: str
    decide: Callable[[], Decision | Steps]
    request: Message | None = None
    reply_to: Hashable = None
    response: Message | None = None
    offset: int = 0  # The controller answers when all records below this offset are committed.
    notice: Notice = NO_NOTICE  # The lines for the operator's log, written at the commit.
    is_vital: bool = False  # The node cannot lead without this decision: an exception in it is raised.
    quota: MutationQuota | None = None  # The quota on mutations that the last decision used.
    fault: Fault | None = None  # The failure of the last decision.
    rest: Rest | None = None  # The rest of the decision, made after the answer.
    # Called when the decision is written for the first time, with the number of records and whether it failed.
    on_written: Callable[[int, bool], None] | None = None

    def begin(self, context: ControllerContext) -> "Decision | Deciding":
        """Make the decision anew, or its first part. An exception fails as in `Deciding.go_on`."""
        self.forget_decision()
        context.used_quota = None
        try:
            decided = self.decide()
        except Exception as error:
            decided = Decision(self.failed(error))
        self.quota = context.used_quota
        return decided if isinstance(decided, Decision) else Deciding(self, decided).go_on(context)

    def forget_decision(self) -> None:
        """Drop the last decision, and return the quota that it used."""
        self.response, self.rest, self.notice, self.fault = None, None, NO_NOTICE, None
        if self.quota is not None:
            self.quota.give_back()
            self.quota = None

    def report_written(self, count: int) -> None:
        """Report that all records of the decision are written."""
        if self.on_written is not None:
            on_written, self.on_written = self.on_written, None
            on_written(count, self.fault is not None)

    def failed(self, error: Exception) -> Message | None:
        """Keep an exception in the decision or its writing as `fault`; returns the answer. Raises it if it is vital."""
        if self.is_vital:
            raise error
        resigns = isinstance(error, ControllerFaultError)
        self.fault = Fault(f"{self.name} failed and wrote nothing: {fault_line(error)}", resigns)
        if self.request is None:
            return None
        if isinstance(error, ControllerFaultError):
            return error.answer(self.request)
        return refused(self.request, Errors.UNKNOWN_SERVER_ERROR, UNEXPECTED_ERROR)

    @property
    def fault_lines(self) -> list[Output]:
        """The line about the fault for the operator's log, if there is one."""
        return [] if self.fault is None else log_lines([self.fault.line], logging.ERROR)


class Deciding(NamedTuple):
    """A decision in progress, in parts."""

    pending: Pending
    steps: Steps

    def go_on(self, context: ControllerContext) -> "Decision | Deciding":
        """Make the next part, and record the quota on mutations that it uses; returns itself if there are more parts.

        An exception fails only this request: the decision is then its answer, without records.
        """
        pending, context.used_quota = self.pending, None
        try:
            next(self.steps)
        except StopIteration as done:
            decision: Decision = done.value
            return decision
        except Exception as error:
            return Decision(pending.failed(error))
        finally:
            pending.quota = pending.quota or context.used_quota
        return self


class Writing:
    """Encodes a decision's records and applies them to the state, in parts; the controller appends them afterwards.

    If the decision of a periodic task is not atomic, its records are appended in groups. `parts` yields the records to
    append now, or None. `parts` raises the errors of `written` and `taking_effect`; the state then returns to the state
    after the last append.
    """

    def __init__(
        self, pending: Pending, decision: Decision, context: ControllerContext, epoch: int, clocks: Clocks
    ) -> None:
        self.pending, self.decision = pending, decision
        # The records that are applied but not appended yet; None before they are encoded, or if there are none.
        self.made: Written | None = None
        self.count = 0  # The number of log records that are applied so far.
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
    """An append that is not committed yet. `transaction`: the batches of a transaction, of which only some may commit.

    `transaction` is empty for other appends.
    """

    begin: int
    end: int
    transaction: bytes

    def part_below(self, offset: int) -> bytes:
        """The batches of the transaction that begin below the offset."""
        batches = split_batches(self.transaction, check_crc=False)[0]
        return b"".join(each.data for each in batches if each.base_offset < offset)
