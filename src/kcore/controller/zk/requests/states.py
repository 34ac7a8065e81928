"""The `topic_states` of control requests, gathered from the table once and sliced for each request without a copy."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from kcore.constants import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_LEADER
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.types import Bools, Int16s, Int32s, Int64s
from kcore.wire.columns import Rows, Strings, Vectors


class ReplicaAvailability:
    """Answers which replicas are offline, and which topics are being deleted."""

    def __init__(
        self, table: PartitionTable, topics_to_be_deleted: Collection[str], offline_dirs: Mapping[int, Collection[int]]
    ) -> None:
        """`offline_dirs`: by broker id, the partition rows whose replica is on a failed log directory."""
        self._table, self._topics_to_be_deleted = table, topics_to_be_deleted
        self._offline = {table.brokers.row(broker): rows for broker, rows in offline_dirs.items() if rows}

    def being_deleted(self, rows: Int32s) -> Bools:
        """True for each partition whose topic is queued for deletion."""
        return of_topics(self._table, rows, self._topics_to_be_deleted)

    def offline(self, rows: Int32s) -> Bools:
        """By row and slot: True if the broker is not live or shuts down, or the log directory failed."""
        replicas = self._table.replicas__ps[rows]
        offline: Bools = (replicas >= 0) & ~(self._table.brokers.live & ~self._table.brokers.shutting_down)[replicas]
        for broker_row, failed in self._offline.items():
            offline |= (replicas == broker_row) & np.isin(rows, list(failed))[:, None]
        return offline

    def stop_epochs(self, rows: Int32s, epochs: Int32s) -> Int32s:
        """The leader epochs for StopReplica; -2 for topics being deleted (ControllerContext.leaderEpoch)."""
        return np.where(self.being_deleted(rows), np.int32(EPOCH_DURING_DELETE), epochs)


class TopicStates:
    """The partitions of several requests, in the order of the requests and grouped by topic in each."""

    def __init__(
        self, table: PartitionTable, rows: Int32s, begins: Int32s, columns: dict[str, Any], *, with_ids: bool = True
    ) -> None:
        """Request r has the partition rows `rows[begins[r]:begins[r + 1]]`; `columns` has a value for each row."""
        topic_rows = table.topic_row__p[rows]
        starts = np.diff(topic_rows, prepend=NO_TOPIC) != 0
        starts[begins[:-1][begins[:-1] < len(rows)]] = True
        first = np.flatnonzero(starts).astype(np.int32)
        topics = distinct(topic_rows[first])
        of_group = np.searchsorted(topics, topic_rows[first])
        chosen = topics.tolist()
        self._partitions, self._begins = columns, begins.tolist()
        self._topic_begins = np.searchsorted(first, begins).tolist()
        self._row_offsets = np.append(first, np.int32(len(rows)))
        self._topics: dict[str, Any] = {
            "topic_name": taken(Strings.of(table.topics.names[t] for t in chosen), of_group)
        }
        if with_ids:
            ids = np.frombuffer(b"".join(table.topics.ids[t] for t in chosen), np.uint8).reshape(-1, 16)
            self._topics["topic_id"] = ids[of_group]

    def of(self, begin: int, end: int) -> Rows:
        """The partitions of the requests begin..end, a row for each request."""
        first, last = self._topic_begins[begin], self._topic_begins[end]
        from_, to = self._begins[begin], self._begins[end]
        row_offsets = self._row_offsets[first : last + 1] - np.int32(from_)
        states = Rows(row_offsets, **cut(self._partitions, from_, to))
        topic_offsets = np.array(self._topic_begins[begin : end + 1], np.int32) - np.int32(first)
        return Rows(topic_offsets, partition_states=states, **cut(self._topics, first, last))


def leader_and_isr_states(table: PartitionTable, rows: Int32s) -> dict[str, Any]:
    """The fields of LeaderAndIsr's partition states."""
    return _states(table, rows) | {
        "partition_epoch": table.partition_epoch__p[rows],
        "leader_recovery_state": table.leader_recovery_state__p[rows],
        "adding_replicas": _moves(table, rows, table.adding),
        "removing_replicas": _moves(table, rows, table.removing),
        "is_new": np.zeros(len(rows), np.bool_),
    }


def _moves(table: PartitionTable, rows: Int32s, moves: dict[int, tuple[int, ...]]) -> Vectors:
    if not moves:
        return Vectors(np.zeros(len(rows) + 1, np.int32), np.empty(0, np.int32))
    lists = [moves.get(row, ()) for row in rows.tolist()]
    members = np.array([broker for each in lists for broker in each], np.int16)
    return Vectors(np.cumsum([0, *map(len, lists)], dtype=np.int32), table.brokers.ids[members])


def update_metadata_states(table: PartitionTable, rows: Int32s, situation: ReplicaAvailability) -> dict[str, Any]:
    """The fields of UpdateMetadata's partition states; as in LeaderAndIsr.duringDelete for topics being deleted."""
    columns = _states(table, rows) | {
        "zk_version": table.partition_epoch__p[rows],
        "offline_replicas": _vectors(table, table.replicas__ps[rows], situation.offline(rows)),
    }
    deleted = situation.being_deleted(rows)
    if deleted.any():
        columns["leader"] = np.where(deleted, np.int32(LEADER_DURING_DELETE), columns["leader"])
        for name in ("leader_epoch", "zk_version"):
            columns[name] = np.where(deleted, np.int32(0), columns[name])
    return columns


def _states(table: PartitionTable, rows: Int32s) -> dict[str, Any]:
    ids = np.append(table.brokers.ids, np.int32(NO_LEADER))  # Row -1 is "none".
    isr, replicas = table.isr__pi[rows], table.replicas__ps[rows]
    return {
        "partition_index": table.partition_index__p[rows],
        "controller_epoch": table.controller_epoch__p[rows],
        "leader": ids[table.leader__p[rows]],
        "leader_epoch": table.leader_epoch__p[rows],
        "isr": _vectors(table, isr, isr >= 0),
        "replicas": _vectors(table, replicas, replicas >= 0),
    }


def _vectors(table: PartitionTable, broker_rows: Int16s, chosen: Bools) -> Vectors:
    offsets = np.zeros(len(broker_rows) + 1, np.int32)
    np.cumsum(chosen.sum(axis=1), out=offsets[1:])
    return Vectors(offsets, table.brokers.ids[broker_rows[chosen]])


def cut(columns: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    """The rows begin..end of arrays, Strings and Vectors; values are shared, not copied."""
    return {name: _cut(column, begin, end) for name, column in columns.items()}


def _cut(column: Any, begin: int, end: int) -> Any:
    if not isinstance(column, Vectors):
        return column[begin:end]
    offsets = column.offsets[begin : end + 1]
    first = offsets[0]
    return type(column)(offsets - first, column.values[first : offsets[-1]])


def of_topics(table: PartitionTable, rows: Int32s, names: Collection[str]) -> Bools:
    """A mask of the partitions of these topics. The work grows with `rows`, not with the number of topics."""
    if not names or not len(rows):
        return np.zeros(len(rows), np.bool_)
    topic_rows = table.topic_row__p[rows]
    ordered = distinct(topic_rows[topic_rows != NO_TOPIC])
    named = np.array([table.topics.names[row] in names for row in ordered.tolist()] + [False], np.bool_)
    found: Bools = named[np.searchsorted(ordered, topic_rows)] & (topic_rows != NO_TOPIC)
    return found


def distinct(rows: Int32s) -> Int32s:
    """The rows, ascending, each once; none may be negative. (np.unique takes many times as long.)"""
    ascending = np.sort(rows)
    once: Int32s = ascending[np.diff(ascending, prepend=np.int32(-1)) != 0]
    return once


def taken(column: Any, rows: Any) -> Any:
    """These rows of an array, of Strings or of Vectors, in this order; makes no Python strings."""
    if not isinstance(column, Vectors):
        return column[rows]
    offsets, places = elements_of(column.offsets, rows)
    valid = None if column.valid is None else column.valid[rows]
    return type(column)(offsets, column.values[places], valid)


def elements_of(offsets: Int32s, rows: Any) -> tuple[Int32s, Int64s]:
    """Concatenates the lists in these rows: returns their new offsets, and the present place of each element."""
    begins, lengths = offsets[rows], np.diff(offsets)[rows]
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return ends, np.arange(ends[-1]) + np.repeat(begins - ends[:-1], lengths)
