"""Topics come and go in ZooKeeper, and grow (KafkaController.processTopicChange, processPartitionModifications)."""

from typing import TYPE_CHECKING

import numpy as np

from kcore.controller import events
from kcore.controller.brokers.broker_changes import create_states
from kcore.controller.effects import SetData, Steps, read_children, read_node, read_nodes, write_nodes
from kcore.controller.topics import assignments
from kcore.metadata import znodes
from kcore.types import Int32s

if TYPE_CHECKING:
    from kcore.controller.active import ActiveController


def on_topic_change(active: "ActiveController", event: events.TopicChange) -> Steps[None]:
    """Topics that somebody wrote to ZooKeeper, a tool or a broker, get ids, leaders and ISRs."""
    names = yield from read_children(znodes.TOPICS, watch=True)
    topics = active.table.topics
    for name in {*topics.names} - {*names, ""}:
        remove_topic(active, name)
    new = [name for name in names if name not in topics]
    nodes = yield from read_nodes([znodes.topic_path(name) for name in new], watch=True)
    found = {name: node for name, node in zip(new, nodes, strict=True) if node is not None}
    rows = [
        assignments.add_topic(active.table, name, znodes.decode_topic(name, node.data)) for name, node in found.items()
    ]
    yield from assignments.give_topic_ids(active, found)
    if rows:
        yield from _begin(active, np.sort(np.concatenate(rows)))


def remove_topic(active: "ActiveController", name: str) -> None:
    """A topic that ZooKeeper has no more is known no more."""
    rows = {*active.table.rows_of_topic(name).tolist()}
    for held in active.offline_dirs.values():
        held -= rows
    active.topics_to_be_deleted.discard(name)
    active.table.remove_topic(name)


def on_partition_modifications(active: "ActiveController", event: events.PartitionModifications) -> Steps[None]:
    """A topic grew, unless it is being deleted: then it shrinks back to what it was."""
    node = yield from read_node(znodes.topic_path(event.topic), watch=True)
    if node is None or event.topic not in active.table.topics:
        return
    written = znodes.decode_topic(event.topic, node.data)
    known = {*active.table.partition_index__p[active.table.rows_of_topic(event.topic)].tolist()}
    added = {index: replicas for index, replicas in written.partitions.items() if index not in known}
    if not added:
        return
    if event.topic in active.topics_to_be_deleted:
        before = znodes.encode_topic(assignments.of_topic(active.table, event.topic))
        yield from write_nodes([SetData(znodes.topic_path(event.topic), before)])
        return
    yield from _begin(active, assignments.add_partitions(active.table, event.topic, added))


def _begin(active: "ActiveController", rows: Int32s) -> Steps[None]:
    yield from assignments.replace_unknown(active, rows)
    yield from create_states(active, rows)
