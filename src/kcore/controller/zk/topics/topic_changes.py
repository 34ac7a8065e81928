"""Handles topics that others create, delete or grow in ZooKeeper, and changed settings that concern the controller.

Source: KafkaController.processTopicChange, processPartitionModifications and processTopicUncleanLeaderElectionEnable,
ZkNodeChangeNotificationListener and TopicConfigHandler of 3.9.1.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np

from kcore.controller.zk import events
from kcore.controller.zk.admin.quotas import on_quota_change
from kcore.controller.zk.brokers.broker_changes import create_states
from kcore.controller.zk.effects import HandleLater, Steps
from kcore.controller.zk.leaders import unclean
from kcore.controller.zk.log_lines import Topics, counted
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.topics import assignments
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import read_topic
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete, Node, SetData
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.node.zk.notices import TextNotice
from kcore.node.zk.znode_steps import (
    Pause,
    log_notice,
    pass_over,
    pause_after,
    paused,
    read_children,
    read_nodes,
    sorted_names,
    write_nodes,
)
from kcore.steps import Work, lists_of
from kcore.types import Int32s

MOST_READ: Final = 500  # Changed topic znodes that one event reads.
TOPICS_AT_ONCE: Final = 1_000  # Topics that one part counts or removes.
READ_AT_ONCE: Final = 1_000  # New topics whose znodes one effect reads and watches.
DECODED_AT_ONCE: Final = 250  # New topics of one part that decodes their znodes: a small one takes some 10 us.
PARTITIONS_AT_ONCE: Final = 500  # Partitions of new topics that one part decodes: each takes up to 4 us.
CHANGES_AT_ONCE: Final = 250  # Notifications or entities of one part: each takes up to 10 us.


def on_topic_change(context: ControllerContext, event: events.TopicChange) -> Steps[None]:
    """Gives ids, leaders and ISRs to topics that others wrote to ZooKeeper, and removes topics that others deleted."""
    names = yield from read_children(znodes.TOPICS, watch=True)
    topics = context.table.topics
    if gone := {*topics.names} - {*names, ""}:
        sizes = yield from sizes_of(context, gone)
        yield from log_notice(Topics("removed from ZooKeeper by others", sizes))
        # Others removed these topics: a new topic of the name must not be deleted.
        if requested := sorted(context.topics_to_be_deleted.intersection(gone)):
            yield from write_nodes([Delete(znodes.delete_topic_path(name)) for name in requested])
        yield from remove_topics(context, gone)
    new = [name for name in names if name not in topics]
    found = yield from _read_new(context, new)
    rows = yield from assignments.add_topics(context.table, found)
    yield from assignments.give_topic_ids(context, found)
    if found:
        yield from log_notice(Topics("created", {name: len(each) for name, each in zip(found, rows, strict=True)}))
    if rows:
        yield from _begin(context, np.sort(np.concatenate(rows)))


def _read_new(context: ControllerContext, names: Sequence[str]) -> Steps[dict[str, TopicAssignment]]:
    """The assignments of new topics, whose znodes are watched from now on; logs the errors of unreadable znodes."""
    found: dict[str, TopicAssignment] = {}
    errors: list[TableError] = []
    work = Work(PARTITIONS_AT_ONCE)
    for some in lists_of(names, READ_AT_ONCE):
        nodes = yield from read_nodes([znodes.topic_path(name) for name in some], watch=True)
        for place, (name, node) in enumerate(zip(some, nodes, strict=True), 1):
            yield from pause_after(place, DECODED_AT_ONCE)
            if node is None:
                continue
            try:
                found[name] = read_topic(name, node.data)
                yield from paused(work.add(len(found[name].partitions)))
            except TableError as error:
                errors.append(error)
    yield from pass_over(context.passed_over, errors)
    return found


def sizes_of(context: ControllerContext, names: Iterable[str]) -> Steps[dict[str, int]]:
    """The number of partitions of each topic."""
    sizes = {}
    for place, name in enumerate(names, 1):
        yield from pause_after(place, TOPICS_AT_ONCE)
        sizes[name] = len(context.table.rows_of_topic(name))
    return sizes


def remove_topics(context: ControllerContext, names: Collection[str]) -> Steps[None]:
    """Removes deleted topics from the table in parts, and answers requests that waited for their deletion."""
    table, deletion = context.table, context.deletion
    for name in names:
        context.written_topics.pop(name, None)
    if context.offline_dirs:
        rows = {row for name in names for row in table.rows_of_topic(name).tolist()}
        for held in context.offline_dirs.values():
            held -= rows
    context.topics_to_be_deleted.difference_update(names)
    deletion.forget(table, names)
    every = [*names]
    for begin in range(0, len(every), TOPICS_AT_ONCE):
        if begin:
            yield Pause()
        for _ in table.removing_topics(every[begin : begin + TOPICS_AT_ONCE]):
            yield Pause()
    for request_id, awaited in list(deletion.awaited.items()):
        awaited.topics.difference_update(names)
        if not awaited.topics:
            del deletion.awaited[request_id]
            yield from context.answer(request_id, awaited.answer(context.now_ms))


def on_partition_modifications(context: ControllerContext, event: events.PartitionModifications) -> Steps[None]:
    """A topic's znode changed: a later event reads it, together with others that change until then.

    A reassignment writes the znodes of many topics, and a watch fires for each.
    """
    if not context.modified_topics:
        yield HandleLater(events.PartitionModificationsStep())
    context.modified_topics[event.topic] = None


def on_partition_modifications_step(
    context: ControllerContext, event: events.PartitionModificationsStep
) -> Steps[None]:
    """Reads at most MOST_READ of the changed topics."""
    waiting = context.modified_topics
    names = [*waiting][:MOST_READ]
    for name in names:
        del waiting[name]
    yield from take_modified(context, names)
    if waiting:
        yield HandleLater(events.PartitionModificationsStep())


def take_modified(context: ControllerContext, names: Sequence[str]) -> Steps[None]:
    """Adds the new partitions of changed topics; a topic being deleted must not grow, so its znode is restored.

    A topic that was unreadable before is a new topic.
    """
    nodes = yield from read_nodes([znodes.topic_path(name) for name in names], watch=True)
    for name, node in zip(names, nodes, strict=True):
        if node is not None and node.data != context.written_topics.pop(name, None):
            yield from _take(context, name, node)


def _take(context: ControllerContext, name: str, node: Node) -> Steps[None]:
    if name not in context.table.topics:
        yield from on_topic_change(context, events.TopicChange())
        return
    try:
        written = read_topic(name, node.data)
    except TableError as error:
        yield from pass_over(context.passed_over, [error])
        return
    known = {*context.table.partition_index__p[context.table.rows_of_topic(name)].tolist()}
    added = {index: replicas for index, replicas in written.partitions.items() if index not in known}
    if not added:
        return
    if name in context.topics_to_be_deleted:
        before = znodes.encode_topic(assignments.of_topic(context.table, name))
        yield from write_nodes([SetData(znodes.topic_path(name), before)])
        return
    yield from log_notice(
        TextNotice(f"topic {name} has {counted(len(added), 'partition')} more: {len(known) + len(added):,}")
    )
    yield from _begin(context, assignments.add_partitions(context.table, name, added))


def _begin(context: ControllerContext, rows: Int32s) -> Steps[None]:
    yield from assignments.replace_unfit(context, rows)
    yield from create_states(context, rows)


def on_config_change(context: ControllerContext, event: events.ConfigChange) -> Steps[None]:
    """Reads the settings of each entity that a new notification names."""
    names = yield from read_children(znodes.CONFIG_CHANGES, watch=True)
    paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in names if name not in context.config_changes_seen]
    context.config_changes_seen = {*names}
    nodes = yield from read_nodes(paths)
    entities = set()
    for place, (path, node) in enumerate(zip(paths, nodes, strict=True), 1):
        yield from pause_after(place, CHANGES_AT_ONCE)
        try:
            entities |= set() if node is None else {znodes.decode_config_change(path, node.data)}
        except TableError as error:
            yield from pass_over(context.passed_over, [error])
    for place, entity in enumerate((yield from sorted_names(entities)), 1):
        yield from pause_after(place, CHANGES_AT_ONCE)
        kind, _, topic = entity.partition("/")
        if kind == "topics" and topic in context.table.topics:
            yield from on_topic_unclean_enable(context, events.TopicUncleanLeaderElectionEnable(topic))
        else:
            yield from on_quota_change(context, entity)


def on_topic_unclean_enable(context: ControllerContext, event: events.TopicUncleanLeaderElectionEnable) -> Steps[None]:
    """Elects leaders for the topic's partitions without one, uncleanly if the topic's settings allow it."""
    if event.topic not in context.table.topics:
        return
    rows = context.table.rows_of_topic(event.topic)
    rows.sort()
    yield from unclean.learn(context, rows)
    why = f"settings of topic {event.topic} changed"
    decision = yield from carry_out(context, lambda: context.decisions.on_offline_partitions(rows), why)
    yield from context.send_decision(decision)
