"""Checks znodes that other nodes wrote: the controller skips unreadable ones, and logs each once.

Anyone with a ZooKeeper shell can write any data. An unreadable znode may make that topic, partition or broker
unavailable, but not the controller. A controller that starts refuses a cluster with unreadable znodes
(`server/zk_controller/eligibility.py`), because an operator then reads the error.

Source: TopicZNode, BrokerIdZNode and TopicPartitionStateZNode of 3.9.1, which treat data that is not JSON as empty.
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

MOST_REMEMBERED: Final = 10_000  # The most errors that are remembered, so that they are logged once.
REMEMBERED_BYTES: Final = 1_024  # Larger registrations are not cached; Kafka's brokers write 200 to 400 bytes.


def pass_over(passed_over: set[str], errors: Iterable[Exception]) -> Steps[None]:
    """Logs each error, which names its znode, as a warning; a znode that does not change is logged once."""
    for text in map(str, errors):
        if text not in passed_over:
            if len(passed_over) >= MOST_REMEMBERED:
                passed_over.clear()
            passed_over.add(text)
            yield from log_notice(TextNotice(f"skipped an unreadable znode: {text}", "warning"))


def broker_id_of(name: str) -> int:
    """The broker id in the name of a child of `/brokers/ids`; TableError if the name is not a broker id."""
    if not (name.isascii() and name.isdecimal() and int(name) < 2**31):
        raise TableError(f"{znodes.BROKER_IDS}/{name}: the name is not a broker id")
    return int(name)


def read_broker(name: str, data: bytes) -> tuple[int, BrokerNode]:
    """Decodes a registration; TableError if it is unreadable.

    Decoded registrations are cached, because all are read again whenever a broker starts or fails.
    """
    broker_id = broker_id_of(name)
    decode = _remembered if len(data) <= REMEMBERED_BYTES else decode_broker
    return broker_id, decode(broker_id, data)


_remembered = lru_cache(maxsize=10_000)(decode_broker)  # A BrokerNode is never mutated.


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
