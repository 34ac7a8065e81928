"""Decides the KRaft controller's partition changes event by event, in bulk (ReplicationControlManager).

Each function takes the table, the settings and the event, reads the state before the event's records are replayed, and
returns the changes; it changes nothing. Ids name the event's brokers, and rows of the DirectoryTable its directories;
partitions are ascending rows. An event examines only partitions that it may change.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from kcore._ext.elections import partition_change as kernels
from kcore._ext.elections.election import CALLS, CRASHED, LEAVES, MAY_LEAD
from kcore.constants import MAX_PARTITIONS, NO_BROKER_ROW
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.bulk_elections import rows_of
from kcore.replication.kraft_changes import (
    PREFERRED,
    UNCLEAN,
    BulkTargets,
    KraftSettings,
    decide,
    described_brokers,
)
from kcore.replication.kraft_results import KraftElections
from kcore.types import Int8s, Int16s, Int32s

_LEAVES: Final = CALLS | LEAVES


def brokers_fenced(table: PartitionTable, settings: KraftSettings, broker_ids: Sequence[int]) -> KraftElections:
    """Decide for brokers that are fenced, or begin a controlled shutdown: they leave every ISR and lead no partition.

    Kafka handles one broker at a time. Several at once cause one change for each partition: none of them is elected. An
    ISR without any other member stays, and the partition has no leader. Source: handleBrokerFenced,
    handleBrokerInControlledShutdown.
    """
    [changes] = brokers_fenced_in_parts(table, settings, broker_ids, at_once=MAX_PARTITIONS)
    return changes


def brokers_fenced_in_parts(
    table: PartitionTable, settings: KraftSettings, broker_ids: Sequence[int], *, at_once: int
) -> Iterator[KraftElections]:
    """As `brokers_fenced`, in independent parts of at most `at_once` partitions; there is at least one part."""
    leaving = [table.brokers.row(broker) for broker in broker_ids]
    rows = rows_of(table, leaving)
    for begin in range(0, max(len(rows), 1), at_once):
        yield brokers_fenced_among(table, settings, leaving, rows[begin : begin + at_once])


def brokers_fenced_among(
    table: PartitionTable, settings: KraftSettings, broker_rows: Sequence[int], rows: Int32s
) -> KraftElections:
    """As `brokers_fenced`, only for the partitions `rows`, ascending; brokers are given by row."""
    brokers__b = described_brokers(table, broker_rows, _LEAVES)
    return decide(table, settings, rows, brokers__b, leaving=kernels.LEAVING_ISR_ONLY)


def broker_unregistered(table: PartitionTable, settings: KraftSettings, broker_id: int) -> KraftElections:
    """Decide for a broker that is unregistered: it leaves every ISR. It stays in ELRs, as by Kafka's code (Kafka's
    comment says otherwise).

    Source: handleBrokerUnregistered.
    """
    row = table.brokers.row(broker_id)
    brokers__b = described_brokers(table, [row], _LEAVES)
    return decide(table, settings, _replicated_or_eligible(table, row), brokers__b, leaving=kernels.LEAVING_ONLY)


def broker_registered(
    table: PartitionTable, settings: KraftSettings, broker_id: int, *, clean_shutdown: bool
) -> KraftElections:
    """Decide for a broker's new incarnation; after an unclean shutdown it leaves ISRs and ELRs (KIP-966).

    Source: handleBrokerShutdown; handleBrokerUncleanShutdown of 3.9.1, where nothing happens below 4.0-IV0.
    """
    level = settings.level
    if broker_id not in table.brokers or (level.knows_no_clean_shutdown and not level.elr_supported):
        return decide(table, settings, np.empty(0, np.int32), described_brokers(table))
    if not level.knows_no_clean_shutdown and (clean_shutdown or not settings.elr_enabled):
        return brokers_fenced(table, settings, [broker_id])
    row = table.brokers.row(broker_id)
    brokers__b = described_brokers(table, [row], _LEAVES | CRASHED)
    return decide(table, settings, _replicated_or_eligible(table, row), brokers__b, leaving=kernels.LEAVING_ONLY)


def broker_unfenced(
    table: PartitionTable, settings: KraftSettings, broker_id: int, *, passed_over: Int32s | None = None
) -> KraftElections:
    """Let an unfenced broker lead leaderless partitions, except rows `passed_over`. Source: handleBrokerUnfenced."""
    brokers__b = described_brokers(table, [table.brokers.row(broker_id)], MAY_LEAD)
    rows = leaderless_rows(table)
    if passed_over is not None and len(passed_over):
        rows = np.setdiff1d(rows, passed_over, assume_unique=True)
    return decide(table, settings, rows, brokers__b)


def leaders_elected(
    table: PartitionTable, settings: KraftSettings, rows: Int32s, *, unclean: bool = False
) -> KraftElections:
    """Elect among `rows`: the preferred replica where another one leads, or with `unclean` any where none leads.

    Source: ElectLeaders, electLeader.
    """
    leaders, first = table.leader__p[rows], table.replicas__ps[rows, 0]
    needed = leaders == NO_BROKER_ROW if unclean else leaders != first
    return decide(table, settings, rows[needed], described_brokers(table), election=UNCLEAN if unclean else PREFERRED)


def isrs_altered(
    table: PartitionTable, settings: KraftSettings, rows: Int32s, isr__ri: Int16s, recovery__r: Int8s
) -> KraftElections:
    """Decide leaders' requests for new ISRs (broker rows, padded); a new ISR may complete a reassignment.

    The requests also report recovery. The caller has made the checks of validateAlterPartitionData. Source:
    alterPartition.
    """
    targets = BulkTargets(isr=isr__ri, recovery=recovery__r)
    return decide(table, settings, rows, described_brokers(table), targets=targets)


def replicas_lost(table: PartitionTable, settings: KraftSettings, broker_id: int, rows: Int32s) -> KraftElections:
    """Decide for partitions whose replica on the broker is in an offline directory: the replica leaves the ISR.

    Source: generateLeaderAndIsrUpdates with a broker to remove.
    """
    brokers__b = described_brokers(table, [table.brokers.row(broker_id)], _LEAVES)
    return decide(table, settings, rows, brokers__b)


def leaderless_rows(table: PartitionTable) -> Int32s:
    """The partitions without a leader."""
    rows = np.empty(len(table) + 1, np.int32)
    return rows[: kernels.leaderless_rows(table.replicas__ps, table.leader__p, rows)]


def _replicated_or_eligible(table: PartitionTable, broker_row: int) -> Int32s:
    """The partitions that have the broker among their replicas or in their ELR.

    An ELR keeps a replica that was moved away while the ISR was below the minimum, and the index has only replicas. So
    all ELRs are scanned if there are any: a third of a millisecond for a million partitions.
    """
    held = table.index.rows(broker_row)
    if table.elr__pi is None:
        return held
    found = np.empty(len(table) + 1, np.int32)
    eligible = found[: kernels.rows_with_member(table.elr__pi, broker_row, found)]
    not_replicas = eligible[(table.replicas__ps[eligible] != broker_row).all(axis=1)]
    return np.union1d(held, not_replicas) if len(not_replicas) else held
