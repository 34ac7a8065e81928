"""Scales a cluster to another number of partitions and brokers, with the same distributions.

Whole copies of the cluster come first; the rest is topics that the seed draws. A copy uses the next brokers of the same
rack and state, so that racks, leaders, ISRs and replication factors keep their pattern.
"""

from dataclasses import replace
from hashlib import blake2b
from typing import Final

import numpy as np

from kcore.constants import NO_BROKER_ROW, NO_LEADER
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.topic_names import MAX_LENGTH
from kcore.replication.kraft_changes import Setting
from kcore.types import Int16s, Int32s, Int64s, Uuid
from kcore.whatif.cluster import Cluster

FIRST_BROKER_EPOCH: Final = 25
_KEPT: Final = ("partition_index", "leader_epoch", "partition_epoch", "controller_epoch", "leader_recovery_state")


def scaled(table: PartitionTable, partitions: int, brokers: int, seed: int) -> PartitionTable:
    """A new cluster of that size with the distributions of `table`; equal arguments give equal clusters.

    Topics keep their sizes, except for the last one of the rest, which may be cut. A copy has no moves, and no log
    directories. TableError if the cluster has more brokers than `brokers`.
    """
    return _scaled(table, partitions, brokers, seed)[0]


def scaled_cluster(cluster: Cluster, partitions: int, brokers: int, seed: int) -> Cluster:
    """The same for the cluster of a question; each topic keeps its settings."""
    table, rows = _scaled(cluster.table, partitions, brokers, seed)

    def kept(setting: Setting) -> Setting:
        return Setting.by_partition(setting.of_rows(cluster.table, rows))

    settings = replace(cluster.settings, unclean=kept(cluster.settings.unclean), min_isr=kept(cluster.settings.min_isr))
    return Cluster(table, cluster.level, settings)


def _scaled(table: PartitionTable, partitions: int, brokers: int, seed: int) -> tuple[PartitionTable, Int32s]:
    """The new table, and the row of `table` that each of its rows repeats."""
    if brokers < len(table.brokers):
        raise TableError(f"the cluster has {len(table.brokers)} brokers: {brokers} are too few")
    if (len(table), table.partition_count, len(table.brokers)) == (partitions, partitions, brokers):
        return table.copy(), np.arange(len(table), dtype=np.int32)
    rows, copy = _rows(table, partitions, seed)
    more = _more_brokers(table.brokers, brokers)
    broker_row__cb = _moved_brokers(table.brokers, more, int(copy.max(initial=0)) + 1)
    topics = len(table.topics)
    topic_rows = table.topic_row__p[rows] + copy * topics
    used, new_topic_rows = np.unique(topic_rows, return_inverse=True)
    columns: dict[str, Array] = {"topic_row__p": new_topic_rows.astype(np.int32)}
    for name in ("replicas__ps", "isr__pi", "leader__p", "elr__pi", "last_known_elr__pi"):
        if (column := getattr(table, name)) is not None:
            columns[name] = _moved(column[rows], copy, broker_row__cb)
    columns |= {name: getattr(table, name)[rows] for name in (f"{each}__p" for each in _KEPT)}
    return PartitionTable(columns, _named(table.topics, used), more), rows


def healthy(table: PartitionTable) -> PartitionTable:
    """The topics and brokers of `table` as if all were new: all brokers live, ISRs whole, the first replicas lead.

    Partitions of a topic are numbered from 0; a topic without an id gets one.
    """
    rows = np.flatnonzero(table.topic_row__p >= 0)
    rows = rows[np.lexsort((table.partition_index__p[rows], table.topic_row__p[rows]))]
    used, topic_rows = np.unique(table.topic_row__p[rows], return_inverse=True)
    names = [table.topics.names[row] for row in used.tolist()]
    ids = [table.topics.ids[row] for row in used.tolist()]
    made = (Uuid(blake2b(name.encode(), digest_size=16).digest()) for name in names)
    ids = [topic_id if any(topic_id) else new for topic_id, new in zip(ids, made, strict=True)]
    replicas = table.replicas__ps[rows]
    broker_ids = np.append(table.brokers.ids, NO_LEADER)
    return PartitionTable.from_arrays(
        broker_ids[replicas],
        topics=TopicTable(names, ids),
        topic_rows=topic_rows.astype(np.int32),
        brokers=BrokerTable.from_arrays(table.brokers.ids, racks=table.brokers.racks),
    )


def _rows(table: PartitionTable, partitions: int, seed: int) -> tuple[Int32s, Int64s]:
    """The rows of the original that the new rows repeat, and the number of the copy that each new row belongs to."""
    living = np.flatnonzero(table.topic_row__p >= 0)
    living = living[np.lexsort((table.partition_index__p[living], table.topic_row__p[living]))].astype(np.int32)
    whole, rest = divmod(partitions, len(living))
    ends = np.flatnonzero(np.diff(table.topic_row__p[living], append=-1)) + 1
    begins = np.concatenate([[0], ends[:-1]])
    order = np.random.default_rng(seed).permutation(len(ends))
    upto = np.cumsum((ends - begins)[order])
    drawn = np.sort(order[: int(np.searchsorted(upto, rest)) + 1]) if rest else order[:0]
    places = np.concatenate([np.arange(begins[topic], ends[topic]) for topic in drawn.tolist()] or [living[:0]])
    places = places.astype(np.int64)
    if len(places) > rest:  # The topic that was drawn last has too many partitions.
        last = int(order[len(drawn) - 1])
        surplus = np.arange(ends[last] - (len(places) - rest), ends[last])
        places = places[~np.isin(places, surplus)]
    rows = np.concatenate([np.tile(living, whole), living[places]]).astype(np.int32)
    copy = np.concatenate([np.repeat(np.arange(whole), len(living)), np.full(len(places), whole)]).astype(np.int64)
    return rows, copy


def _moved_brokers(before: BrokerTable, after: BrokerTable, copies: int) -> Int16s:
    """The row of each original broker's counterpart, by copy: the next broker of its rack and state."""
    groups: dict[tuple[str | None, bool], list[int]] = {}
    for row, key in enumerate(zip(after.racks, after.live.tolist(), strict=True)):
        groups.setdefault(key, []).append(row)
    moved = np.empty((copies, len(before)), np.int16)
    for members in map(np.array, groups.values()):
        own = members[members < len(before)]
        place = np.arange(len(own)) + np.arange(copies)[:, None] * len(own)
        moved[:, own] = members[place % len(members)]
    return moved


def _moved(broker_rows: Int16s, copy: Int64s, broker_row__cb: Int16s) -> Int16s:
    by_row = copy if broker_rows.ndim == 1 else copy[:, None]
    found = broker_row__cb[by_row, np.maximum(broker_rows, 0)]
    return np.where(broker_rows == NO_BROKER_ROW, NO_BROKER_ROW, found).astype(np.int16)


def _named(topics: TopicTable, rows: Int64s) -> TopicTable:
    """The topics of all copies; the ids of a copy are the original ids with changed bits."""
    names, ids = [], []
    for copy, row in zip(*(each.tolist() for each in np.divmod(rows, len(topics))), strict=True):
        name, topic_id, suffix = topics.names[row], topics.ids[row], f"-{copy}"
        names.append(name[: MAX_LENGTH - len(suffix)] + suffix if copy else name)
        low = int.from_bytes(topic_id[8:]) ^ copy
        ids.append(Uuid(topic_id[:8] + low.to_bytes(8)) if any(topic_id) else topic_id)
    return TopicTable(names, ids)


def _more_brokers(brokers: BrokerTable, count: int) -> BrokerTable:
    """The first brokers unchanged, then copies of them with ids that continue from the largest."""
    more = count - len(brokers)
    source = [row % len(brokers) for row in range(count)]
    first_id, first_epoch = int(brokers.ids.max()) + 1, max(FIRST_BROKER_EPOCH, int(brokers.epochs.max()) + 1)
    return BrokerTable.from_arrays(
        np.concatenate([brokers.ids, first_id + np.arange(more)]),
        live=brokers.live[source],
        epochs=np.concatenate([brokers.epochs, first_epoch + np.arange(more)]),
        racks=[brokers.racks[row] for row in source],
        endpoints=[brokers.endpoints[row] for row in source],
    )
