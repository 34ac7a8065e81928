"""Compares two partition tables regardless of the rows in which they store the partitions."""

from typing import Any, Final

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.metadata.table.arrays import Array, widened
from kcore.metadata.table.column_list import NO_TOPIC
from kcore.metadata.table.partition_queries import PartitionQueries
from kcore.types import Int32s

_NUMBERS: Final = ("leader_epoch", "partition_epoch", "controller_epoch", "leader_recovery_state")
_LISTS: Final = ("replicas__ps", "isr__pi", "elr__pi", "last_known_elr__pi")


def same_partitions(one: PartitionQueries, other: PartitionQueries) -> bool:
    """True if both have the same topics and partitions, with equal states and reassignments."""
    topics = [dict(zip(each.topics.names, each.topics.ids, strict=True)) for each in (one, other)]
    for each in topics:
        each.pop("", None)  # Free rows.
    if topics[0] != topics[1] or one.partition_count != other.partition_count:
        return False
    numbers = {name: number for number, name in enumerate(sorted(topics[0]))}
    directories: dict[bytes, int] = {}
    ours, theirs = (_columns_in_order(each, numbers, directories) for each in (one, other))
    return all(_equal(ours[name], theirs[name]) for name in ours)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return bool(one == other)
    if one.ndim == 2 and one.shape[1] != other.shape[1]:
        width = max(one.shape[1], other.shape[1])
        one, other = widened(one, width), widened(other, width)
    return bool(np.array_equal(one, other))


def _columns_in_order(
    table: PartitionQueries, numbers: dict[str, int], directories: dict[bytes, int]
) -> dict[str, Any]:
    """All columns, ordered by topic name and partition index; brokers as ids, topics and directories as numbers."""
    number_of = np.array([numbers.get(name, NO_TOPIC) for name in table.topics.names], np.int32)
    rows = np.flatnonzero(table.topic_row__p != NO_TOPIC)
    topics, partitions = number_of[table.topic_row__p[rows]], table.partition_index__p[rows]
    order = np.lexsort((partitions, topics))
    rows = rows[order]
    columns: dict[str, Any] = {"topics": topics[order], "partitions": partitions[order]}
    columns |= {name: getattr(table, f"{name}__p")[rows] for name in _NUMBERS}
    ids = np.append(table.brokers.ids, NO_BROKER_ROW)  # Row -1 indexes the last item: no broker.
    columns["leader"] = ids[table.leader__p[rows]]
    for name in _LISTS:
        lists: Array | None = getattr(table, name)
        columns[name] = np.full((len(rows), 1), NO_BROKER_ROW) if lists is None else ids[lists[rows]]
    columns["directories"] = _directories(table, rows, directories)
    places = dict(zip(rows.tolist(), range(len(rows)), strict=True)) if table.adding or table.removing else {}
    for part in ("adding", "removing"):
        moves = table.moves(part).items()
        columns[part] = {places[row]: [int(ids[broker]) for broker in brokers] for row, brokers in moves}
    return columns


def _directories(table: PartitionQueries, rows: Array, numbers: dict[bytes, int]) -> Int32s:
    """Directories by slot; -1 for an unused slot."""
    number_of = np.array([numbers.setdefault(uuid, len(numbers)) for uuid in table.directories.uuids], np.int32)
    replicas, known = table.replicas__ps[rows], table.directories__ps
    found = np.zeros(replicas.shape, np.int32) if known is None else known[rows]
    return np.where(replicas == NO_BROKER_ROW, np.int32(-1), number_of[found])
