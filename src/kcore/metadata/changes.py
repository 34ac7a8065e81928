"""Changes of partition state as columns: what decisions produce and what the table's one mutator takes."""

from dataclasses import dataclass, replace
from typing import Self

from kcore.types import Int8s, Int32s


@dataclass(slots=True, eq=False)  # Not frozen: that makes a decision two microseconds slower.
class PartitionChanges:
    """New state of the partitions in `rows`; c changes. Brokers are ids, not rows, so that a caller can read them.

    The ISR of change k is `isr[isr_offsets[k]:isr_offsets[k + 1]]`, in Kafka's order.
    """

    rows: Int32s  # c, ascending
    leaders: Int32s  # c, broker ids, -1 for none
    isr_offsets: Int32s  # c + 1
    isr: Int32s  # broker ids
    leader_epochs: Int32s  # c
    partition_epochs: Int32s  # c; ZooKeeper mode: the version that the state write must find
    recovery: Int8s  # c, LeaderRecoveryState

    def __len__(self) -> int:
        return len(self.rows)

    def written(self) -> Self:
        """The same once ZooKeeper has taken the writes: every state node's version is one higher."""
        return replace(self, partition_epochs=self.partition_epochs + 1)
