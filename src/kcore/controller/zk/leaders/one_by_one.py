"""Partitions' states one at a time, where a handler decides for each what no election in bulk does."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from kcore.controller.zk.decision import Decision
from kcore.metadata.changes import UnwrittenChanges
from kcore.metadata.partition_table import PartitionTable
from kcore.replication.election_rules import LeaderAndIsr


def state_of(table: PartitionTable, row: int) -> LeaderAndIsr:
    """The decision about one partition."""
    state = table.state(row)
    return LeaderAndIsr(state.leader, state.isr, state.leader_epoch, state.partition_epoch, state.leader_recovery_state)


def decided(
    table: PartitionTable, rows: Iterable[int], decide: Callable[[int, LeaderAndIsr], LeaderAndIsr | None]
) -> Decision:
    """What `decide` makes of each of these partitions, rows ascending; None where it leaves one as it is."""
    found = [(row, decide(row, state_of(table, row))) for row in rows]
    return Decision(changes_of([(row, state) for row, state in found if state is not None]))


def changes_of(states: Sequence[tuple[int, LeaderAndIsr]]) -> UnwrittenChanges:
    """The states as columns, by ascending row."""
    return UnwrittenChanges(
        rows=np.array([row for row, _ in states], np.int32),
        leaders=np.array([state.leader for _, state in states], np.int32),
        isr_offsets=np.cumsum([0, *(len(state.isr) for _, state in states)], dtype=np.int32),
        isr=np.array([member for _, state in states for member in state.isr], np.int32),
        leader_epochs=np.array([state.leader_epoch for _, state in states], np.int32),
        partition_epochs=np.array([state.partition_epoch for _, state in states], np.int32),
        recovery=np.array([state.leader_recovery_state for _, state in states], np.int8),
    )


def online_brokers(table: PartitionTable, row: int, offline_dirs: Mapping[int, Collection[int]]) -> list[int]:
    """The brokers on which a replica of this partition is online (ControllerContext.isReplicaOnline)."""
    brokers = table.brokers
    up = brokers.ids[brokers.live & ~brokers.shutting_down].tolist()
    return [broker for broker in up if row not in offline_dirs.get(broker, ())]
