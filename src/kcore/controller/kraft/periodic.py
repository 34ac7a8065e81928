"""The schedule of the active controller's periodic tasks: fencing, elections, expiry of tokens, no-ops.

In 4.x a task is due one period after its last run or after activation, 10 ms after a run that left work, and 5 minutes
after a failure. Fencing is due earlier if a session ends earlier, except in Kafka's way ("fences-at-intervals"). In
3.9.1 elections and fencing are scheduled only while there is a reason for them. If several tasks are due, the task with
the earliest due time runs first.

Source: PeriodicTaskControlManager of 4.3.1; QuorumController.maybeScheduleNext* and
rescheduleMaybeFenceStaleBrokers of 3.9.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kcore.controller.kraft.decision import Decision, Steps
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.pending import Pending
from kcore.types import Int32s

AGAIN_MS: Final = 10  # The time until the next run after a run that left work.
MOST_ELECTIONS: Final = 10_000  # A run ends at this number; 1,000 in Kafka (MAX_ELECTIONS_PER_IMBALANCE).
MOST_EXPIRED_TOKENS: Final = 1_000  # In one run (DelegationTokenControlManager.MAX_RECORDS_PER_EXPIRATION).
AFTER_FAULT_MS: Final = 5 * 60 * 1000  # The time until the next run after a failure.

Work: TypeAlias = Callable[[ControllerContext, int], Decision | Steps | None]


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of periodic task."""

    name: str
    period_ms: int
    work: Work
    continues_from: int | None = None  # A run that wrote at least this number of records left work.
    is_wanted: Callable[[ControllerContext], bool] | None = None  # 3.9.1: scheduled only if this returns True.
    is_wanted_by: Callable[[ControllerContext, Int32s], bool] | None = None  # `is_wanted` for these partitions only.
    next_ms: Callable[[ControllerContext], int | None] | None = None  # 3.9.1: the next time at which there is work.
    sooner_ms: Callable[[ControllerContext], int | None] | None = None  # A due time that may be before the period ends.


class PeriodicTasks:
    """The schedule of one controller, while it is active."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """`tasks`: in the order in which they run if they are due at the same time."""
        self._tasks = {task.name: task for task in tasks}
        self._due_ms: dict[str, int] = {}  # By task, in the order of scheduling.
        self._looks_at_changes = any(task.is_wanted_by is not None for task in tasks)
        self._seen = 0  # Changes of partitions below this offset were checked.

    def activate(self, context: ControllerContext, now_ms: int) -> None:
        """Schedule the tasks of a node that becomes the leader: every period begins now."""
        self._due_ms = {}
        for task in self._tasks.values():
            if task.is_wanted is None and task.next_ms is None:
                self._set(task, now_ms + task.period_ms)
        self.forget(context)
        self.on_change(context, now_ms)

    def forget(self, context: ControllerContext) -> None:
        """Make the next `on_change` check all partitions, because records were reverted."""
        if self._looks_at_changes:
            context.image.keep_deltas(context.image.end_offset)
            self._seen = -1

    def on_change(self, context: ControllerContext, now_ms: int) -> None:
        """Schedule the tasks of 3.9.1 for which the partitions that have changed give a reason."""
        rows = self._changed(context) if self._looks_at_changes else None
        for task in self._tasks.values():
            if task.name not in self._due_ms and (task.is_wanted is not None or task.next_ms is not None):
                self._wait(task, context, now_ms, rows)

    def _changed(self, context: ControllerContext) -> Int32s | None:
        """The partitions that changed since the last call; None if all may have changed."""
        image, end = context.image, context.image.end_offset
        delta = image.changes_between(self._seen, end)
        if self._seen != end:
            image.keep_deltas(end)
        self._seen = end
        return None if delta is None else delta.rows

    def _wait(self, task: Task, context: ControllerContext, now_ms: int, rows: Int32s | None = None) -> None:
        """Schedule the next run of a task, if there is a reason for the run.

        `rows`: the only partitions that may give a reason; None: any partition may.
        """
        if rows is not None and task.is_wanted_by is not None:
            if task.is_wanted_by(context, rows):
                self._set(task, now_ms + task.period_ms)
        elif task.next_ms is not None:
            if (next_ms := task.next_ms(context)) is not None:
                self._set(task, next_ms)
        elif task.is_wanted is None or task.is_wanted(context):
            at_ms = now_ms + task.period_ms
            if task.sooner_ms is not None and (sooner_ms := task.sooner_ms(context)) is not None:
                at_ms = min(at_ms, max(sooner_ms, now_ms + 1))
            self._set(task, at_ms)

    @property
    def next_due_ms(self) -> int | None:
        """The due time of the next task; None if no task is scheduled."""
        return min(self._due_ms.values(), default=None)

    def due(self, now_ms: int) -> Task | None:
        """The task that became due first; None if no task is due."""
        name = min(self._due_ms, key=self._due_ms.__getitem__, default=None)
        if name is None or self._due_ms[name] > now_ms:
            return None
        return self._tasks[name]

    def pending(self, task: Task, context: ControllerContext, now_ms: int) -> Pending:
        """The run of a task as a Pending. The task's next run is scheduled when its records are written."""
        has_more = False

        def decide() -> Decision | Steps:
            nonlocal has_more
            decided = task.work(context, now_ms) or Decision()
            has_more = isinstance(decided, Decision) and decided.has_more
            return decided

        def on_written(count: int, failed: bool) -> None:
            self.ran(task, context, now_ms, written=count, failed=failed, has_more=has_more)
            self.on_change(context, now_ms)

        return Pending(task.name, decide, on_written=on_written)

    def ran(
        self,
        task: Task,
        context: ControllerContext,
        now_ms: int,
        *,
        written: int,
        failed: bool = False,
        has_more: bool = False,
    ) -> None:
        """Schedule the next run of a task that ran at `now_ms` and wrote this number of records."""
        self._due_ms.pop(task.name, None)
        if failed:
            self._set(task, now_ms + AFTER_FAULT_MS)
        elif has_more or (task.continues_from is not None and written >= task.continues_from):
            self._set(task, now_ms + AGAIN_MS)
        else:
            self._wait(task, context, now_ms)

    def _set(self, task: Task, at_ms: int) -> None:
        self._due_ms.pop(task.name, None)
        self._due_ms[task.name] = at_ms
