"""The result of a KRaft decision: PartitionChangeRecords as columns, and the state after them."""

from dataclasses import dataclass
from enum import IntFlag
from typing import Final

import numpy as np

from kcore.constants import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from kcore.metadata.table.changes import KraftChanges, PartitionChanges
from kcore.types import Int32s, UInt16s
from kcore.wire.columns import Vectors
from kcore.wire.same import Comparable, counted


class ChangedFields(IntFlag):
    """Fields of a PartitionChangeRecord, each the bit of its tag."""

    ISR = 1 << 0
    LEADER = 1 << 1  # If the leader stays, only the leader epoch rises.
    REPLICAS = 1 << 2
    REMOVING_REPLICAS = 1 << 3
    ADDING_REPLICAS = 1 << 4
    LEADER_RECOVERY_STATE = 1 << 5
    ELIGIBLE_LEADER_REPLICAS = 1 << 6
    LAST_KNOWN_ELR = 1 << 7
    DIRECTORIES = 1 << 8


@dataclass(slots=True, eq=False, repr=False)
class SparseLists(Comparable):
    """A list field that few changes set. Change `places[k]` has `values[offsets[k]:offsets[k + 1]]`."""

    places: Int32s  # n, ascending
    offsets: Int32s  # n + 1
    values: Int32s  # broker ids; for directories: rows of the DirectoryTable

    def __repr__(self) -> str:
        return f"<SparseLists of {counted(len(self.places), 'change')}>"

    def as_vectors(self, count: int) -> Vectors:
        """One list for each of `count` changes; null for a change that does not set the field."""
        sizes = np.zeros(count + 1, np.int32)
        sizes[self.places + 1] = np.diff(self.offsets)
        valid = np.zeros(count, np.bool_)
        valid[self.places] = True
        return Vectors(np.cumsum(sizes, dtype=np.int32), self.values, valid)


@dataclass(slots=True, eq=False, repr=False)
class KraftElections(PartitionChanges):
    """The KRaft controller's decision: c PartitionChangeRecords as columns, with both epochs after the change.

    The columns of PartitionChanges hold the state after the change, changed or not; `fields` lists the fields that the
    record sets. A list that no change sets is None.
    """

    failed: Int32s  # Rows of the partitions that need a leader and find none (they may change too), ascending.
    fields: UInt16s  # c, ChangedFields
    replicas: SparseLists | None = None
    removing_replicas: SparseLists | None = None
    adding_replicas: SparseLists | None = None
    eligible_leader_replicas: SparseLists | None = None
    last_known_elr: SparseLists | None = None
    directories: SparseLists | None = None

    def wider(self) -> KraftChanges | None:
        """`records()` if any record sets a list besides the ISR; otherwise None."""
        return None if all(getattr(self, name) is None for name in LISTS) else self.records()

    def records(self) -> KraftChanges:
        """Only the PartitionChangeRecords: the fields that they set, without the unchanged state."""
        lists = {short: getattr(self, name) for name, short in LISTS.items()}
        return KraftChanges(
            rows=self.rows,
            leaders=np.where(self.fields & ChangedFields.LEADER, self.leaders, np.int32(NO_LEADER_CHANGE)),
            recovery=np.where(
                self.fields & ChangedFields.LEADER_RECOVERY_STATE, self.recovery, np.int8(NO_RECOVERY_CHANGE)
            ),
            isr=_named_isrs(self),
            **{short: None if each is None else each.as_vectors(len(self)) for short, each in lists.items()},
        )


LISTS: Final = {
    "replicas": "replicas",
    "removing_replicas": "removing",
    "adding_replicas": "adding",
    "eligible_leader_replicas": "elr",
    "last_known_elr": "last_known_elr",
    "directories": "directories",
}
"""The sparse lists of KraftElections in the kernel's order, and their names in KraftChanges."""


def _named_isrs(changes: KraftElections) -> Vectors | None:
    names = (changes.fields & ChangedFields.ISR) != 0
    if names.all():
        return Vectors(changes.isr_offsets, changes.isr)
    if not names.any():
        return None
    sizes = np.diff(changes.isr_offsets)
    offsets = np.append(np.int32(0), np.cumsum(sizes * names, dtype=np.int32))
    return Vectors(offsets, changes.isr[np.repeat(names, sizes)], names)
