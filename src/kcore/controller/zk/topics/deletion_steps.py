"""Deletes topics in parts: each part is small enough for one event, and schedules the next part as an event.

Otherwise the deletion of many topics would delay the handling of a failed broker. A part sends requests about at most
MOST_STARTED partitions, or removes the znodes of at most MOST_REMOVED. A topic's StopReplica requests are in one part;
its znodes may be deleted in several parts.

Source: TopicDeletionManager of 3.9.1 (onTopicDeletion, onPartitionDeletion, completeDeleteTopic), which does all of it
in one event.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from kcore.controller.zk.effects import HandleLater, Steps, delete_partitions
from kcore.controller.zk.events import TopicDeletionStep
from kcore.controller.zk.log_lines import Topics
from kcore.controller.zk.topics import topic_changes
from kcore.controller.zk.topics.deletion_progress import INELIGIBLE, STARTED, SUCCESSFUL, StartedDeletion
from kcore.controller.zk.zk_context import ControllerContext
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete, OperationResult, ReadChildren
from kcore.node.zk.znode_steps import log_notice, write_nodes
from kcore.types import Bools, Int16s, Int32s

MOST_STARTED: Final = 5_000  # Partitions in a part; more only if one topic has more.
MOST_REMOVED: Final = 1_000  # Partitions and topics in a part.
AWAY: Final = "a broker with replicas is not live, or failed to delete a replica"


def schedule(context: ControllerContext) -> Steps[None]:
    """Queues an event for the next part, if there is any work and no event of this kind is queued."""
    deletion = context.deletion
    if (deletion.to_start or deletion.to_remove) and not deletion.is_next_step_due:
        deletion.is_next_step_due = True
        yield HandleLater(TopicDeletionStep())


def on_topic_deletion_step(context: ControllerContext, event: TopicDeletionStep) -> Steps[None]:
    """Does one part of the work. Sending StopReplica comes first: brokers then work while znodes are removed."""
    deletion = context.deletion
    deletion.is_next_step_due = False
    if deletion.to_start:
        yield from _start(context)
    elif deletion.to_remove:
        yield from _remove(context)
    yield from schedule(context)


def make_ineligible(context: ControllerContext, names: Iterable[str], why: str) -> Steps[None]:
    """Marks the topics among `names` that are queued for deletion as ineligible; `why` is for the log."""
    found = context.topics_to_be_deleted.intersection(names) - context.deletion.ineligible
    if found:
        context.deletion.ineligible |= found
        sizes = yield from topic_changes.sizes_of(context, found)
        yield from log_notice(Topics(f"cannot be deleted yet: {why}", sizes))


def _start(context: ControllerContext) -> Steps[None]:
    """Sends all brokers UpdateMetadata without the topics' leaders, then StopReplica for replicas on live brokers."""
    table, deletion = context.table, context.deletion
    names = _next_to_start(context)
    if not names:
        return
    rows = np.concatenate([deletion.started[name].rows for name in names])
    shown = context.batch()
    shown.add_update_metadata(np.flatnonzero(table.brokers.live), rows)
    yield from context.send(shown)
    broker_rows, stopped = yield from _ordered_to_delete(context, names, rows)
    for is_delete in (False, True):
        batch = context.batch()
        batch.add_stop_replica(broker_rows, stopped, table.leader_epoch__p[stopped], is_delete)
        yield from context.send(batch)


def _next_to_start(context: ControllerContext) -> list[str]:
    """Moves the topics of one part from `to_start` to `started`; skips topics that became ineligible."""
    table, deletion, names, count = context.table, context.deletion, [], 0
    while deletion.to_start and count < MOST_STARTED:
        name = next(iter(deletion.to_start))
        del deletion.to_start[name]
        if name not in context.topics_to_be_deleted or name in deletion.ineligible:
            continue
        if name not in deletion.started:
            rows = table.rows_of_topic(name)
            deletion.started[name] = StartedDeletion(rows, left=int((table.replicas__ps[rows] >= 0).sum()))
        names.append(name)
        count += len(deletion.started[name].rows)
        if not deletion.started[name].left:  # A topic without partitions.
            deletion.to_remove.setdefault(name, 0)
    return names


def _ordered_to_delete(context: ControllerContext, names: list[str], rows: Int32s) -> Steps[tuple[Int16s, Int32s]]:
    """Broker and partition rows of replicas that live brokers must delete; topics with others become ineligible."""
    table, deletion = context.table, context.deletion
    states__ps = deletion.states.of(table)
    open__ps: Bools = (table.replicas__ps[rows] >= 0) & (states__ps[rows] != SUCCESSFUL)
    offline__ps = context.decisions.situation().offline(rows)
    requested__ps, unreachable__ps = open__ps & ~offline__ps, open__ps & offline__ps
    states__ps[rows] = np.select([requested__ps, unreachable__ps], [STARTED, INELIGIBLE], states__ps[rows])
    owners = np.repeat(np.arange(len(names)), [len(deletion.started[name].rows) for name in names])
    unanswered, unreachable = (
        np.bincount(owners, mask__ps.sum(axis=1), len(names)).astype(int).tolist()
        for mask__ps in (requested__ps, unreachable__ps)
    )
    for name, count in zip(names, unanswered, strict=True):
        deletion.started[name].unanswered = count
    waiting = [name for name, count in zip(names, unreachable, strict=True) if count]
    yield from make_ineligible(context, waiting, AWAY)
    places, slots = np.nonzero(requested__ps)
    return table.replicas__ps[rows[places], slots], rows[places]


def _remove(context: ControllerContext) -> Steps[None]:
    """Deletes znodes of partitions, then other znodes of topics that have no partition left; the deletion request last.

    The settings are deleted before the topic: settings that are left behind would apply to the next topic of that name.
    """
    rows, names = _next_to_remove(context)
    if len(rows):
        yield from delete_partitions(rows)
    if not names:
        return
    paths = [path for name in names for path in _paths_of(name)]
    outcomes = yield from write_nodes([Delete(path) for path in paths])
    kept = [name for name, outcome in zip(names, outcomes[2::3], strict=True) if outcome is OperationResult.NOT_EMPTY]
    if kept:
        yield from _delete_trees([znodes.topic_path(name) for name in kept])
    yield from write_nodes([Delete(znodes.delete_topic_path(name)) for name in names])
    sizes = yield from topic_changes.sizes_of(context, names)
    yield from topic_changes.remove_topics(context, names)
    yield from log_notice(Topics("deleted", sizes))
    yield from context.after_topics_deleted(names)


def _paths_of(topic: str) -> tuple[str, str, str]:
    """The znodes of a topic without partitions, in the order of deletion."""
    return znodes.partitions_path(topic), znodes.config_path("topics", topic), znodes.topic_path(topic)


def _next_to_remove(context: ControllerContext) -> tuple[Int32s, list[str]]:
    """The partitions of one part, and the topics whose last partitions are among them."""
    deletion = context.deletion
    rows: list[Int32s] = []
    names: list[str] = []
    room = MOST_REMOVED
    for name, begin in deletion.to_remove.items():
        of_topic = deletion.started[name].rows
        rows.append(of_topic[begin : begin + room])
        deletion.to_remove[name] = end = begin + len(rows[-1])
        room -= len(rows[-1]) + 1
        if end == len(of_topic):
            names.append(name)
        if room <= 0:
            break
    return np.sort(np.concatenate(rows)), names


def _delete_trees(roots: list[str]) -> Steps[None]:
    """Deletes znodes with all children, because other tools may have created znodes there."""
    paths, level = list(roots), list(roots)
    while level:
        children: list[list[str] | None] = yield ReadChildren(level)
        level = [f"{parent}/{name}" for parent, names in zip(level, children, strict=True) for name in names or ()]
        paths += level
    yield from write_nodes([Delete(path) for path in reversed(paths)])
