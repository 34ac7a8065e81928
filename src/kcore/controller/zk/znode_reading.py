"""Znodes of others, checked before use: unreadable ones are skipped, and logged once. Anyone with a ZooKeeper shell can
write anything. One znode that is not as Kafka writes it may cost the cluster that one topic, partition or broker, but
not its controller. A controller that starts refuses such a cluster instead (`server/zk_controller/eligibility.py`): an
operator is there to read why.

Source: TopicZNode, BrokerIdZNode and TopicPartitionStateZNode of 3.9.1, which read nothing out of what is not JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW, NO_LEADER
from kcore.controller.zk import effects
from kcore.controller.zk.effects import Steps, log_notice
from kcore.controller.zk.log_lines import TextNotice
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.table.change_sets import part
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, decode_broker
from kcore.metadata.zookeeper.znode_operations import States
from kcore.metadata.zookeeper.znode_topics import TopicAssignments, decode_topics
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.types import Bools, Int32s

MOST_REMEMBERED: Final = 10_000  # Znodes that were skipped; of more, some are logged again.
REMEMBERED_BYTES: Final = 1_024  # Of a registration; those of Kafka's brokers have some 200 to 400.


def pass_over(passed_over: set[str], errors: Iterable[Exception]) -> Steps[None]:
    """Each error, which names its znode, is a warning; but once while the znode stays as it is."""
    for text in map(str, errors):
        if text not in passed_over:
            if len(passed_over) >= MOST_REMEMBERED:
                passed_over.clear()
            passed_over.add(text)
            yield from log_notice(TextNotice(f"skipped: {text}", "warning"))


def broker_id_of(name: str) -> int:
    """The id that a child of `/brokers/ids` is named after; TableError if it is none."""
    if not (name.isascii() and name.isdecimal() and int(name) < 2**31):
        raise TableError(f"{znodes.BROKER_IDS}/{name}: no broker id")
    return int(name)


def read_broker(name: str, data: bytes) -> tuple[int, BrokerNode]:
    """A registration by its znode's name; TableError if it is unreadable.

    All of them are read again whenever a broker comes or goes, and nearly all are as they were.
    """
    broker_id = broker_id_of(name)
    decode = _remembered if len(data) <= REMEMBERED_BYTES else decode_broker
    return broker_id, decode(broker_id, data)


_remembered = lru_cache(maxsize=10_000)(decode_broker)  # Nobody changes a BrokerNode.


def read_topic(name: str, data: bytes) -> TopicAssignment:
    """A topic's assignment; TableError for one that no topic can have."""
    assignment = znodes.decode_topic(name, data)
    for index, each in assignment.partitions.items():
        moving = {*each.adding_replicas, *each.removing_replicas}
        if index < 0 or not are_replicas(each.replicas) or not moving <= {*each.replicas}:
            raise TableError(f"{znodes.topic_path(name)}: partition {index} cannot have {each}")
    return assignment


def are_replicas(broker_ids: Sequence[int]) -> bool:
    """Whether a partition can have its replicas there; or nowhere, as Kafka's tools write while they make a topic."""
    distinct = {*broker_ids}
    return len(distinct) == len(broker_ids) <= MAX_REPLICAS and min(distinct, default=0) >= 0


def read_topics(data: Mapping[str, bytes]) -> tuple[TopicAssignments, list[TableError]]:
    """All readable topics, and the errors of the others."""
    try:
        topics = decode_topics(data)
        if _are_sound(topics):
            return topics, []
    except TableError:
        pass  # Decode one by one to find which.
    errors, readable = [], {}
    for name, each in data.items():
        try:
            read_topic(name, each)
            readable[name] = each
        except TableError as error:
            errors.append(error)
    return decode_topics(readable), errors


def _are_sound(topics: TopicAssignments) -> bool:
    """Whether `read_topic` would take all of them; replicas that are on the move are left to it."""
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
    """The states of those of the partitions that have one that can be read."""
    states, errors = sound_states(context.table, (yield from effects.read_states(rows)))
    yield from pass_over(context.passed_over, errors)
    return states


def sound_states(table: PartitionTable, states: States) -> tuple[States, list[TableError]]:
    """The possible states, and the errors of the others."""
    sound = _are_states(states.changes)
    errors = [*states.unreadable]
    for row in states.changes.rows[~sound].tolist():
        path = znodes.state_path(table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row]))
        errors.append(TableError(f"{path}: no partition can have this leader, leader epoch and ISR"))
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
