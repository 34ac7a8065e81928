"""Changes of partition state as columns: what decisions produce and what the table's mutators take.

Types say which partition epochs they carry. `PartitionChanges` have the epochs after the change. `UnwrittenChanges`,
the result of decisions in ZooKeeper mode, have the state znodes' versions before the write, which the write compares;
`written()` gives the `PartitionChanges` after it. `KraftChanges` have no epochs: each change raises them.
"""

from dataclasses import dataclass
from typing import Self

from kcore.types import Int8s, Int32s
from kcore.wire.columns import Vectors


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


@dataclass(slots=True, eq=False)
class KraftChanges:
    """Many PartitionChangeRecords as columns: what a KRaft decision produces. What is left out stays as it is.

    Lists are `Vectors` of broker ids, int32, one a change; a row that is not `valid` changes nothing, and None changes
    nothing anywhere. Epochs follow: a leader that is named raises the leader epoch by one, even if it is the leader
    already, and every change raises the partition epoch by one (PartitionRegistration.merge).
    """

    rows: Int32s  # c, ascending, each once
    leaders: Int32s | None = None  # c, broker ids, -1 for none, -2 (NO_LEADER_CHANGE) where none is named
    recovery: Int8s | None = None  # c, LeaderRecoveryState, -1 (NO_RECOVERY_CHANGE)
    isr: Vectors | None = None
    replicas: Vectors | None = None
    removing: Vectors | None = None
    adding: Vectors | None = None
    directories: Vectors | None = None  # rows of DirectoryTable, one for each replica after the change
    elr: Vectors | None = None
    last_known_elr: Vectors | None = None

    def __len__(self) -> int:
        return len(self.rows)


class PartitionChanges(ChangeColumns):
    """State as it is once the change is made: `partition_epochs` are those that the partitions then have."""

    __slots__ = ()

    def wider(self) -> KraftChanges | None:
        """The same changes where they name more than these columns: replicas, directories, ELRs. None where not."""
        return None

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
