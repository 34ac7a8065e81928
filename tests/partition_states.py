"""A table's partitions put into a state that a test begins with."""

import numpy as np

from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable


def set_state(
    table: PartitionTable, row: int, *, leader_epoch: int | None = None, leader_recovery_state: int | None = None
) -> None:
    """Set the given fields of one partition; its other fields stay."""
    known = table.state(row)
    recovery = known.leader_recovery_state if leader_recovery_state is None else leader_recovery_state
    change = PartitionChanges(
        rows=np.array([row], np.int32),
        leaders=np.array([known.leader], np.int32),
        isr_offsets=np.array([0, len(known.isr)], np.int32),
        isr=np.array(known.isr, np.int32),
        leader_epochs=np.array([known.leader_epoch if leader_epoch is None else leader_epoch], np.int32),
        partition_epochs=np.array([known.partition_epoch], np.int32),
        recovery=np.array([recovery], np.int8),
    )
    table.apply(change, check_epochs=False)
