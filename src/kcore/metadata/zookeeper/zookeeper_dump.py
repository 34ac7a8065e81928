"""Reads a dump of Kafka's ZooKeeper tree, a text with one node a line, as the arrays of a partition table.

A line is `path TAB version=0 cversion=0 czxid=4 mzxid=4 [ephemeralOwner=0x1] TAB data`, where `<null>` is no data.
Only newlines end lines: other line separators of Unicode are data. docs/guides/files.md documents the format. Source:
ZkData.scala of 3.9.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kcore.constants import NO_EPOCH, NO_LEADER
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array, as_integers, padded
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.table_arrays import TableArrays
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, decode_broker
from kcore.metadata.zookeeper.znode_json import parse_integer
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.metadata.zookeeper.znode_states import decode_states, texts_of
from kcore.metadata.zookeeper.znodes import PartitionStateNode, TopicAssignment
from kcore.types import ZERO_UUID

_LINE: Final = (
    r"(/[^\t]*)\tversion=([0-9]+) cversion=-?[0-9]+ czxid=([0-9]+) mzxid=[0-9]+(?: ephemeralOwner=\w+)?\t(.*)"
)
_NO_STATE: Final = znodes.encode_state(PartitionStateNode(NO_LEADER, NO_EPOCH, (), NO_EPOCH))


@dataclass(frozen=True, slots=True)
class ZookeeperDump:
    """The cluster in a dump: the controller, its epoch, and the arrays of the partition table."""

    controller_id: int  # -1 for none
    controller_epoch: int
    arrays: TableArrays


def parse_zookeeper_dump(text: str) -> ZookeeperDump:
    """Reads brokers, topics, assignments, partition states and the controller; other nodes are ignored.

    A partition without a state node has no leader, an empty ISR and epochs -1. A broker that is only a replica, but not
    registered, is not live. TableError names the line or node that Kafka would not write.
    """
    return cluster_of_znodes(parse_znodes(text))


def cluster_of_znodes(nodes: Mapping[str, Node]) -> ZookeeperDump:
    """The cluster in znodes by path, as `parse_zookeeper_dump`."""
    if znodes.BROKER_IDS not in nodes or znodes.TOPICS not in nodes:
        raise TableError("not a ZooKeeper dump of Kafka: no /brokers/ids, /brokers/topics")
    controller, epoch = nodes.get(znodes.CONTROLLER), nodes.get(znodes.CONTROLLER_EPOCH)
    return ZookeeperDump(
        znodes.decode_controller(controller.data).broker_id if controller else NO_LEADER,
        znodes.decode_controller_epoch(epoch.data) if epoch else 0,
        _arrays(nodes),
    )


def parse_znodes(text: str) -> dict[str, Node]:
    """The znodes of a dump by path."""
    if not isinstance(text, str):
        raise TableError(f"a ZooKeeper dump is text, not {type(text).__name__}")
    nodes = {}
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line:
            continue
        if (match := re.fullmatch(_LINE, line)) is None:
            raise TableError(f"line {number} is not a ZooKeeper node: {line[:60]!r}")
        path, version, czxid, data = match.groups()
        try:
            path.encode()
            nodes[path] = Node(data.encode(), int(version), int(czxid))
        except UnicodeEncodeError as error:
            reason = f"a lone surrogate, {error.object[error.start]!r}: read the dump as UTF-8"
            raise TableError(f"line {number}, {path!r:.60}: {reason}") from None
    return nodes


def _children(nodes: Mapping[str, Node], parent: str) -> list[str]:
    prefix = f"{parent}/"
    return [path[len(prefix) :] for path in nodes if path.startswith(prefix) and "/" not in path[len(prefix) :]]


def _arrays(nodes: Mapping[str, Node]) -> TableArrays:
    topics = {
        name: znodes.decode_topic(name, nodes[znodes.topic_path(name)].data)
        for name in sorted(_children(nodes, znodes.TOPICS))
    }
    partitions = [
        (row, name, partition) for row, (name, topic) in enumerate(topics.items()) for partition in topic.partitions
    ]
    replicas = [topics[name].partitions[partition].replicas for _, name, partition in partitions]
    paths = [znodes.state_path(name, partition) for _, name, partition in partitions]
    data = texts_of([nodes[path].data if path in nodes else _NO_STATE for path in paths])
    states = decode_states(data.text, data.offsets[:-1], data.offsets[1:], paths.__getitem__)
    named = {*states.leaders.tolist(), *states.isr.tolist(), *(broker for brokers in replicas for broker in brokers)}
    return TableArrays(
        replicas=_lists(replicas),
        isr=padded(states.isr_offsets, states.isr),
        leaders=states.leaders,
        leader_epochs=states.leader_epochs,
        partition_epochs=_numbers(nodes[path].version if path in nodes else NO_EPOCH for path in paths),
        controller_epochs=states.controller_epochs,
        leader_recovery_states=states.recovery,
        topics=TopicTable(list(topics), [topic.topic_id or ZERO_UUID for topic in topics.values()]),
        topic_rows=_numbers(row for row, _, _ in partitions),
        partition_indexes=_numbers(partition for _, _, partition in partitions),
        brokers=_brokers(nodes, named),
        adding=_moves(topics, partitions, 1),
        removing=_moves(topics, partitions, 2),
    )


def _moves(
    topics: dict[str, TopicAssignment], partitions: list[tuple[int, str, int]], which: int
) -> dict[int, list[int]]:
    """Field `which` of each assignment where it is not empty, by partition row."""
    moves = ((row, topics[name].partitions[part][which]) for row, (_, name, part) in enumerate(partitions))
    return {row: list(brokers) for row, brokers in moves if brokers}


def _brokers(nodes: Mapping[str, Node], named: set[int]) -> BrokerTable:
    paths = {
        parse_integer(f"{znodes.BROKER_IDS}/{name}", name): f"{znodes.BROKER_IDS}/{name}"
        for name in _children(nodes, znodes.BROKER_IDS)
    }
    ids = sorted((named | paths.keys()) - {NO_LEADER})
    unknown = BrokerNode(())
    details = [decode_broker(broker, nodes[paths[broker]].data) if broker in paths else unknown for broker in ids]
    return BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker in paths for broker in ids], np.bool_),
        epochs=_numbers(nodes[paths[broker]].czxid if broker in paths else NO_EPOCH for broker in ids),
        racks=[broker.rack for broker in details],
        endpoints=[broker.endpoints for broker in details],
    )


def _numbers(values: Iterable[int]) -> Array:
    numbers = np.array(list(values))
    return numbers if numbers.size else np.empty(0, np.int64)


def _lists(lists: list[tuple[int, ...]]) -> Array:
    values = _numbers(broker for brokers in lists for broker in brokers)
    offsets = np.cumsum([0, *map(len, lists)])
    return padded(offsets, as_integers("broker ids", values, np.int32, values.shape))
