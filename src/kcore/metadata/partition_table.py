"""The partition table: the state of every partition of a cluster, as columns."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from kcore.constants import (
    INITIAL_LEADER_EPOCH,
    INITIAL_PARTITION_EPOCH,
    MAX_PARTITIONS,
    NO_BROKER_ROW,
    NO_EPOCH,
    NO_LEADER,
    RECOVERED,
    RECOVERING,
)
from kcore.errors import TableError
from kcore.metadata.arrays import (
    Array,
    as_broker_lists,
    as_integers,
    distinct_brokers,
    grown,
    joined_runs,
    numbered,
    padded,
    together,
    widened,
)
from kcore.metadata.broker_index import BrokerIndex
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.changes import PartitionChanges
from kcore.metadata.partition_lookup import PartitionLookup
from kcore.metadata.request_columns import RequestColumns, arrays_of_request
from kcore.metadata.table_arrays import BrokerLists
from kcore.metadata.topics import TopicTable
from kcore.metadata.validation import MAX_EPOCH, check_broker_rows, check_columns, check_range, check_replicas
from kcore.metadata.zookeeper_dump import parse_zookeeper_dump
from kcore.types import ZERO_UUID, Int8s, Int16s, Int32s, Uuid

NO_TOPIC: Final = -1  # topic_row__p of a free row.


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition, with brokers as ids: for tests, debugging and error messages."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    leader_recovery_state: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionTable:
    """Columns as PARTITION_COLUMNS lists them, with the brokers, the topics and a broker index that follows.

    A partition keeps its row for as long as it lives. A removed topic leaves free rows: no replicas, no ISR, no leader,
    topic row -1; decisions find nothing to do there, and the next topic that fits takes them.
    Read the columns, which are read-only arrays, and change them by the methods alone: kernels trust the broker rows in
    them. A table belongs to one thread at a time.
    """

    topic_row__p: Int32s
    partition_index__p: Int32s
    replicas__ps: Int16s
    isr__pi: Int16s
    leader__p: Int16s
    leader_epoch__p: Int32s
    partition_epoch__p: Int32s
    controller_epoch__p: Int32s
    leader_recovery_state__p: Int8s
    brokers: BrokerTable
    topics: TopicTable
    index: BrokerIndex
    adding: dict[int, tuple[int, ...]]  # Partition row -> broker rows.
    removing: dict[int, tuple[int, ...]]

    def __init__(self, columns: Mapping[str, Array], topics: TopicTable, brokers: BrokerTable) -> None:
        """A table that owns these columns of broker and topic rows from now on; TableError if they do not make one."""
        check_columns(columns, brokers, len(topics))
        self.topics, self.brokers = topics, brokers
        self.adding, self.removing = {}, {}
        self._free: list[tuple[int, int]] = []  # Runs of free rows: first row, how many.
        self._set_columns(together(columns), len(columns["leader__p"]))
        self.index = BrokerIndex(self.replicas__ps, len(brokers))
        self._lookup = PartitionLookup(self.topic_row__p, self.partition_index__p, len(topics))

    def _set_columns(self, columns: Mapping[str, Array], length: int) -> None:
        """Columns may have room behind `length`; the attributes show what is in use."""
        self._columns = dict(columns)
        for name in self._columns:
            self._show(name, length)

    def _show(self, name: str, length: int) -> None:
        shown = self._columns[name][:length]
        shown.flags.writeable = False
        setattr(self, name, shown)

    @classmethod
    def from_arrays(
        cls,
        replicas: npt.ArrayLike,
        *,
        isr: npt.ArrayLike | None = None,
        leaders: npt.ArrayLike | None = None,
        leader_epochs: npt.ArrayLike | None = None,
        partition_epochs: npt.ArrayLike | None = None,
        controller_epochs: npt.ArrayLike | None = None,
        leader_recovery_states: npt.ArrayLike | None = None,
        topics: TopicTable | None = None,
        topic_rows: npt.ArrayLike | None = None,
        partition_indexes: npt.ArrayLike | None = None,
        brokers: BrokerTable | None = None,
        adding: BrokerLists | None = None,
        removing: BrokerLists | None = None,
    ) -> Self:
        """A table from arrays: `replicas` and `isr` are 2-D broker ids, packed, padded with -1; the rest p values.

        Left out: the ISR is the replicas, the leader the first replica, epochs are 0, all is one topic named "topic",
        partitions are numbered in order, and the brokers are those named as replicas, all live. The table owns
        `topics` and `brokers` from now on. TableError says what is wrong.
        """
        replica_ids = as_broker_lists("replicas", replicas)
        count = len(replica_ids)
        topics = TopicTable(["topic"]) if topics is None else topics
        if topic_rows is None and len(topics) != 1:
            raise TableError(f"there are {len(topics)} topics: topic_rows must say which partition is whose")
        brokers = BrokerTable.from_arrays(distinct_brokers(replica_ids)) if brokers is None else brokers
        replicas__ps = brokers.rows(replica_ids)
        topic_row__p = _column("topic_rows", topic_rows, count)
        indexes = numbered(topic_row__p) if partition_indexes is None else partition_indexes
        columns = {
            "topic_row__p": topic_row__p,
            "partition_index__p": _column("partition_indexes", indexes, count),
            "replicas__ps": replicas__ps,
            "isr__pi": replicas__ps.copy() if isr is None else brokers.rows(as_broker_lists("isr", isr)),
            "leader__p": _preferred(replicas__ps) if leaders is None else brokers.rows(leaders),
            "leader_epoch__p": _column("leader_epochs", leader_epochs, count),
            "partition_epoch__p": _column("partition_epochs", partition_epochs, count),
            "controller_epoch__p": _column("controller_epochs", controller_epochs, count),
            "leader_recovery_state__p": _column("leader_recovery_states", leader_recovery_states, count, np.int8),
        }
        table = cls(columns, topics, brokers)
        table.adding = table._moves(range(count), adding)
        table.removing = table._moves(range(count), removing)
        return table

    @classmethod
    def from_columns(cls, columns: RequestColumns) -> Self:
        """A table from a decoded full UpdateMetadata (the cluster) or LeaderAndIsr (one broker's part of it)."""
        return cls.from_arrays(**arrays_of_request(columns))

    @classmethod
    def from_zookeeper_dump(cls, text: str) -> Self:
        """A table from a ZooKeeper tree as text: see `parse_zookeeper_dump`, which also tells who controls."""
        return cls.from_arrays(**parse_zookeeper_dump(text).arrays)

    def __len__(self) -> int:
        """Rows, free ones included."""
        return len(self.leader__p)

    def apply(self, changes: PartitionChanges, *, controller_epoch: npt.ArrayLike | None = None) -> None:
        """Makes changes: leader, ISR, epochs and recovery state, under one controller epoch or one a row.

        All is checked before anything changes: TableError if rows or brokers are unknown, lengths or ranges wrong, and
        for changes that ZooKeeper has yet to take (`UnwrittenChanges.written`).
        """
        if not isinstance(changes, PartitionChanges):
            raise TableError("these changes are not written: apply what `written()` gives")
        rows = self._known_rows(changes.rows)
        shape = rows.shape
        leader = self.brokers.rows(as_integers("leaders", changes.leaders, np.int64, shape))
        isr = self.brokers.rows(padded(changes.isr_offsets, changes.isr))
        leader_epoch = as_integers("leader epochs", changes.leader_epochs, np.int32, shape)
        partition_epoch = as_integers("partition epochs", changes.partition_epochs, np.int32, shape)
        recovery = as_integers("recovery", changes.recovery, np.int8, shape)
        if len(isr) != len(rows):
            raise TableError(f"{len(isr)} ISRs for {len(rows)} rows")
        check_broker_rows("isr", isr, self.brokers)
        check_range("leader epoch", leader_epoch, NO_EPOCH, MAX_EPOCH)
        check_range("partition epoch", partition_epoch, NO_EPOCH, MAX_EPOCH)
        check_range("leader recovery state", recovery, RECOVERED, RECOVERING)
        if controller_epoch is not None:
            self._columns["controller_epoch__p"][rows] = as_integers(
                "controller epoch", np.broadcast_to(controller_epoch, shape), np.int32, shape
            )
        self._write_lists("isr__pi", rows, isr)
        self._write(rows, leader__p=leader, leader_recovery_state__p=recovery)
        self._write(rows, leader_epoch__p=leader_epoch, partition_epoch__p=partition_epoch)

    def _write(self, rows: Int32s, **values: Array | int) -> None:
        """Writes those rows of columns."""
        for name, value in values.items():
            self._columns[name][rows] = value

    def set_replicas(
        self,
        rows: npt.ArrayLike,
        replicas: npt.ArrayLike,
        *,
        adding: BrokerLists | None = None,
        removing: BrokerLists | None = None,
    ) -> None:
        """A reassignment's step: new replicas (ids, c by slot, padded) for `rows`, ascending, and the moves given."""
        rows = self._known_rows(rows)
        after = self._replica_rows(replicas, len(rows))
        moves = self._moves(rows, adding), self._moves(rows, removing)
        self.index.replace(rows, self.replicas__ps[rows], after)
        self._write_lists("replicas__ps", rows, after)
        for known, given in zip((self.adding, self.removing), moves, strict=True):
            for row in known.keys() & set(rows.tolist()):
                del known[row]
            known.update(given)

    def add_topic(
        self, name: str, replicas: npt.ArrayLike, *, topic_id: Uuid = ZERO_UUID, controller_epoch: int = 0
    ) -> Int32s:
        """A new topic with partitions 0, 1 ...: all replicas in sync, the first leads, epochs 0. Returns their rows."""
        placed = self._replica_rows(replicas, len(np.asarray(replicas)))
        return self._add(self.topics.add(name, topic_id), placed, 0, controller_epoch)

    def add_partitions(
        self, name: str, replicas: npt.ArrayLike, *, first_partition: int | None = None, controller_epoch: int = 0
    ) -> Int32s:
        """More partitions for a topic, numbered on from its last or from `first_partition`, else as `add_topic`.

        Returns their rows. TableError if one of them is known already.
        """
        placed = self._replica_rows(replicas, len(np.asarray(replicas)))
        numbers = self.partition_index__p[self.rows_of_topic(name)]
        first = int(numbers.max(initial=-1)) + 1 if first_partition is None else first_partition
        if ((numbers >= first) & (numbers < first + len(placed))).any():
            raise TableError(f"topic {name!r} has partitions from {first} to {first + len(placed) - 1} already")
        return self._add(self.topics.row(name), placed, first, controller_epoch)

    def _add(self, topic_row: int, replicas: Int16s, first_partition: int, controller_epoch: int) -> Int32s:
        first_row = self._take_free_rows(len(replicas))
        rows = np.arange(first_row, first_row + len(replicas), dtype=np.int32)
        self._write(rows, topic_row__p=topic_row, partition_index__p=first_partition + rows - first_row)
        self._write_lists("replicas__ps", rows, replicas)
        self._write_lists("isr__pi", rows, replicas)
        self._write(rows, leader__p=replicas[:, 0], leader_recovery_state__p=RECOVERED)
        self._write(rows, leader_epoch__p=INITIAL_LEADER_EPOCH, partition_epoch__p=INITIAL_PARTITION_EPOCH)
        self._write(rows, controller_epoch__p=controller_epoch)
        self.index.add(rows, replicas)
        self._lookup.add(topic_row, first_partition, first_row, len(rows))
        return rows

    def remove_topic(self, name: str) -> None:
        """The topic is gone: its rows are free, and in no broker's list."""
        self.remove_topics([name])

    def remove_topics(self, names: Collection[str]) -> None:
        """The same for many at once: each broker's list is gone through once. TableError changes nothing."""
        names = list(dict.fromkeys(names))
        if not names:
            return
        rows = np.sort(np.concatenate([self.rows_of_topic(name) for name in names]))
        self.index.remove(rows, self.replicas__ps[rows])
        for name in names:
            self._lookup.remove(self.topics.remove(name))
        self._write(rows, topic_row__p=NO_TOPIC, partition_index__p=0)
        self._write(rows, replicas__ps=NO_BROKER_ROW, isr__pi=NO_BROKER_ROW, leader__p=NO_BROKER_ROW)
        for moves in (self.adding, self.removing):
            for row in moves.keys() & set(rows.tolist() if moves else ()):
                del moves[row]
        self._free = joined_runs(self._free, rows)

    def _take_free_rows(self, count: int) -> int:
        """The first of `count` free rows in a run, at the table's end if there is no such run."""
        for at, (first, length) in enumerate(self._free):
            if length >= count:
                self._free[at : at + 1] = [(first + count, length - count)] if length > count else []
                return first
        first = len(self)
        if first + count > MAX_PARTITIONS:
            raise TableError(f"{first + count} partitions; at most {MAX_PARTITIONS} fit")
        if first + count > len(self._columns["leader__p"]):
            self._columns = {name: grown(array[:first], first + count) for name, array in self._columns.items()}
        self._set_columns(self._columns, first + count)
        return first

    def _known_rows(self, rows: npt.ArrayLike) -> Int32s:
        known = as_integers("rows", rows, np.int32, (np.size(rows),))
        check_range("rows", known, 0, len(self) - 1)
        if (known[1:] <= known[:-1]).any():
            raise TableError("rows must ascend, each once")
        if known.size and (free := known[self.topic_row__p[known] == NO_TOPIC]).size:
            raise TableError(f"row {free[0]} is free: its topic was removed")
        return known

    def _replica_rows(self, replicas: npt.ArrayLike, count: int) -> Int16s:
        rows = self.brokers.rows(as_broker_lists("replicas", replicas))
        if len(rows) != count or not count:
            raise TableError(f"replicas of {len(rows)} partitions, not of {count or 'at least one'}")
        check_replicas(rows, self.brokers)
        return rows

    def _moves(self, rows: Iterable[int], moves: BrokerLists | None) -> dict[int, tuple[int, ...]]:
        """`moves` by broker row; TableError unless they are of `rows`."""
        moves = moves or {}
        if strangers := moves.keys() - set(rows if moves else ()):
            raise TableError(f"row {min(strangers)} is not among the rows whose replicas move")
        return {int(row): tuple(self.brokers.rows(list(ids)).tolist()) for row, ids in moves.items() if len(ids)}

    def _write_lists(self, name: str, rows: Int32s, lists: Int16s) -> None:
        """Writes rows of brokers to a 2-D column, made wider first if it must be."""
        width = max(lists.shape[1], getattr(self, name).shape[1])
        if width > getattr(self, name).shape[1]:
            self._columns[name] = widened(self._columns[name], width)
            self._show(name, len(self))
        # Whole rows: NumPy writes them far faster than a part of each.
        self._columns[name][rows] = lists if lists.shape[1] == width else widened(lists, width)

    def rows_of(self, topic_rows: npt.ArrayLike, partitions: npt.ArrayLike) -> Int32s:
        """The rows of many partitions, by topic row and partition index; -1 for one that there is not."""
        return self._lookup.rows(topic_rows, partitions)

    def rows_of_topic(self, name: str) -> Int32s:
        """The rows of a topic's partitions, by ascending partition index; TableError if there is no such topic."""
        return self._lookup.rows_of_topic(self.topics.row(name))

    def row_of(self, topic: str, partition: int) -> int:
        """The row of one partition; TableError if there is none."""
        if (row := int(self.rows_of([self.topics.row(topic)], [partition])[0])) < 0:
            raise TableError(f"unknown partition {topic}-{partition}")
        return row

    def state(self, row: int) -> PartitionState:
        """One partition, readable; TableError if the row is free or out of range."""
        [row] = self._known_rows([row]).tolist()
        return PartitionState(
            topic=self.topics.names[self.topic_row__p[row]],
            partition=int(self.partition_index__p[row]),
            replicas=self._ids(self.replicas__ps[row]),
            isr=self._ids(self.isr__pi[row]),
            leader=(*self._ids([self.leader__p[row]]), NO_LEADER)[0],
            leader_epoch=int(self.leader_epoch__p[row]),
            partition_epoch=int(self.partition_epoch__p[row]),
            controller_epoch=int(self.controller_epoch__p[row]),
            leader_recovery_state=int(self.leader_recovery_state__p[row]),
            adding=self._ids(self.adding.get(row, ())),
            removing=self._ids(self.removing.get(row, ())),
        )

    def _ids(self, broker_rows: Iterable[int]) -> tuple[int, ...]:
        return tuple(int(self.brokers.ids[row]) for row in broker_rows if row != NO_BROKER_ROW)

    def memory_bytes(self) -> dict[str, int]:
        """Bytes of each column with its room to grow, of the index, of the partition lookup, and in total.

        Topic names and ids, the brokers and the sparse moves are Python objects and are not counted.
        """
        sizes = {name: array.nbytes for name, array in self._columns.items()}
        sizes |= {"index": self.index.nbytes, "lookup": self._lookup.nbytes}
        return sizes | {"total": sum(sizes.values())}

    def copy(self) -> "PartitionTable":
        """A table that shares nothing with this one."""
        twin = object.__new__(PartitionTable)
        twin.topics, twin.brokers = self.topics.copy(), self.brokers.copy()
        twin.adding, twin.removing = dict(self.adding), dict(self.removing)
        twin.index, twin._lookup, twin._free = self.index.copy(), self._lookup.copy(), list(self._free)
        twin._set_columns({name: array[: len(self)].copy() for name, array in self._columns.items()}, len(self))
        return twin


def _column(name: str, values: npt.ArrayLike | None, count: int, dtype: npt.DTypeLike = np.int32) -> Array:
    return np.zeros(count, dtype) if values is None else as_integers(name, values, dtype, (count,))


def _preferred(replicas__ps: Int16s) -> Int16s:
    return replicas__ps[:, 0].copy() if replicas__ps.shape[1] else np.full(len(replicas__ps), NO_BROKER_ROW, np.int16)
