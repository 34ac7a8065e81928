"""The arrays of a decision's result, and the bytes that the decision must at least read and write."""

import numpy as np

from kcore.metadata.table.changes import ChangeColumns, PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Int32s

READ_COLUMNS = (
    "replicas__ps",
    "isr__pi",
    "leader__p",
    "leader_epoch__p",
    "partition_epoch__p",
    "leader_recovery_state__p",
)
CHANGE_COLUMNS = ("rows", "leaders", "isr_offsets", "isr", "leader_epochs", "partition_epochs", "recovery")


def arrays_of(changes: ChangeColumns) -> list[np.ndarray]:
    """The columns of a decision, as arrays."""
    return [getattr(changes, name) for name in CHANGE_COLUMNS]


def moved_bytes(table: PartitionTable, handled: int, changes: ChangeColumns) -> int:
    """The bytes of the states of the `handled` partitions and of the changes."""
    a_row: int = sum(getattr(table, name)[:1].nbytes for name in READ_COLUMNS)
    return handled * a_row + sum(array.nbytes for array in arrays_of(changes))


def led_by_second(table: PartitionTable) -> PartitionChanges:
    """Moves leaders from the first replica to another ISR member, where the ISR has two or more members."""
    two = table.isr__pi[:, 1] >= 0 if table.isr__pi.shape[1] > 1 else np.zeros(len(table), np.bool_)
    rows: Int32s = np.flatnonzero(two).astype(np.int32)
    ids, isr = table.brokers.ids, table.isr__pi[rows]
    first = table.replicas__ps[rows, 0] == isr[:, 0]
    leaders = np.where(first, isr[:, min(1, isr.shape[1] - 1)], isr[:, 0])
    sizes = (isr >= 0).sum(axis=1)
    return PartitionChanges(
        rows=rows,
        leaders=ids[leaders],
        isr_offsets=np.cumsum(np.concatenate([[0], sizes]), dtype=np.int32),
        isr=ids[isr[isr >= 0]],
        leader_epochs=table.leader_epoch__p[rows] + 1,
        partition_epochs=table.partition_epoch__p[rows] + 1,
        recovery=table.leader_recovery_state__p[rows],
    )
