"""Manages the rows of a partition table: which are used, how they are found, and the index, lookup and free rows.

`known_rows` checks rows from outside; the other methods check nothing. Every method calls the recorder before it
changes anything.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.constants import MAX_PARTITIONS, NO_BROKER_ROW
from kcore.errors import TableError
from kcore.metadata.image.journal import RowImages
from kcore.metadata.image.recorder import Recorder
from kcore.metadata.table.arrays import Array, as_array, as_integers, together
from kcore.metadata.table.broker_index import BrokerIndex
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.column_list import ALL_COLUMNS, NO_TOPIC, ON_DEMAND_COLUMNS
from kcore.metadata.table.directory_table import DirectoryTable
from kcore.metadata.table.free_rows import FreeRows
from kcore.metadata.table.partition_columns import PartitionColumns
from kcore.metadata.table.partition_lookup import PartitionLookup
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.table.validation import check_range
from kcore.types import Int16s, Int32s

MOVES: Final = ("adding", "removing")
FREED_AT_ONCE: Final = 8_192  # Partitions of removed topics that a part frees: some milliseconds.


class PartitionRows(PartitionColumns):
    """The columns, with the brokers, the topics, and a broker index that follows every change.

    A partition keeps its row until its topic is removed. Its row is then free: no replicas, no ISR, no leader, topic
    row -1. Decisions change nothing in free rows, and new partitions reuse them.
    """

    brokers: BrokerTable
    topics: TopicTable
    index: BrokerIndex
    recorder: Recorder | None  # Called before every change; see ClusterImage.
    adding: dict[int, tuple[int, ...]]  # Partition row -> broker rows.
    removing: dict[int, tuple[int, ...]]

    def __init__(self, columns: Mapping[str, Array], topics: TopicTable, brokers: BrokerTable) -> None:
        """Takes ownership of the columns of broker and topic rows; no row may be free."""
        super().__init__(columns)
        self.topics, self.brokers, self.recorder = topics, brokers, None
        self.adding, self.removing = {}, {}
        self.index = BrokerIndex(self.replicas__ps, len(brokers))
        self._is_indexed = True  # False for a read-only copy.
        self._free = FreeRows()
        self._lookup = PartitionLookup(self.topic_row__p, self.partition_index__p, len(topics))

    @property
    def directories(self) -> DirectoryTable:
        """The log directories that `directories__ps` refers to."""
        return self.brokers.directory_table

    @property
    def partition_count(self) -> int:
        """The number of partitions: of rows that are not free."""
        return len(self) - len(self._free)

    def rows_of(self, topic_rows: npt.ArrayLike, partitions: npt.ArrayLike) -> Int32s:
        """The rows of many partitions, by topic row and partition index; -1 for an unknown one."""
        return self._lookup.rows(topic_rows, partitions)

    def row_at(self, topic_row: int, partition: int) -> int:
        """The row of one partition by topic row; -1 for none."""
        return self._lookup.row(topic_row, partition)

    @property
    def first_partitions(self) -> tuple[Int32s, Int32s]:
        """For kernels, by topic row: the row of partition 0, valid if the second array has a number above 0."""
        return self._lookup.runs

    def rows_of_topic(self, name: str) -> Int32s:
        """The rows of a topic's partitions, by ascending partition index; TableError if there is no such topic."""
        return self._lookup.rows_of_topic(self.topics.row(name))

    def replica_count(self, row: int) -> int:
        """The number of a partition's replicas."""
        return int((self.replicas__ps[row] != NO_BROKER_ROW).sum())

    def known_rows(self, rows: npt.ArrayLike) -> Int32s:
        """Rows from outside; TableError unless they are used rows, ascending, each once."""
        given = as_array("rows", rows)
        known = as_integers("rows", given, np.int32, (given.size,))
        check_range("rows", known, 0, len(self) - 1)
        if (known[1:] <= known[:-1]).any():
            raise TableError("rows must ascend, each once")
        if known.size and (free := known[self.topic_row__p[known] == NO_TOPIC]).size:
            raise TableError(f"row {free[0]} is free: its topic was removed")
        return known

    def moves(self, part: str) -> dict[int, tuple[int, ...]]:
        """The dict `adding` or `removing`, by its name."""
        found: dict[int, tuple[int, ...]] = getattr(self, part)
        return found

    def _new_rows(self, topic_row: int, first_partition: int, count: int) -> Int32s:
        """A run of rows for new partitions of the topic; `write_rows` writes their contents."""
        first_row = self._take_free_rows(count)
        rows = np.arange(first_row, first_row + count, dtype=np.int32)
        self._changing(rows)
        self._room["topic_row__p"][rows] = topic_row
        self._room["partition_index__p"][rows] = first_partition + rows - first_row
        self._lookup.add(topic_row, first_partition, first_row, count)
        return rows

    def _take_free_rows(self, count: int) -> int:
        """Take a run of `count` free rows, or of new rows at the table's end; returns its first row."""
        if (first := self._free.take_run(count)) is not None:
            return first
        first = len(self)
        if first + count > MAX_PARTITIONS:
            raise TableError(f"{first + count} partitions; at most {MAX_PARTITIONS} fit")
        if self.recorder is not None:
            self.recorder.undo(lambda image: image.table.truncate(first))
        self._set_length(first + count)
        return first

    def write_rows(
        self, rows: Int32s, values: Mapping[str, Any], moves: Mapping[str, Mapping[int, tuple[int, ...]]] | None = None
    ) -> None:
        """Write `rows`, ascending. `values`: by column, array or number. `moves`: by part of MOVES, broker rows."""
        for column in ON_DEMAND_COLUMNS:
            given = values.get(column.name)
            if given is not None and column.name not in self._room and (given != column.nothing).any():
                self._make(column.name, given.shape[1])
        self._changing(rows)
        before = self.replicas__ps[rows] if "replicas__ps" in values else None
        for name, value in values.items():
            if name in self._room and self._room[name].ndim == 2:
                self._write_lists(name, rows, value)
            elif name in self._room:
                self._room[name][rows] = value
        if before is not None:
            self.index.replace(rows, before, self.replicas__ps[rows])
        for part, given in (moves or {}).items():
            self._set_moves(part, given)

    def write_row(self, row: int, values: Mapping[str, Any]) -> None:
        """As `write_rows` for one. By column or part of MOVES, a number or a list of broker or directory rows."""
        if self.recorder is not None:
            self.recorder.rows(self, np.array([row], np.int32))
        before: list[int] | None = self.replicas__ps[row].tolist() if "replicas__ps" in values else None
        for name, value in values.items():
            if isinstance(value, int):
                self._room[name][row] = value
            elif name in MOVES:
                self._set_moves(name, {row: tuple(value)})
            elif name in self._room:
                self._write_list(name, row, value)
            elif any(each != ALL_COLUMNS[name].nothing for each in value):
                self._make(name, max(len(value), self.replicas__ps.shape[1]))
                self._write_list(name, row, value)
        if before is not None:
            self.index.replace_row(row, before, values["replicas__ps"])

    def offer_rows(self, count: int) -> Int32s:
        """Rows for `count` new partitions: the lowest free rows, then new rows after the last. They stay free.

        `settle_rows` must follow before any other change.
        """
        offered = self._free.lowest(count)
        if behind := count - len(offered):
            first = len(self)
            if first + behind > MAX_PARTITIONS:
                raise TableError(f"{first + behind} partitions; at most {MAX_PARTITIONS} fit")
            if self.recorder is not None:
                self.recorder.undo(lambda image: image.table.truncate(first))
            self._set_length(first + behind)
            offered = np.concatenate([offered, np.arange(first, first + behind, dtype=np.int32)])
        return offered

    def settle_rows(self, offered: Int32s, used: int, moved: Int32s, before: Int16s) -> None:
        """Account for a kernel's writes: new partitions in the first `used` of the offered rows.

        `moved`: rows whose replicas changed, in the order of the changes, and the replicas before each.
        """
        free = min(len(offered), len(self._free))  # The other offered rows are after the last row.
        self._free.take_lowest(min(used, free))
        if unused := min(len(offered) - used, len(offered) - free):
            self._set_length(len(self) - unused)
        created = offered[:used]
        self.index.add(created, self.replicas__ps[created])
        rows, first = np.unique(moved, return_index=True)
        old = ~np.isin(rows, created)
        self.index.replace(rows[old], before[first[old]], self.replicas__ps[rows[old]])

    def set_moves(self, moves: Int32s) -> None:
        """Set reassignments from a kernel, each: partition row, index in MOVES, number of broker rows, broker rows."""
        values, at = moves.tolist(), 0
        given: tuple[dict[int, tuple[int, ...]], ...] = tuple({} for _ in MOVES)
        while at < len(values):
            row, part, count = values[at : at + 3]
            at += 3 + count
            given[part][row] = tuple(values[at - count : at])
        for name, by_row in zip(MOVES, given, strict=True):
            self._set_moves(name, by_row)

    @property
    def lookup(self) -> PartitionLookup:
        """The lookup for kernels."""
        return self._lookup

    def new_row(self, topic_row: int, partition: int) -> int:
        """A row for one new partition of the topic; `write_row` writes its contents."""
        row = self._take_free_rows(1)
        if self.recorder is not None:
            self._changing(np.array([row], np.int32))
        self._room["topic_row__p"][row], self._room["partition_index__p"][row] = topic_row, partition
        self._lookup.put_one(topic_row, partition, row)
        return row

    def remove_topic(self, name: str) -> None:
        """Remove a topic: its rows become free and leave every broker's list. TableError if there is no such topic."""
        self.remove_topics([name])

    def remove_topics(self, names: Collection[str]) -> None:
        """Remove many topics, with one pass over each broker's list. TableError changes nothing."""
        deque(self.removing_topics(names), 0)

    def removing_topics(self, names: Collection[str]) -> Iterator[None]:
        """As `remove_topics`, in parts of FREED_AT_ONCE partitions; the last part also removes the names."""
        rows = {self.topics.row(name): name for name in names}
        yield from self._freeing_partitions(np.array([*rows], np.int32))
        for name in rows.values():
            self._lookup.remove(self.topics.remove(name))

    def removing_topic_rows(self, topic_rows: Int32s) -> Iterator[None]:
        """As `remove_topics`, in parts, for topics with ids by ascending row; the caller records the deletion."""
        yield from self._freeing_partitions(topic_rows)
        for topic_row in topic_rows.tolist():
            self._lookup.remove(topic_row)
        self.topics.remove_all(topic_rows)

    def _freeing_partitions(self, topic_rows: Int32s) -> Iterator[None]:
        """Free all partitions of these topics, in parts, from each topic's last partition on."""
        rows = self._lookup.rows_of_topics(topic_rows)[0]
        while len(rows):
            rows, gone = rows[:-FREED_AT_ONCE], np.sort(rows[-FREED_AT_ONCE:])
            if len(rows):  # Otherwise the caller removes the whole topics from the lookup at once.
                self._lookup.drop(self.topic_row__p[gone], self.partition_index__p[gone])
            self._free_rows(gone)
            if len(rows):
                yield

    def _free_rows(self, rows: Int32s) -> None:
        """Free partitions in these rows, ascending; the lookup still has them."""
        self._changing(rows)
        for part in MOVES:
            self._end_moves(part, rows)
        self.index.remove(rows, self.replicas__ps[rows])
        for column, array in self._room.items():
            array[rows] = ALL_COLUMNS[column].nothing
        self._free.add(rows)

    def _set_moves(self, part: str, given: Mapping[int, tuple[int, ...]]) -> None:
        """Set the replicas that are being added or removed, as broker rows by partition row; () ends the move."""
        moves = self.moves(part)
        before = {row: moves.get(row, ()) for row, brokers in given.items() if brokers or row in moves}
        if not before:
            return
        if self.recorder is not None:
            self.recorder.undo(lambda image: image.table.restore_moves(part, before))
        for row in before:
            if brokers := given[row]:
                moves[row] = brokers
            else:
                del moves[row]

    def _end_moves(self, part: str, rows: Int32s) -> None:
        """End the moves of that kind for these partitions."""
        moves = self.moves(part)
        ending = moves.keys() & set(rows.tolist()) if moves else set()
        if not ending:
            return
        if len(ending) == len(moves):
            before = moves.copy()
            moves.clear()
        else:
            before = {row: moves.pop(row) for row in ending}
        if self.recorder is not None:
            self.recorder.undo(lambda image: image.table.restore_moves(part, before))

    def _changing(self, rows: Int32s) -> None:
        """Record that these rows are about to be written."""
        if self.recorder is not None:
            self.recorder.rows(self, rows)

    def restore_rows(self, images: RowImages) -> None:
        """Restore rows to their values before a change, and with them the index, the lookup and the free rows."""
        rows = np.unique(images.rows[: images.count])
        replicas, topics, partitions = self.replicas__ps[rows], self.topic_row__p[rows], self.partition_index__p[rows]
        self._restore_columns(images)
        if self._is_indexed:
            is_other = (self.replicas__ps[rows] != replicas).any(axis=1)
            others = rows[is_other]
            self.index.replace(others, replicas[is_other], self.replicas__ps[others])
        moved = (self.topic_row__p[rows] != topics) | (self.partition_index__p[rows] != partitions)
        was_used, is_used = topics != NO_TOPIC, self.topic_row__p[rows] != NO_TOPIC
        gone, back = moved & was_used, rows[moved & is_used]
        self._lookup.drop(topics[gone], partitions[gone])
        self._lookup.put(self.topic_row__p[back], self.partition_index__p[back], back)
        self._free.take(rows[is_used & ~was_used].tolist())
        self._free.add(rows[was_used & ~is_used])

    def truncate(self, length: int) -> None:
        """Shorten the table to `length` rows; the removed rows must be free."""
        self._free.truncate(length)
        self._set_length(length)

    def _copy_rows_to(self, twin: "PartitionRows", room: Mapping[str, Array] | None) -> None:
        twin.topics, twin.brokers, twin.recorder = self.topics.copy(), self.brokers.copy(), None
        twin.adding, twin.removing = dict(self.adding), dict(self.removing)
        twin._lookup, twin._free = self._lookup.copy(), self._free.copy()
        twin.index = self.index.copy() if room is None else BrokerIndex(np.empty((0, 0), np.int16), 0)
        twin._is_indexed = room is None
        self._copy_columns_to(twin, room or {})

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have the rows in use, without the recorder. The broker index is made again."""
        return {
            "columns": {name: np.array(array) for name, array in self.columns_in_use().items()},
            **{name: getattr(self, name) for name in ("topics", "brokers", "adding", "removing", "_free", "_lookup")},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, recorder=None, _is_indexed=True)
        columns = vars(self).pop("columns")
        self._own(together(columns), len(columns["leader__p"]))
        self.index = BrokerIndex(self.replicas__ps, len(self.brokers))

    def restore_moves(self, part: str, before: Mapping[int, tuple[int, ...]]) -> None:
        """Revert a change of the adding or removing replicas."""
        moves = self.moves(part)
        for row, brokers in before.items():
            if brokers:
                moves[row] = brokers
            else:
                moves.pop(row, None)
