"""The order of the steps of a rolling restart that moves the fewest leaders.

A leader moves when its broker restarts, to the first other replica of the ISR. It moves again if that broker restarts
later. So each two steps have a cost in either order, and the best order has the least sum. That is the linear ordering
problem: a table over subsets solves it for up to `MOST_EXACT_STEPS` steps; beyond, insertions improve a greedy order.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.types import Int64s
from kcore.whatif.cluster import Cluster

MOST_EXACT_STEPS: Final = 12
_PASSES: Final = 20  # Over all steps, each of which is moved to its best place.


def ordered(cluster: Cluster, groups: Sequence[Sequence[int]]) -> tuple[list[list[int]], int]:
    """The groups in the order in which they restart, and a number of moves below which no order of them is.

    A leader that was not the preferred replica may move a third time, which the costs leave out.
    """
    costs = second_moves(cluster, groups)
    if len(groups) <= MOST_EXACT_STEPS:
        order = _exact(costs)
        least = cost_of(costs, order)
    else:
        order = _improved(costs)
        least = int(np.minimum(costs, costs.T).sum()) // 2
    return [list(groups[at]) for at in order], int(costs.sum()) + least


def second_moves(cluster: Cluster, groups: Sequence[Sequence[int]]) -> Int64s:
    """`costs[a, b]`: the leaders that move from group a to group b, and so move again if b restarts after a."""
    table, live__b = cluster.table, cluster.live__b
    group__b = np.full(len(live__b), -1, np.int64)
    for number, group in enumerate(groups):
        group__b[np.array(group, np.int64)] = number
    rows = np.flatnonzero(cluster.has_leader__p)
    leaders = table.leader__p[rows]
    own = group__b[leaders]
    successor = np.full(len(rows), NO_BROKER_ROW, np.int16)
    isr = table.isr__pi[rows]
    for slot in range(table.replicas__ps.shape[1]):
        replica = table.replicas__ps[rows, slot]
        may_lead = live__b[replica] & (group__b[replica] != own) & (isr == replica[:, None]).any(axis=1)
        successor = np.where((successor == NO_BROKER_ROW) & may_lead, replica, successor)
    moves = (successor != NO_BROKER_ROW) & (own >= 0)
    costs = np.zeros((len(groups), len(groups)), np.int64)
    np.add.at(costs, (own[moves], group__b[successor[moves]]), 1)
    return costs


def cost_of(costs: Int64s, order: Sequence[int]) -> int:
    """The sum of the costs of each step before each later one."""
    chosen = costs[np.ix_(order, order)]
    return int(np.triu(chosen, 1).sum())


def _exact(costs: Int64s) -> list[int]:
    """The best order, by the best cost of each set of first steps (Held and Karp)."""
    count = len(costs)
    lists = costs.tolist()
    best: list[tuple[int, int]] = [(0, -1)] * (1 << count)  # The cost of the set, and its last step.
    for chosen in range(1, 1 << count):
        members = [at for at in range(count) if chosen >> at & 1]
        best[chosen] = min(
            (best[chosen ^ 1 << last][0] + sum(lists[at][last] for at in members if at != last), last)
            for last in members
        )
    order: list[int] = []
    chosen = (1 << count) - 1
    while chosen:
        order.append(best[chosen][1])
        chosen ^= 1 << order[-1]
    return order[::-1]


def _improved(costs: Int64s) -> list[int]:
    """A greedy order, in which each step moves to its best place until no step moves."""
    gain = costs.sum(axis=1) - costs.sum(axis=0)  # A step with a low cost before others comes first.
    order: list[int] = np.argsort(gain, kind="stable").tolist()
    for _ in range(_PASSES):
        has_moved = False
        for step in list(order):
            at = order.index(step)
            rest = np.array(order[:at] + order[at + 1 :], np.int64)
            before, after = costs[rest, step], costs[step, rest]
            # The cost of each place: all steps in front of it come before the step, all others after it.
            places = np.append(0, np.cumsum(before)) + np.append(np.cumsum(after[::-1])[::-1], 0)
            best = int(places.argmin())
            if places[best] < places[at]:
                order = [*rest[:best].tolist(), step, *rest[best:].tolist()]
                has_moved = True
        if not has_moved:
            break
    return order
