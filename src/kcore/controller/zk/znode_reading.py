"""Checks znodes that other nodes wrote: the controller skips unreadable ones, and logs each once.

Anyone with a ZooKeeper shell can write any data. An unreadable znode may make that topic, partition or broker
unavailable, but not the controller. A controller that starts refuses a cluster with unreadable znodes
(`server/zk_controller/eligibility.py`), because an operator then reads the error.

Source: TopicZNode, BrokerIdZNode and TopicPartitionStateZNode of 3.9.1, which treat data that is not JSON as empty.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW, NO_LEADER
from kcore.controller.zk import effects
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.table.change_sets import part
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import States
from kcore.metadata.zookeeper.znode_topics import TopicAssignments, decode_topics
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.node.zk.znode_steps import pass_over
from kcore.types import Bools, Int32s


def read_topic(name: str, data: bytes) -> TopicAssignment:
    """Decodes a topic's assignment; TableError if it is impossible."""
    assignment = znodes.decode_topic(name, data)
    for index, each in assignment.partitions.items():
        moving = {*each.adding_replicas, *each.removing_replicas}
        if index < 0 or not are_replicas(each.replicas) or not moving <= {*each.replicas}:
            raise TableError(f"{znodes.topic_path(name)}: partition {index} has the impossible assignment {each}")
    return assignment


def are_replicas(broker_ids: Sequence[int]) -> bool:
    """True if these can be a partition's replicas. Kafka's tools write an empty list while they create a topic."""
    distinct = {*broker_ids}
    return len(distinct) == len(broker_ids) <= MAX_REPLICAS and min(distinct, default=0) >= 0


def read_topics(data: Mapping[str, bytes]) -> tuple[TopicAssignments, list[TableError]]:
    """Decodes all readable topics; also returns the errors of unreadable topics."""
    try:
        topics = decode_topics(data)
        if _are_sound(topics):
            return topics, []
    except TableError:
        pass  # Decode one by one, to find the unreadable topics.
    errors, readable = [], {}
    for name, each in data.items():
        try:
            read_topic(name, each)
            readable[name] = each
        except TableError as error:
            errors.append(error)
    return decode_topics(readable), errors


def _are_sound(topics: TopicAssignments) -> bool:
    """A fast check: True if `read_topic` would accept all topics, False if it must check them or one is reassigned."""
    if topics.adding_replicas or topics.removing_replicas or (topics.partition_indexes < 0).any():
        return False
    ids = topics.replicas
    if not ids.size:
        return True
    ordered = np.sort(ids, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_BROKER_ROW)
    hole = (ids[:, :-1] == NO_BROKER_ROW) & (ids[:, 1:] != NO_BROKER_ROW)
    return not (twice.any() or hole.any() or (ids < NO_BROKER_ROW).any() or (ids[:, 0] < 0).any())


def read_states(context: ControllerContext, rows: Int32s) -> Steps[States]:
    """Reads the states of partitions; a partition with no readable state is left out."""
    states, errors = sound_states(context.table, (yield from effects.read_states(rows)))
    yield from pass_over(context.passed_over, errors)
    return states


def sound_states(table: PartitionTable, states: States) -> tuple[States, list[TableError]]:
    """The states that are possible, and the errors of the others."""
    sound = _are_states(states.changes)
    errors = [*states.unreadable]
    for row in states.changes.rows[~sound].tolist():
        path = znodes.state_path(table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row]))
        errors.append(TableError(f"{path}: the leader, leader epoch and ISR are impossible"))
    return States(part(states.changes, sound), states.controller_epochs[sound]), errors


def _are_states(changes: PartitionChanges) -> Bools:
    sound = (changes.leaders >= NO_LEADER) & (changes.leader_epochs >= 0)
    counts = np.diff(changes.isr_offsets)
    sound &= counts <= MAX_REPLICAS
    owners = np.repeat(np.arange(len(changes)), counts)
    sound[owners[changes.isr < 0]] = False
    order = np.lexsort((changes.isr, owners))
    again = (np.diff(changes.isr[order], prepend=-1) == 0) & (np.diff(owners[order], prepend=-1) == 0)
    sound[owners[order[again]]] = False
    return sound
