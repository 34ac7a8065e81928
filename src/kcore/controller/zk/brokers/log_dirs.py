"""Handles failed log directories of live brokers.

Source: KafkaController.processLogDirEventNotification, processLeaderAndIsrResponseReceived and onReplicasBecomeOffline
of 3.9.1.
"""

import numpy as np

from kcore.controller.zk import events
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.leaders import unclean
from kcore.controller.zk.log_lines import counted, named_brokers
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete
from kcore.node.zk.notices import TextNotice
from kcore.node.zk.znode_steps import log_notice, pass_over, read_children, read_nodes, write_nodes
from kcore.protocol_errors import Errors
from kcore.types import Int32s, Uuid
from kcore.wire.columns import Columns


def on_log_dir_event_notification(context: ControllerContext, event: events.LogDirEventNotification) -> Steps[None]:
    """Sends LeaderAndIsr again to brokers that reported a failure; their responses name the offline replicas."""
    names = yield from read_children(znodes.LOG_DIR_EVENT_NOTIFICATION, watch=True)
    paths = [f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{name}" for name in names]
    nodes = yield from read_nodes(paths)
    reporting = set()
    for path, node in zip(paths, nodes, strict=True):
        try:
            reporting |= set() if node is None else {znodes.decode_log_dir_event(path, node.data)}
        except TableError as error:
            yield from pass_over(context.passed_over, [error])
    if reporting:
        line = f"{named_brokers(reporting)} reported a failed log directory; LeaderAndIsr is sent again"
        yield from log_notice(TextNotice(line))
    batch, brokers = context.batch(), context.table.brokers
    for broker_id in sorted(reporting):
        if broker_id in brokers:
            row = brokers.row(broker_id)
            batch.order(row, context.table.index.rows(row))
    yield from context.send(batch)
    if paths:
        yield from write_nodes([Delete(path) for path in paths])


def on_leader_and_isr_response(context: ControllerContext, event: events.LeaderAndIsrResponseReceived) -> Steps[None]:
    """Takes replicas with KAFKA_STORAGE_ERROR as offline, because their log directory failed.

    Other errors are ignored, and nothing is sent again. Responses of an earlier incarnation are ignored (KIP-380).
    """
    brokers, broker_id = context.table.brokers, event.broker_id
    if event.response.error_code != Errors.NONE or broker_id not in brokers:
        return
    row = brokers.row(broker_id)
    if not brokers.live[row] or brokers.epochs[row] != event.broker_epoch:
        return
    before = context.offline_dirs.get(broker_id, set())
    if not before and not _names_lost(event.response):
        return
    rows, codes = _results(context.table, event.response)
    lost = {*rows[codes == Errors.KAFKA_STORAGE_ERROR].tolist()}
    found = {*rows[codes == Errors.NONE].tolist()}
    if fresh := lost - before:
        yield from on_replicas_become_offline(context, broker_id, np.array(sorted(fresh), np.int32))
    if back := (before & found) - lost:
        yield from log_notice(
            TextNotice(f"broker {broker_id}: {counted(len(back), 'replica')} on failed log directories are back")
        )
    if left := (before - found) | lost:
        context.offline_dirs[broker_id] = left
    else:
        context.offline_dirs.pop(broker_id, None)


def on_replicas_become_offline(context: ControllerContext, broker_id: int, rows: Int32s) -> Steps[None]:
    """Elects other leaders and shrinks ISRs, as if the broker had failed, and sends the broker StopReplica."""
    table, decisions = context.table, context.decisions
    yield from unclean.learn(context, rows, [broker_id])
    why = f"log directory of broker {broker_id} failed"
    yield from log_notice(TextNotice(f"{why}: {counted(len(rows), 'replica')} offline"))
    decision = yield from carry_out(context, lambda: decisions.on_replicas_offline(broker_id, rows), why)
    context.offline_dirs[broker_id] = context.offline_dirs.get(broker_id, set()) | {*rows.tolist()}
    broker_row = table.brokers.row(broker_id)
    changed = decision.changes.rows
    replicas = table.replicas__ps[changed]
    receivers = (replicas >= 0) & (replicas != broker_row)
    batch = context.batch()
    batch.add_leader_and_isr(replicas[receivers], np.repeat(changed, receivers.sum(axis=1)), False)
    kept = rows[~decisions.situation().being_deleted(rows)]
    batch.add_update_metadata(np.flatnonzero(table.brokers.live), kept)
    batch.add_stop_replica(broker_row, kept, table.leader_epoch__p[kept], delete=False)
    yield from context.send(batch)
    yield from context.after_replicas_offline(broker_id, rows)


def _names_lost(response: Columns) -> bool:
    """A fast check: True if any partition has KAFKA_STORAGE_ERROR, which is rare."""
    by_name, topics = response.column("partition_errors"), response.column("topics")  # Each version has one of the two.
    found = [by_name, None if topics is None else topics.column("partition_errors")]
    return any((each.error_code == Errors.KAFKA_STORAGE_ERROR).any() for each in found if each is not None)


def _results(table: PartitionTable, response: Columns) -> tuple[Int32s, Int32s]:
    """Partition rows and their error codes; from version 5 on topics have ids. Deleted partitions are left out."""
    by_name, topics = response.partition_errors, response.topics
    by_id = topics.partition_errors
    rows_of_ids = [table.topics.row_of_id(Uuid(each.tobytes())) for each in topics.topic_id]
    known_names = [table.topics.row(name) if name in table.topics else None for name in by_name.topic_name.tolist()]
    of_ids = np.array([NO_TOPIC if row is None else row for row in rows_of_ids], np.int32)
    of_names = np.array([NO_TOPIC if row is None else row for row in known_names], np.int32)
    topic_rows = np.concatenate([of_names, np.repeat(of_ids, np.diff(by_id.row_offsets))])
    indexes = np.concatenate([by_name.partition_index, by_id.partition_index])
    codes = np.concatenate([by_name.error_code, by_id.error_code]).astype(np.int32)
    known = topic_rows != NO_TOPIC
    rows, codes = table.rows_of(topic_rows[known], indexes[known]), codes[known]
    return rows[rows >= 0], codes[rows >= 0]
