"""The periodic tasks of the active controller, and when they are due: fencing, elections, expiry of tokens, no-ops.

In 4.x a task is due one period after its last run or after activation; if it has more to do, after 10 ms; if it
failed, after 5 minutes. In 3.9.1 elections and fencing are scheduled only while there is a reason for them. Tasks that
are due at the same time run in the order in which they fell due.
Source: PeriodicTaskControlManager of 4.3.1; QuorumController.maybeScheduleNext* and
rescheduleMaybeFenceStaleBrokers of 3.9.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kcore.controller.kraft.config import KraftControllerConfig
from kcore.controller.kraft.context import ControllerContext
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.metadata.columns import NO_TOPIC
from kcore.schema.metadata_records_log import NoOpRecord

AGAIN_MS: Final = 10
MOST_ELECTIONS: Final = 10_000  # Of one task at once; Kafka's are 1,000 (MAX_ELECTIONS_PER_IMBALANCE).
MOST_EXPIRED_TOKENS: Final = 1_000  # DelegationTokenControlManager.MAX_RECORDS_PER_EXPIRATION
AFTER_FAULT_MS: Final = 5 * 60 * 1000
FENCING: Final = "maybeFenceStaleBroker"
BALANCING: Final = "electPreferred"
UNCLEAN: Final = "electUnclean"
TOKENS: Final = "expireDelegationTokens"
NO_OP: Final = "writeNoOpRecord"
SAMPLES: Final = 8  # Looks for stale brokers in a session (maybeFenceStaleBrokerPeriodNs).

Work: TypeAlias = Callable[[ControllerContext, int], Decision | None]


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of periodic work."""

    name: str
    period_ms: int
    work: Work
    continues_from: int | None = None  # If it wrote so many records, it is due again at once.
    is_wanted: Callable[[ControllerContext], bool] | None = None  # 3.9.1: it is scheduled only while this holds.
    next_ms: Callable[[ControllerContext], int | None] | None = None  # 3.9.1: when it has something to do.


class PeriodicTasks:
    """The schedule of one controller, active or not."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """`tasks`: in the order in which they run if several are due at the same time."""
        self._tasks = {task.name: task for task in tasks}
        self._due_ms: dict[str, int] = {}  # In the order in which they were set.

    def activate(self, context: ControllerContext, now_ms: int) -> None:
        """The node leads: every period begins now."""
        self._due_ms = {}
        for task in self._tasks.values():
            if task.is_wanted is None and task.next_ms is None:
                self._set(task, now_ms + task.period_ms)
        self.on_change(context, now_ms)

    def deactivate(self) -> None:
        """The node does not lead any more: nothing is due."""
        self._due_ms = {}

    def on_change(self, context: ControllerContext, now_ms: int) -> None:
        """The state has changed: schedules the tasks of 3.9.1 that have a reason now."""
        for task in self._tasks.values():
            if task.name not in self._due_ms and (task.is_wanted is not None or task.next_ms is not None):
                self._wait(task, context, now_ms)

    def _wait(self, task: Task, context: ControllerContext, now_ms: int) -> None:
        """Schedules the task's next run, if it has one."""
        if task.next_ms is not None:
            if (next_ms := task.next_ms(context)) is not None:
                self._set(task, next_ms)
        elif task.is_wanted is None or task.is_wanted(context):
            self._set(task, now_ms + task.period_ms)

    @property
    def next_due_ms(self) -> int | None:
        """When the next task is due; None while none is scheduled."""
        return min(self._due_ms.values(), default=None)

    def due(self, now_ms: int) -> Task | None:
        """The task that fell due first; None if none is due."""
        name = min(self._due_ms, key=self._due_ms.__getitem__, default=None)
        if name is None or self._due_ms[name] > now_ms:
            return None
        return self._tasks[name]

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
        """The task ran at `now_ms` and wrote so many records: schedules its next run."""
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


def no_op(context: ControllerContext, now_ms: int) -> Decision | None:
    """A record that moves the high watermark and nothing else (KIP-835)."""
    return Decision(records=[Versioned(NoOpRecord())]) if context.version.no_op_records_supported else None


def _is_leaderless(context: ControllerContext) -> bool:
    table = context.image.table
    return bool(((table.leader__p < 0) & (table.topic_row__p != NO_TOPIC)).any())


def _is_imbalanced(context: ControllerContext) -> bool:
    table = context.image.table
    if not table.partition_count:
        return False
    return bool(((table.leader__p != table.replicas__ps[:, 0]) & (table.topic_row__p != NO_TOPIC)).any())


def _next_session_end(context: ControllerContext) -> int | None:
    """When the first session of an unfenced broker ends (BrokerHeartbeatManager.nextCheckTimeNs of 3.9.1)."""
    brokers, heartbeats = context.image.brokers, context.heartbeats
    contacts = [
        state.last_contact_ms
        for broker_id, state in heartbeats.brokers.items()
        if broker_id in brokers and not brokers.fenced__b[brokers.row(broker_id)]
    ]
    return min(contacts) + heartbeats.session_timeout_ms if contacts else None


def tasks_of(
    config: KraftControllerConfig, *, fence: Work, elect_unclean: Work, balance: Work, expire_tokens: Work
) -> list[Task]:
    """All tasks of a controller with these settings, in the order of Kafka's tables."""
    is_old = config.release == "3.9.1"
    tasks = [
        Task(
            TOKENS, config.delegation_token_expiry_check_interval_ms, expire_tokens, continues_from=MOST_EXPIRED_TOKENS
        ),
        Task(
            UNCLEAN,
            config.unclean_leader_election_interval_ms,
            elect_unclean,
            continues_from=MOST_ELECTIONS,
            is_wanted=_is_leaderless if is_old else None,
        ),
        Task(
            FENCING,
            max(1, config.broker_session_timeout_ms // SAMPLES),
            fence,
            continues_from=None if is_old else 1,
            next_ms=_next_session_end if is_old else None,
        ),
    ]
    if config.auto_leader_rebalance_enable:
        period_ms = config.leader_imbalance_check_interval_seconds * 1000
        wanted = _is_imbalanced if is_old else None
        tasks.insert(1, Task(BALANCING, period_ms, balance, continues_from=MOST_ELECTIONS, is_wanted=wanted))
    if config.metadata_max_idle_interval_ms > 0:
        tasks.append(Task(NO_OP, config.metadata_max_idle_interval_ms, no_op))
    return tasks
