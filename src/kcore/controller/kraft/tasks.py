"""The list of all periodic tasks, with their work and due times."""

from typing import Final

from kcore.controller.kraft.admin.tokens import expire_tokens
from kcore.controller.kraft.brokers.fencing import fence_stale_brokers
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.departures import FENCES_AT_INTERVALS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.leaders.leader_elections import balance_leaders, elect_unclean
from kcore.controller.kraft.periodic import MOST_ELECTIONS, MOST_EXPIRED_TOKENS, Task
from kcore.replication.bulk_elections import rows_not_led_by_first
from kcore.replication.kraft_events import leaderless_rows
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.types import Int32s

FENCING: Final = "maybeFenceStaleBroker"
BALANCING: Final = "electPreferred"
UNCLEAN: Final = "electUnclean"
TOKENS: Final = "expireDelegationTokens"
NO_OP: Final = "writeNoOpRecord"
SAMPLES: Final = 8  # Fencing runs at least this often within a session timeout (maybeFenceStaleBrokerPeriodNs).


def all_tasks(config: KraftControllerConfig) -> list[Task]:
    """The tasks of a controller with these settings, in the order of QuorumController's constructor."""
    when_needed = config.node.rules.runs_tasks_when_needed
    tasks = [
        Task(
            TOKENS, config.delegation_token_expiry_check_interval_ms, expire_tokens, continues_from=MOST_EXPIRED_TOKENS
        ),
        Task(
            UNCLEAN,
            config.unclean_leader_election_interval_ms,
            elect_unclean,
            continues_from=MOST_ELECTIONS,
            is_wanted=_is_leaderless if when_needed else None,
            is_wanted_by=_are_leaderless if when_needed else None,
        ),
        Task(
            FENCING,
            max(1, config.broker_session_timeout_ms // SAMPLES),
            fence_stale_brokers,
            continues_from=None if when_needed else 1,
            next_ms=_next_session_end if when_needed else None,
            sooner_ms=None if when_needed or FENCES_AT_INTERVALS in config.kafka_way else _first_session_end,
        ),
    ]
    if config.auto_leader_rebalance_enable:
        period_ms = config.leader_imbalance_check_interval_seconds * 1000
        wanted, wanted_by = (_is_imbalanced, _are_imbalanced) if when_needed else (None, None)
        balancing = Task(
            BALANCING, period_ms, balance_leaders, MOST_ELECTIONS, is_wanted=wanted, is_wanted_by=wanted_by
        )
        tasks.insert(1, balancing)
    if config.metadata_max_idle_interval_ms > 0:
        tasks.append(Task(NO_OP, config.metadata_max_idle_interval_ms, no_op))
    return tasks


def no_op(context: ControllerContext, now_ms: int) -> Decision | None:
    """A NoOpRecord, which only moves the high watermark (KIP-835)."""
    return Decision(records=[Versioned(NoOpRecord())]) if context.version.no_op_records_supported else None


def _is_leaderless(context: ControllerContext) -> bool:
    return bool(len(leaderless_rows(context.image.table)))


def _are_leaderless(context: ControllerContext, rows: Int32s) -> bool:
    return bool((context.image.table.leader__p[rows] < 0).any())


def _is_imbalanced(context: ControllerContext) -> bool:
    return bool(len(rows_not_led_by_first(context.image.table)))


def _are_imbalanced(context: ControllerContext, rows: Int32s) -> bool:
    table = context.image.table
    return bool(len(rows)) and bool((table.leader__p[rows] != table.replicas__ps[rows, 0]).any())


def _next_session_end(context: ControllerContext) -> int | None:
    """The first time at which the session of an unfenced broker is over, or None (nextCheckTimeNs of 3.9.1).

    A session of whole milliseconds is over one millisecond after its last one, as `heartbeats` has it.
    """
    brokers, heartbeats = context.image.brokers, context.heartbeats
    contacts = [
        state.last_contact_ms
        for broker_id, state in heartbeats.brokers.items()
        if broker_id in brokers and not brokers.fenced__b[brokers.row(broker_id)]
    ]
    return min(contacts) + heartbeats.session_timeout_ms + 1 if contacts else None


def _first_session_end(context: ControllerContext) -> int | None:
    return context.heartbeats.next_deadline_ms()
