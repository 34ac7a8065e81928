"""Changes of partition state as columns: what decisions produce and what the table's one mutator takes."""

from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Self

from kcore.types import Int8s, Int32s, UInt16s


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


class ChangedFields(IntFlag):
    """Fields of a PartitionChangeRecord, each the bit of its tag."""

    ISR = 1 << 0
    LEADER = 1 << 1  # Set without another leader: the leader epoch rises.
    REPLICAS = 1 << 2
    REMOVING_REPLICAS = 1 << 3
    ADDING_REPLICAS = 1 << 4
    LEADER_RECOVERY_STATE = 1 << 5
    ELIGIBLE_LEADER_REPLICAS = 1 << 6
    LAST_KNOWN_ELR = 1 << 7
    DIRECTORIES = 1 << 8


@dataclass(slots=True, eq=False)
class SparseLists:
    """New values of a list that few changes set: list k, of change `places[k]`, is `values[offsets[k]:offsets[k + 1]]`."""

    places: Int32s  # n, ascending: which changes
    offsets: Int32s  # n + 1
    values: Int32s  # broker ids; of directories: rows of the DirectoryTable


@dataclass(slots=True, eq=False)
class KraftChanges(PartitionChanges):
    """PartitionChangeRecords as columns. Both epochs are those after the change.

    The columns of PartitionChanges hold the state after the change, be it new or as before; `fields` says what the
    record names. A list that no change sets is None.
    """

    fields: UInt16s  # c, ChangedFields
    replicas: SparseLists | None = None
    removing_replicas: SparseLists | None = None
    adding_replicas: SparseLists | None = None
    eligible_leader_replicas: SparseLists | None = None
    last_known_elr: SparseLists | None = None
    directories: SparseLists | None = None
