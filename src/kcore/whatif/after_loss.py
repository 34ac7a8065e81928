"""The cluster after a loss: the state that its controller would store, for questions that follow the first one.

KRaft's controller fences one broker after the other, in the order in which their sessions end. The order decides which
of several lost brokers are in an ELR: those that left the ISR with fewer members than min.insync.replicas. With
unclean elections and reassignments it may also decide who leads. An `Outcome` decides about all lost brokers at once.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kcore.metadata.table.broker_table import BrokerTable
from kcore.replication.bulk_elections import rows_of
from kcore.replication.kraft_results import KraftElections
from kcore.types import Int32s, Uuid
from kcore.whatif.cluster import Cluster
from kcore.whatif.outcome import rows_in
from kcore.whatif.scenario import Losses, Scenario, losses_of


def after_loss(cluster: Cluster, scenario: Scenario) -> Cluster:
    """The cluster after the loss: leaders, ISRs, ELRs and epochs as decided; lost brokers and directories are gone.

    KRaft's controller fences the brokers in the scenario's order, then all others by row. TableError for what the
    cluster does not have.
    """
    losses = losses_of(scenario, cluster.table)
    now = Cluster(cluster.table.copy(), cluster.level, cluster.settings)
    brokers = now.table.brokers
    for leaving in [losses.brokers] if cluster.level.zookeeper else _in_order(scenario, losses, brokers):
        _lose(now, leaving, rows_of(now.table, leaving) if leaving else np.empty(0, np.int32))
        brokers.set_lost(int(brokers.ids[row]) for row in leaving)
    for owner in dict.fromkeys(losses.owner_of.values()):
        lost = [each for each, row in losses.owner_of.items() if row == owner]
        _lose(now, (owner,), np.unique(np.concatenate([rows_in(now, each, owner) for each in lost])))
        _lose_directories(brokers, int(brokers.ids[owner]), {now.table.directories.uuids[each] for each in lost})
    return Cluster(now.table, cluster.level, cluster.settings)


def _in_order(scenario: Scenario, losses: Losses, brokers: BrokerTable) -> Iterable[tuple[int, ...]]:
    """Each lost broker by itself, by row."""
    named = [brokers.row(each) for each in scenario.brokers]
    return [(row,) for row in dict.fromkeys([*named, *losses.brokers])]


def _lose(cluster: Cluster, leaving: tuple[int, ...], rows: Int32s) -> None:
    """Applies the decision about the partitions `rows`, ascending."""
    changes = cluster.decide_loss(leaving, rows)
    cluster.table.apply(changes if isinstance(changes, KraftElections) else changes.written())


def _lose_directories(brokers: BrokerTable, broker_id: int, lost: set[Uuid]) -> None:
    """Takes directories out of the registration."""
    broker = brokers[broker_id]
    brokers.put(replace(broker, directories=tuple(each for each in broker.directories if each not in lost)))
