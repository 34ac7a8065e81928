"""The parts that bulk elections share: candidates and brokers' flags; also ZooKeeper mode's result and kernel call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore._ext.elections import election as kernels
from kcore._ext.elections.election import CALLS
from kcore.errors import TableError
from kcore.metadata.table.arrays import as_array
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Int32s, Int64s, UInt8s

NEVER: Final = np.zeros(1, np.uint8)
ALWAYS: Final = np.ones(1, np.uint8)

# In int32 elements. Columns at a distance of whole pages slow each other's stores down, so _STAGGER is added.
_PAGE: Final = 1024
_STAGGER: Final = 144
_KERNEL: Final[Callable[..., tuple[int, int, int]]] = kernels.zookeeper
_FEW: Final = 16  # If fewer than one partition in this many has a replica there, sorting is faster.


@dataclass(slots=True, eq=False, repr=False)
class ZooKeeperElections(UnwrittenChanges):
    """The partitions that change, and the partitions that need a leader and find none (these may change, too).

    `partition_epochs` are the versions that the writes of the states must find.
    """

    failed: Int32s  # Partition rows, ascending.


@dataclass(frozen=True, slots=True)
class BrokerFlags:
    """The flags that the kernel reads for a broker, by the broker's state."""

    down: int
    live: int
    shutting_down: int  # Also if it is not live: in Kafka a broker shuts down until its registration ends.
    without_leader: int = CALLS  # The flag of row -1, which stands for the leader of a partition without one.

    def of(self, brokers: BrokerTable, leaving: Sequence[int], leaving_flags: int) -> Int64s:
        """Broker ids and flags in the kernels' form. `leaving`: the broker rows that have `leaving_flags`."""
        described = np.empty(len(brokers.ids) + 1, np.int64)
        by_state = self.down | self.live << 8 | self.shutting_down << 16 | self.shutting_down << 24
        states = brokers.ids, brokers.live, brokers.shutting_down, by_state, self.without_leader
        kernels.describe_brokers(*states, leaving, leaving_flags, described)
        return described


def decide(columns: "kernels.Columns", brokers__b: Int64s, rows: Int32s, *rule: Any) -> ZooKeeperElections:
    """The kernel's decision for partitions `rows`, ascending. Memory allocated for changes that do not happen stays
    untouched.
    """
    count = len(rows)
    step = head_step(count)
    heads = np.empty((kernels.HEADS, step), np.int32)
    isr = np.empty(count * max(columns[1].shape[1], 1) + 1, np.int32)  # An unclean leader is its whole ISR.
    recovery = np.empty(count, np.int8)
    changes, members, failures = _KERNEL(columns, brokers__b, rows, *rule, heads, step, isr, recovery)
    changed, leaders, leader_epochs, partition_epochs = heads[: kernels.ISR_OFFSETS, :changes]
    return ZooKeeperElections(
        rows=changed,
        leaders=leaders,
        isr_offsets=heads[kernels.ISR_OFFSETS, : changes + 1],
        isr=isr[:members],
        leader_epochs=leader_epochs,
        partition_epochs=partition_epochs,
        recovery=recovery[:changes],
        failed=heads[kernels.FAILED, :failures],
    )


def head_step(count: int) -> int:
    """The distance between the int32 columns of a decision about `count` candidates."""
    return count + 1 + (_STAGGER - count - 1) % _PAGE


def columns_of(table: PartitionTable) -> "kernels.Columns":
    """The columns that the kernels read."""
    return (
        table.replicas__ps,
        table.isr__pi,
        table.leader__p,
        table.leader_epoch__p,
        table.partition_epoch__p,
        table.leader_recovery_state__p,
    )


def unclean_by_partition(unclean: bool | npt.ArrayLike | None, partitions: int) -> UInt8s:
    """1 if a partition's topic allows unclean elections, otherwise 0: one entry for all, or one for each partition."""
    if unclean is None or isinstance(unclean, bool):
        return ALWAYS if unclean else NEVER
    allowed = as_array("unclean", unclean)
    if allowed.dtype != np.bool_ or allowed.shape != (partitions,):
        raise TableError(f"unclean is a bool or {partitions} of them, not {allowed.dtype} of shape {allowed.shape}")
    return np.ascontiguousarray(allowed).view(np.uint8)


def checked_rows(rows: npt.ArrayLike, partitions: int) -> Int32s:
    """A caller's rows; TableError unless they are partitions of the table, ascending, each once."""
    given = np.array(as_array("rows", rows))  # A copy: no other thread can change it between this check and the kernel.
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TableError(f"rows are a list of partition rows, not {given.dtype} of shape {given.shape}")
    if given.size and (given.min() < 0 or given.max() >= partitions):
        raise TableError(f"rows must be within 0..{partitions - 1}")
    checked = np.ascontiguousarray(given, np.int32)
    if not kernels.ascends(checked):
        raise TableError("rows must ascend, each once")
    return checked


def rows_of(table: PartitionTable, leaving: Sequence[int]) -> Int32s:
    """The partitions with a replica on any of these broker rows."""
    lists = [table.index.rows(row) for row in leaving]
    if len(lists) == 1:
        return lists[0]
    held = np.concatenate(lists)
    if len(held) * _FEW < len(table):
        held.sort()  # np.unique takes ten times as long.
        return held[np.diff(held, prepend=-1) > 0]
    is_held = np.zeros(len(table), np.bool_)
    is_held[held] = True
    return np.flatnonzero(is_held).astype(np.int32)


def rows_that_call(table: PartitionTable, brokers__b: Int64s) -> Int32s:
    """The partitions that need an election, because of the leader's state or because they have no leader."""
    rows = np.empty(len(table) + 1, np.int32)
    return rows[: kernels.rows_that_call(table.replicas__ps, table.leader__p, brokers__b, rows)]


def rows_not_led_by_first(table: PartitionTable) -> Int32s:
    """The partitions whose leader is not the preferred replica."""
    rows = np.empty(len(table) + 1, np.int32)
    return rows[: kernels.rows_not_led_by_first(table.replicas__ps, table.leader__p, rows)]
