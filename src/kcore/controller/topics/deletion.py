"""Topics are deleted: every replica is stopped and deleted by its broker, then the znodes go.

Source: TopicDeletionManager of 3.9.1, with its replica states ReplicaDeletionStarted, -Ineligible and -Successful.
The doomed partitions' states stay as they are in ZooKeeper, for nobody will read them again.
"""

from collections.abc import Collection, Iterable

import numpy as np

from kcore.controller.context import ControllerContext
from kcore.controller.effects import Delete, ReadChildren, Steps, read_children, write_nodes
from kcore.controller.events import StopReplicaResponseReceived, Tick, TopicDeletion
from kcore.controller.requests.states import distinct
from kcore.controller.topics import topic_changes
from kcore.controller.topics.deletion_progress import (
    INELIGIBLE,
    NOBODY,
    OFFLINE,
    OVER,
    STARTED,
    SUCCESSFUL,
    AwaitedDeletion,
    DoomedTopic,
)
from kcore.metadata import znodes
from kcore.protocol_errors import Errors
from kcore.schema import DeleteTopicsResponse, StopReplicaResponse
from kcore.types import Bools, Int16s, Int32s


def resume(context: ControllerContext) -> Steps[None]:
    """After a failover: what was asked of the last controller goes on."""
    known = yield from _wishes(context)
    yield from enqueue(context, known)


def on_topic_deletion(context: ControllerContext, event: TopicDeletion) -> Steps[None]:
    """The children of `/admin/delete_topics` changed."""
    known = yield from _wishes(context)
    yield from enqueue(context, known - context.topics_to_be_deleted)


def _wishes(context: ControllerContext) -> Steps[set[str]]:
    """The topics that somebody wants to be deleted; wishes that cannot be granted are removed."""
    names = yield from read_children(znodes.DELETE_TOPICS, watch=True)
    known = {name for name in names if name in context.table.topics and context.config.delete_topic_enable}
    refused = [name for name in names if name not in known]
    if refused:
        yield from write_nodes([Delete(znodes.delete_topic_path(name)) for name in refused])
    context.topics_to_be_deleted.difference_update(refused)
    return known


def enqueue(context: ControllerContext, names: Collection[str]) -> Steps[None]:
    """From now on these topics are to be deleted; one that is being reassigned waits for the end of that.

    Or for a broker to start: nothing but a broker that comes back may be what the reassignment waits for.
    """
    context.topics_to_be_deleted.update(names)
    table = context.table
    moving = np.array(sorted(table.adding.keys() | table.removing.keys()), np.int32)
    mark_ineligible(context, {table.topics.names[row] for row in table.topic_row__p[moving].tolist()})
    yield from _resume_deletions(context, names)


def mark_ineligible(context: ControllerContext, names: Iterable[str]) -> None:
    """Those of the topics that are to be deleted must wait."""
    context.deletion.ineligible |= context.topics_to_be_deleted.intersection(names)


def resume_for(context: ControllerContext, names: Iterable[str]) -> Steps[None]:
    """What these topics waited for may have come true (resumeDeletionForTopics)."""
    again = context.topics_to_be_deleted.intersection(names)
    if again:
        context.deletion.ineligible -= again
        yield from _resume_deletions(context, again)


def resume_for_brokers(context: ControllerContext, broker_ids: list[int]) -> Steps[None]:
    """Brokers started: the topics that they have replicas of go on (KafkaController.onBrokerStartup)."""
    table = context.table
    if context.topics_to_be_deleted:
        held = np.concatenate([table.index.rows(table.brokers.row(broker)) for broker in broker_ids])
        names = [table.topics.names[row] for row in distinct(table.topic_row__p[held]).tolist()]
        yield from resume_for(context, names)


def fail_replicas(context: ControllerContext, broker_id: int, rows: Int32s) -> Steps[None]:
    """A broker, or a log directory of it, is gone: its replicas cannot be deleted now (failReplicaDeletion)."""
    broker_row = context.table.brokers.row(broker_id)
    names = {context.table.topics.names[row] for row in context.table.topic_row__p[rows].tolist()}
    for name in names & context.deletion.started.keys():
        doomed = context.deletion.started[name]
        here = (doomed.replicas__ps == broker_row) & np.isin(doomed.rows, rows)[:, None]
        doomed.states__ps[here & (doomed.states__ps != SUCCESSFUL)] = INELIGIBLE
    mark_ineligible(context, names)
    yield from _resume_deletions(context, names)


def on_stop_replica_response(context: ControllerContext, event: StopReplicaResponseReceived) -> Steps[None]:
    """A broker answered. Only what it was told to delete counts as deleted (KAFKA-9946)."""
    brokers = context.table.brokers
    if not event.delete or event.broker_id not in brokers:
        return
    broker_row = brokers.row(event.broker_id)
    if brokers.epochs[broker_row] != event.broker_epoch:
        return  # Of an incarnation that is gone: the one that is there now was asked anew.
    answered: set[str] = set()
    for name, indexes, codes in _by_topic(event.response):
        if name in context.deletion.started:
            answered.add(name)
            if not _note(context.deletion.started[name], broker_row, indexes, codes):
                mark_ineligible(context, [name])
    yield from _resume_deletions(context, answered)


def _by_topic(response: StopReplicaResponse) -> Iterable[tuple[str, Int32s, Int32s]]:
    """Topic, partition indexes, error codes; an error of the whole request is one of every partition."""
    answers: dict[str, list[tuple[int, int]]] = {}
    for each in response.partition_errors:
        answers.setdefault(each.topic_name, []).append((each.partition_index, response.error_code or each.error_code))
    for name, pairs in answers.items():
        columns = np.array(pairs, np.int32)
        yield name, columns[:, 0], columns[:, 1]


def _note(doomed: DoomedTopic, broker_row: int, indexes: Int32s, codes: Int32s) -> bool:
    """What a broker says of its replicas; whether all that it names were deleted."""
    places = np.minimum(np.searchsorted(doomed.partition_indexes, indexes), len(doomed.rows) - 1)
    ours = doomed.partition_indexes[places] == indexes
    places, codes = places[ours], codes[ours]
    outcomes = np.full(len(doomed.rows), OFFLINE, np.int8)
    outcomes[places] = np.where(codes == Errors.NONE, SUCCESSFUL, INELIGIBLE)
    answered = (doomed.replicas__ps == broker_row) & (doomed.states__ps == STARTED) & (outcomes != OFFLINE)[:, None]
    doomed.states__ps[answered] = np.broadcast_to(outcomes[:, None], answered.shape)[answered]
    return not (outcomes == INELIGIBLE).any()


def _resume_deletions(context: ControllerContext, names: Collection[str]) -> Steps[None]:
    """Each of the topics that is to be deleted takes its next step, if it can take one."""
    deletion = context.deletion
    queued = sorted(context.topics_to_be_deleted.intersection(names))
    over = [name for name in queued if name in deletion.started and deletion.started[name].is_over]
    if over:
        yield from _complete(context, over)
    eligible = [
        name
        for name in queued
        if name not in over
        and name not in deletion.ineligible
        and not (name in deletion.started and (deletion.started[name].states__ps == STARTED).any())
    ]
    if eligible:
        yield from _delete_replicas(context, eligible)


def _delete_replicas(context: ControllerContext, names: list[str]) -> Steps[None]:
    """All brokers forget the topics' leaders; then every replica on a live broker is stopped, and deleted."""
    table, deletion = context.table, context.deletion
    for name in names:
        if name not in deletion.started:
            rows = table.rows_of_topic(name)
            replicas__ps = table.replicas__ps[rows]
            states__ps = np.where(replicas__ps >= 0, OFFLINE, NOBODY).astype(np.int8)
            deletion.started[name] = DoomedTopic(rows, table.partition_index__p[rows], replicas__ps, states__ps)
    batch = context.batch()
    batch.add_update_metadata(
        np.flatnonzero(table.brokers.live), np.concatenate([deletion.started[name].rows for name in names])
    )
    yield from context.send(batch)
    stop, delete = context.batch(), context.batch()
    for name in names:
        doomed = deletion.started[name]
        broker_rows, rows = _to_be_deleted(context, name, doomed)
        for batch, is_delete in ((stop, False), (delete, True)):
            batch.add_stop_replica(broker_rows, rows, table.leader_epoch__p[rows], is_delete)
    yield from context.send(stop)
    yield from context.send(delete)
    if empty := [name for name in names if deletion.started[name].is_over]:
        yield from _complete(context, empty)


def _to_be_deleted(context: ControllerContext, name: str, doomed: DoomedTopic) -> tuple[Int16s, Int32s]:
    """(broker row, partition row) of the replicas whose deletion starts now; without the others the topic waits."""
    online: Bools = ~context.decisions.situation().offline(doomed.rows)[:, : doomed.replicas__ps.shape[1]]
    open_ = ~np.isin(doomed.states__ps, OVER)
    doomed.states__ps[open_ & online] = STARTED
    doomed.states__ps[open_ & ~online] = INELIGIBLE
    if (open_ & ~online).any():
        mark_ineligible(context, [name])
    places, slots = np.nonzero(open_ & online)
    return doomed.replicas__ps[places, slots], doomed.rows[places]


def _complete(context: ControllerContext, names: list[str]) -> Steps[None]:
    """No broker has anything of these topics: the znodes go, the wishes last, and whoever waited is answered."""
    paths = yield from _tree([znodes.topic_path(name) for name in names])
    paths = [
        *reversed(paths),
        *(znodes.config_path("topics", name) for name in names),
        *(znodes.delete_topic_path(name) for name in names),
    ]
    yield from write_nodes([Delete(path) for path in paths])
    for name in names:
        del context.deletion.started[name]
        context.deletion.ineligible.discard(name)
        topic_changes.remove_topic(context, name)
    yield from context.after_topics_deleted(names)
    for request_id, awaited in list(context.deletion.awaited.items()):
        awaited.topics.difference_update(names)
        if not awaited.topics:
            del context.deletion.awaited[request_id]
            yield from context.answer(request_id, awaited.response)


def _tree(roots: list[str]) -> Steps[list[str]]:
    """Znodes and all below them, parents first."""
    paths, level = list(roots), list(roots)
    while level:
        children: list[list[str] | None] = yield ReadChildren(level)
        level = [f"{parent}/{name}" for parent, names in zip(level, children, strict=True) for name in names or ()]
        paths += level
    return paths


def expire(context: ControllerContext, event: Tick) -> Steps[None]:
    """DeleteTopics whose time is up: the topics that are still there are being deleted all the same."""
    for request_id, awaited in list(context.deletion.awaited.items()):
        if awaited.deadline_ms <= context.now_ms:
            del context.deletion.awaited[request_id]
            yield from context.answer(request_id, timed_out(awaited))


def timed_out(awaited: AwaitedDeletion) -> DeleteTopicsResponse:
    """The answer to whoever waits no longer."""
    for result in awaited.response.responses:
        if result.name in awaited.topics:
            result.error_code = Errors.REQUEST_TIMED_OUT
    return awaited.response
