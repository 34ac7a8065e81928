"""Decides moves of replicas in bulk: reassignments begun and cancelled, directories assigned (KIP-455, KIP-858).

The ISR change that allows a reassignment to complete (`kraft_events.isrs_altered`) also completes it. As in
`kraft_events.py`, functions read the state before the records are replayed, and change nothing. Source:
ReplicationControlManager, PartitionReassignmentReplicas, PartitionReassignmentRevert.
"""

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW
from kcore.errors import TableError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import LOST, MIGRATING, UNASSIGNED
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.kraft_changes import (
    AS_IS,
    ONLINE,
    BulkTargets,
    KraftSettings,
    decide,
    described_brokers,
    moves_by_candidate,
)
from kcore.replication.kraft_results import ChangedFields, KraftElections, SparseLists
from kcore.replication.levels import Level
from kcore.types import Bools, Int16s, Int32s, Int64s

_LAST: Final = np.iinfo(np.int64).max  # Sorts after every broker id.


class Cancelled(NamedTuple):
    """The changes that cancel reassignments, and the reassignments that cannot be cancelled."""

    changes: KraftElections
    refused: Int32s  # Rows that would keep no in-sync replica, or no replica.


def reassignments_begun(
    table: PartitionTable, settings: KraftSettings, rows: Int32s, replicas__rs: Int16s, *, keeps_earlier: bool = True
) -> KraftElections:
    """Begin to move the partitions `rows` to these replicas (broker rows, padded): at first they have old and new ones.

    `keeps_earlier`: as in Kafka, a move that adds none keeps an earlier move's adding replicas, and a move that removes
    none keeps its removing replicas. Otherwise only the new move remains: it adds the target's replicas that were not
    there before the earlier move (KIP-455), and removes those that the target lacks.

    TableError if old and new replicas are more than MAX_REPLICAS. Source: changePartitionReassignment.
    """
    current = table.replicas__ps[rows]
    earlier = None if keeps_earlier else moves_by_candidate(table.adding, rows)
    original = current if earlier is None else _masked(current, earlier)
    removing, adding = _without(table, current, replicas__rs), _without(table, replicas__rs, original)
    both = _packed(np.concatenate([replicas__rs, removing], axis=1))
    if both.shape[1] > MAX_REPLICAS:
        row = rows[np.argmax(np.count_nonzero(both != NO_BROKER_ROW, axis=1))]
        raise TableError(f"row {row} would have {both.shape[1]} replicas while it moves; at most {MAX_REPLICAS} fit")
    targets = BulkTargets(
        replicas=both,
        removing=_as_is_if_empty(removing) if keeps_earlier else removing,
        adding=_as_is_if_empty(adding) if keeps_earlier else adding,
        default_directories=default_directories(table.brokers, settings.level),
    )
    return decide(table, settings, rows, described_brokers(table), election=ONLINE, targets=targets)


def reassignments_cancelled(table: PartitionTable, settings: KraftSettings, rows: Int32s) -> Cancelled:
    """Return the partitions `rows`, which are being reassigned, to the replicas before the reassignment.

    If all ISR members were being added, the first replica is elected uncleanly, provided the topic allows it. Source:
    cancelPartitionReassignment.
    """
    adding = moves_by_candidate(table.adding, rows)
    adding = np.full((len(rows), 1), NO_BROKER_ROW, np.int16) if adding is None else adding
    replicas = _packed(_masked(table.replicas__ps[rows], adding))
    isr = _packed(_masked(table.isr__pi[rows], adding))
    is_unclean = isr[:, 0] == NO_BROKER_ROW
    isr[is_unclean, 0] = replicas[is_unclean, 0]
    impossible = is_unclean & ~settings.allows_unclean(table, rows) | (replicas[:, 0] == NO_BROKER_ROW)
    kept = ~impossible
    none = np.full((int(kept.sum()), 1), NO_BROKER_ROW, np.int16)
    targets = BulkTargets(isr=isr[kept], replicas=replicas[kept], removing=none, adding=none)
    changes = decide(table, settings, rows[kept], described_brokers(table), targets=targets)
    return Cancelled(changes, rows[impossible])


def directories_assigned(
    table: PartitionTable, settings: KraftSettings, broker_id: int, rows: Int32s, directories__r: Int32s
) -> KraftElections:
    """Decide a broker's report of the directory (row of the DirectoryTable) of its replica of each partition.

    As in Kafka, the replica's old directory decides whether it may lead a partition without a leader.
    `replicas_lost` decides the other effects of offline directories. Source: handleAssignReplicasToDirs.
    """
    return _assigned(table, settings, broker_id, rows, directories__r, described_brokers(table))


def directories_assigned_as_they_are(
    table: PartitionTable,
    settings: KraftSettings,
    broker_id: int,
    rows: Int32s,
    directories__r: Int32s,
    *,
    replaced_lead: bool = False,
) -> list[KraftElections]:
    """As `directories_assigned`, but the reported directory decides if the replica may lead a leaderless partition.

    Unless `replaced_lead`, a partition without ISR forgets its last known leader if the leader's disk was replaced. The
    leader has lost its records, and other replicas may have all of them.
    """
    is_leaderless = table.leader__p[rows] == NO_BROKER_ROW
    if not is_leaderless.any():
        return [directories_assigned(table, settings, broker_id, rows, directories__r)]
    online, row = are_online(table, broker_id, directories__r), table.brokers.row(broker_id)
    is_replaced = np.zeros(len(rows), np.bool_) if replaced_lead else _were_replaced(table, settings, broker_id, rows)
    is_replaced &= is_leaderless
    owner__d = table.brokers.directory_table.owner__d.copy()
    if table.directories__ps is not None:
        rising = rows[is_leaderless & online & ~is_replaced]
        owner__d[np.unique(table.directories__ps[rising][table.replicas__ps[rising] == row])] = row
    changes = [
        _assigned(table, settings, broker_id, rows[these], directories__r[these], brokers__b, owners)
        for these, brokers__b, owners in (
            (~is_leaderless, described_brokers(table), None),
            (is_leaderless & online & ~is_replaced, described_brokers(table), owner__d),
            (is_leaderless & ~online & ~is_replaced, described_brokers(table, [row]), None),
            (is_replaced, described_brokers(table, [row]), None),
        )
    ]
    changes[-1] = _without_last_known_leader(changes[-1])
    return changes


def _were_replaced(table: PartitionTable, settings: KraftSettings, broker_id: int, rows: Int32s) -> Bools:
    """True where the broker is the last known leader, its replica was on a lost disk, and there are other replicas."""
    known, row = table.last_known_elr__pi, table.brokers.row(broker_id)
    if not settings.elr_enabled or known is None or table.directories__ps is None:
        return np.zeros(len(rows), np.bool_)
    replicas, directories = table.replicas__ps[rows], table.directories__ps[rows]
    before = directories[np.arange(len(rows)), (replicas == row).argmax(axis=1)]
    is_lost = (before > LOST) & ~are_online(table, broker_id, before)
    is_last_known = (known[rows] == row).any(axis=1)
    for members in (table.isr__pi, table.elr__pi):
        if members is not None:
            is_last_known &= (members[rows] == NO_BROKER_ROW).all(axis=1)
    has_others = np.count_nonzero(replicas != NO_BROKER_ROW, axis=1) > 1
    found: Bools = is_lost & is_last_known & has_others
    return found


def _without_last_known_leader(changes: KraftElections) -> KraftElections:
    """The decision, with the last known leader removed from each partition."""
    count = len(changes)
    empty_lists = SparseLists(np.arange(count, dtype=np.int32), np.zeros(count + 1, np.int32), np.empty(0, np.int32))
    fields = changes.fields | np.uint16(ChangedFields.LAST_KNOWN_ELR)
    return replace(changes, fields=fields, last_known_elr=empty_lists)


def _assigned(
    table: PartitionTable,
    settings: KraftSettings,
    broker_id: int,
    rows: Int32s,
    directories__r: Int32s,
    brokers__b: Int64s,
    owner__d: Int16s | None = None,
) -> KraftElections:
    targets = BulkTargets(directories=directories__r, directory_broker=table.brokers.row(broker_id))
    if settings.level.assignments_clear_elr:  # 3.9.1 and 4.1.2 decide assignments as if ELR were disabled.
        settings = replace(settings, elr_enabled=False, zk_migration=False)
    return decide(table, settings, rows, brokers__b, election=ONLINE, targets=targets, owner__d=owner__d)


def are_online(table: PartitionTable, broker_id: int, directories__r: Int32s) -> Bools:
    """True for each directory that is online at the broker."""
    brokers = table.brokers
    of_broker = np.full(len(directories__r), brokers.row(broker_id))
    online: Bools = brokers.directory_table.online(of_broker, directories__r, brokers.lists_directories__b)
    return online


def default_directories(brokers: BrokerTable, level: Level) -> Int32s:
    """The directory of a new replica, by broker row: the only one; UNASSIGNED if there are several; MIGRATING if none.

    Source: ClusterControlManager.defaultDir, KRaftClusterDescriber.defaultDir.
    """
    defaults = np.full(len(brokers), MIGRATING, np.int32)
    if level.directory_assignment_supported:
        defaults[~brokers.registered__b] = UNASSIGNED
        for row, listed in enumerate(brokers.directories):
            if listed:
                defaults[row] = listed[0] if len(listed) == 1 else UNASSIGNED
    return defaults


def _masked(brokers: Int16s, these: Int16s) -> Int16s:
    """`brokers` with -1 in place of every broker that is in the same row of `these`."""
    in_both = (brokers[:, :, None] == these[:, None, :]).any(axis=2)
    return np.where(in_both, np.int16(NO_BROKER_ROW), brokers)


def _packed(brokers: Int16s) -> Int16s:
    """The brokers of each row in order, then -1; as wide as the longest row, at least 1."""
    order = np.argsort(brokers == NO_BROKER_ROW, axis=1, kind="stable")
    packed = np.take_along_axis(brokers, order, axis=1)
    width = max(1, int(np.count_nonzero(brokers != NO_BROKER_ROW, axis=1).max(initial=0)))
    if packed.shape[1] < width:
        return np.full((len(packed), width), NO_BROKER_ROW, np.int16)
    return np.ascontiguousarray(packed[:, :width])


def _without(table: PartitionTable, brokers: Int16s, these: Int16s) -> Int16s:
    """The brokers of each row that are not in the same row of `these`, by ascending id, as in Kafka's TreeSet."""
    left = _masked(brokers, these)
    ids = np.append(table.brokers.ids.astype(np.int64), _LAST)[left]
    return _packed(np.take_along_axis(left, np.argsort(ids, axis=1, kind="stable"), axis=1))


def _as_is_if_empty(brokers: Int16s) -> Int16s:
    marked = brokers.copy()
    marked[marked[:, 0] == NO_BROKER_ROW, 0] = AS_IS
    return marked
