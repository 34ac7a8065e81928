"""The decision about some partitions that lose the same replicas, and what it changes for each of them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kcore.constants import NO_BROKER_ROW
from kcore.metadata.table.changes import ChangeColumns
from kcore.replication.kraft_results import KraftElections
from kcore.types import Bools, Int8s, Int16s, Int32s, Int64s
from kcore.whatif.cluster import Cluster

STATES: Final = ("without_leader", "under_min_isr", "one_in_sync")
"""Counts of partitions in a state. An effect is 1 if the partition enters the state, -1 if it leaves the state."""
EVENTS: Final = ("partitions", "moved_leaders", "unclean_leaders", "at_risk", "without_replica")
"""Counts of partitions to which something happens."""
KINDS: Final = (*STATES, *EVENTS)
WITHOUT_LEADER, UNDER_MIN_ISR, ONE_IN_SYNC, PARTITIONS, MOVED, UNCLEAN, AT_RISK, WITHOUT_REPLICA = range(len(KINDS))


class Effects(NamedTuple):
    """The effects on r partitions, the columns of `effects__rk` in the order of KINDS.

    - `without_leader`: no live broker leads. `under_min_isr`: fewer live ISR members than min.insync.replicas.
      `one_in_sync`: exactly one live ISR member.
    - `partitions`: each of these partitions. `moved_leaders`: another live broker leads. `unclean_leaders`: the new
      leader was neither in the ISR nor eligible, so acknowledged records are lost. `at_risk`: each replica that surely
      has all acknowledged records is lost. `without_replica`: all replicas are lost.
    """

    rows: Int32s  # r, ascending
    leader__r: Int16s  # broker rows after the loss, -1 for none
    effects__rk: Int8s

    def counts(self) -> Int64s:
        """The sum of each kind of effect."""
        sums: Int64s = self.effects__rk.sum(axis=0, dtype=np.int64)
        return sums

    def leader_moves(self, cluster: Cluster) -> Int64s:
        """How many leaders each broker gains, less those that it loses; b + 1, the last item is for no leader."""
        return moves_between(cluster.table.leader__p[self.rows], self.leader__r, cluster)


def moves_between(before__r: Int16s, after__r: Int16s, cluster: Cluster) -> Int64s:
    """The gain of each broker between two lists of leaders; brokers that are not live have no leaders."""
    size = len(cluster.live__b)
    gained, lost = (np.bincount(each % size, minlength=size) for each in (after__r, before__r))
    moves: Int64s = np.where(cluster.live__b, gained - lost, 0)
    return moves


def effects_of(cluster: Cluster, leaving: Sequence[int], rows: Int32s) -> Effects:
    """The effects on the partitions `rows`, ascending, if the brokers, given by row, are lost at once.

    Only the controller's decision (`Cluster.decide_loss`) says who leads and which ISR is stored.
    """
    table = cluster.table
    was_up__b, is_up__b = cluster.live__b, cluster.live__b.copy()
    is_up__b[np.array(leaving, np.int64)] = False
    isr, before = table.isr__pi[rows], table.leader__p[rows]
    after, in_sync = before.copy(), _count(is_up__b[isr])
    changes = cluster.decide_loss(leaving, rows)
    places = np.searchsorted(rows, changes.rows)
    after[places] = table.brokers.rows(changes.leaders)
    in_sync[places] = _live_members(is_up__b[table.brokers.rows(changes.isr)], changes.isr_offsets)

    complete = _complete_replicas(cluster, rows, isr)
    led_before, led_after, moved = was_up__b[before], is_up__b[after], after != before
    min_isr, in_sync_before = cluster.min_isr__p[rows], cluster.in_sync__p[rows]
    min_isr_after = _capped(min_isr, changes, places)
    is_new_leader = moved & led_after
    effects__rk = np.empty((len(rows), len(KINDS)), np.int8)
    effects__rk[:, WITHOUT_LEADER] = _entered(~led_before, ~led_after)
    effects__rk[:, UNDER_MIN_ISR] = _entered(in_sync_before < min_isr, in_sync < min_isr_after)
    effects__rk[:, ONE_IN_SYNC] = _entered(in_sync_before == 1, in_sync == 1)
    effects__rk[:, PARTITIONS] = 1
    effects__rk[:, MOVED] = is_new_leader
    effects__rk[:, UNCLEAN] = is_new_leader & ~(complete == after[:, None]).any(axis=1)
    effects__rk[:, AT_RISK] = was_up__b[complete].any(axis=1) & ~is_up__b[complete].any(axis=1)
    effects__rk[:, WITHOUT_REPLICA] = _were_lost(was_up__b, is_up__b, table.replicas__ps[rows])
    return Effects(rows, np.where(led_after, after, np.int16(NO_BROKER_ROW)), effects__rk)


def _capped(min_isr__r: Int32s, changes: ChangeColumns, places: Int64s) -> Int32s:
    """min.insync.replicas after the changes: a loss may complete a reassignment, which leaves fewer replicas."""
    if not isinstance(changes, KraftElections) or changes.replicas is None:
        return min_isr__r
    capped, changed = min_isr__r.copy(), places[changes.replicas.places]
    capped[changed] = np.minimum(capped[changed], np.diff(changes.replicas.offsets))
    return capped


def _complete_replicas(cluster: Cluster, rows: Int32s, isr: Int16s) -> Int16s:
    """The replicas that surely have all acknowledged records: the ISR, and the ELR without brokers that moved away."""
    table = cluster.table
    if table.elr__pi is None or cluster.level.zookeeper:
        return isr
    elr = table.elr__pi[rows]
    is_replica = (elr[:, :, None] == table.replicas__ps[rows][:, None, :]).any(axis=2)
    return np.concatenate([isr, np.where(is_replica, elr, np.int16(NO_BROKER_ROW))], axis=1)


def _were_lost(was_up__b: Bools, is_up__b: Bools, replicas__rs: Int16s) -> Bools:
    lost: Bools = np.logical_and(was_up__b[replicas__rs].any(axis=1), ~is_up__b[replicas__rs].any(axis=1))
    return lost


def _entered(before: Bools, after: Bools) -> Int8s:
    return after.astype(np.int8) - before.astype(np.int8)


def _live_members(is_up: Bools, offsets: Int32s) -> npt.NDArray[np.int64]:
    """The number of True values between one offset and the next."""
    until = np.concatenate([[0], np.cumsum(is_up, dtype=np.int64)])
    counts: Int64s = until[offsets[1:]] - until[offsets[:-1]]
    return counts


def _count(flags__ri: Bools) -> Int16s:
    counts: Int16s = np.count_nonzero(flags__ri, axis=1).astype(np.int16)
    return counts
