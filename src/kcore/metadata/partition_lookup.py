"""From (topic row, partition index) to the partition's row."""

import numpy as np
import numpy.typing as npt

from kcore.errors import TableError
from kcore.metadata.arrays import Array, as_integers, grown
from kcore.types import Int32s, Int64s


class PartitionLookup:
    """Where each topic's partitions are.

    Partitions 0, 1, 2 ... of topic t usually sit in rows first__t[t] onwards, count__t[t] of them: two numbers a topic.
    Any others are strays, kept as sorted keys; a table from a request, in Kafka's hash order, is mostly strays.
    """

    def __init__(self, topic_row__p: Int32s, partition_index__p: Int32s, topics: int) -> None:
        """From all rows of a table, none of them free; TableError if a topic has the same partition twice."""
        self._first__t = np.zeros(topics, np.int32)
        self._count__t = np.zeros(topics, np.int32)
        steps = np.diff(partition_index__p) != 1
        steps |= np.diff(topic_row__p) != 0
        begins = np.concatenate([[0], np.flatnonzero(steps) + 1]) if len(topic_row__p) else np.empty(0, np.int64)
        lengths = np.diff(begins, append=len(topic_row__p))
        owners = topic_row__p[begins]
        regular = partition_index__p[begins] == 0
        self._first__t[owners[regular]] = begins[regular]
        self._count__t[owners[regular]] = lengths[regular]
        # Two runs of one topic that both start at partition 0: only one can stand; the other is found out below.
        regular &= self._first__t[owners] == begins
        strays = np.flatnonzero(np.repeat(~regular, lengths)).astype(np.int32)
        keys = _keys(topic_row__p[strays], partition_index__p[strays])
        order = np.argsort(keys, kind="stable")
        self._stray_keys, self._stray_rows = keys[order], strays[order]
        self._check_unique(topic_row__p[strays], partition_index__p[strays])

    def _check_unique(self, topic_rows: Int32s, partitions: Int32s) -> None:
        repeated = partitions < self._count__t[topic_rows]
        again = np.flatnonzero(self._stray_keys[1:] == self._stray_keys[:-1])
        if repeated.any() or again.size:
            key = int(self._stray_keys[again[0]]) if again.size else int(_keys(topic_rows, partitions)[repeated][0])
            raise TableError(f"partition {key & 0xFFFFFFFF} of topic row {key >> 32} is given twice")

    def rows(self, topic_rows: npt.ArrayLike, partitions: npt.ArrayLike) -> Int32s:
        """The rows of many partitions, -1 for one that there is not. Topic rows must be of the table."""
        topics = as_integers("topic rows", topic_rows, np.int32, np.shape(topic_rows))
        indexes = as_integers("partitions", partitions, np.int32, topics.shape)
        if topics.size and (topics.min() < 0 or topics.max() >= len(self._first__t)):
            raise TableError(f"unknown topic row, not in 0..{len(self._first__t) - 1}")
        rows = np.where((indexes >= 0) & (indexes < self._count__t[topics]), self._first__t[topics] + indexes, -1)
        if len(self._stray_keys) and (missing := np.flatnonzero(rows < 0)).size:
            keys = _keys(topics[missing], indexes[missing])
            at = np.minimum(np.searchsorted(self._stray_keys, keys), len(self._stray_keys) - 1)
            rows[missing] = np.where(self._stray_keys[at] == keys, self._stray_rows[at], -1)
        return rows.astype(np.int32)

    def rows_of_topic(self, topic_row: int) -> Int32s:
        """All rows of a topic, by ascending partition index."""
        self._grow_to(topic_row + 1)  # A topic may have no partition yet.
        start, end = self._stray_range(topic_row)
        first, count = int(self._first__t[topic_row]), int(self._count__t[topic_row])
        strays, keys = self._stray_rows[start:end], self._stray_keys[start:end]
        regular = np.arange(first, first + count, dtype=np.int32)
        # Strays may come before the regular run's end only if there is no such run: it starts at partition 0.
        assert not count or not len(keys) or int(keys[0]) & 0xFFFFFFFF >= count
        return np.concatenate([regular, strays])

    def add(self, topic_row: int, first_partition: int, first_row: int, count: int) -> None:
        """Partitions first_partition onwards of a topic, none of them known, are now in rows first_row onwards."""
        self._grow_to(topic_row + 1)
        known = int(self._count__t[topic_row])
        if first_partition == known and (not known or int(self._first__t[topic_row]) + known == first_row):
            self._first__t[topic_row] = first_row - first_partition
            self._count__t[topic_row] = known + count
            return
        fresh = np.arange(count, dtype=np.int32)
        keys = _keys(np.full(count, topic_row), first_partition + fresh)
        at = np.searchsorted(self._stray_keys, keys)
        self._stray_keys = np.insert(self._stray_keys, at, keys)
        self._stray_rows = np.insert(self._stray_rows, at, first_row + fresh)

    def remove(self, topic_row: int) -> None:
        """The topic has no partitions any more."""
        start, end = self._stray_range(topic_row)
        self._first__t[topic_row] = self._count__t[topic_row] = 0
        if start < end:
            self._stray_keys = np.delete(self._stray_keys, slice(start, end))
            self._stray_rows = np.delete(self._stray_rows, slice(start, end))

    def _stray_range(self, topic_row: int) -> tuple[int, int]:
        start, end = np.searchsorted(self._stray_keys, [topic_row << 32, topic_row + 1 << 32])
        return int(start), int(end)

    def _grow_to(self, topics: int) -> None:
        if topics > len(self._first__t):
            known = len(self._first__t)
            self._first__t, self._count__t = grown(self._first__t, topics), grown(self._count__t, topics)
            self._first__t[known:] = self._count__t[known:] = 0

    def copy(self) -> "PartitionLookup":
        """A lookup that shares nothing with this one."""
        twin = PartitionLookup(np.empty(0, np.int32), np.empty(0, np.int32), 0)
        twin._first__t, twin._count__t = self._first__t.copy(), self._count__t.copy()
        twin._stray_keys, twin._stray_rows = self._stray_keys.copy(), self._stray_rows.copy()
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(each.nbytes for each in (self._first__t, self._count__t, self._stray_keys, self._stray_rows))


def _keys(topic_rows: Array, partitions: Array) -> Int64s:
    return (topic_rows.astype(np.int64) << 32) | partitions.astype(np.int64)
