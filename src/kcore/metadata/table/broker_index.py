"""Lists the partitions that each broker replicates: for each broker row, the ascending partition rows.

So a failed broker's partitions are found without a scan of all partitions. Kafka's own controller is limited by work in
proportion to the whole cluster for the failure of one broker.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from kcore._ext.tables import broker_index as kernels
from kcore.constants import NO_BROKER_ROW
from kcore.errors import TableError
from kcore.metadata.table.arrays import grown
from kcore.types import Int16s, Int32s, Int64s
from kcore.wire.buffers import read_only


class BrokerIndex:
    """One list of partition rows a broker, four bytes an entry and a sixteenth of room to grow.

    All lists begin in one shared array; a list that outgrows its part of it moves to a separate array.
    """

    def __init__(self, replicas__ps: Int16s, brokers: int) -> None:
        """Sorts `replicas__ps` by counting, without a copy; its broker rows must be valid and below `brokers`."""
        sizes = np.zeros(brokers, np.int64)
        kernels.count(replicas__ps, sizes)
        bounds = np.concatenate([[0], np.cumsum(sizes + sizes // 16 + 4)])
        self._arena = np.empty(int(bounds[-1]), np.int32)
        self._sizes: list[int] = sizes.tolist()
        self._lists: list[Int32s] = [self._arena[start:end] for start, end in pairwise(bounds.tolist())]
        self._views = [read_only(each) for each in self._lists]
        kernels.deal(replicas__ps, bounds[:-1], self._arena)

    def rows(self, broker_row: int) -> Int32s:
        """The partitions that have the broker among their replicas: a read-only view, valid until the next change."""
        if broker_row < 0:
            raise TableError(f"broker row {broker_row} is negative")
        if broker_row >= len(self._lists):
            return np.empty(0, np.int32)  # A broker that has never had a replica.
        return self._views[broker_row][: self._sizes[broker_row]]

    def add(self, rows: Int32s, replicas__ps: Int16s) -> None:
        """Adds the partitions `rows` (ascending) to the lists of the brokers in `replicas__ps`, a line per row."""
        for broker_row, fresh in _by_broker(rows, replicas__ps):
            self._merge(broker_row, fresh)

    def remove(self, rows: Int32s, replicas__ps: Int16s) -> None:
        """Removes the partitions `rows` (ascending) from the lists of the brokers in `replicas__ps`, a line per row."""
        for broker_row, gone in _by_broker(rows, replicas__ps):
            self._drop(broker_row, gone)

    def replace(self, rows: Int32s, before__ps: Int16s, after__ps: Int16s) -> None:
        """Replace the replicas of the partitions `rows`, ascending. Updates only added and removed brokers."""
        self.remove(rows, _without(before__ps, after__ps))
        self.add(rows, _without(after__ps, before__ps))

    def replace_row(self, row: int, before: Iterable[int], after: Iterable[int]) -> None:
        """Replace the replicas of one partition; -1 is an unused slot."""
        old, new, rows = {*before} - {NO_BROKER_ROW}, {*after} - {NO_BROKER_ROW}, np.array([row], np.int32)
        for broker_row in old - new:
            self._drop(broker_row, rows)
        for broker_row in new - old:
            self._merge(broker_row, rows)

    def _merge(self, broker_row: int, fresh: Int32s) -> None:
        self._grow_to(broker_row + 1)
        size = self._sizes[broker_row]
        if size + len(fresh) > len(self._lists[broker_row]):
            self._lists[broker_row] = grown(self._lists[broker_row][:size], size + len(fresh))
            self._views[broker_row] = read_only(self._lists[broker_row])
        kernels.merge(self._lists[broker_row], size, fresh)
        self._sizes[broker_row] += len(fresh)

    def _drop(self, broker_row: int, gone: Int32s) -> None:
        size = self._sizes[broker_row]
        start = int(np.searchsorted(self._lists[broker_row][:size], gone[0]))
        left = kernels.drop(self._lists[broker_row], start, size, gone)
        assert left == size - len(gone), f"broker row {broker_row} did not have all of {gone}"
        self._sizes[broker_row] = left

    def _grow_to(self, brokers: int) -> None:
        while len(self._lists) < brokers:
            self._lists.append(np.empty(0, np.int32))
            self._views.append(self._lists[-1])
            self._sizes.append(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the shared array and of the lists that have left it."""
        return self._arena.nbytes + sum(each.nbytes for each in self._lists if each.base is not self._arena)

    def copy(self) -> "BrokerIndex":
        """A copy that shares nothing with this one."""
        twin = BrokerIndex(np.empty((0, 0), np.int16), 0)
        twin._sizes = list(self._sizes)
        twin._lists = [each.copy() for each in self._lists]
        twin._views = [read_only(each) for each in twin._lists]
        return twin


def _without(these__ps: Int16s, those__ps: Int16s) -> Int16s:
    """`these__ps` with -1 in place of every broker that is in the same row of `those__ps`."""
    in_both = (these__ps[:, :, None] == those__ps[:, None, :]).any(axis=2)
    return np.where(in_both, np.int16(NO_BROKER_ROW), these__ps)


def _by_broker(rows: Int32s, replicas__ps: Int16s) -> Iterator[tuple[int, Int32s]]:
    """Each named broker, with the ascending rows that name it."""
    brokers = replicas__ps.reshape(-1)
    named = np.flatnonzero(brokers != NO_BROKER_ROW)
    # A stable sort keeps the rows of one broker ascending; on int16 it is a radix sort.
    order: Int64s = named[np.argsort(brokers[named], kind="stable")]
    ordered = brokers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=NO_BROKER_ROW))
    owners = rows[order // replicas__ps.shape[1]] if len(order) else rows[:0]
    for start, part in zip(starts, np.split(owners, starts[1:]) if len(starts) else (), strict=True):
        yield int(ordered[start]), part
