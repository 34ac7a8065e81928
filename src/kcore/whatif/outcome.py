"""The outcome of a scenario: the counts of a cluster before and after, and the partitions that are affected."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.errors import ArgumentError
from kcore.replication.bulk_elections import rows_of
from kcore.suggestions import did_you_mean
from kcore.types import Bools, Int32s, Int64s
from kcore.whatif.cluster import Cluster
from kcore.whatif.effects import KINDS, PARTITIONS, STATES, Effects, effects_of
from kcore.whatif.scenario import Losses, Scenario, losses_of


class Health(NamedTuple):
    """The counts of a cluster's partitions, and how its leaders are spread over the live brokers."""

    without_leader: int
    under_min_isr: int  # Fewer live ISR members than min.insync.replicas.
    one_in_sync: int  # Exactly one live ISR member.
    most_loaded: int  # The id of the broker with most leaders, the lowest id of several; -1 if no broker is live.
    most_leaders: int
    skew: float  # most_leaders over the mean of the live brokers; 0 without leaders.


@dataclass(frozen=True)
class Outcome:
    """The effect of a scenario on a cluster. `effects.Effects` says what the counts mean."""

    scenario: Scenario
    before: Health
    after: Health
    partitions: int  # With at least one lost replica.
    moved_leaders: int
    unclean_leaders: int
    at_risk: int
    without_replica: int
    new_without_leader: int
    new_under_min_isr: int
    new_one_in_sync: int
    leaders: dict[int, int] = field(repr=False)  # The partitions that each broker leads then, by id of live brokers.
    effects: tuple[Effects, ...] = field(repr=False, compare=False)

    def rows(self, kind: str) -> Int32s:
        """The partition rows that enter a state or meet an event; `kind`: one of `effects.KINDS`."""
        if kind not in KINDS:
            raise ArgumentError(f"no kind of effect {kind!r:.60}{did_you_mean(kind, KINDS, ', '.join(KINDS))}")
        at = KINDS.index(kind)
        found = [each.rows[each.effects__rk[:, at] > 0] for each in self.effects]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int32)

    def as_row(self) -> dict[str, Any]:
        """The outcome as one flat row of a table or of JSON."""
        before, after = self.before._asdict(), self.after._asdict()
        return {
            "scenario": self.scenario.name,
            "brokers": list(self.scenario.brokers),
            "racks": list(self.scenario.racks),
            "directories": [str(each) for each in self.scenario.directories],
            "partitions": self.partitions,
            **{f"{name}_before": before[name] for name in STATES},
            **{name: after[name] for name in STATES},
            **{f"new_{name}": getattr(self, f"new_{name}") for name in STATES},
            **{name: getattr(self, name) for name in KINDS[PARTITIONS + 1 :]},
            "most_loaded": after["most_loaded"],
            "most_leaders": after["most_leaders"],
            "skew_before": before["skew"],
            "skew": after["skew"],
        }


def outcome_of(cluster: Cluster, scenario: Scenario) -> Outcome:
    """The outcome of a scenario; TableError for what the cluster does not have."""
    losses = losses_of(scenario, cluster.table)
    effects = [effects_of(cluster, leaving, rows) for leaving, rows in groups_of(cluster, losses)]
    moves = sum((each.leader_moves(cluster) for each in effects), np.zeros(len(cluster.live__b), np.int64))
    counts = sum((each.counts() for each in effects), np.zeros(len(KINDS), np.int64))
    stays__b = cluster.live__b.copy()
    stays__b[np.array(losses.brokers, np.int64)] = False
    leaders__b = cluster.leaders__b + moves
    new = _newly(effects)
    return Outcome(
        scenario=scenario,
        before=health_of(cluster, cluster.leaders__b, cluster.live__b),
        after=health_of(cluster, leaders__b, stays__b, counts[: len(STATES)]),
        **{name: int(count) for name, count in zip(KINDS, counts.tolist(), strict=True) if name not in STATES},
        **{f"new_{name}": count for name, count in zip(STATES, new, strict=True)},
        leaders={
            int(cluster.table.brokers.ids[row]): int(leaders__b[row]) for row in np.flatnonzero(stays__b).tolist()
        },
        effects=tuple(effects),
    )


def _newly(effects: Sequence[Effects]) -> list[int]:
    """How many partitions enter each state; `counts` subtracts those that leave it."""
    return [sum(int((each.effects__rk[:, at] > 0).sum()) for each in effects) for at in range(len(STATES))]


def health_of(cluster: Cluster, leaders__b: Int64s, live__b: Bools, entered: Int64s | int = 0) -> Health:
    """The health with these leaders and live brokers, after `entered` partitions have entered each state."""
    without_leader, under_min_isr, one_in_sync = (cluster.state_counts + entered).tolist()
    load = load_of(cluster, leaders__b, live__b)
    return Health(without_leader, under_min_isr, one_in_sync, *load)


def load_of(cluster: Cluster, leaders__b: Int64s, live__b: Bools) -> tuple[int, int, float]:
    """The id of the live broker with most leaders, their number, and that number over the mean."""
    rows = np.flatnonzero(live__b)
    if not len(rows):
        return NO_BROKER_ROW, 0, 0.0
    leaders, ids = leaders__b[rows], cluster.table.brokers.ids[rows]
    most, total = int(leaders.max()), int(leaders.sum())
    return int(ids[leaders == most].min()), most, most * len(rows) / total if total else 0.0


def groups_of(cluster: Cluster, losses: Losses) -> list[tuple[tuple[int, ...], Int32s]]:
    """The partitions with a lost replica, in groups that lose the same brokers: these brokers' rows, partition rows.

    A lost directory takes its broker only from the partitions that have their replica there.
    """
    table = cluster.table
    rows = rows_of(table, losses.brokers) if losses.brokers else np.empty(0, np.int32)
    if not losses.owner_of or table.directories__ps is None:
        return [(losses.brokers, rows)] if len(rows) else []
    found = {each: rows_in(cluster, each, owner) for each, owner in losses.owner_of.items()}
    owners = sorted(set(losses.owner_of.values()))
    every = np.unique(np.concatenate([rows, *found.values()]))
    lost__ro = np.zeros((len(every), len(owners)), np.bool_)
    for each, owner in losses.owner_of.items():
        lost__ro[np.searchsorted(every, found[each]), owners.index(owner)] = True
    kinds, which = np.unique(lost__ro, axis=0, return_inverse=True)
    which = which.reshape(-1)
    gone = [(*losses.brokers, *(owners[at] for at in np.flatnonzero(kind).tolist())) for kind in kinds]
    return [(leaving, every[which == at]) for at, leaving in enumerate(gone)]


def rows_in(cluster: Cluster, directory: int, owner: int) -> Int32s:
    """The partitions whose replica on the broker is in this directory."""
    table = cluster.table
    assert table.directories__ps is not None
    rows = table.index.rows(owner)
    is_there = (table.replicas__ps[rows] == owner) & (table.directories__ps[rows] == directory)
    found: Int32s = rows[is_there.any(axis=1)]
    return found
