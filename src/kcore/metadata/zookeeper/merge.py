"""Merges an UpdateMetadata into a broker's partition table (ZkMetadataCache.updateMetadata of 3.9.1)."""

import numpy as np

from kcore.constants import LEADER_DURING_DELETE, NO_BROKER_ROW
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.topic_names import reason_invalid
from kcore.metadata.zookeeper.request_columns import RequestColumns
from kcore.types import Int32s, Int64s


def merge(table: PartitionTable, columns: RequestColumns) -> list[str]:
    """Merges the live brokers and the partitions of a decoded UpdateMetadata, and removes topics being deleted.

    Skips topics with invalid names, and returns these names. TableError, and no change, if the request is invalid or
    there are too many brokers.
    """
    received = PartitionTable.from_columns(columns)
    _merge_brokers(table.brokers, received.brokers)
    _remove_topics(table, columns, received.topics)
    left_out = [name for name in received.topics.names if reason_invalid(name) is not None]
    for topic_row, name in enumerate(received.topics.names):
        if not left_out or name not in left_out:
            _add_unknown(table, received, topic_row, name)
    topic_rows = np.array([table.topics.row(name) if name in table.topics else -1 for name in received.topics.names])
    taken = np.flatnonzero(topic_rows[received.topic_row__p] >= 0) if len(received) else np.empty(0, np.int64)
    if len(taken):
        _merge_states(table, received, taken, topic_rows)
    return left_out


def _merge_states(table: PartitionTable, received: PartitionTable, taken: Int64s, topic_rows: Int64s) -> None:
    """Writes the states of the received rows `taken`; `topic_rows` has the table's row of each received topic."""
    rows = table.rows_of(topic_rows[received.topic_row__p[taken]], received.partition_index__p[taken])
    ascending = np.argsort(rows)
    rows, order = rows[ascending], taken[ascending]
    table.set_replicas(rows, _ids(received.brokers, received.replicas__ps[order]))
    table.apply(
        _changes(received, rows, order), controller_epoch=received.controller_epoch__p[order], check_epochs=False
    )


def _merge_brokers(known: BrokerTable, received: BrokerTable) -> None:
    """Adds and updates the received brokers; afterwards exactly the brokers that were received as live are live.

    TableError, before any change, for too many brokers.
    """
    if new := [broker_id for broker_id in received.ids.tolist() if broker_id not in known]:
        known.add(new)
    for row, broker_id in enumerate(received.ids.tolist()):
        epoch = int(known.epochs[known.row(broker_id)])
        known.register(broker_id, epoch, rack=received.racks[row], endpoints=received.endpoints[row])
    known.set_live(received.ids[received.live])


def _remove_topics(table: PartitionTable, columns: RequestColumns, received: TopicTable) -> None:
    """Removes topics that are being deleted, and topics that were deleted and created again: their id has changed."""
    states = columns.topic_states.partition_states
    deleted = np.diff(np.append(0, np.cumsum(states.leader == LEADER_DURING_DELETE))[states.row_offsets])
    for name, is_deleted in zip(columns.topic_states.topic_name, deleted.tolist(), strict=True):
        if name not in table.topics:
            continue
        known_id, received_id = table.topics.ids[table.topics.row(name)], received.ids[received.row(name)]
        if is_deleted or (any(known_id) and any(received_id) and known_id != received_id):
            table.remove_topic(name)
        else:
            table.topics.set_id(name, received_id)  # An upgrade adds ids, and a downgrade removes them.


def _add_unknown(table: PartitionTable, received: PartitionTable, topic_row: int, name: str) -> None:
    """Adds the partitions of a topic that the table lacks."""
    rows = received.rows_of_topic(name)
    known = table.rows_of_topic(name) if name in table.topics else np.empty(0, np.int32)
    partitions = received.partition_index__p[rows]
    rows = rows[~np.isin(partitions, table.partition_index__p[known])]
    if not len(rows):
        return
    if name not in table.topics:
        table.topics.add(name, received.topics.ids[topic_row])
    breaks = np.flatnonzero(np.diff(received.partition_index__p[rows]) != 1) + 1
    for run in np.split(rows, breaks):
        first = int(received.partition_index__p[run[0]])
        table.add_partitions(name, _ids(received.brokers, received.replicas__ps[run]), first_partition=first)


def _changes(received: PartitionTable, rows: Int32s, order: Int64s) -> PartitionChanges:
    isr = received.isr__pi[order]
    members = isr != NO_BROKER_ROW
    return PartitionChanges(
        rows=rows,
        leaders=_ids(received.brokers, received.leader__p[order]),
        isr_offsets=np.concatenate([[0], np.cumsum(members.sum(axis=1))]).astype(np.int32),
        isr=received.brokers.ids[isr[members]],
        leader_epochs=received.leader_epoch__p[order],
        partition_epochs=received.partition_epoch__p[order],
        recovery=received.leader_recovery_state__p[order],
    )


def _ids(brokers: BrokerTable, rows: np.ndarray) -> Int32s:
    """The broker ids of rows; -1 for row -1."""
    ids: Int32s = np.append(brokers.ids, np.int32(NO_BROKER_ROW))[rows]
    return ids
