"""Deletes topics: brokers delete every replica, then the controller deletes the znodes. `TopicDeletions` has the steps:

1. `ineligible`: the topic waits while a partition is reassigned, or while a broker with a replica is not live.
2. `to_start`: UpdateMetadata removes the topic's leaders at all brokers; brokers with replicas are sent StopReplica.
3. `started`: brokers respond. An error makes the topic ineligible until a broker starts.
4. `to_remove`: all replicas are deleted. The znodes are deleted, the deletion request last, so that a later controller
   continues if this one dies. Then the topic leaves the table, and waiting requests are answered.

Steps 2 and 4 are done in parts of bounded size, one part for each event (`deletion_steps.py`). The work for a response
grows with its partitions. The partitions' states do not change in ZooKeeper, and are not read again.

Source: TopicDeletionManager of 3.9.1, with its replica states ReplicaDeletionStarted, -Ineligible and -Successful.
"""

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np

from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import StopReplicaResponseReceived, Tick, TopicDeletion
from kcore.controller.zk.log_lines import Topics
from kcore.controller.zk.requests.states import distinct
from kcore.controller.zk.topics import deletion_steps, topic_changes
from kcore.controller.zk.topics.deletion_progress import INELIGIBLE, STARTED, SUCCESSFUL, AwaitedDeletion
from kcore.controller.zk.topics.deletion_steps import AWAY, make_ineligible
from kcore.controller.zk.zk_context import ControllerContext
from kcore.metadata.table.partition_table import NO_TOPIC
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete
from kcore.node.zk.znode_steps import log_notice, read_children, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema import DeleteTopicsResponse
from kcore.types import Bools, Int32s
from kcore.wire.columns import Columns

BEING_REASSIGNED: Final = "partitions are being reassigned"


def resume(context: ControllerContext) -> Steps[None]:
    """After a failover: continues the requested deletions."""
    known = yield from _deletion_requests(context)
    yield from enqueue(context, known)


def on_topic_deletion(context: ControllerContext, event: TopicDeletion) -> Steps[None]:
    """Begins the deletions that were requested in `/admin/delete_topics`."""
    known = yield from _deletion_requests(context)
    yield from enqueue(context, known - context.topics_to_be_deleted)


def _deletion_requests(context: ControllerContext) -> Steps[set[str]]:
    """The topics in the deletion requests; deletes the requests that cannot be fulfilled."""
    names = yield from read_children(znodes.DELETE_TOPICS, watch=True)
    known = {name for name in names if name in context.table.topics and context.config.delete_topic_enable}
    refused = [name for name in names if name not in known]
    if refused:
        yield from write_nodes([Delete(znodes.delete_topic_path(name)) for name in refused])
    context.topics_to_be_deleted.difference_update(refused)
    return known


def enqueue(context: ControllerContext, names: Collection[str]) -> Steps[None]:
    """Queues topics for deletion. A topic that is being reassigned waits until the move ends or a broker starts.

    If the reassignment itself waits for a broker, the deletion continues without it when that broker starts.
    """
    context.topics_to_be_deleted.update(names)
    table = context.table
    moving = np.array(sorted(table.adding.keys() | table.removing.keys()), np.int32)
    if names:
        sizes = yield from topic_changes.sizes_of(context, names)
        yield from log_notice(Topics("to be deleted", sizes))
    yield from make_ineligible(
        context, {table.topics.names[row] for row in table.topic_row__p[moving].tolist()}, BEING_REASSIGNED
    )
    yield from _resume_deletions(context, names)


def resume_for(context: ControllerContext, names: Iterable[str]) -> Steps[None]:
    """Continues deletions whose reason to wait may be gone (resumeDeletionForTopics)."""
    again = context.topics_to_be_deleted.intersection(names)
    if again:
        context.deletion.ineligible -= again
        yield from _resume_deletions(context, again)


def resume_for_brokers(context: ControllerContext, broker_ids: list[int]) -> Steps[None]:
    """Continues the deletions of topics that have replicas on started brokers (KafkaController.onBrokerStartup)."""
    table = context.table
    if context.topics_to_be_deleted:
        held = np.concatenate([table.index.rows(table.brokers.row(broker)) for broker in broker_ids])
        names = [table.topics.names[row] for row in distinct(table.topic_row__p[held]).tolist()]
        yield from resume_for(context, names)


def fail_replicas(context: ControllerContext, broker_id: int, rows: Int32s) -> Steps[None]:
    """Suspends deletions, because a broker or its log directory with these replicas failed (failReplicaDeletion)."""
    table, deletion = context.table, context.deletion
    names = [table.topics.names[row] for row in distinct(table.topic_row__p[rows]).tolist()]
    rows = np.concatenate([rows[:0], *(deletion.started[name].rows for name in names if name in deletion.started)])
    replicas__ps, states__ps = table.replicas__ps[rows], deletion.states.of(table)[rows]
    held = (replicas__ps == table.brokers.row(broker_id)) & (states__ps != SUCCESSFUL)
    yield from _record_outcomes(context, rows, held, np.zeros(len(rows), np.bool_))
    yield from make_ineligible(context, names, AWAY)
    yield from _resume_deletions(context, names)


def on_stop_replica_response(context: ControllerContext, event: StopReplicaResponseReceived) -> Steps[None]:
    """Records deleted replicas; a replica counts only if the request was to delete it (KAFKA-9946)."""
    table, brokers = context.table, context.table.brokers
    if not event.delete or event.broker_id not in brokers:
        return
    broker_row = brokers.row(event.broker_id)
    if brokers.epochs[broker_row] != event.broker_epoch:
        return  # An earlier incarnation responded; the current one was sent another request.
    rows, codes = _answered(context, event.response)
    states__ps = context.deletion.states.of(table)[rows]
    unanswered = (table.replicas__ps[rows] == broker_row) & (states__ps == STARTED)
    answered = yield from _record_outcomes(context, rows, unanswered, codes == Errors.NONE)
    yield from _resume_deletions(context, answered)


def _answered(context: ControllerContext, response: Columns) -> tuple[Int32s, Int32s]:
    """Partition rows, ascending, and their error codes; topics whose deletion has not begun are left out.

    An error of the whole response counts for every partition.
    """
    table, errors = context.table, response.partition_errors
    names: list[str] = errors.topic_name.tolist()
    started = context.deletion.started
    topic_row_of = {name: table.topics.row(name) if name in started else NO_TOPIC for name in dict.fromkeys(names)}
    topic_rows = np.array([topic_row_of[name] for name in names], np.int32)
    known = topic_rows != NO_TOPIC
    rows = table.rows_of(topic_rows[known], errors.partition_index[known])
    codes = np.where(response.error_code == Errors.NONE, errors.error_code[known], response.error_code)
    rows, first = np.unique(rows, return_index=True)
    return rows[rows >= 0], codes[first][rows >= 0].astype(np.int32)


def _record_outcomes(
    context: ControllerContext, rows: Int32s, chosen__ps: Bools, is_deleted: Bools
) -> Steps[list[str]]:
    """Records the chosen replicas as deleted or failed; returns their topics. A failure makes its topic ineligible."""
    table, deletion = context.table, context.deletion
    states__ps = deletion.states.of(table)
    places, slots = np.nonzero(chosen__ps)
    changed, deleted = rows[places], is_deleted[places]
    was_unanswered = states__ps[changed, slots] == STARTED
    states__ps[changed, slots] = np.where(deleted, SUCCESSFUL, INELIGIBLE)
    topic_rows, owners = np.unique(table.topic_row__p[changed], return_inverse=True)
    names = [table.topics.names[row] for row in topic_rows.tolist()]
    counts = [np.bincount(owners[mask], minlength=len(names)).tolist() for mask in (was_unanswered, deleted, ~deleted)]
    waiting = []
    for name, unanswered, gone, failed in zip(names, *counts, strict=True):
        started = deletion.started[name]
        started.unanswered -= unanswered
        started.left -= gone
        if failed:
            waiting.append(name)
    yield from make_ineligible(context, waiting, AWAY)
    return names


def _resume_deletions(context: ControllerContext, names: Collection[str]) -> Steps[None]:
    """Schedules the next step of each of these topics that can take one."""
    deletion = context.deletion
    for name in sorted(context.topics_to_be_deleted.intersection(names)):
        started = deletion.started.get(name)
        if started is not None and not started.left:
            deletion.to_remove.setdefault(name, 0)
        elif name not in deletion.ineligible and (started is None or not started.unanswered):
            deletion.to_start[name] = None
    yield from deletion_steps.schedule(context)


def expire(context: ControllerContext, event: Tick) -> Steps[None]:
    """Answers DeleteTopics requests whose time-out is over; the deletions go on."""
    for request_id, awaited in list(context.deletion.awaited.items()):
        if awaited.deadline_ms <= context.now_ms:
            del context.deletion.awaited[request_id]
            yield from context.answer(request_id, timed_out(awaited, context.now_ms))


def timed_out(awaited: AwaitedDeletion, now_ms: int) -> DeleteTopicsResponse:
    """The response with REQUEST_TIMED_OUT for the topics that still exist."""
    for result in awaited.response.responses:
        if result.name in awaited.topics:
            result.error_code = Errors.REQUEST_TIMED_OUT
    return awaited.answer(now_ms)
