"""Changes of partition state as columns: the result of decisions and the input of the table's mutators.

Types say which partition epochs they carry. `PartitionChanges` have the epochs after the change. `UnwrittenChanges`,
the result of decisions in ZooKeeper mode, have the state znodes' versions before the write, which the write compares;
`written()` returns the `PartitionChanges` after it. `KraftChanges` have no epochs: each change raises them.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import numpy as np

from kcore.constants import NO_LEADER
from kcore.types import Int8s, Int32s
from kcore.wire.columns import Vectors
from kcore.wire.same import Comparable, counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True, eq=False, repr=False)  # Not frozen: that would make a decision two microseconds slower.
class ChangeColumns(Comparable):
    """The new state of the partitions in `rows`; c is the number of changes. Brokers are ids, not rows.

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

    def __repr__(self) -> str:
        leaderless = int(np.count_nonzero(self.leaders == NO_LEADER))
        failed = len(getattr(self, "failed", ()))
        counts = {"without a leader": leaderless, "found none": failed}
        notes = "".join(f", {count} {what}" for what, count in counts.items() if count)
        return f"<{type(self).__name__} of {counted(len(self), 'partition')}{notes}>"

    def to_arrow(self) -> "pa.Table":
        """A row a change, with the columns of `kcore.metadata.table.table_arrow.CHANGES`. MissingExtraError without
        pyarrow.
        """
        from kcore.metadata.table.table_arrow import changes_as_arrow  # pyarrow is loaded on first use.

        return changes_as_arrow(*(getattr(self, field.name) for field in fields(ChangeColumns)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream interface of Arrow's PyCapsules, for pyarrow, Polars, DuckDB and other libraries."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(slots=True, eq=False, repr=False)
class KraftChanges(Comparable):
    """Many PartitionChangeRecords as columns: the result of a KRaft decision. Unset fields keep the state.

    Lists are `Vectors` of broker ids, int32, one a change; a row that is not `valid` changes nothing, and None changes
    nothing in any row. Epochs follow: naming a leader, even the present one, raises the leader epoch by one, and every
    change raises the partition epoch by one (PartitionRegistration.merge).
    """

    rows: Int32s  # c, ascending, each once
    leaders: Int32s | None = None  # c, broker ids, -1 for none, -2 (NO_LEADER_CHANGE) if the leader is not set
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

    def __repr__(self) -> str:
        named = [field.name for field in fields(self)[1:] if getattr(self, field.name) is not None]
        return f"<KraftChanges of {counted(len(self), 'partition')}: {', '.join(named) or 'nothing'}>"


class PartitionChanges(ChangeColumns):
    """The state after the change, with the partition epochs after the change."""

    __slots__ = ()

    def wider(self) -> KraftChanges | None:
        """The same changes as KraftChanges if they set replicas, directories or ELRs, which have no columns here;
        otherwise None.
        """
        return None

    def written(self) -> Self:
        """Returns these changes, which are not waiting for a write."""
        return self


class UnwrittenChanges(ChangeColumns):
    """State to write to ZooKeeper: `partition_epochs` are the versions that the writes must find.

    -1: there is no state znode yet, and the write creates it.
    """

    __slots__ = ()

    def written(self) -> PartitionChanges:
        """The state after ZooKeeper's writes: every state znode's version is one higher."""
        return PartitionChanges(
            self.rows,
            self.leaders,
            self.isr_offsets,
            self.isr,
            self.leader_epochs,
            self.partition_epochs + 1,
            self.recovery,
        )
