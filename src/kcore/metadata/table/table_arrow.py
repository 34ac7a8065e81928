"""Converts the partition table and changes of it to Apache Arrow; brokers as ids."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcore.constants import NO_BROKER_ROW
from kcore.extras import needs
from kcore.metadata.table.partition_queries import PartitionQueries
from kcore.metadata.table.topic_table import TopicTable
from kcore.types import ZERO_UUID, Int8s, Int32s

with needs("arrow"):
    import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),  # -1: none
        ("replicas", pa.list_(pa.int32())),
        ("isr", pa.list_(pa.int32())),
        ("leaderEpoch", pa.int32()),
        ("partitionEpoch", pa.int32()),
        ("controllerEpoch", pa.int32()),
        ("leaderRecoveryState", pa.int8()),
        ("directories", pa.list_(pa.string())),  # One for each replica; null if the cluster has none (KIP-858).
        ("eligibleLeaderReplicas", pa.list_(pa.int32())),  # eligible leader replicas (KIP-966)
        ("lastKnownElr", pa.list_(pa.int32())),
        ("topicId", pa.string()),  # Null for topics without ids, from before KIP-516.
        ("addingReplicas", pa.list_(pa.int32())),
        ("removingReplicas", pa.list_(pa.int32())),
    ]
)


def partitions_as_arrow(table: PartitionQueries, start: int = 0, end: int | None = None) -> pa.Table:
    """Partition rows [start, end), a row each, with the columns of SCHEMA; free rows are left out."""
    rows = np.flatnonzero(table.topic_row__p[start:end] >= 0).astype(np.int32) + np.int32(start)
    ids = np.append(table.brokers.ids, NO_BROKER_ROW)  # Row -1 indexes the last item: no broker.

    def lists(brokers: npt.NDArray[np.int16] | None) -> Any:
        if brokers is None:
            return pa.ListArray.from_arrays(pa.array(np.zeros(len(rows) + 1, np.int32)), pa.array([], pa.int32()))
        used = brokers[rows] != NO_BROKER_ROW
        return pa.ListArray.from_arrays(_offsets(used), pa.array(ids[brokers[rows][used]], pa.int32()))

    topics = pa.array(table.topic_row__p[rows])
    columns = [
        pa.array(table.topics.names, pa.string()).take(topics),
        pa.array(table.partition_index__p[rows]),
        pa.array(ids[table.leader__p[rows]], pa.int32()),
        lists(table.replicas__ps),
        lists(table.isr__pi),
        pa.array(table.leader_epoch__p[rows]),
        pa.array(table.partition_epoch__p[rows]),
        pa.array(table.controller_epoch__p[rows]),
        pa.array(table.leader_recovery_state__p[rows]),
        _directories(table, rows),
        lists(table.elr__pi),
        lists(table.last_known_elr__pi),
        topic_ids(table.topics).take(topics),
        _moves(rows, table.adding, ids),
        _moves(rows, table.removing, ids),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def topic_ids(topics: TopicTable) -> Any:
    """The id of each topic's row as text; null for a topic without an id, and in a free row."""
    return pa.array([None if each == ZERO_UUID else str(each) for each in topics.ids], pa.string())


def _moves(rows: Int32s, moves: Mapping[int, Sequence[int]], ids: Int32s) -> Any:
    """The brokers that are added or removed, by id; the list of most partitions is empty."""
    moving = np.intersect1d(rows, np.array([*moves], np.int32))
    sizes = np.zeros(len(rows), np.int32)
    sizes[np.searchsorted(rows, moving)] = [len(moves[row]) for row in moving.tolist()]
    brokers = np.array([broker for row in moving.tolist() for broker in moves[row]], np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids[brokers], pa.int32()))


def _offsets(used: npt.NDArray[np.bool_]) -> Any:
    return pa.array(np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int32))


def _directories(table: PartitionQueries, rows: Int32s) -> Any:
    if table.directories__ps is None:
        return pa.nulls(len(rows), pa.list_(pa.string()))
    used = table.replicas__ps[rows] != NO_BROKER_ROW
    uuids = pa.array([str(uuid) for uuid in table.directories.uuids], pa.string())
    return pa.ListArray.from_arrays(_offsets(used), uuids.take(pa.array(table.directories__ps[rows][used])))


with needs("arrow"):
    import pyarrow as pa

CHANGES = pa.schema(
    [
        ("row", pa.int32()),  # of the partition, in the table of the decision
        ("leader", pa.int32()),  # -1: none
        ("isr", pa.list_(pa.int32())),
        ("leaderEpoch", pa.int32()),
        ("partitionEpoch", pa.int32()),
        ("leaderRecoveryState", pa.int8()),
    ]
)


def changes_as_arrow(
    rows: Int32s,
    leaders: Int32s,
    isr_offsets: Int32s,
    isr: Int32s,
    leader_epochs: Int32s,
    partition_epochs: Int32s,
    recovery: Int8s,
) -> pa.Table:
    """The columns of ChangeColumns, a row a change, with the fields of CHANGES; memory is shared."""
    lists = pa.ListArray.from_arrays(pa.array(isr_offsets), pa.array(isr))
    numbers = [pa.array(each) for each in (leader_epochs, partition_epochs, recovery)]
    return pa.Table.from_arrays([pa.array(rows), pa.array(leaders), lists, *numbers], schema=CHANGES)
