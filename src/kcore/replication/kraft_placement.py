"""Places new partitions as the KRaft controller: their brokers, directories and leaders.

Source: ReplicationControlManager.createTopic, BrokerHeartbeatManager.usableBrokers, StripedReplicaPlacer.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.errors import PlacementError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import MIGRATING
from kcore.replication.java_random import hash_map_order
from kcore.replication.kraft_moves import default_directories
from kcore.replication.levels import Level
from kcore.replication.placement import Racks
from kcore.types import Bools, Int32s


class UsableBrokers(NamedTuple):
    """The brokers that may get replicas, in the order of Kafka's controller."""

    ids: Int32s
    racks: Racks
    fenced: Bools  # Fenced brokers get replicas only if the others do not suffice, and never the first replica.


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The first state of new partitions. Brokers are ids, padded with -1.

    The epochs of new partitions are 0, and their LeaderRecoveryState is RECOVERED.
    """

    replicas__ps: Int32s
    directories__ps: Int32s  # Rows of the DirectoryTable, 0 in unused slots.
    isr__pi: Int32s
    leaders: Int32s  # p


def usable_brokers(
    brokers: BrokerTable, level: Level, *, shutting_down: Collection[int] | None = None
) -> UsableBrokers:
    """Registered brokers that are not shutting down; from 4.3.1 on, without brokers whose directories are all cordoned.

    Kafka's controller learns from heartbeats which brokers are `shutting_down` (ids). With None, these are
    the unfenced brokers that are in controlled shutdown by the log. A broker that registers again is fenced. Source:
    KIP-841, KIP-1066.
    """
    if shutting_down is None:
        going = brokers.in_controlled_shutdown__b & ~brokers.fenced__b
    else:
        going = np.isin(brokers.ids, list(shutting_down))
    usable = brokers.registered__b & ~going
    if level.skips_cordoned_brokers:
        usable &= ~all_cordoned__b(brokers)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(brokers.ids[rows])]
    rows = rows[hash_map_order(brokers.ids[rows].tolist())]
    racks = [brokers.racks[row] for row in rows.tolist()]
    return UsableBrokers(brokers.ids[rows], racks, brokers.fenced__b[rows])


def all_cordoned__b(brokers: BrokerTable) -> Bools:
    """True for each broker row whose directories are all cordoned (KIP-1066).

    False for a broker without directories, and for a broker of whose directories it is unknown which are cordoned.
    """
    rows = zip(brokers.directories, brokers.cordoned_directories, strict=True)
    return np.array([bool(own) and cordoned is not None and {*own} <= {*cordoned} for own, cordoned in rows], np.bool_)


def new_partitions(brokers: BrokerTable, level: Level, replicas__ps: Int32s) -> NewPartitions:
    """New partitions on these brokers (ids, padded). Active brokers are in sync, and the first active broker leads.

    Raises PlacementError for a partition without an active replica, TableError for an unknown broker.
    """
    rows = brokers.rows(replicas__ps)
    active = np.append(brokers.live & ~brokers.in_controlled_shutdown__b, False)[rows]
    if len(waiting := np.flatnonzero(~active.any(axis=1))):
        raise PlacementError(
            f"new partition {waiting[0]} would have no leader: its brokers are fenced or in controlled shutdown"
        )
    members = np.where(active, replicas__ps, np.int32(NO_BROKER_ROW))
    isr = np.take_along_axis(members, np.argsort(~active, axis=1, kind="stable"), axis=1)
    return NewPartitions(
        replicas__ps=replicas__ps,
        directories__ps=np.append(default_directories(brokers, level), np.int32(MIGRATING))[rows],
        isr__pi=isr,
        leaders=isr[:, 0].copy(),
    )
