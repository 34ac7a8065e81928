"""A rolling restart: its steps, what each step does by the controller's decisions, and how good the plan is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.bulk_elections import rows_of
from kcore.types import Int32s
from kcore.whatif.cluster import Cluster, check_live
from kcore.whatif.effects import KINDS, UNDER_MIN_ISR, WITHOUT_LEADER, Effects, effects_of
from kcore.whatif.restart_groups import Capacities, Conflicts, capacities_of, divide
from kcore.whatif.restart_order import ordered


class RestartStep(NamedTuple):
    """The brokers of one step, and the partitions that change while they are down."""

    brokers: tuple[int, ...]
    moved_leaders: int
    without_leader: int  # Newly.
    under_min_isr: int  # Newly; all of them would be in any order of steps.
    unclean_leaders: int


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """A rolling restart of all live brokers: all replicas are in sync again before the next step."""

    steps: tuple[RestartStep, ...]
    fewest_steps: int  # No plan has fewer steps.
    fewest_moves: int  # No order of these steps moves fewer leaders, if leaders stay where they go.
    unavoidable: dict[int, int]  # By broker id: partitions that its restart takes below min ISR in any plan.

    @property
    def is_fewest_steps(self) -> bool:
        """True if no plan has fewer steps."""
        return len(self.steps) == self.fewest_steps

    @property
    def moved_leaders(self) -> int:
        """The moves of leaders in all steps."""
        return sum(step.moved_leaders for step in self.steps)

    @property
    def is_fewest_moves(self) -> bool:
        """True if no order of these steps moves fewer leaders."""
        return self.moved_leaders == self.fewest_moves

    def as_rows(self) -> list[dict[str, Any]]:
        """One flat row a step."""
        return [{"step": number, **step._asdict()} for number, step in enumerate(self.steps, start=1)]


def restart_plan(cluster: Cluster) -> RestartPlan:
    """The rolling restart with the fewest steps, and among the orders of its steps the one that moves fewest leaders.

    No partition goes below min.insync.replicas because several brokers restart together. Each step is decided by the
    controller's rules on the state that the steps before have left.
    """
    check_live(cluster)
    capacities = capacities_of(cluster)
    conflicts = Conflicts(capacities, len(cluster.table.brokers))
    rows = np.flatnonzero(cluster.live__b).tolist()
    division = divide(cluster, rows, conflicts)
    groups, fewest_moves = ordered(cluster, division.groups)
    return RestartPlan(
        tuple(simulated(cluster, groups)), division.fewest, fewest_moves, _unavoidable(cluster, capacities, rows)
    )


def may_restart_together(cluster: Cluster, broker_ids: Sequence[int]) -> bool:
    """True if these brokers may be down at once, and no partition goes below min ISR because there are several."""
    conflicts = Conflicts(capacities_of(cluster), len(cluster.table.brokers))
    return conflicts.may_restart(cluster.table.brokers.row(broker) for broker in broker_ids)


def _unavoidable(cluster: Cluster, capacities: Capacities, rows: Sequence[int]) -> dict[int, int]:
    ids = cluster.table.brokers.ids
    counts = {int(ids[row]): int(capacities.unavoidable__b[row]) for row in rows}
    return {broker: count for broker, count in sorted(counts.items()) if count}


def simulated(cluster: Cluster, groups: Sequence[Sequence[int]]) -> list[RestartStep]:
    """The steps as the controller decides them; after each step the ISRs are whole again and leaders stay."""
    table = cluster.table.copy()
    now = Cluster(table, cluster.level, cluster.settings)  # Only its leaders change.
    steps = []
    for group in groups:
        effects = effects_of(now, group, rows_of(table, group))
        counts = dict(zip(KINDS, effects.counts().tolist(), strict=True))
        without_leader, under_min_isr = (
            int((effects.effects__rk[:, at] > 0).sum()) for at in (WITHOUT_LEADER, UNDER_MIN_ISR)
        )
        ids = tuple(sorted(int(table.brokers.ids[row]) for row in group))
        steps.append(
            RestartStep(ids, counts["moved_leaders"], without_leader, under_min_isr, counts["unclean_leaders"])
        )
        _keep_leaders(table, effects)
    return steps


def _keep_leaders(table: PartitionTable, effects: Effects) -> None:
    """Applies the new leaders to the table; the ISRs stay, because the brokers come back."""
    before = table.leader__p[effects.rows]
    moved = (effects.leader__r != before) & (effects.leader__r != NO_BROKER_ROW)
    rows = effects.rows[moved]
    isr = table.isr__pi[rows]
    is_member = isr != NO_BROKER_ROW
    ids = table.brokers.ids
    table.apply(
        PartitionChanges(
            rows=rows,
            leaders=ids[effects.leader__r[moved]],
            isr_offsets=_offsets(is_member.sum(axis=1)),
            isr=ids[isr[is_member]],
            leader_epochs=table.leader_epoch__p[rows] + np.int32(1),
            partition_epochs=table.partition_epoch__p[rows] + np.int32(1),
            recovery=table.leader_recovery_state__p[rows],
        )
    )


def _offsets(sizes: Int32s) -> Int32s:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
