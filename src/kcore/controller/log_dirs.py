"""Log directories that failed on brokers that live (KafkaController.processLogDirEventNotification,
processLeaderAndIsrResponseReceived, onReplicasBecomeOffline of 3.9.1)."""

from typing import TYPE_CHECKING

import numpy as np

from kcore.controller import events, unclean
from kcore.controller.effects import Delete, Steps, read_children, read_nodes, write_nodes
from kcore.controller.state_changes import carry_out
from kcore.metadata import znodes
from kcore.metadata.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrResponse
from kcore.types import Int32s

if TYPE_CHECKING:
    from kcore.controller.active import ActiveController


def on_log_dir_event_notification(active: "ActiveController", event: events.LogDirEventNotification) -> Steps[None]:
    """Brokers that noted a failure are sent their states again: their answers tell which replicas are lost."""
    names = yield from read_children(znodes.LOG_DIR_EVENT_NOTIFICATION, watch=True)
    paths = [f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{name}" for name in names]
    nodes = yield from read_nodes(paths)
    noted = {
        znodes.decode_log_dir_event(path, node.data)
        for path, node in zip(paths, nodes, strict=True)
        if node is not None
    }
    batch, brokers = active.batch(), active.table.brokers
    for broker_id in sorted(noted):
        if broker_id in brokers:
            row = brokers.row(broker_id)
            batch.order(row, active.table.index.rows(row))
    yield from active.send(batch)
    if paths:
        yield from write_nodes([Delete(path) for path in paths])


def on_leader_and_isr_response(active: "ActiveController", event: events.LeaderAndIsrResponseReceived) -> Steps[None]:
    """KAFKA_STORAGE_ERROR: the replica's log directory is lost. No answer makes the controller send anything again.

    An answer of an incarnation that is gone says nothing of the one that lives (KIP-380).
    """
    brokers, broker_id = active.table.brokers, event.broker_id
    if event.response.error_code != Errors.NONE or broker_id not in brokers:
        return
    row = brokers.row(broker_id)
    if not brokers.live[row] or brokers.epochs[row] != event.broker_epoch:
        return
    before = active.offline_dirs.get(broker_id, set())
    codes = _error_codes(event.response)
    if not before and Errors.KAFKA_STORAGE_ERROR not in codes:
        return
    results = _results(active.table, event.response)
    lost = {row for row, code in results.items() if code == Errors.KAFKA_STORAGE_ERROR}
    found = {row for row, code in results.items() if code == Errors.NONE}
    if fresh := lost - before:
        yield from on_replicas_become_offline(active, broker_id, np.array(sorted(fresh), np.int32))
    if left := (before - found) | lost:
        active.offline_dirs[broker_id] = left
    else:
        active.offline_dirs.pop(broker_id, None)


def on_replicas_become_offline(active: "ActiveController", broker_id: int, rows: Int32s) -> Steps[None]:
    """Others lead and the ISRs shrink, as if the broker had failed for these partitions; it is told to stop them."""
    table, decisions = active.table, active.decisions
    yield from unclean.learn(active, rows, [broker_id])
    decision = yield from carry_out(active, lambda: decisions.on_replicas_offline(broker_id, rows))
    active.offline_dirs[broker_id] = active.offline_dirs.get(broker_id, set()) | {*rows.tolist()}
    broker_row = table.brokers.row(broker_id)
    changed = decision.changes.rows
    replicas = table.replicas__ps[changed]
    told = (replicas >= 0) & (replicas != broker_row)
    batch = active.batch()
    batch.add_leader_and_isr(replicas[told], np.repeat(changed, told.sum(axis=1)), False)
    kept = rows[~decisions.situation().being_deleted(rows)]
    batch.add_update_metadata(np.flatnonzero(table.brokers.live), kept)
    batch.add_stop_replica(broker_row, kept, table.leader_epoch__p[kept], delete=False)
    yield from active.send(batch)
    yield from active.after_replicas_offline(broker_id, rows)


def _error_codes(response: LeaderAndIsrResponse) -> set[int]:
    codes = {each.error_code for each in response.partition_errors}
    return codes.union(each.error_code for topic in response.topics for each in topic.partition_errors)


def _results(table: PartitionTable, response: LeaderAndIsrResponse) -> dict[int, int]:
    """Error codes by partition row; version 5 on names topics by id. Partitions that went meanwhile are left out."""
    listed = [
        (table.topics.row(each.topic_name), each)
        for each in response.partition_errors
        if each.topic_name in table.topics
    ]
    for topic in response.topics:
        row = table.topics.row_of_id(topic.topic_id)
        listed += [(row, each) for each in topic.partition_errors if row is not None]
    found = table.rows_of([row for row, _ in listed], [each.partition_index for _, each in listed]).tolist()
    return {row: each.error_code for row, (_, each) in zip(found, listed, strict=True) if row >= 0}
