"""Writes the znodes of an existing cluster before a controller starts: topics, assignments, states."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znode_operations import Create, Operation
from kcore.metadata.zookeeper.znodes import (
    PERSISTENT_PATHS,
    PartitionStateNode,
    TopicAssignment,
    config_path,
    encode_config,
    encode_state,
    encode_topic,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

if TYPE_CHECKING:
    from kcore.zookeeper.client import ZookeeperClient

WRITTEN_AT_ONCE = 20_000  # Operations that `write_tree` collects before it writes them.


async def write_paths(client: "ZookeeperClient") -> None:
    """Creates the paths that every broker creates when it starts."""
    await _write(client, [Create(path) for path in _with_parents(PERSISTENT_PATHS)])


async def write_topics(client: "ZookeeperClient", table: PartitionTable) -> None:
    """Writes only settings and assignments, as a tool that creates topics does (AdminZkClient of 3.9.1)."""
    operations: list[Operation] = []
    for name in table.topics.names:
        operations.append(Create(config_path("topics", name), encode_config({})))
        operations.append(Create(topic_path(name), encode_topic(_assignment(table, name))))
    await _write(client, operations)


async def write_tree(client: "ZookeeperClient", table: PartitionTable) -> None:
    """Writes the znodes that Kafka 3.9 has for these topics, and the paths that every broker creates."""
    await write_paths(client)
    operations: list[Operation] = []
    for name in table.topics.names:
        operations += _topic(table, name)
        if len(operations) >= WRITTEN_AT_ONCE:
            await _write(client, operations)
            operations = []
    await _write(client, operations)


async def _write(client: "ZookeeperClient", operations: Sequence[Operation]) -> None:
    await client.write(operations)


def _with_parents(paths: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for path in paths:
        parts = path.split("/")[1:]
        for depth in range(1, len(parts) + 1):
            each = "/" + "/".join(parts[:depth])
            if each not in seen:
                seen.add(each)
                yield each


def _topic(table: PartitionTable, name: str) -> list[Operation]:
    """Operations that create the znodes of one topic, parents before children."""
    states = [table.state(row) for row in table.rows_of_topic(name).tolist()]
    assignment = encode_topic(_assignment(table, name))
    operations: list[Operation] = [Create(topic_path(name), assignment), Create(partitions_path(name))]
    for state in states:
        node = PartitionStateNode(state.leader, 0, state.isr, 0)
        operations.append(Create(partition_path(name, state.partition)))
        operations.append(Create(state_path(name, state.partition), encode_state(node)))
    return operations


def _assignment(table: PartitionTable, name: str) -> TopicAssignment:
    states = [table.state(row) for row in table.rows_of_topic(name).tolist()]
    replicas = {state.partition: ReplicaAssignment(state.replicas) for state in states}
    return TopicAssignment(table.topics.ids[table.topics.row(name)], replicas)
