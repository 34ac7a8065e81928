"""Groups of brokers that may restart together: as few as possible, without a partition below its min ISR.

Each partition has a capacity: how many members of its live ISR may be down at the same time. That is the size of the
ISR less min.insync.replicas. A partition without any member to spare has capacity 1. Each restart takes it below
min.insync.replicas in any order; one restart at a time leaves another member to lead.

A division into the fewest groups is a colouring of a hypergraph. A greedy search finds a division, a clique bounds it
from below. If they differ and the cluster is small, a branch and bound search decides within `MOST_NODES` nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Final, NamedTuple

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.types import Bools, Int16s, Int64s
from kcore.whatif.cluster import Cluster

MOST_EXACT: Final = 24  # Brokers of a cluster for which the search decides.
MOST_NODES: Final = 200_000

Groups = list[list[int]]


class Division(NamedTuple):
    """The groups as broker rows, a lower bound of their number, and whether no division has fewer."""

    groups: Groups
    fewest: int  # No division has fewer groups.


class Capacities(NamedTuple):
    """How many of some brokers may be down together: c different constraints over broker rows."""

    members__ci: Int16s  # Ascending and padded with -1 in front.
    most__c: Int64s
    unavoidable__b: Int64s  # Partitions that the restart of each broker takes below min ISR in any order.


def capacities_of(cluster: Cluster) -> Capacities:
    """The constraints of all partitions, each different one once, without those that always hold."""
    isr, live__b = cluster.table.isr__pi, cluster.live__b
    members = np.sort(np.where(live__b[isr], isr, np.int16(NO_BROKER_ROW)), axis=1)
    sizes = cluster.in_sync__p.astype(np.int64)
    spare = sizes - cluster.min_isr__p
    concerned = sizes > 0
    short = members[concerned & (spare == 0)]
    unavoidable__b = np.bincount(short[short != NO_BROKER_ROW], minlength=len(live__b))
    chosen = concerned & (sizes > 1)
    packed = np.column_stack([np.maximum(spare, 1)[chosen].astype(np.int16), members[chosen]])
    distinct = _distinct(packed)
    return Capacities(distinct[:, 1:], distinct[:, 0].astype(np.int64), unavoidable__b)


def _distinct(rows: Int16s) -> Int16s:
    """The different rows; sorted as bytes, which is faster than `np.unique` along an axis."""
    if not len(rows):
        return rows
    packed = np.ascontiguousarray(rows)
    found = np.unique(packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).reshape(-1))
    return found.view(np.int16).reshape(-1, packed.shape[1])


class Conflicts:
    """Tells if a broker may join a group: by bit masks for pairs, by counts for larger constraints."""

    def __init__(self, capacities: Capacities, brokers: int) -> None:
        single = capacities.most__c == 1
        self.masks = _pair_masks(capacities.members__ci[single], brokers)
        self.members__ci, self.most__c = capacities.members__ci[~single], capacities.most__c[~single]
        at, slots = np.nonzero(self.members__ci != NO_BROKER_ROW)
        owners = self.members__ci[at, slots]
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(brokers + 1))
        self.constraints = [at[order][first:end] for first, end in pairwise(bounds.tolist())]

    def empty_counts(self) -> Int64s:
        """How many members of each larger constraint are in a group, for an empty group."""
        return np.zeros(len(self.most__c), np.int64)

    def may_join(self, broker: int, group_mask: int, counts__c: Int64s) -> bool:
        """True if the broker, by row, may be down together with the group."""
        if self.masks[broker] & group_mask:
            return False
        own = self.constraints[broker]
        return bool((counts__c[own] < self.most__c[own]).all())

    def may_restart(self, rows: Iterable[int]) -> bool:
        """True if these brokers may be down together."""
        mask, counts__c = 0, self.empty_counts()
        for row in rows:
            if not self.may_join(row, mask, counts__c):
                return False
            mask |= 1 << row
            counts__c[self.constraints[row]] += 1
        return True


def _pair_masks(members__ci: Int16s, brokers: int) -> list[int]:
    """By broker row, a bit for each broker with which it shares a constraint of capacity 1."""
    shares__bb = np.zeros((brokers, brokers), np.bool_)
    for one, two in combinations(range(members__ci.shape[1]), 2):
        first, second = members__ci[:, one], members__ci[:, two]
        both = (first != NO_BROKER_ROW) & (second != NO_BROKER_ROW)
        shares__bb[first[both], second[both]] = shares__bb[second[both], first[both]] = True
    return [int.from_bytes(np.packbits(each, bitorder="little").tobytes(), "little") for each in shares__bb]


def divide(cluster: Cluster, rows: Sequence[int], conflicts: Conflicts) -> Division:
    """Divides the brokers, given by row, into as few groups as the search finds."""
    racks, degree = cluster.table.brokers.racks, [mask.bit_count() for mask in conflicts.masks]
    by_rack = sorted(rows, key=lambda row: (racks[row] or "", row))
    orders = (by_rack, sorted(rows, key=lambda row: (-degree[row], row)), sorted(rows))
    best = min((_greedy(order, conflicts) for order in orders), key=len)
    fewest = max(_clique(orders[1], conflicts), _fewest_by_constraint(rows, conflicts), 1 if rows else 0)
    if len(best) > fewest and len(rows) <= MOST_EXACT:
        found, is_complete = _Search(orders[1], conflicts, best).run()
        return Division(found, len(found) if is_complete else fewest)
    return Division(best, fewest)


def _greedy(order: Sequence[int], conflicts: Conflicts) -> Groups:
    """Fills one group after the other with every broker that may join."""
    waiting, groups = list(order), []
    while waiting:
        group: list[int] = []
        left: list[int] = []
        mask, counts__c = 0, conflicts.empty_counts()
        for row in waiting:
            if conflicts.may_join(row, mask, counts__c):
                group.append(row)
                mask |= 1 << row
                counts__c[conflicts.constraints[row]] += 1
            else:
                left.append(row)
        groups.append(group)
        waiting = left
    return groups


def _clique(order: Sequence[int], conflicts: Conflicts) -> int:
    """The size of a set of brokers each two of which must restart in different groups, found greedily."""
    best = 0
    for first in order[:MOST_EXACT]:
        common, size = conflicts.masks[first], 1
        for row in order:
            if common >> row & 1:
                common &= conflicts.masks[row]
                size += 1
        best = max(best, size)
    return best


def _fewest_by_constraint(rows: Sequence[int], conflicts: Conflicts) -> int:
    """The most groups that one of the larger constraints needs by itself."""
    wanted: Bools = np.zeros(len(conflicts.masks) + 1, np.bool_)
    wanted[np.array(rows, np.int64)] = True
    sizes = wanted[conflicts.members__ci].sum(axis=1)
    return int((-(-sizes // np.maximum(conflicts.most__c, 1))).max(initial=0))


class _Search:
    """Branch and bound: puts one broker after the other into a group that it may join, or into a new one."""

    def __init__(self, order: Sequence[int], conflicts: Conflicts, best: Groups) -> None:
        self.order, self.conflicts, self.best = order, conflicts, best
        self.groups: Groups = []
        self.masks: list[int] = []
        self.counts: list[Int64s] = []
        self.nodes = 0

    def run(self) -> tuple[Groups, bool]:
        """The best groups, and whether the search has seen all divisions."""
        self._place(0)
        return self.best, self.nodes < MOST_NODES

    def _place(self, at: int) -> None:
        self.nodes += 1
        if self.nodes >= MOST_NODES or len(self.groups) >= len(self.best):
            return
        if at == len(self.order):
            self.best = [list(group) for group in self.groups]
            return
        row = self.order[at]
        for number in self._choices(row):
            self._change(number, row, 1)
            self._place(at + 1)
            self._change(number, row, -1)

    def _choices(self, row: int) -> Iterator[int]:
        """The groups that the broker may join, then a new group."""
        for number in range(len(self.groups)):
            if self.conflicts.may_join(row, self.masks[number], self.counts[number]):
                yield number
        yield len(self.groups)

    def _change(self, number: int, row: int, sign: int) -> None:
        """Adds the broker to a group (1), or removes the broker that was added last (-1)."""
        if number == len(self.groups):
            self.groups.append([])
            self.masks.append(0)
            self.counts.append(self.conflicts.empty_counts())
        self.masks[number] ^= 1 << row
        self.counts[number][self.conflicts.constraints[row]] += sign
        if sign > 0:
            self.groups[number].append(row)
        else:
            self.groups[number].pop()
            if not self.groups[number]:
                del self.groups[number], self.masks[number], self.counts[number]
