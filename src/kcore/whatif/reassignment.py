"""The cluster after reassignments have completed, from a file of `kafka-reassign-partitions`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW, NO_RECOVERY_CHANGE
from kcore.errors import ArgumentError, TableError
from kcore.metadata.metadata_version import VERSIONS_BY_RELEASE
from kcore.metadata.table.partition_table import PartitionTable
from kcore.printable import json_flaw
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_events import isrs_altered
from kcore.replication.kraft_moves import reassignments_begun
from kcore.replication.levels import level_of
from kcore.suggestions import did_you_mean
from kcore.types import is_whole
from kcore.whatif.cluster import Cluster

_FORM: Final = '{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 2]}]}'


class Move(NamedTuple):
    """The replicas that a partition is to have, the preferred one first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


def parse_reassignment(text: str) -> list[Move]:
    """The moves of a reassignment file, without its `log_dirs`. ArgumentError says what is wrong, with which value."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"the reassignment is not JSON: {json_flaw(error)}") from None
    listed = read.get("partitions") if isinstance(read, dict) else None
    if not isinstance(listed, list) or not listed:
        raise ArgumentError(f"a reassignment is JSON of the form {_FORM}")
    if read.get("version", 1) != 1:
        raise ArgumentError(f"the version of a reassignment is 1, not {read['version']!r:.60}")
    moves = [_parsed(each, number) for number, each in enumerate(listed, start=1)]
    seen: set[tuple[str, int]] = set()
    for move in moves:
        if move[:2] in seen:
            raise ArgumentError(f"the reassignment names {move.topic}-{move.partition} twice")
        seen.add(move[:2])
    return moves


def _parsed(entry: Any, number: int) -> Move:
    fields = entry if isinstance(entry, dict) else {}
    topic, partition, replicas = (fields.get(name) for name in Move._fields)
    if not isinstance(topic, str) or not is_whole(partition) or not isinstance(replicas, list):
        raise ArgumentError(f"partition {number} of the reassignment has a topic, a partition and a list of replicas")
    if wrong := [each for each in replicas if not is_whole(each)]:
        raise ArgumentError(f"{topic}-{partition}: a replica is a broker's id, not {wrong[0]!r:.60}")
    if not 1 <= len(replicas) <= MAX_REPLICAS or len(set(replicas)) < len(replicas):
        raise ArgumentError(f"{topic}-{partition}: 1 to {MAX_REPLICAS} different replicas are wanted, not {replicas}")
    return Move(topic, partition, tuple(replicas))


def after_reassignment(cluster: Cluster, moves: Sequence[Move]) -> Cluster:
    """The cluster once all new replicas are in sync and the old ones are removed, by KRaft's rules.

    The leader stays if its replica stays. TableError for partitions or brokers that the cluster does not have, and for
    brokers that are not live, because the reassignment would not complete.
    """
    table = cluster.table.copy()
    by_row = {_row_of(table, move): [_live_row(table, move, broker) for broker in move.replicas] for move in moves}
    rows = np.array(sorted(by_row), np.int32)
    replicas__rs = np.full((len(rows), max(map(len, by_row.values()))), NO_BROKER_ROW, np.int16)
    for at, row in enumerate(rows.tolist()):
        replicas__rs[at, : len(by_row[row])] = by_row[row]
    settings = _kraft_settings(cluster)
    table.apply(reassignments_begun(table, settings, rows, replicas__rs, keeps_earlier=False))
    recovery__r = np.full(len(rows), NO_RECOVERY_CHANGE, np.int8)
    table.apply(isrs_altered(table, settings, rows, replicas__rs, recovery__r))
    return Cluster(table, cluster.level, cluster.settings)


def _kraft_settings(cluster: Cluster) -> KraftSettings:
    """The settings with a level of KRaft. A reassignment in ZooKeeper mode ends in the same state."""
    if not cluster.level.zookeeper:
        return cluster.settings
    kraft = level_of(f"{VERSIONS_BY_RELEASE[ZOOKEEPER_RELEASE].default}@{ZOOKEEPER_RELEASE}")
    return replace(cluster.settings, level=kraft, elr_enabled=False)


def _row_of(table: PartitionTable, move: Move) -> int:
    if move.topic not in table.topics:
        raise TableError(f"the reassignment names topic {move.topic!r}{did_you_mean(move.topic, table.topics.names)}")
    return table.row_of(move.topic, move.partition)


def _live_row(table: PartitionTable, move: Move, broker_id: int) -> int:
    if broker_id not in table.brokers or not table.brokers.live[table.brokers.row(broker_id)]:
        raise TableError(f"{move.topic}-{move.partition}: broker {broker_id} is not live, and a move there never ends")
    return table.brokers.row(broker_id)
