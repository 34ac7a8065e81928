"""The records for each change of a broker's state. All records are decided on the state before the change.

Source: handleBrokerFenced, handleBrokerUnfenced, handleBrokerInControlledShutdown, handleDirectoriesOffline and
handleDirectoriesCordoned of ReplicationControlManager.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

import numpy as np

from kcore.controller.kraft.decision import Records, Versioned
from kcore.controller.kraft.departures import OFFLINE_LEADERS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication import kraft_events
from kcore.replication.kraft_results import KraftElections
from kcore.schema.metadata_records_brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
)
from kcore.steps import finished
from kcore.types import Int32s, Uuid

DECIDED_AT_ONCE: Final = 1 << 15  # Most partitions in one part of a decision; a part takes a few milliseconds.
SHUT_DOWN_AT_ONCE: Final = 1 << 10  # Most partitions that a shutdown changes before its heartbeat is answered.
FENCE: Final = 1  # BrokerRegistrationFencingChange
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1  # BrokerRegistrationInControlledShutdownChange


def fenced(context: ControllerContext, broker_ids: Sequence[int]) -> list[Records]:
    """The records that fence brokers: first changes of partitions, so that no prefix of the log has a fenced leader.

    Each partition changes once for all of these brokers, so that none of them is elected in place of another.
    """
    return finished(fenced_in_parts(context, broker_ids))


def fenced_in_parts(context: ControllerContext, broker_ids: Sequence[int]) -> Generator[None, None, list[Records]]:
    """The records of `fenced`, made in parts. The state must not change between the parts."""
    records: list[Records] = []
    table, settings = context.image.table, context.kraft_settings()
    for changes in kraft_events.brokers_fenced_in_parts(table, settings, broker_ids, at_once=DECIDED_AT_ONCE):
        records += _if_any(changes)
        yield
    return [*records, *(_fencing(context, broker_id, FENCE) for broker_id in broker_ids)]


def unfenced(context: ControllerContext, broker_id: int, offline: Sequence[Uuid]) -> list[Records]:
    """The records that unfence a broker and elect it for leaderless partitions that it may lead.

    Partitions in directories that the same heartbeat reports as `offline` are left out, except in Kafka's way
    ("offline-directories-lead").
    """
    table, settings = context.image.table, context.kraft_settings()
    failed: list[int] = []
    if offline and context.version.directories_supported and OFFLINE_LEADERS not in context.config.kafka_way:
        failed = listed_directories(context, broker_id, offline)
    lost = [*_rows_by_directory(table, failed)] if failed else []
    passed_over = np.unique(np.concatenate(lost)) if lost else None
    changes = kraft_events.broker_unfenced(table, settings, broker_id, passed_over=passed_over)
    return [_fencing(context, broker_id, UNFENCE), *_if_any(changes)]


def controlled_shutdown(context: ControllerContext, broker_id: int) -> list[Records]:
    """The records that begin a controlled shutdown: the broker leaves ISRs with other members, and leads no partition.

    If the broker has many partitions, only the first ones change; `rest_of_shutdown` changes the others.
    """
    table = context.image.table
    changes = next(_leaving(context, broker_id, SHUT_DOWN_AT_ONCE))
    row = table.brokers.row(broker_id)
    if table.brokers.in_controlled_shutdown__b[row] or not context.version.controlled_shutdown_in_log:
        return list(_if_any(changes))
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=int(table.brokers.epochs[row]),
        in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
    )
    return [Versioned(record, 1), *_if_any(changes)]


def is_shut_down_in_parts(context: ControllerContext, broker_id: int) -> bool:
    """True if `controlled_shutdown` leaves partitions for `rest_of_shutdown`."""
    table = context.image.table
    return len(table.index.rows(table.brokers.row(broker_id))) > SHUT_DOWN_AT_ONCE


def rest_of_shutdown(context: ControllerContext, broker_id: int) -> Generator[None, None, list[Records]]:
    """The changes of all partitions whose ISR a broker in controlled shutdown must still leave, made in parts."""
    records: list[Records] = []
    for changes in _leaving(context, broker_id, DECIDED_AT_ONCE):
        records += _if_any(changes)
        yield
    return records


def _leaving(context: ControllerContext, broker_id: int, at_once: int) -> Iterator[KraftElections]:
    return kraft_events.brokers_fenced_in_parts(
        context.image.table, context.kraft_settings(), [broker_id], at_once=at_once
    )


def directories_offline(context: ControllerContext, broker_id: int, offline: Sequence[Uuid]) -> list[Records]:
    """The records that mark directories of the broker as offline; directories that it has not registered are ignored.

    The broker leaves the ISR of every partition with a replica in an offline directory, even if the replica is another
    broker's. A broker that has been unregistered since may have registered the directory. Deleted topics are not
    affected; Kafka's controller throws for a deleted topic with an empty ISR.
    """
    table, brokers = context.image.table, context.image.brokers
    row, uuids, given = brokers.row(broker_id), context.image.directories.uuids, frozenset(offline)
    newly_offline = listed_directories(context, broker_id, offline)
    if not newly_offline:
        return []
    changes = (
        kraft_events.replicas_lost(table, context.kraft_settings(), broker_id, rows)
        for rows in _rows_by_directory(table, newly_offline)
    )
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=int(brokers.epochs[row]),
        log_dirs=[uuids[each] for each in brokers.directories[row] if uuids[each] not in given],
    )
    return [*(each for each in changes if len(each)), Versioned(record, 2)]


def listed_directories(context: ControllerContext, broker_id: int, directories: Sequence[Uuid]) -> list[int]:
    """The rows of the given directories that the broker's registration lists, in the registration's order."""
    brokers, uuids, given = context.image.brokers, context.image.directories.uuids, frozenset(directories)
    return [each for each in brokers.directories[brokers.row(broker_id)] if uuids[each] in given]


def _rows_by_directory(table: PartitionTable, directories: Sequence[int]) -> Iterator[Int32s]:
    """The partitions with a replica in each directory. Reads all partitions once per directory."""
    if table.directories__ps is None:
        return
    width = table.directories__ps.shape[1]
    for directory in directories:
        rows = np.flatnonzero(table.directories__ps.ravel() == directory) // width
        yield rows[np.append(True, rows[1:] != rows[:-1])[: len(rows)]].astype(np.int32)


def directories_cordoned(context: ControllerContext, broker_id: int, cordoned: Sequence[Uuid]) -> list[Records]:
    """The record that cordons exactly these directories: they get no new replicas; empty if unchanged (KIP-1066)."""
    brokers, uuids = context.image.brokers, context.image.directories.uuids
    row = brokers.row(broker_id)
    known = brokers.cordoned_directories[row]
    if known is not None and {uuids[each] for each in known} == set(cordoned):
        return []
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=int(brokers.epochs[row]), cordoned_log_dirs=list(cordoned)
    )
    return [Versioned(record, 3)]


def _fencing(context: ControllerContext, broker_id: int, change: int) -> Versioned:
    brokers = context.image.brokers
    epoch = int(brokers.epochs[brokers.row(broker_id)])
    if context.version.broker_registration_changes_supported:
        return Versioned(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=change))
    kind = FenceBrokerRecord if change == FENCE else UnfenceBrokerRecord
    return Versioned(kind(id=broker_id, epoch=epoch))


def _if_any(changes: KraftElections) -> Iterator[Records]:
    if len(changes):
        yield changes
