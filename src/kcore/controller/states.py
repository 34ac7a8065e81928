"""Partition states as the control requests carry them: gathered from the table once, cut per broker without a copy."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kcore.constants import NO_LEADER
from kcore.metadata.partition_table import NO_TOPIC, PartitionTable
from kcore.metadata.topics import TopicTable
from kcore.types import Bools, Int16s, Int32s, UInt8s, Uuid
from kcore.wire.columns import Rows, Strings, Vectors


class PartitionStates:
    """The states of the partitions in `rows`, in that order; partitions of a topic stand together."""

    def __init__(self, table: PartitionTable, rows: Int32s, *, leader_and_isr: bool) -> None:
        """`leader_and_isr`: the fields of LeaderAndIsr; else those of UpdateMetadata."""
        ids = np.append(table.brokers.ids, np.int32(NO_LEADER))  # Row -1 is "none".
        self._topics = table.topics
        self._topic_rows = table.topic_row__p[rows]
        self.leaders = table.leader__p[rows]  # broker rows
        replicas = table.replicas__ps[rows]
        self._fixed: dict[str, Any] = {
            "partition_index": table.partition_index__p[rows],
            "controller_epoch": table.controller_epoch__p[rows],
            "leader": ids[self.leaders],
            "leader_epoch": table.leader_epoch__p[rows],
            "partition_epoch" if leader_and_isr else "zk_version": table.partition_epoch__p[rows],
        }
        self._vectors = {"isr": _vectors(ids, table.isr__pi[rows]), "replicas": _vectors(ids, replicas)}
        if leader_and_isr:
            self._fixed["leader_recovery_state"] = table.leader_recovery_state__p[rows]
            self._add_moves(table, rows, ids)
        else:
            self._add_offline(replicas, table.brokers.live, ids)

    def _add_moves(self, table: PartitionTable, rows: Int32s, ids: Int32s) -> None:
        for name, moves in (("adding_replicas", table.adding), ("removing_replicas", table.removing)):
            if moves:
                lists = [[ids[broker] for broker in moves.get(row, ())] for row in rows.tolist()]
                offsets = np.cumsum([0, *map(len, lists)], dtype=np.int32)
                self._vectors[name] = Vectors(offsets, np.array([b for each in lists for b in each], np.int32))

    def _add_offline(self, replicas: Int16s, live: Bools, ids: Int32s) -> None:
        offline = (replicas >= 0) & ~live[replicas]
        if offline.any():
            self._vectors["offline_replicas"] = _chosen(ids, replicas, offline)

    def topics(self, begin: int, end: int) -> Rows:
        """The states begin..end as the `topic_states` of a request."""
        columns: dict[str, Any] = {name: column[begin:end] for name, column in self._fixed.items()}
        columns |= {name: _cut(vectors, begin, end) for name, vectors in self._vectors.items()}
        return topic_states(self._topics, self._topic_rows[begin:end], columns)


def topic_states(topics: TopicTable, topic_rows: Int32s, columns: dict[str, Any], *, with_ids: bool = True) -> Rows:
    """Columns of partitions, a topic's standing together, under their topics. `topic_rows`: the topic of each."""
    first = np.flatnonzero(np.diff(topic_rows, prepend=NO_TOPIC))
    chosen = topic_rows[first].tolist()
    ids: dict[str, Any] = {"topic_id": _uuids(topics.ids[row] for row in chosen)} if with_ids else {}
    return Rows(
        np.array([0, len(first)], np.int32),
        topic_name=Strings.of(topics.names[row] for row in chosen),
        partition_states=Rows(np.append(first, len(topic_rows)).astype(np.int32), **columns),
        **ids,
    )


def _uuids(ids: Iterable[Uuid]) -> UInt8s:
    return np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 16)


def _vectors(ids: Int32s, broker_rows: Int16s) -> Vectors:
    return _chosen(ids, broker_rows, broker_rows >= 0)


def _chosen(ids: Int32s, broker_rows: Int16s, chosen: Bools) -> Vectors:
    offsets = np.zeros(len(broker_rows) + 1, np.int32)
    np.cumsum(chosen.sum(axis=1), out=offsets[1:])
    return Vectors(offsets, ids[broker_rows[chosen]])


def _cut(vectors: Vectors, begin: int, end: int) -> Vectors:
    offsets = vectors.offsets[begin : end + 1]
    return Vectors(offsets - offsets[0], vectors.values[offsets[0] : offsets[-1]])
