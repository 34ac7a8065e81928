"""The outcomes of all pairs of live brokers, as columns.

A partition without a replica on the second broker has the same effects as after the loss of the first one alone. So
the outcome of a pair is the sum of two single outcomes, corrected for the partitions that both brokers replicate. Only
these partitions need a decision: for all pairs together, as many as the cluster has pairs of replicas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kcore.types import Int32s, Int64s
from kcore.whatif.cluster import Cluster
from kcore.whatif.effects import KINDS, STATES, Effects, effects_of, moves_between
from kcore.whatif.outcome import load_of

_LOAD: Final = ("most_loaded", "most_leaders", "skew")
_NONE: Final = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class PairOutcomes:
    """n pairs of brokers, and what the loss of both does."""

    brokers__n2: Int32s  # Broker ids.
    counts__nk: Int64s  # In the order of `effects.KINDS`: states after the loss, and events.
    most_loaded__n: Int32s  # The id of the broker that then has most leaders.
    most_leaders__n: Int64s
    skew__n: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.brokers__n2)

    def counts(self, kind: str) -> Int64s:
        """The counts of one of `effects.KINDS`, by pair."""
        return self.counts__nk[:, KINDS.index(kind)]

    def worst(self, most: int = 20) -> list[dict[str, Any]]:
        """The pairs with most partitions at risk, then without a leader, then under min ISR, as rows."""
        order = np.lexsort((self.counts("under_min_isr"), self.counts("without_leader"), self.counts("at_risk")))
        return self.as_rows(order[::-1][:most])

    def as_rows(self, places: Int64s | None = None) -> list[dict[str, Any]]:
        """One dict a pair, at these places or of all pairs."""
        chosen = np.arange(len(self)) if places is None else places
        names = ("broker", "other_broker", *KINDS, *_LOAD)
        lists = (*self.brokers__n2[chosen].T, *self.counts__nk[chosen].T)
        loads = (self.most_loaded__n, self.most_leaders__n, self.skew__n)
        columns = [each.tolist() for each in (*lists, *(each[chosen] for each in loads))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    @classmethod
    def joined(cls, parts: Sequence["PairOutcomes"]) -> "PairOutcomes":
        """All pairs of several parts, ordered by broker ids."""
        names = tuple(cls.__dataclass_fields__)
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
        order = np.lexsort((columns[0][:, 1], columns[0][:, 0]))
        return cls(*(column[order] for column in columns))


class _Single(NamedTuple):
    """The loss of one broker."""

    effects: Effects
    counts: Int64s
    moves: Int64s


class PairCounter:
    """The single outcomes that the pairs of a cluster share."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._single: dict[int, _Single] = {}

    @cached_property
    def live_rows(self) -> list[int]:
        """The rows of the live brokers by ascending id."""
        ids = self.cluster.table.brokers.ids
        return sorted(np.flatnonzero(self.cluster.live__b).tolist(), key=lambda row: int(ids[row]))

    def single(self, row: int) -> _Single:
        """The loss of the broker in this row, decided once."""
        if row not in self._single:
            effects = effects_of(self.cluster, (row,), self.cluster.table.index.rows(row))
            self._single[row] = _Single(effects, effects.counts(), effects.leader_moves(self.cluster))
        return self._single[row]

    def pairs_of(self, first: int) -> PairOutcomes:
        """The pairs of the live broker at place `first` with all live brokers after it."""
        row, others = self.live_rows[first], self.live_rows[first + 1 :]
        shared = self._shared_rows(row, others)
        found = [self._pair(row, other, shared.get(other, _NONE)) for other in others]
        ids = self.cluster.table.brokers.ids
        return PairOutcomes(
            np.array([(ids[row], ids[other]) for other in others], np.int32).reshape(-1, 2),
            np.array([counts for counts, _ in found], np.int64).reshape(-1, len(KINDS)),
            np.array([load[0] for _, load in found], np.int32),
            np.array([load[1] for _, load in found], np.int64),
            np.array([load[2] for _, load in found], np.float64),
        )

    def _shared_rows(self, row: int, others: Sequence[int]) -> dict[int, Int32s]:
        """By broker row, the partitions that it replicates together with `row`, ascending."""
        rows = self.cluster.table.index.rows(row)
        replicas__rs = self.cluster.table.replicas__ps[rows]
        wanted__b = np.zeros(len(self.cluster.live__b), np.bool_)
        wanted__b[np.array(others, np.int64)] = True
        at, slots = np.nonzero(wanted__b[replicas__rs])
        brokers = replicas__rs[at, slots]
        order = np.argsort(brokers, kind="stable")
        ordered, partitions = brokers[order], rows[at[order]]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        parts = np.split(partitions, starts[1:]) if len(starts) else []
        return dict(zip(ordered[starts].tolist(), parts, strict=True))

    def _pair(self, row: int, other: int, shared: Int32s) -> tuple[Int64s, tuple[int, int, float]]:
        """The counts after the loss of both brokers, and the load of the most loaded broker."""
        cluster, one, two = self.cluster, self.single(row), self.single(other)
        counts, moves = one.counts + two.counts, one.moves + two.moves
        if len(shared):
            both = effects_of(cluster, (row, other), shared)
            before__r = cluster.table.leader__p[shared]
            counts += both.counts()
            moves += moves_between(before__r, both.leader__r, cluster)
            for each in (one.effects, two.effects):
                at = np.searchsorted(each.rows, shared)
                counts -= each.effects__rk[at].sum(axis=0, dtype=np.int64)
                moves -= moves_between(before__r, each.leader__r[at], cluster)
        counts[: len(STATES)] += cluster.state_counts
        stays__b = cluster.live__b.copy()
        stays__b[[row, other]] = False
        return counts, load_of(cluster, cluster.leaders__b + moves, stays__b)


def all_pairs(cluster: Cluster) -> PairOutcomes:
    """The outcomes of all pairs of live brokers."""
    counter = PairCounter(cluster)
    return PairOutcomes.joined([counter.pairs_of(first) for first in range(max(1, len(counter.live_rows)))])
