"""Elects, one by one, leaders of the few partitions with a replica on a failed log directory of a live broker.

The bulk elections consider brokers, not log directories. Source: ControllerContext.isReplicaOnline of 3.9.1.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kcore.metadata.table.change_sets import joined, part
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect_one import LeaderAndIsr, elect_one, remove_from_isr
from kcore.replication.levels import Level
from kcore.types import Bools, Int32s


def corrected(
    changes: UnwrittenChanges,
    table: PartitionTable,
    offline_dirs: Mapping[int, Collection[int]],
    kind: str,
    rows: Int32s | None,
    leaving: Sequence[int],
    unclean: "bool | Bools",
    level: Level | str,
) -> UnwrittenChanges:
    """`changes`, with new decisions for partitions with failed directories; other arguments as in `zookeeper_elect`."""
    failed = _considered(table, offline_dirs, rows, leaving)
    anew = []
    for row in failed.tolist():
        gone = [broker for broker, held in offline_dirs.items() if row in held]
        allowed = bool(unclean if isinstance(unclean, bool) else unclean[row])
        before, after = _state(table, row), _decided(table, row, kind, gone, leaving, allowed, level)
        if after is not None and after != before:
            anew.append((row, after))
    return joined([part(changes, ~np.isin(changes.rows, failed)), _columns(anew)])


def _considered(
    table: PartitionTable, offline_dirs: Mapping[int, Collection[int]], rows: Int32s | None, leaving: Sequence[int]
) -> Int32s:
    """The partitions of the election that have a replica on a failed directory."""
    failed = np.array(sorted(set().union(*offline_dirs.values())), np.int32)
    if rows is not None:
        return failed[np.isin(failed, rows)]
    if not leaving:
        return failed
    held = np.concatenate([table.index.rows(table.brokers.row(broker)) for broker in leaving])
    return failed[np.isin(failed, held)]


def _decided(
    table: PartitionTable,
    row: int,
    kind: str,
    gone: Sequence[int],
    leaving: Sequence[int],
    unclean: bool,
    level: Level | str,
) -> LeaderAndIsr | None:
    """The new state of one partition; None if it does not change."""
    brokers, state = table.brokers, _state(table, row)
    if state.leader_epoch < 0:
        return None
    shutting_down = {*brokers.ids[brokers.shutting_down].tolist()}
    live = {*brokers.ids[brokers.live].tolist()} - {*gone}
    if kind == "controlled-shutdown":
        shutting_down |= {*leaving}
        calls = state.leader in leaving
    elif kind == "preferred":
        return elect_one(kind, _replicas(table, row), state, live=live, shutting_down=shutting_down)
    else:
        live -= {*leaving}
        calls = state.leader not in live - shutting_down
    if calls:
        elected = elect_one(
            kind, _replicas(table, row), state, live=live, shutting_down=shutting_down, unclean=unclean, level=level
        )
        if elected is not None or kind == "controlled-shutdown":
            return elected
    for broker in leaving:
        state = remove_from_isr(broker, state) or state
    return state


def _state(table: PartitionTable, row: int) -> LeaderAndIsr:
    state = table.state(row)
    return LeaderAndIsr(state.leader, state.isr, state.leader_epoch, state.partition_epoch, state.leader_recovery_state)


def _replicas(table: PartitionTable, row: int) -> tuple[int, ...]:
    return table.state(row).replicas


def _columns(decided: Sequence[tuple[int, LeaderAndIsr]]) -> UnwrittenChanges:
    states = [state for _, state in decided]
    return UnwrittenChanges(
        rows=np.array([row for row, _ in decided], np.int32),
        leaders=np.array([state.leader for state in states], np.int32),
        isr_offsets=np.cumsum([0, *(len(state.isr) for state in states)], dtype=np.int32),
        isr=np.array([broker for state in states for broker in state.isr], np.int32),
        leader_epochs=np.array([state.leader_epoch for state in states], np.int32),
        partition_epochs=np.array([state.partition_epoch for state in states], np.int32),
        recovery=np.array([state.leader_recovery_state for state in states], np.int8),
    )
