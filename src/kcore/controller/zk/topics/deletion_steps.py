"""The parts in which topics are deleted: each is small enough for one event, and the next comes back as an event.

A deletion of the whole cluster must not keep the controller from a broker that dies meanwhile: no part tells brokers
of more than MOST_STARTED partitions, or removes the znodes of more than MOST_REMOVED. A topic's brokers are told of all
of it at once; its znodes may go in several parts.

Source: TopicDeletionManager of 3.9.1 (onTopicDeletion, onPartitionDeletion, completeDeleteTopic), which does all of it
in one event.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from kcore.controller.zk.effects import HandleLater, Steps, delete_partitions, log_notice, write_nodes
from kcore.controller.zk.events import TopicDeletionStep
from kcore.controller.zk.log_lines import Topics
from kcore.controller.zk.topics import topic_changes
from kcore.controller.zk.topics.deletion_progress import INELIGIBLE, STARTED, SUCCESSFUL, DoomedTopic
from kcore.controller.zk.zk_context import ControllerContext
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete, OperationResult, ReadChildren
from kcore.types import Bools, Int16s, Int32s

MOST_STARTED: Final = 5_000  # Partitions; more only where one topic has more.
MOST_REMOVED: Final = 1_000  # Partitions and topics.
AWAY: Final = "a broker that has replicas of them is away, or has failed to delete one"


def schedule(context: ControllerContext) -> Steps[None]:
    """The next part is done in an event of its own, if anything is due. There is one such event at a time."""
    deletion = context.deletion
    if (deletion.to_start or deletion.to_remove) and not deletion.is_next_step_due:
        deletion.is_next_step_due = True
        yield HandleLater(TopicDeletionStep())


def on_topic_deletion_step(context: ControllerContext, event: TopicDeletionStep) -> Steps[None]:
    """One part of what is due, nothing if it is done or off. Brokers come first: they work while znodes are removed."""
    deletion = context.deletion
    deletion.is_next_step_due = False
    if deletion.to_start:
        yield from _start(context)
    elif deletion.to_remove:
        yield from _remove(context)
    yield from schedule(context)


def make_ineligible(context: ControllerContext, names: Iterable[str], why: str) -> Steps[None]:
    """Marks topics as ineligible for deletion if they are queued for it; `why`: the reason."""
    found = context.topics_to_be_deleted.intersection(names) - context.deletion.ineligible
    if found:
        context.deletion.ineligible |= found
        yield from log_notice(Topics(f"cannot be deleted yet: {why}", sizes_of(context, found)))


def sizes_of(context: ControllerContext, names: Iterable[str]) -> dict[str, int]:
    """How many partitions each topic has."""
    return {name: len(context.table.rows_of_topic(name)) for name in names}


def _start(context: ControllerContext) -> Steps[None]:
    """Tells all brokers that the topics have no leaders; then stops and deletes every replica on a live broker."""
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
    """As many topics as one part takes, of those that may start still; they are in `started` then."""
    table, deletion, names, count = context.table, context.deletion, [], 0
    while deletion.to_start and count < MOST_STARTED:
        name = next(iter(deletion.to_start))
        del deletion.to_start[name]
        if name not in context.topics_to_be_deleted or name in deletion.ineligible:
            continue
        if name not in deletion.started:
            rows = table.rows_of_topic(name)
            deletion.started[name] = DoomedTopic(rows, left=int((table.replicas__ps[rows] >= 0).sum()))
        names.append(name)
        count += len(deletion.started[name].rows)
        if not deletion.started[name].left:  # A topic without partitions.
            deletion.to_remove.setdefault(name, 0)
    return names


def _ordered_to_delete(context: ControllerContext, names: list[str], rows: Int32s) -> Steps[tuple[Int16s, Int32s]]:
    """(broker row, partition row) of the replicas whose deletion starts now; without the others the topic waits."""
    table, deletion = context.table, context.deletion
    states__ps = deletion.states.of(table)
    open__ps: Bools = (table.replicas__ps[rows] >= 0) & (states__ps[rows] != SUCCESSFUL)
    offline__ps = context.decisions.situation().offline(rows)
    asked__ps, unreachable__ps = open__ps & ~offline__ps, open__ps & offline__ps
    states__ps[rows] = np.select([asked__ps, unreachable__ps], [STARTED, INELIGIBLE], states__ps[rows])
    owners = np.repeat(np.arange(len(names)), [len(deletion.started[name].rows) for name in names])
    unanswered, unreachable = (
        np.bincount(owners, mask__ps.sum(axis=1), len(names)).astype(int).tolist()
        for mask__ps in (asked__ps, unreachable__ps)
    )
    for name, count in zip(names, unanswered, strict=True):
        deletion.started[name].unanswered = count
    waiting = [name for name, count in zip(names, unreachable, strict=True) if count]
    yield from make_ineligible(context, waiting, AWAY)
    places, slots = np.nonzero(asked__ps)
    return table.replicas__ps[rows[places], slots], rows[places]


def _remove(context: ControllerContext) -> Steps[None]:
    """Deletes znodes of partitions. A topic without partitions loses its other znodes too, the deletion request last.

    The settings go before the topic: a later controller resumes the deletion of a topic that still exists, and
    settings that stayed behind would apply to the next topic of that name.
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
    sizes = sizes_of(context, names)
    yield from topic_changes.remove_topics(context, names)
    yield from log_notice(Topics("deleted", sizes))
    yield from context.after_topics_deleted(names)


def _paths_of(topic: str) -> tuple[str, str, str]:
    """The znodes of a topic without partitions, in the order in which they go."""
    return znodes.partitions_path(topic), znodes.config_path("topics", topic), znodes.topic_path(topic)


def _next_to_remove(context: ControllerContext) -> tuple[Int32s, list[str]]:
    """The partitions of one part, and the topics that it ends."""
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
    """Deletes znodes with all children: others may have created znodes that Kafka does not have."""
    paths, level = list(roots), list(roots)
    while level:
        children: list[list[str] | None] = yield ReadChildren(level)
        level = [f"{parent}/{name}" for parent, names in zip(level, children, strict=True) for name in names or ()]
        paths += level
    yield from write_nodes([Delete(path) for path in reversed(paths)])
