"""The partition table: the state of every partition of a cluster, as columns."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from kcore.constants import (
    INITIAL_LEADER_EPOCH,
    INITIAL_PARTITION_EPOCH,
    MAX_PARTITIONS,
    NO_BROKER_ROW,
    NO_EPOCH,
    RECOVERED,
    RECOVERING,
)
from kcore.errors import TableError
from kcore.metadata.table.arrays import (
    Array,
    as_array,
    as_broker_lists,
    as_integers,
    distinct_brokers,
    numbered,
    padded,
)
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.metadata.table.column_list import NO_TOPIC
from kcore.metadata.table.directory_table import MIGRATING
from kcore.metadata.table.equality import same_partitions
from kcore.metadata.table.kraft_changes import apply_kraft_changes
from kcore.metadata.table.partition_queries import PartitionQueries
from kcore.metadata.table.partition_rows import MOVES
from kcore.metadata.table.partition_state import PartitionState
from kcore.metadata.table.table_arrays import BrokerLists
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.table.validation import MAX_EPOCH, check_broker_rows, check_columns, check_range, check_replicas
from kcore.metadata.zookeeper.request_columns import RequestColumns, arrays_of_request
from kcore.metadata.zookeeper.zookeeper_dump import parse_zookeeper_dump
from kcore.types import ZERO_UUID, Int16s, Int32s, Uuid, is_whole

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NO_TOPIC", "PartitionState", "PartitionTable"]


class PartitionTable(PartitionQueries):
    """The columns of `column_list.py`, with the brokers, the topics and a broker index that follows every change.

    Read the columns, which are read-only arrays, and change them only by the methods: kernels trust the broker rows in
    them. A table belongs to one thread at a time.
    """

    def __init__(self, columns: Mapping[str, Array], topics: TopicTable, brokers: BrokerTable) -> None:
        """Takes ownership of the columns of broker and topic rows; TableError if they are invalid."""
        check_columns(columns, brokers, len(topics))
        super().__init__(columns, topics, brokers)

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
        directories: npt.ArrayLike | None = None,
        elr: npt.ArrayLike | None = None,
        last_known_elr: npt.ArrayLike | None = None,
    ) -> Self:
        """Make a table from arrays: `replicas`, `isr` and ELRs are 2-D broker ids, packed and padded with -1.

        `directories`: 2-D, by replica slot, rows of `brokers.directory_table`, 0 in unused slots. Defaults: the ISR is
        the replicas, the leader the first replica, epochs are 0, all partitions are of one topic named "topic" and are
        numbered in order. Brokers are those that have replicas, all live; directories are MIGRATING and ELRs empty. The
        table owns `topics` and `brokers` from now on. TableError for invalid arrays.
        """
        replica_ids = as_broker_lists("replicas", replicas)
        count = len(replica_ids)
        topics = _topics_of(topics, brokers)
        if topic_rows is None and len(topics) != 1:
            raise TableError(f"there are {len(topics)} topics: topic_rows must give each partition's topic")
        brokers = BrokerTable.from_arrays(distinct_brokers(replica_ids)) if brokers is None else brokers
        replicas__ps, topic_row__p = brokers.rows(replica_ids), _column("topic_rows", topic_rows, count)
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
        elrs = {"elr": elr, "last_known_elr": last_known_elr}
        table = cls(columns | _on_demand(replicas__ps, brokers, directories, elrs), topics, brokers)
        table.adding, table.removing = (table._moves(range(count), moves) for moves in (adding, removing))
        return table

    @classmethod
    def from_columns(cls, columns: RequestColumns) -> Self:
        """Make a table from a decoded full UpdateMetadata (the cluster) or LeaderAndIsr (one broker's part of it)."""
        return cls.from_arrays(**arrays_of_request(columns))

    @classmethod
    def from_zookeeper_dump(cls, text: str) -> Self:
        """Make a table from a ZooKeeper tree as text: see `parse_zookeeper_dump`, which also returns the controller."""
        return cls.from_arrays(**parse_zookeeper_dump(text).arrays)

    def apply(
        self,
        changes: PartitionChanges,
        *,
        leaving: Iterable[int] = (),
        controller_epoch: npt.ArrayLike | None = None,
        check_epochs: bool = True,
    ) -> None:
        """Apply changes: leader, ISR, epochs and recovery state, under one controller epoch or one a row.

        `leaving`: the brokers of the decision, if they are lost. Later elections elect none of them until
        `brokers.set_lost(ids, lost=False)`. Without `leaving` they may still be elected.

        KRaft's changes may also name replicas, directories and ELRs; they have no controller epoch. Everything is
        checked before anything changes. TableError for unknown rows or brokers, wrong lengths or ranges, and changes
        that ZooKeeper has not written yet (`UnwrittenChanges.written`). TableError for changes decided on another
        state, too: partition epochs must be one above the table's, leader epochs the table's or above.
        `check_epochs=False` accepts states with any epochs, such as those read from ZooKeeper.
        """
        if not isinstance(changes, PartitionChanges):
            raise TableError(_reason_refused(changes))
        rows, lost = self.known_rows(changes.rows), self.brokers.checked(leaving)
        if check_epochs:
            self._check_decided_here(rows, changes)
        if (wider := changes.wider()) is not None:
            apply_kraft_changes(self, wider)
        else:
            self.write_rows(rows, self._new_states(changes, rows.shape, controller_epoch))
        self.brokers.set_lost(lost)

    def _new_states(
        self, changes: PartitionChanges, shape: tuple[int, ...], controller_epoch: npt.ArrayLike | None
    ) -> dict[str, Any]:
        """The checked new values of the rows, by column."""
        leader = self.brokers.rows(as_integers("leaders", changes.leaders, np.int64, shape))
        isr = self.brokers.rows(padded(changes.isr_offsets, changes.isr))
        leader_epoch = as_integers("leader epochs", changes.leader_epochs, np.int32, shape)
        partition_epoch = as_integers("partition epochs", changes.partition_epochs, np.int32, shape)
        recovery = as_integers("recovery", changes.recovery, np.int8, shape)
        if isr.shape[:1] != shape:
            raise TableError(f"{len(isr)} ISRs for {shape[0]} rows")
        check_broker_rows("isr", isr, self.brokers)
        check_range("leader epoch", leader_epoch, NO_EPOCH, MAX_EPOCH)
        check_range("partition epoch", partition_epoch, NO_EPOCH, MAX_EPOCH)
        check_range("leader recovery state", recovery, RECOVERED, RECOVERING)
        values: dict[str, Any] = {"isr__pi": isr, "leader__p": leader, "leader_recovery_state__p": recovery}
        values |= {"leader_epoch__p": leader_epoch, "partition_epoch__p": partition_epoch}
        if controller_epoch is not None:
            given = as_array("controller epoch", controller_epoch)
            given = np.broadcast_to(given, shape) if given.ndim == 0 else given
            values["controller_epoch__p"] = as_integers("controller epoch", given, np.int32, shape)
        return values

    def _check_decided_here(self, rows: Int32s, changes: PartitionChanges) -> None:
        """TableError unless the changes follow from the present states of their partitions."""
        steps = (
            ("partition", self.partition_epoch__p, changes.partition_epochs, 1, 1),
            # If several brokers fail at once, the leader epoch may rise several times.
            ("leader", self.leader_epoch__p, changes.leader_epochs, 0, MAX_EPOCH),
        )
        for name, column, given, least, most in steps:
            epochs = as_integers(f"{name} epochs", given, np.int32, rows.shape)
            risen = np.subtract(epochs, column[rows], out=epochs, dtype=np.int32)
            if len(rows) and (risen.min() < least or risen.max() > most):
                at = int(((risen < least) | (risen > most)).argmax())
                partition = "-".join(map(str, self.state(int(rows[at]))[:2]))
                raise TableError(
                    f"decided on another state: {partition} has {name} epoch {column[rows[at]]}, and the change gives "
                    f"it {given[at]}; decide again, or apply with check_epochs=False"
                )

    def set_replicas(
        self,
        rows: npt.ArrayLike,
        replicas: npt.ArrayLike,
        *,
        adding: BrokerLists | None = None,
        removing: BrokerLists | None = None,
    ) -> None:
        """Applies a step of a reassignment: new replicas for `rows`, ascending, and the moves.

        `replicas` has ids, a padded line per row. A replica that stays keeps its log directory.
        """
        rows = self.known_rows(rows)
        after = self._replica_rows(replicas, len(rows))
        given = zip(MOVES, (adding, removing), strict=True)
        moves = {part: dict.fromkeys(rows.tolist(), ()) | self._moves(rows, each) for part, each in given}
        values: dict[str, Any] = {"replicas__ps": after}
        if self.directories__ps is not None:
            values["directories__ps"] = _moved(self.replicas__ps[rows], self.directories__ps[rows], after)
        self.write_rows(rows, values, moves)

    def add_topic(
        self, name: str, replicas: npt.ArrayLike, *, topic_id: Uuid = ZERO_UUID, controller_epoch: int = 0
    ) -> Int32s:
        """Add a topic with partitions 0, 1 ...: all replicas in sync, the first leads, epochs 0. Returns their rows."""
        placed = self._replica_rows(replicas, None)
        _check_epoch(controller_epoch)
        topic_id = topic_id if isinstance(topic_id, Uuid) else Uuid(topic_id)
        return self._add(self.topics.add(name, topic_id), placed, 0, controller_epoch)

    def add_partitions(
        self, name: str, replicas: npt.ArrayLike, *, first_partition: int | None = None, controller_epoch: int = 0
    ) -> Int32s:
        """Add partitions to a topic, numbered on from its last or from `first_partition`, otherwise as `add_topic`.

        Returns their rows. TableError if one of them exists already.
        """
        placed = self._replica_rows(replicas, None)
        _check_epoch(controller_epoch)
        numbers = self.partition_index__p[self.rows_of_topic(name)]
        first = int(numbers.max(initial=-1)) + 1 if first_partition is None else first_partition
        if not is_whole(first) or not 0 <= first <= MAX_PARTITIONS - len(placed):
            raise TableError(f"first_partition is a partition's number, not {first!r:.60}")
        if ((numbers >= first) & (numbers < first + len(placed))).any():
            raise TableError(f"topic {name!r} has partitions from {first} to {first + len(placed) - 1} already")
        return self._add(self.topics.row(name), placed, first, controller_epoch)

    def _add(self, topic_row: int, replicas: Int16s, first_partition: int, controller_epoch: int) -> Int32s:
        rows = self._new_rows(topic_row, first_partition, len(replicas))
        values = {
            "replicas__ps": replicas,
            "isr__pi": replicas,
            "leader__p": replicas[:, 0],
            "leader_recovery_state__p": RECOVERED,
            "leader_epoch__p": INITIAL_LEADER_EPOCH,
            "partition_epoch__p": INITIAL_PARTITION_EPOCH,
            "controller_epoch__p": controller_epoch,
        }
        self.write_rows(rows, values)
        return rows

    def _replica_rows(self, replicas: npt.ArrayLike, count: int | None) -> Int16s:
        rows = self.brokers.rows(as_broker_lists("replicas", replicas))
        if not len(rows) or len(rows) != (len(rows) if count is None else count):
            raise TableError(f"replicas of {len(rows)} partitions, not of {count or 'at least one'}")
        check_replicas(rows, self.brokers)
        return rows

    def _moves(self, rows: Iterable[int], moves: BrokerLists | None) -> dict[int, tuple[int, ...]]:
        """`moves` with broker rows instead of ids; TableError unless they belong to `rows`."""
        moves = {} if moves is None else moves
        if not isinstance(moves, Mapping):
            raise TableError(f"replicas that move are lists of broker ids by row, not {type(moves).__name__}")
        if other_rows := moves.keys() - set(rows if moves else ()):
            raise TableError(f"row {min(other_rows)} is not among the rows whose replicas move")
        lists = {int(row): np.atleast_1d(as_array("replicas that move", ids)) for row, ids in moves.items()}
        return {row: tuple(self.brokers.rows(ids).tolist()) for row, ids in lists.items() if len(ids)}

    def row_of(self, topic: str, partition: int) -> int:
        """The row of one partition; TableError if there is none."""
        if not is_whole(partition) or (row := self.row_at(self.topics.row(topic), partition)) < 0:
            raise TableError(f"unknown partition {topic}-{partition}")
        return row

    def memory_bytes(self) -> dict[str, int]:
        """Bytes of each column with its room to grow, of the index, of the partition lookup, and in total.

        Topic names and ids, the brokers and the sparse moves are Python objects and are not counted.
        """
        sizes = self.column_bytes()
        sizes |= {"index": self.index.nbytes, "lookup": self._lookup.nbytes}
        return sizes | {"total": sum(sizes.values())}

    def copy(self, room: Mapping[str, Array] | None = None) -> "PartitionTable":
        """A copy that shares nothing with this table.

        `room` is memory for columns by name, used where it is large enough. With `room`, the copy is read-only and its
        broker index is empty.
        """
        twin = object.__new__(PartitionTable)
        self._copy_rows_to(twin, room)
        return twin

    def to_arrow(self) -> "pa.Table":
        """A row a partition, with the columns of `kcore.metadata.table.table_arrow.SCHEMA`. MissingExtraError without
        pyarrow.
        """
        from kcore.metadata.table.table_arrow import partitions_as_arrow  # pyarrow is loaded on first use.

        return partitions_as_arrow(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream interface of Arrow's PyCapsules, for pyarrow, Polars, DuckDB and other libraries."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __copy__(self) -> "PartitionTable":
        return self.copy()

    def __eq__(self, other: object) -> bool:
        """True if both have equal topics, partitions and registered brokers, in any rows."""
        if not isinstance(other, PartitionTable):
            return NotImplemented
        return self.brokers == other.brokers and same_partitions(self, other)

    __hash__ = None  # type: ignore[assignment]


def _topics_of(topics: TopicTable | None, brokers: BrokerTable | None) -> TopicTable:
    """The given topics, or a single one; TableError for topics or brokers that do not form a table."""
    for name, given, kind in (("topics", topics, TopicTable), ("brokers", brokers, BrokerTable)):
        if not (given is None or isinstance(given, kind)):
            raise TableError(f"{name} are a {kind.__name__}, not {type(given).__name__}")
    return TopicTable(["topic"]) if topics is None else topics


def _check_epoch(controller_epoch: object) -> None:
    if not is_whole(controller_epoch) or not NO_EPOCH <= controller_epoch <= MAX_EPOCH:
        raise TableError(f"a controller epoch is a whole number up to {MAX_EPOCH}, not {controller_epoch!r:.60}")


def _reason_refused(changes: object) -> str:
    if isinstance(changes, UnwrittenChanges):
        return "these changes are not written: apply what `written()` gives"
    return f"PartitionChanges can be applied, not {type(changes).__name__}"


def _column(name: str, values: npt.ArrayLike | None, count: int, dtype: npt.DTypeLike = np.int32) -> Array:
    return np.zeros(count, dtype) if values is None else as_integers(name, values, dtype, (count,))


def _on_demand(
    replicas__ps: Int16s, brokers: BrokerTable, directories: npt.ArrayLike | None, elrs: dict[str, npt.ArrayLike | None]
) -> dict[str, Array]:
    """The given columns of ON_DEMAND_COLUMNS."""
    given = {f"{name}__pi": brokers.rows(as_broker_lists(name, ids)) for name, ids in elrs.items() if ids is not None}
    if directories is None:
        return given
    return given | {"directories__ps": as_integers("directories", directories, np.int32, replicas__ps.shape)}


def _preferred(replicas__ps: Int16s) -> Int16s:
    return replicas__ps[:, 0].copy() if replicas__ps.shape[1] else np.full(len(replicas__ps), NO_BROKER_ROW, np.int16)


def _moved(before: Int16s, directories: Int32s, after: Int16s) -> Int32s:
    """The directories of the replicas after a move, by row and slot. A replica that stays keeps its directory."""
    moved = np.full(after.shape, MIGRATING, np.int32)
    for slot in range(before.shape[1]):
        was_there = (after == before[:, slot, None]) & (after != NO_BROKER_ROW)
        np.copyto(moved, directories[:, slot, None], where=was_there)
    return moved
