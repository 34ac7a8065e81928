"""A digest of the state in ZooKeeper after a scenario: two controllers must leave the same state after the same storm.

The digest covers topics, assignments, unfinished reassignments and deletions, and each partition's leader and ISR. It
leaves out epochs and versions: they count how often a controller wrote, and may differ.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znode_topics import decode_topics
from kcore.metadata.zookeeper.znodes import DELETE_TOPICS, REASSIGN_PARTITIONS, TOPICS, topic_path
from kcore.types import Int32s

if TYPE_CHECKING:
    from kcore.zookeeper.client import ZookeeperClient


async def end_state(client: "ZookeeperClient", table: PartitionTable) -> str:
    """The digest; `table` names the partitions whose states are read."""
    children = await client.read_children([TOPICS, DELETE_TOPICS])
    names, wishes = (sorted(each or []) for each in children)
    nodes = await client.read_nodes([*map(topic_path, names), REASSIGN_PARTITIONS])
    moves = nodes.pop()
    topics = decode_topics({name: node.data for name, node in zip(names, nodes, strict=True) if node is not None})
    known = [table.rows_of_topic(name) for name in names if name in table.topics]
    rows: Int32s = np.concatenate(known) if known else np.empty(0, np.int32)
    states = (await client.read_states(table, rows)).changes
    digest = hashlib.sha256(repr((names, wishes, moves and moves.data)).encode())
    digest.update(repr((sorted(topics.adding_replicas.items()), sorted(topics.removing_replicas.items()))).encode())
    for column in (topics.topic_rows, topics.partition_indexes, topics.replicas):
        digest.update(np.ascontiguousarray(column).tobytes())
    for column in (states.rows, states.leaders, states.isr_offsets, states.isr):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]
