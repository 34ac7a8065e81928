"""Topics come and go in ZooKeeper, and grow (KafkaController.processTopicChange, processPartitionModifications)."""

import numpy as np

from kcore.controller import events
from kcore.controller.brokers.broker_changes import create_states
from kcore.controller.context import ControllerContext
from kcore.controller.effects import SetData, Steps, read_children, read_node, read_nodes, write_nodes
from kcore.controller.topics import assignments
from kcore.metadata import znodes
from kcore.types import Int32s


def on_topic_change(context: ControllerContext, event: events.TopicChange) -> Steps[None]:
    """Topics that somebody wrote to ZooKeeper, a tool or a broker, get ids, leaders and ISRs."""
    names = yield from read_children(znodes.TOPICS, watch=True)
    topics = context.table.topics
    for name in {*topics.names} - {*names, ""}:
        remove_topic(context, name)
    new = [name for name in names if name not in topics]
    nodes = yield from read_nodes([znodes.topic_path(name) for name in new], watch=True)
    found = {name: node for name, node in zip(new, nodes, strict=True) if node is not None}
    rows = [
        assignments.add_topic(context.table, name, znodes.decode_topic(name, node.data)) for name, node in found.items()
    ]
    yield from assignments.give_topic_ids(context, found)
    if rows:
        yield from _begin(context, np.sort(np.concatenate(rows)))


def remove_topic(context: ControllerContext, name: str) -> None:
    """A topic that ZooKeeper has no more is known no more."""
    rows = {*context.table.rows_of_topic(name).tolist()}
    for held in context.offline_dirs.values():
        held -= rows
    context.topics_to_be_deleted.discard(name)
    context.table.remove_topic(name)


def on_partition_modifications(context: ControllerContext, event: events.PartitionModifications) -> Steps[None]:
    """A topic grew, unless it is being deleted: then it shrinks back to what it was."""
    node = yield from read_node(znodes.topic_path(event.topic), watch=True)
    if node is None or event.topic not in context.table.topics:
        return
    written = znodes.decode_topic(event.topic, node.data)
    known = {*context.table.partition_index__p[context.table.rows_of_topic(event.topic)].tolist()}
    added = {index: replicas for index, replicas in written.partitions.items() if index not in known}
    if not added:
        return
    if event.topic in context.topics_to_be_deleted:
        before = znodes.encode_topic(assignments.of_topic(context.table, event.topic))
        yield from write_nodes([SetData(znodes.topic_path(event.topic), before)])
        return
    yield from _begin(context, assignments.add_partitions(context.table, event.topic, added))


def _begin(context: ControllerContext, rows: Int32s) -> Steps[None]:
    yield from assignments.replace_unfit(context, rows)
    yield from create_states(context, rows)
