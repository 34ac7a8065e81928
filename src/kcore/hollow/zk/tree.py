"""A grown cluster in ZooKeeper, before any controller looks: topics, assignments, states."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.replica_assignment import ReplicaAssignment
from kcore.metadata.znode_operations import Create, Operation
from kcore.metadata.znodes import (
    PERSISTENT_PATHS,
    PartitionStateNode,
    TopicAssignment,
    encode_state,
    encode_topic,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

if TYPE_CHECKING:
    from kcore.zookeeper.client import ZookeeperClient

WRITTEN_AT_ONCE = 20_000


async def write_tree(client: "ZookeeperClient", table: PartitionTable) -> None:
    """What Kafka 3.9 would have written had it made these topics; the paths that every broker makes included."""
    await _write(client, [Create(path) for path in _with_parents(PERSISTENT_PATHS)])
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
    """The znodes of one topic, each after the one above it."""
    states = [table.state(row) for row in table.rows_of_topic(name).tolist()]
    assignment = TopicAssignment(
        table.topics.ids[table.topics.row(name)],
        {state.partition: ReplicaAssignment(state.replicas) for state in states},
    )
    operations: list[Operation] = [Create(topic_path(name), encode_topic(assignment)), Create(partitions_path(name))]
    for state in states:
        node = PartitionStateNode(state.leader, 0, state.isr, 0)
        operations.append(Create(partition_path(name, state.partition)))
        operations.append(Create(state_path(name, state.partition), encode_state(node)))
    return operations
