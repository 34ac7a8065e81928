"""The KRaft controller's elections in bulk: ReplicationControlManager, without eligible leader replicas."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from kcore._ext import election as kernels
from kcore._ext.election import CALLS, LEAVES, MAY_LEAD
from kcore.constants import NO_BROKER_ROW
from kcore.metadata.partition_table import PartitionTable
from kcore.replication.elections import (
    ALWAYS,
    NEVER,
    BrokerFlags,
    KraftElections,
    columns_of,
    decide,
    rows_not_led_by_first,
    rows_of,
    rows_that_call,
    unclean_by_partition,
)
from kcore.replication.levels import Level
from kcore.types import Int32s, Int64s

KINDS: Final = ("online", "unclean", "preferred")

_ACTIVE: Final = BrokerFlags(down=CALLS, live=MAY_LEAD, shutting_down=CALLS)  # ClusterControlManager.isActive


def elect_kraft(
    kind: str,
    table: PartitionTable,
    rows: Int32s | None,
    leaving: Sequence[int],
    unclean: bool | npt.ArrayLike | None,
    rules: Level,
) -> KraftElections:
    """Elections of one kind; without `rows`, for those that the controller would look at.

    Replicas stay as they are: a reassignment is finished by the ISR change that makes it complete, never by these.
    """
    fences = rows is None and len(leaving) > 0 and kind != "preferred"
    brokers = _ACTIVE.of(table.brokers, leaving, CALLS | LEAVES if fences else CALLS)
    if rows is None:
        rows = _candidates(kind, table, leaving, brokers)
    allowed = unclean_by_partition(unclean, len(table)) if kind == "online" else ALWAYS if kind == "unclean" else NEVER
    rule = (kind == "preferred", fences, rules.leader_recovery_supported, rules.epoch_bump_on_isr_shrink)
    return decide(KraftElections, kernels.kraft, columns_of(table), brokers, rows, allowed, *rule)


def _candidates(kind: str, table: PartitionTable, leaving: Sequence[int], brokers__b: Int64s) -> Int32s:
    if kind == "preferred":
        return rows_not_led_by_first(table)
    if leaving:
        return rows_of(table, leaving)
    if kind == "unclean":
        leaderless = (table.leader__p == NO_BROKER_ROW) & (table.replicas__ps[:, 0] != NO_BROKER_ROW)
        return np.flatnonzero(leaderless).astype(np.int32)
    return rows_that_call(table, brokers__b)
