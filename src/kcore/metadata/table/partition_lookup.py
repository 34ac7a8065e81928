"""Finds a partition's row by topic row and partition index."""

from typing import Final

import numpy as np
import numpy.typing as npt

from kcore._ext.tables import partition_lookup as kernels
from kcore.constants import MAX_PARTITIONS
from kcore.errors import TableError
from kcore.metadata.table.arrays import FEWEST_SLOTS, as_array, as_integers, grown
from kcore.types import Int32s, Int64s

_NONE: Final = -1


class PartitionLookup:
    """The rows of each topic's partitions.

    Partitions 0, 1, 2 ... of topic t usually have the count__t[t] rows from first__t[t] on: two numbers a topic. All
    others are strays, in a hash table. If a table is made from a request, in Kafka's hash order, most are strays.
    """

    def __init__(self, topic_row__p: Int32s, partition_index__p: Int32s, topics: int) -> None:
        """Built from all rows of a table, none of them free; TableError if a topic has the same partition twice."""
        self._first__t = np.zeros(topics, np.int32)
        self._count__t = np.zeros(topics, np.int32)
        self._topics = topics
        self._head__t = np.empty(0, np.int32)  # As long as `_first__t` once there is a stray.
        nothing = np.empty(0, np.int32)
        self._entries: tuple[Int64s, Int32s, Int32s] = np.empty(0, np.int64), nothing, nothing
        self._slots = np.full(FEWEST_SLOTS, _NONE, np.int32)
        self._state = np.array([0, _NONE], np.int32)
        steps = np.diff(partition_index__p) != 1
        steps |= np.diff(topic_row__p) != 0
        begins = np.concatenate([[0], np.flatnonzero(steps) + 1]) if len(topic_row__p) else np.empty(0, np.int64)
        lengths = np.diff(begins, append=len(topic_row__p))
        owners = topic_row__p[begins]
        regular = partition_index__p[begins] == 0
        self._first__t[owners[regular]] = begins[regular]
        self._count__t[owners[regular]] = lengths[regular]
        # If two runs of one topic begin at partition 0, one of them becomes strays, which `_add_strays` refuses.
        regular &= self._first__t[owners] == begins
        strays = np.flatnonzero(np.repeat(~regular, lengths)).astype(np.int32)
        self._add_strays(topic_row__p[strays], partition_index__p[strays], strays)

    def _add_strays(self, topic_rows: Int32s, partitions: Int32s, rows: Int32s) -> None:
        """Add strays; TableError for a partition that is known already."""
        keys = topic_rows.astype(np.int64) << 32 | partitions
        keys.sort()
        again = np.flatnonzero(keys[1:] == keys[:-1])
        repeated = partitions < self._count__t[topic_rows]
        if again.size or repeated.any():
            at = np.flatnonzero(repeated)[:1]
            key = int(keys[again[0]]) if again.size else int(topic_rows[at[0]]) << 32 | int(partitions[at[0]])
            raise TableError(f"partition {key & 0xFFFFFFFF} of topic row {key >> 32} is given twice")
        self._put(topic_rows, partitions, rows)

    @property
    def arrays(self) -> "kernels.Arrays":
        """For kernels, with the names of `_ext/tables/partition_lookup.pxd`; valid until the next addition."""
        # Each attribute is read once: this code runs for every single partition.
        return (self._first__t, self._count__t, self._head__t, *self._entries, self._slots, self._state)

    @property
    def has_strays(self) -> bool:
        """True if a stray was ever added."""
        return len(self._head__t) > 0

    @property
    def runs(self) -> tuple[Int32s, Int32s]:
        """For kernels, by topic row: the row of partition 0, and the length of its run; 0 if there is none."""
        return self._first__t, self._count__t

    def rows(self, topic_rows: npt.ArrayLike, partitions: npt.ArrayLike) -> Int32s:
        """The rows of many partitions, -1 for unknown ones. Topic rows must be valid."""
        given = as_array("topic rows", topic_rows)
        topics = as_integers("topic rows", given, np.int32, given.shape)
        indexes = as_integers("partitions", partitions, np.int32, topics.shape)
        if topics.size and (topics.min() < 0 or topics.max() >= self._topics):
            raise TableError(f"unknown topic row, not in 0..{self._topics - 1}")
        rows = np.empty(topics.shape, np.int32)
        kernels.find(self.arrays, topics.reshape(-1), indexes.reshape(-1), rows.reshape(-1))
        return rows

    def row(self, topic_row: int, partition: int) -> int:
        """The row of one partition, -1 for none. An unknown topic row has no partitions."""
        if not 0 <= topic_row < self._topics or not 0 <= partition <= MAX_PARTITIONS:
            return -1
        if partition < (count := int(self._count__t[topic_row])):
            return int(self._first__t[topic_row]) + partition
        if topic_row >= len(self._head__t) or self._head__t[topic_row] == _NONE or partition < count:
            return -1
        query = np.array([[topic_row], [partition], [_NONE]], np.int32)
        kernels.find(self.arrays, *query)
        return int(query[2, 0])

    def rows_of_topic(self, topic_row: int) -> Int32s:
        """All rows of a topic, by ascending partition index."""
        if topic_row >= self._topics:
            return np.empty(0, np.int32)  # The topic may have no partition yet.
        first, count = int(self._first__t[topic_row]), int(self._count__t[topic_row])
        regular = np.arange(first, first + count, dtype=np.int32)
        if topic_row >= len(self._head__t) or self._head__t[topic_row] == _NONE:
            return regular
        found = np.empty((16, 2), np.int32)
        while (strays := kernels.strays(self.arrays, topic_row, found)) > len(found):
            found = np.empty((strays, 2), np.int32)
        found = found[:strays]
        return np.concatenate([regular, found[np.argsort(found[:, 0]), 1]])

    def rows_of_topics(self, topic_rows: Int32s) -> tuple[Int32s, Int64s]:
        """The rows of several topics, one topic after the other, by partition index; and where each topic begins."""
        self.know_topics(int(topic_rows.max(initial=-1)) + 1)
        starts, nothing = np.empty(len(topic_rows) + 1, np.int64), np.empty(0, np.int64)
        count = kernels.gather(self.arrays, topic_rows, starts, np.empty(0, np.int32), nothing)
        rows, scratch = np.empty(count, np.int32), np.empty(int(np.diff(starts).max(initial=0)), np.int64)
        kernels.gather(self.arrays, topic_rows, starts, rows, scratch)
        return rows, starts

    def add(self, topic_row: int, first_partition: int, first_row: int, count: int) -> None:
        """Add `count` new partitions of a topic, from `first_partition` on, in the rows from `first_row` on."""
        fresh = np.arange(count, dtype=np.int32)
        self.put(np.full(count, topic_row, np.int32), fresh + np.int32(first_partition), fresh + np.int32(first_row))

    def put_one(self, topic_row: int, partition: int, row: int) -> None:
        """Add one new partition in `row`."""
        self.know_topics(topic_row + 1)
        self._put_known(*(np.array([each], np.int32) for each in (topic_row, partition, row)))

    def put(self, topic_rows: Int32s, partitions: Int32s, rows: Int32s) -> None:
        """Add new partitions, each in the row given for it."""
        self.know_topics(int(topic_rows.max(initial=-1)) + 1)
        self._put_known(topic_rows, partitions, rows)

    def _put_known(self, topic_rows: Int32s, partitions: Int32s, rows: Int32s) -> None:
        done = kernels.add(self.arrays, topic_rows, partitions, rows)
        if done < len(rows):
            self._put(topic_rows[done:], partitions[done:], rows[done:])

    def _put(self, topic_rows: Int32s, partitions: Int32s, rows: Int32s) -> None:
        self.reserve(len(rows))
        done = kernels.add(self.arrays, topic_rows, partitions, rows)
        assert done == len(rows)

    def know_topics(self, topics: int) -> None:
        """Make room for topic rows below `topics`."""
        if topics > len(self._first__t):
            known = len(self._first__t)
            self._first__t, self._count__t = grown(self._first__t, topics), grown(self._count__t, topics)
            self._first__t[known:] = self._count__t[known:] = 0
        self._topics = max(self._topics, topics)

    def reserve(self, strays: int) -> None:
        """Make room for `strays` more strays."""
        if not strays:
            return
        if len(self._head__t) < len(self._first__t):
            heads = np.full(len(self._first__t), _NONE, np.int32)
            heads[: len(self._head__t)] = self._head__t
            self._head__t = heads
        wanted = int(self._state[0]) + strays
        if wanted > len(self._entries[0]):
            key, row, after = (grown(each, max(wanted, len(each) * 3 // 2)) for each in self._entries)
            self._entries = key, row, after
        if 2 * wanted > len(self._slots):
            self._slots = np.full(1 << (2 * wanted).bit_length(), _NONE, np.int32)
            kernels.rehash(self.arrays)

    def remove(self, topic_row: int) -> None:
        """Remove all partitions of the topic."""
        if topic_row < self._topics:
            kernels.drop_topic(self.arrays, topic_row)

    def drop(self, topic_rows: Int32s, partitions: Int32s) -> None:
        """Remove these known partitions."""
        order = np.lexsort((partitions, topic_rows))[::-1]
        topic_rows, partitions = topic_rows[order], partitions[order]
        while (done := kernels.drop(self.arrays, topic_rows, partitions)) < len(topic_rows):
            topic_rows, partitions = topic_rows[done:], partitions[done:]
            self._cut(int(topic_rows[0]), int(partitions[0]) + 1)

    def _cut(self, topic_row: int, count: int) -> None:
        """Shorten the run of a topic to `count`; the partitions after them become strays."""
        first, end = int(self._first__t[topic_row]), int(self._count__t[topic_row])
        assert count < end, f"topic row {topic_row} has no partition {count - 1}"
        self._count__t[topic_row] = count
        behind = np.arange(count, end, dtype=np.int32)
        # The last partition is added first: the first partition after a run would become part of the run again.
        self.reserve(len(behind))
        self._count__t[topic_row] = 0
        for partition in behind[::-1].tolist():
            self.put_one(topic_row, partition, first + partition)
        self._count__t[topic_row] = count

    def copy(self) -> "PartitionLookup":
        """A copy that shares nothing with this one."""
        twin = object.__new__(PartitionLookup)
        twin._first__t, twin._count__t, twin._topics = self._first__t.copy(), self._count__t.copy(), self._topics
        key, row, after = self._entries
        twin._head__t, twin._entries = self._head__t.copy(), (key.copy(), row.copy(), after.copy())
        twin._slots, twin._state = self._slots.copy(), self._state.copy()
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(each.nbytes for each in self.arrays)
