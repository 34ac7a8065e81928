"""Decodes the assignments of many topics into columns, for a controller's failover.

`znodes.decode_topic` decodes one topic into an object for each partition, and is ten times slower.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from kcore.errors import TableError
from kcore.metadata.table.arrays import padded
from kcore.metadata.zookeeper.znode_json import fault
from kcore.metadata.zookeeper.znodes import decode_topic, topic_path
from kcore.types import Int32s, Uuid

_MOVES: Final = ("adding_replicas", "removing_replicas")


@dataclass(frozen=True, slots=True)
class TopicAssignments:
    """t topics with p partitions, by topic and ascending index; partitions without replicas are left out."""

    names: list[str]
    topic_ids: list[Uuid | None]  # t
    topic_rows: Int32s  # p: indexes of `names`
    partition_indexes: Int32s  # p
    replicas: Int32s  # p by slot: broker ids, padded with -1
    adding_replicas: dict[int, list[int]]  # By index among the p partitions.
    removing_replicas: dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class _Topic:
    topic_id: Uuid | None
    indexes: list[int]
    replicas: list[list[int]]
    moves: tuple[dict[int, list[int]], dict[int, list[int]]]  # By partition index.


def decode_topics(data: Mapping[str, bytes]) -> TopicAssignments:
    """Decodes topics of any version, by name (TopicZNode of 3.9.1). TableError names the invalid znode."""
    topics = [_decoded(name, each) for name, each in data.items()]
    if not all(_are_integers(topic.replicas) for topic in topics):
        topics = [_careful(name, each) for name, each in data.items()]
    counts = [len(topic.indexes) for topic in topics]
    lists = [each for topic in topics for each in topic.replicas]
    replicas = _integers(chain.from_iterable(lists))
    if replicas.size and replicas.min() < 0:
        named = zip(data, topics, strict=True)
        wrong = next(name for name, topic in named if min(map(min, topic.replicas), default=0) < 0)
        raise fault(topic_path(wrong), "a replica on a broker whose id is negative")
    first_rows = np.cumsum([0, *counts]).tolist()
    adding, removing = (
        {
            first + topic.indexes.index(index): brokers
            for first, topic in zip(first_rows, topics, strict=False)
            for index, brokers in topic.moves[which].items()
        }
        for which in range(len(_MOVES))
    )
    return TopicAssignments(
        list(data),
        [topic.topic_id for topic in topics],
        np.repeat(np.arange(len(topics), dtype=np.int32), counts),
        _integers(index for topic in topics for index in topic.indexes),
        padded(np.cumsum([0, *map(len, lists)]), replicas),
        adding,
        removing,
    )


def _decoded(name: str, data: bytes) -> _Topic:
    """Decodes valid data fast; other data is given to `_careful`, which checks every number."""
    try:
        fields = json.loads(data)
        by_index = sorted((int(text), brokers) for text, brokers in fields["partitions"].items() if brokers != [])
        moves = tuple({int(text): brokers for text, brokers in fields.get(move, {}).items()} for move in _MOVES)
        text = fields.get("topic_id")
        topic_id = None if text is None else Uuid(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _careful(name, data)
    if any(moves):
        return _careful(name, data)
    return _Topic(topic_id, [index for index, _ in by_index], [brokers for _, brokers in by_index], ({}, {}))


def _careful(name: str, data: bytes) -> _Topic:
    topic_id, partitions = decode_topic(name, data)
    partitions = {index: each for index, each in partitions.items() if each.replicas}
    moves = tuple(
        {index: list(getattr(each, move)) for index, each in partitions.items() if getattr(each, move)}
        for move in _MOVES
    )
    replicas = [list(each.replicas) for each in partitions.values()]
    return _Topic(topic_id, list(partitions), replicas, (moves[0], moves[1]))


def _are_integers(replicas: Any) -> bool:
    """True if `replicas` is a list of lists of integers."""
    try:
        kinds = {*map(type, chain.from_iterable(replicas))}
        return {*map(type, replicas)} <= {list} and kinds <= {int}
    except TypeError:
        return False


def _integers(values: Any) -> Int32s:
    try:
        return np.fromiter(values, np.int32)
    except OverflowError as error:
        raise TableError(f"a topic's assignment has a number outside 32 bits: {error}") from error
