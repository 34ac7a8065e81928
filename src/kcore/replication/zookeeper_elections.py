"""The ZooKeeper-mode controller's elections in bulk (kafka.controller.Election, KafkaController of 3.9.1)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from kcore._ext.elections.election import CALLS, LEAVES, MAY_LEAD, STAYS
from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW
from kcore.errors import LevelError
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.bulk_elections import (
    NEVER,
    BrokerFlags,
    ZooKeeperElections,
    columns_of,
    decide,
    rows_not_led_by_first,
    rows_of,
    rows_that_call,
    unclean_by_partition,
)
from kcore.replication.levels import Level
from kcore.replication.policy import ElectionPolicy
from kcore.types import Int32s, Int64s

KINDS: Final = ("offline", "reassign", "preferred", "controlled-shutdown")

_ALL_SLOTS: Final = 2**MAX_REPLICAS - 1
_FIRST_SLOT: Final = 1
_NO_CHOICES: Final = np.empty(0, np.int8)

# Partitions without an online leader elect; offline replicas leave the ISR.
_OFFLINE: Final = BrokerFlags(down=CALLS, live=MAY_LEAD | STAYS, shutting_down=CALLS)
# All given partitions elect, whatever their leader is.
_OFFLINE_ROWS: Final = BrokerFlags(down=CALLS, live=CALLS | MAY_LEAD | STAYS, shutting_down=CALLS)
_KEEP_ISR: Final = BrokerFlags(down=CALLS | STAYS, live=CALLS | STAYS | MAY_LEAD, shutting_down=CALLS | STAYS)
# A broker that is down stays in the ISR here: only brokers that shut down leave.
_SHUTDOWN: Final = BrokerFlags(down=STAYS, live=MAY_LEAD | STAYS, shutting_down=0, without_leader=0)
_SHUTDOWN_ROWS: Final = BrokerFlags(down=CALLS | STAYS, live=CALLS | MAY_LEAD | STAYS, shutting_down=CALLS)
_LEAVING: Final = CALLS | LEAVES


def offline(
    table: PartitionTable,
    rows: Int32s | None,
    leaving: Sequence[int],
    unclean: bool | npt.ArrayLike | None,
    rules: Level,
    policy: ElectionPolicy | None = None,
) -> ZooKeeperElections:
    """leaderForOffline, or the policy in its place; without `rows`, all actions of KafkaController.onBrokerFailure."""
    # Without `rows` this is onBrokerFailure. leaderForOffline alone does not spare a live ISR member.
    if rows is None:
        return brokers_failed(table, leaving, unclean, rules, policy=policy)
    brokers = _OFFLINE_ROWS.of(table.brokers, leaving, CALLS)
    return _offline(table, rows, brokers, unclean, rules, policy, spares_live_isr=False)


def brokers_failed(
    table: PartitionTable,
    leaving: Sequence[int],
    unclean: bool | npt.ArrayLike | None,
    rules: Level,
    *,
    among: Int32s | None = None,
    policy: ElectionPolicy | None = None,
) -> ZooKeeperElections:
    """All actions of KafkaController.onBrokerFailure; with `among` only for these partitions, ascending.

    No unclean election begins while an ISR member is live (collectUncleanLeaderElectionState).
    """
    brokers = _OFFLINE.of(table.brokers, leaving, _LEAVING)
    if among is None:
        among = rows_of(table, leaving) if leaving else rows_that_call(table, brokers)
    return _offline(table, among, brokers, unclean, rules, policy, spares_live_isr=True)


def _offline(
    table: PartitionTable,
    rows: Int32s,
    brokers: Int64s,
    unclean: bool | npt.ArrayLike | None,
    rules: Level,
    policy: ElectionPolicy | None,
    *,
    spares_live_isr: bool,
) -> ZooKeeperElections:
    columns = columns_of(table)
    choices = policy.choose(columns, brokers, rows) if policy else _NO_CHOICES
    allowed = unclean_by_partition(unclean, len(table))
    rule = (_ALL_SLOTS, True, spares_live_isr, rules.leader_recovery_supported)
    return decide(columns, brokers, rows, allowed, choices, *rule)


def preferred(table: PartitionTable, rows: Int32s | None, leaving: Sequence[int]) -> ZooKeeperElections:
    """leaderForPreferredReplica; without `rows`, for every partition that another replica leads."""
    brokers = _KEEP_ISR.of(table.brokers, leaving, CALLS | STAYS)
    rows = rows_not_led_by_first(table) if rows is None else rows
    rule = (NEVER, _NO_CHOICES, _FIRST_SLOT, False, False, False)
    return decide(columns_of(table), brokers, rows, *rule)


def reassign(table: PartitionTable, rows: Int32s | None, leaving: Sequence[int]) -> ZooKeeperElections:
    """leaderForReassign: from the replicas that stay; without `rows`, for every partition being reassigned."""
    brokers = _KEEP_ISR.of(table.brokers, leaving, CALLS | STAYS)
    if rows is None:
        rows = np.array(sorted(table.adding.keys() | table.removing.keys()), np.int32)
    replicas, isr, leader, leader_epoch, partition_epoch, recovery = columns_of(table)
    replicas = replicas[rows]
    for at, row in enumerate(rows.tolist()):
        if row in table.removing:
            replicas[at, np.isin(replicas[at], table.removing[row])] = NO_BROKER_ROW
    columns = (replicas, isr[rows], leader[rows], leader_epoch[rows], partition_epoch[rows], recovery[rows])
    rule = (NEVER, _NO_CHOICES, _ALL_SLOTS, False, False, False)
    elections = decide(columns, brokers, np.arange(len(rows), dtype=np.int32), *rule)
    return replace(elections, rows=rows[elections.rows], failed=rows[elections.failed])


def controlled_shutdown(table: PartitionTable, rows: Int32s | None, leaving: Sequence[int]) -> ZooKeeperElections:
    """leaderForControlledShutdown; without `rows`, all actions of KafkaController.doControlledShutdown."""
    if rows is not None:
        brokers = _SHUTDOWN_ROWS.of(table.brokers, leaving, CALLS)
    elif not leaving:
        raise LevelError("a controlled shutdown needs the broker that is leaving, or rows")
    else:
        brokers = _SHUTDOWN.of(table.brokers, leaving, _LEAVING)
        rows = rows_of(table, leaving)
        rows = rows[np.count_nonzero(table.replicas__ps[rows] >= 0, axis=1) > 1]
    rule = (NEVER, _NO_CHOICES, _ALL_SLOTS, False, False, False)
    return decide(columns_of(table), brokers, rows, *rule)
