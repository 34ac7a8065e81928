"""Decides KRaft's changes of many partitions, the common form of every event and election of the KRaft controller.

Candidates (partition rows) and, for some events, targets (another ISR, other replicas) go in; PartitionChangeRecords
come out as columns, for the partitions that change. `partition_change.py` has the same rules for one partition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from kcore._ext.elections import partition_change as kernels
from kcore._ext.elections.election import CALLS, FAILED, HEADS, ISR_OFFSETS, MAY_LEAD, NO_DIRECTORIES
from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.bulk_elections import NEVER, BrokerFlags, columns_of, head_step
from kcore.replication.kraft_results import LISTS, KraftElections, SparseLists
from kcore.replication.levels import Level
from kcore.types import Bools, Int8s, Int16s, Int32s, Int64s

ONLINE, UNCLEAN, PREFERRED, CONFIGURED = range(4)  # Configured: online or unclean, by the topic's configuration.
AS_IS: Final = -2  # The first item of a row of targets: the partition keeps its list.

_ALL, _BY_PARTITION, _BY_TOPIC = range(3)
_ACTIVE: Final = BrokerFlags(down=CALLS, live=MAY_LEAD, shutting_down=CALLS)  # ClusterControlManager.isActive


class Setting(NamedTuple):
    """A topic's setting: one value for all, one a partition row, or one a topic row."""

    values: Array
    by: int = _ALL

    @classmethod
    def by_partition(cls, values: Array) -> "Setting":
        """One value for each row of the partition table."""
        return cls(values, _BY_PARTITION)

    @classmethod
    def by_topic(cls, values: Array) -> "Setting":
        """One value for each row of the topic table."""
        return cls(values, _BY_TOPIC)

    def of_rows(self, table: PartitionTable, rows: Int32s) -> Array:
        """The value for each of these partitions."""
        values, by = self
        if by == _ALL:
            return np.broadcast_to(values[:1], rows.shape)
        return values[rows if by == _BY_PARTITION else table.topic_row__p[rows]]


_NO: Final = Setting(NEVER)
_ONE: Final = Setting(np.ones(1, np.int32))


@dataclass(frozen=True)
class KraftSettings:
    """The level whose rules decide, and the settings of the cluster and its topics."""

    level: Level
    elr_enabled: bool = False  # The feature eligible.leader.replicas.version is 1 or more.
    unclean: Setting = _NO  # unclean.leader.election.enable
    min_isr: Setting = _ONE  # min.insync.replicas; the replication factor of a topic's partition 0 caps it.
    # unclean.recovery.strategy "balanced": elect the last leader if nothing else works.
    use_last_known_leader: bool = True
    zk_migration: bool = False  # 3.9.1: a migration from ZooKeeper may be in progress.

    @cached_property
    def features(self) -> int:
        """The kernel's feature flags, combined by bitwise or."""
        level = self.level
        flags = {
            kernels.ELR_ENABLED: self.elr_enabled,
            kernels.LAST_KNOWN_LEADER: self.use_last_known_leader,
            kernels.MARKS_RECOVERY: level.leader_recovery_supported,
            kernels.BUMPS_ON_SHRINK: level.epoch_bump_on_isr_shrink or self.zk_migration,
            kernels.HAS_DIRECTORIES: level.directory_assignment_supported,
            kernels.DEAD_LAST_KNOWN_LEADER: level.elects_dead_last_known_leader,
            kernels.REMEMBERS_ON_EMPTY_ISR: level.last_known_leader_of_empty_isr,
            kernels.AWAITS_ALL_REPLICAS: level.reassignment_awaits_all_replicas,
        }
        return sum(flag for flag, is_on in flags.items() if is_on)

    def allows_unclean(self, table: PartitionTable, rows: Int32s) -> Bools:
        """True for each partition whose topic allows unclean elections."""
        allowed: Bools = self.unclean.of_rows(table, rows) != 0
        return allowed


@dataclass(frozen=True, slots=True)
class BulkTargets:
    """The targets of r candidates, a row for each: broker rows, padded with -1. None: no target of that kind.

    A row that begins with AS_IS keeps that list of its partition.
    """

    isr: Int16s | None = None
    replicas: Int16s | None = None
    removing: Int16s | None = None
    adding: Int16s | None = None
    recovery: Int8s | None = None  # r, LeaderRecoveryState; -1: keep the state
    # r, rows of the DirectoryTable: the new directory of the replica on `directory_broker`
    directories: Int32s | None = None
    directory_broker: int = NO_BROKER_ROW
    default_directories: Int32s | None = None  # b: the directory of a new replica


def described_brokers(table: PartitionTable, exceptions: Sequence[int] = (), flags: int = CALLS) -> Int64s:
    """Each broker's flags for the kernel: active brokers may lead; rows `exceptions` have `flags` instead."""
    brokers__b = _ACTIVE.of(table.brokers, exceptions, flags)
    if table.directories__ps is not None:
        brokers__b[1:][~table.brokers.lists_directories__b] |= NO_DIRECTORIES
    return brokers__b


def decide(
    table: PartitionTable,
    settings: KraftSettings,
    rows: Int32s,
    brokers__b: Int64s,
    *,
    election: int = CONFIGURED,
    leaving: int = 0,
    targets: BulkTargets | None = None,
    owner__d: Int16s | None = None,
) -> KraftElections:
    """The changes of the partitions `rows`, ascending, by PartitionChangeBuilder.

    `described_brokers` makes `brokers__b`; leaving brokers are removed from the ISRs that have no target. `leaving`:
    LEAVING_ISR_ONLY or LEAVING_ONLY, to skip partitions without them. Targets must be valid: brokers are rows of the
    table, and ISRs and replicas name each once. `owner__d`: which broker has each directory online, if not as in the
    table.
    """
    lists, columns = _lists_of(table, rows), _columns_of(table, owner__d)
    rule = (election, *settings.unclean, *settings.min_isr, *table.first_partitions, settings.features | leaving)
    given = None if targets is None else tuple(getattr(targets, name) for name in BulkTargets.__slots__)
    count, step = len(rows), head_step(len(rows))
    heads = np.empty((HEADS, step), np.int32)
    isr = np.empty(count * _isr_width(table, targets) + 1, np.int32)
    recovery, fields = np.empty(count, np.int8), np.empty(count, np.uint16)
    is_plain = lists is _NO_LISTS and targets is None and not settings.elr_enabled
    sparse = None if is_plain else _room_for_lists(table, lists, targets, count)
    out = (heads, step, isr, recovery, fields, sparse)
    changes, members, failures, sizes = kernels.decide(columns, lists, rule, given, brokers__b, rows, *out)
    changed, leaders, leader_epochs, partition_epochs = heads[:ISR_OFFSETS, :changes]
    return KraftElections(
        rows=changed,
        leaders=leaders,
        isr_offsets=heads[ISR_OFFSETS, : changes + 1],
        isr=isr[:members],
        leader_epochs=leader_epochs,
        partition_epochs=partition_epochs,
        recovery=recovery[:changes],
        failed=heads[FAILED, :failures],
        fields=fields[:changes],
        **({} if sparse is None else _sparse_lists(sparse, count, sizes)),
    )


def _columns_of(table: PartitionTable, owner__d: Int16s | None) -> "kernels.Columns":
    """The columns that the kernel reads."""
    if table.directories__ps is not None and owner__d is None:
        owner__d = table.brokers.directory_table.owner__d
    return (
        *columns_of(table),
        table.topic_row__p,
        table.directories__ps,
        None if table.directories__ps is None else owner__d,
    )


_NO_LISTS: Final = (None, None, None, None, True)


def _lists_of(table: PartitionTable, rows: Int32s) -> "kernels.Lists":
    if table.elr__pi is None and table.last_known_elr__pi is None and not table.removing and not table.adding:
        return _NO_LISTS
    removing, adding = moves_by_candidate(table.removing, rows), moves_by_candidate(table.adding, rows)
    return (table.elr__pi, table.last_known_elr__pi, removing, adding, True)


def moves_by_candidate(moves: Mapping[int, tuple[int, ...]], rows: Int32s) -> Int16s | None:
    """The lists of these partition rows, padded; None if no row has a list."""
    if not moves or not len(rows):
        return None
    moving = np.sort(np.fromiter(moves, np.int32, len(moves)))
    places = np.minimum(np.searchsorted(rows, moving), len(rows) - 1)
    chosen = rows[places] == moving
    if not chosen.any():
        return None
    lists = [moves[row] for row in moving[chosen].tolist()]
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    padded = np.full((len(rows), int(counts.max())), NO_BROKER_ROW, np.int16)
    found = np.full((len(lists), padded.shape[1]), NO_BROKER_ROW, np.int16)
    found[np.arange(padded.shape[1]) < counts[:, None]] = np.fromiter(chain.from_iterable(lists), np.int16)
    padded[places[chosen]] = found
    return padded


def _isr_width(table: PartitionTable, targets: BulkTargets | None) -> int:
    """The size of the widest ISR that a change can name; at least 1, for an unclean leader."""
    target = None if targets is None else targets.isr
    return max(1, _width(table.isr__pi), _width(target))


def _room_for_lists(table: PartitionTable, lists: "kernels.Lists", targets: BulkTargets | None, count: int) -> Int32s:
    """Memory for the lists of every candidate; unused pages stay untouched."""
    given = [] if targets is None else [targets.replicas, targets.removing, targets.adding]
    moved = max(table.replicas__ps.shape[1], *(_width(each) for each in (*given, *lists[2:4])), 1)
    eligible = min(MAX_REPLICAS, table.isr__pi.shape[1] + _width(lists[0]) + _width(lists[1]))
    return np.empty((kernels.LISTS, 2 * count + 1 + (count + 1) * max(moved, eligible)), np.int32)


def _width(lists: Int16s | None) -> int:
    return 0 if lists is None else int(lists.shape[1])


def _sparse_lists(sparse: Int32s, count: int, sizes: Sequence[tuple[int, int]]) -> dict[str, SparseLists]:
    """The lists that changed, as copies, so that the memory reserved for all lists is freed."""
    found: dict[str, SparseLists] = {}
    for name, row, (lists, values) in zip(LISTS, sparse, sizes, strict=True):
        if lists:
            places, offsets = row[:lists].copy(), row[count : count + lists + 1].copy()
            found[name] = SparseLists(places, offsets, row[2 * count + 1 : 2 * count + 1 + values].copy())
    return found
