"""The cluster of a question: its table, the rules and settings that decide, and the counts before any loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.errors import ArgumentError, TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.column_list import NO_TOPIC
from kcore.metadata.table.partition_table import PartitionTable
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.replication import kraft_elections, zookeeper_elections
from kcore.replication.bulk_elections import ZooKeeperElections
from kcore.replication.elect import level_of_cluster, settings_of_cluster
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_events import brokers_fenced_among
from kcore.replication.kraft_results import KraftElections
from kcore.replication.levels import Level, level_of
from kcore.types import Bools, Int16s, Int32s, Int64s, is_whole


@dataclass(frozen=True)
class Cluster:
    """The state of a cluster and the rules of its controller; p partitions, b brokers."""

    table: PartitionTable
    level: Level
    settings: KraftSettings  # ZooKeeper mode uses only `unclean` and `min_isr`.

    @cached_property
    def live__b(self) -> Bools:
        """True for each live broker; the last item stands for "no broker" and is False."""
        return np.append(self.table.brokers.live, False)

    @cached_property
    def min_isr__p(self) -> Int32s:
        """min.insync.replicas of each partition, at least 1 and at most its number of replicas (effectiveMinIsr)."""
        wanted = self.settings.min_isr.of_rows(self.table, np.arange(len(self.table), dtype=np.int32))
        replicas = _count(self.table.replicas__ps != NO_BROKER_ROW)
        return np.clip(wanted, 1, np.maximum(replicas, 1)).astype(np.int32)

    @cached_property
    def in_sync__p(self) -> Int16s:
        """The number of live members of each partition's ISR; 0 for a free row."""
        found = _count(self.live__b[self.table.isr__pi])
        found[self.table.topic_row__p == NO_TOPIC] = 0
        return found

    @cached_property
    def has_leader__p(self) -> Bools:
        """True for each partition that a live broker leads."""
        has_leader: Bools = self.live__b[self.table.leader__p] & (self.table.topic_row__p != NO_TOPIC)
        return has_leader

    @cached_property
    def state_counts(self) -> Int64s:
        """The number of partitions in each state of `effects.STATES`, in that order, before any loss."""
        used = self.table.topic_row__p != NO_TOPIC
        states = (~self.has_leader__p, self.in_sync__p < self.min_isr__p, self.in_sync__p == 1)
        return np.array([np.count_nonzero(state & used) for state in states], np.int64)

    @cached_property
    def leaders__b(self) -> Int64s:
        """The number of partitions that each live broker leads; the last item is 0."""
        leaders = self.table.leader__p[self.has_leader__p]
        return np.bincount(leaders, minlength=len(self.live__b)).astype(np.int64)

    @cached_property
    def unclean(self) -> bool | Bools:
        """Whether topics allow unclean elections: one bool, or one a partition."""
        if len(self.settings.unclean.values) == 1:
            return bool(self.settings.unclean.values[0])
        return self.settings.allows_unclean(self.table, np.arange(len(self.table), dtype=np.int32))

    def decide_loss(self, leaving: Sequence[int], rows: Int32s) -> KraftElections | ZooKeeperElections:
        """The changes of these partitions, ascending rows, if the brokers, given by row, are lost at once."""
        if self.level.zookeeper:
            return zookeeper_elections.brokers_failed(self.table, leaving, self.unclean, self.level, among=rows)
        return brokers_fenced_among(self.table, self.settings, leaving, rows)

    def live_ids(self) -> list[int]:
        """The ids of the live brokers, ascending."""
        return sorted(self.table.brokers.ids[self.table.brokers.live].tolist())


def cluster_of(
    source: PartitionTable | ClusterImage,
    release: str | None = None,
    unclean: bool | None = None,
    min_isr: int | None = None,
    elr: bool | None = None,
) -> Cluster:
    """The cluster of an image or a table; arguments that are None are the image's own.

    A table, and an image without a metadata.version, has the rules of ZooKeeper mode, 3.9.1. A table has no settings:
    no unclean elections, min.insync.replicas 1. `release`: a level of `kcore.replication.levels`. ArgumentError,
    LevelError or TableError for other values.
    """
    for name, given in (("unclean", unclean), ("elr", elr)):
        if not (given is None or isinstance(given, bool)):
            raise ArgumentError(f"{name} is a bool or None, not {given!r:.60}")
    if not (min_isr is None or is_whole(min_isr)):
        raise ArgumentError(f"min_isr is a whole number or None, not {min_isr!r:.60}")
    if isinstance(source, PartitionTable):
        rules = level_of(ZOOKEEPER_RELEASE if release is None else release)
        least = 1 if min_isr is None else int(min_isr)
        return Cluster(source, rules, kraft_elections.settings_of(source, rules, unclean, least, bool(elr)))
    if not isinstance(source, ClusterImage):
        raise ArgumentError(f"a cluster is a PartitionTable or a ClusterImage, not {type(source).__name__}")
    if release is None:
        rules = level_of(level_of_cluster(source) if FEATURE_NAME in source.features else ZOOKEEPER_RELEASE)
    else:
        rules = level_of(release)
    return Cluster(source.table, rules, settings_of_cluster(source, rules, unclean, min_isr, elr))


def check_live(cluster: Cluster) -> None:
    """TableError if no broker is live: nothing can be lost."""
    if not cluster.table.brokers.live.any():
        raise TableError("no broker of the cluster is live: there is nothing to lose")


def _count(flags__pi: Bools) -> Int16s:
    """The number of True values in each row."""
    found = np.zeros(len(flags__pi), np.int16)
    for slot in range(flags__pi.shape[1]):
        found += flags__pi[:, slot]
    return found
