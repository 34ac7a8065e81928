"""Decides the states of partitions one at a time, for handlers that no bulk election serves."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from kcore.constants import NO_LEADER
from kcore.controller.zk.decision import Decision
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect_one import LeaderAndIsr


def states_of(table: PartitionTable, rows: Iterable[int]) -> Iterator[tuple[int, LeaderAndIsr]]:
    """The rows of these partitions with their present states."""
    wanted = np.fromiter(rows, np.int32)
    ids = [*table.brokers.ids.tolist(), NO_LEADER]  # Row -1 is the last: no broker.
    columns = table.leader__p, table.leader_epoch__p, table.partition_epoch__p, table.leader_recovery_state__p
    isrs = table.isr__pi[wanted].tolist()
    for row, isr, leader, *epochs in zip(wanted.tolist(), isrs, *(each[wanted].tolist() for each in columns),
                                         strict=True):  # fmt: skip
        yield row, LeaderAndIsr(ids[leader], tuple([ids[each] for each in isr if each >= 0]), *epochs)


def decided(
    table: PartitionTable, rows: Iterable[int], decide: Callable[[int, LeaderAndIsr], LeaderAndIsr | None]
) -> Decision:
    """A decision with the new states from `decide`, by ascending row; a partition with None does not change."""
    found = [(row, decide(row, state)) for row, state in states_of(table, rows)]
    return Decision(changes_of([(row, state) for row, state in found if state is not None]))


def changes_of(states: Sequence[tuple[int, LeaderAndIsr]]) -> UnwrittenChanges:
    """New states as columns; `states` is by ascending row."""
    return UnwrittenChanges(
        rows=np.array([row for row, _ in states], np.int32),
        leaders=np.array([state.leader for _, state in states], np.int32),
        isr_offsets=np.cumsum([0, *(len(state.isr) for _, state in states)], dtype=np.int32),
        isr=np.array([member for _, state in states for member in state.isr], np.int32),
        leader_epochs=np.array([state.leader_epoch for _, state in states], np.int32),
        partition_epochs=np.array([state.partition_epoch for _, state in states], np.int32),
        recovery=np.array([state.leader_recovery_state for _, state in states], np.int8),
    )


def online_brokers(
    table: PartitionTable, offline_dirs: Mapping[int, Collection[int]]
) -> Callable[[int], Collection[int]]:
    """A function from partition row to the brokers where a replica of it is online (isReplicaOnline)."""
    brokers = table.brokers
    up = {*brokers.ids[brokers.live & ~brokers.shutting_down].tolist()}
    failed = [(broker, rows) for broker, rows in offline_dirs.items() if rows and broker in up]
    return lambda row: up - {broker for broker, rows in failed if row in rows} if failed else up
