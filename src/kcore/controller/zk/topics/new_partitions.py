"""The first states of partitions (PartitionStateMachine.initializeLeaderAndIsrForPartitions of 3.9.1)."""

from typing import Final

import numpy as np

from kcore.constants import INITIAL_LEADER_EPOCH, NO_EPOCH, RECOVERED
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.types import Bools, Int32s

MAX_PARTITIONS: Final = 100_000  # The most partitions of a topic: a znode has at most 1 MiB.
NO_ROOM: Final = "The topic's partitions and replicas do not fit into its znode in ZooKeeper."


def check_znode_holds(partitions: int) -> None:
    """InvalidPartitionsException for more new partitions than the znode of a topic has room for."""
    if partitions > MAX_PARTITIONS:
        Errors.INVALID_PARTITIONS.raise_for(f"{partitions} partitions; no znode holds more than {MAX_PARTITIONS}.")


def initial_states(table: PartitionTable, rows: Int32s, online: Bools) -> UnwrittenChanges:
    """The first online replica leads and all online ones are in sync; partitions without an online one are left out.

    `online` is by row and slot. The partition epochs are -1, so the state znodes are created.
    """
    online = online & (table.replicas__ps[rows] >= 0)
    some = online.any(axis=1)
    rows, online = rows[some], online[some]
    replicas = table.brokers.ids[table.replicas__ps[rows]]
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(online.sum(axis=1), out=offsets[1:])
    isr = replicas[online]
    return UnwrittenChanges(
        rows=rows,
        leaders=isr[offsets[:-1]],
        isr_offsets=offsets,
        isr=isr,
        leader_epochs=np.full(len(rows), INITIAL_LEADER_EPOCH, np.int32),
        partition_epochs=np.full(len(rows), NO_EPOCH, np.int32),
        recovery=np.full(len(rows), RECOVERED, np.int8),
    )
