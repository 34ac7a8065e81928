"""Changes of partition state as columns: what decisions produce and what the table's one mutator takes.

Two types say which partition epochs they carry. `PartitionChanges` have those that the partitions have with the change;
`PartitionTable.apply` takes them, and KRaft elections make them. `UnwrittenChanges`, which decisions in ZooKeeper mode
make, have the versions that the writes of the state znodes must find; `written()` is what the writes make of them.
"""

from dataclasses import dataclass
from typing import Self

from kcore.types import Int8s, Int32s


@dataclass(slots=True, eq=False)  # Not frozen: that makes a decision two microseconds slower.
class ChangeColumns:
    """New state of the partitions in `rows`; c changes. Brokers are ids, not rows, so that a caller can read them.

    The ISR of change k is `isr[isr_offsets[k]:isr_offsets[k + 1]]`, in Kafka's order.
    """

    rows: Int32s  # c, ascending
    leaders: Int32s  # c, broker ids, -1 for none
    isr_offsets: Int32s  # c + 1
    isr: Int32s  # broker ids
    leader_epochs: Int32s  # c
    partition_epochs: Int32s  # c
    recovery: Int8s  # c, LeaderRecoveryState

    def __len__(self) -> int:
        return len(self.rows)


class PartitionChanges(ChangeColumns):
    """State as it is once the change is made: `partition_epochs` are those that the partitions then have."""

    __slots__ = ()

    def written(self) -> Self:
        """These changes: nothing is left to be written."""
        return self


class UnwrittenChanges(ChangeColumns):
    """State that is to be written to ZooKeeper: `partition_epochs` are the versions that the writes must find.

    -1: there is no state znode yet, and the write creates it.
    """

    __slots__ = ()

    def written(self) -> PartitionChanges:
        """The state once ZooKeeper has taken the writes: every state znode's version is one higher."""
        return PartitionChanges(
            self.rows,
            self.leaders,
            self.isr_offsets,
            self.isr,
            self.leader_epochs,
            self.partition_epochs + 1,
            self.recovery,
        )
