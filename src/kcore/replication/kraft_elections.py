"""The KRaft controller's elections in bulk for `kraft_elect`, by kind of election instead of by event."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from kcore._ext.elections import partition_change as kernels
from kcore._ext.elections.election import CALLS, LEAVES
from kcore.errors import LevelError, TableError
from kcore.metadata.table.arrays import as_array
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.bulk_elections import ALWAYS, NEVER, rows_not_led_by_first, rows_of, unclean_by_partition
from kcore.replication.kraft_changes import (
    CONFIGURED,
    PREFERRED,
    UNCLEAN,
    KraftSettings,
    Setting,
    decide,
    described_brokers,
)
from kcore.replication.kraft_events import leaderless_rows
from kcore.replication.kraft_results import KraftElections
from kcore.replication.levels import Level
from kcore.types import Int32s, Int64s

KINDS: Final = ("online", "unclean", "preferred", "controlled-shutdown")
_ELECTIONS: Final = {"unclean": UNCLEAN, "preferred": PREFERRED}


def elect_kraft(
    kind: str,
    table: PartitionTable,
    rows: Int32s | None,
    leaving: Sequence[int],
    settings: KraftSettings,
) -> KraftElections:
    """Elects by one kind; without `rows`, in the partitions that Kafka's controller would consider."""
    if kind == "controlled-shutdown" and not leaving and rows is None:
        raise LevelError("a controlled shutdown needs the broker that is leaving, or rows")
    fences = rows is None and len(leaving) > 0 and kind != "preferred"
    brokers__b = described_brokers(table, leaving, CALLS | LEAVES if fences else CALLS)
    rows = _candidates(kind, table, leaving, brokers__b) if rows is None else rows
    election, only = _ELECTIONS.get(kind, CONFIGURED), kernels.LEAVING_ISR_ONLY if fences else 0
    return decide(table, settings, rows, brokers__b, election=election, leaving=only)


def _candidates(kind: str, table: PartitionTable, leaving: Sequence[int], brokers__b: Int64s) -> Int32s:
    if kind == "preferred":
        return rows_not_led_by_first(table)
    if leaving:
        return rows_of(table, leaving)
    if kind == "unclean":
        return leaderless_rows(table)
    return _rows_without_active_leader(table, brokers__b)


def _rows_without_active_leader(table: PartitionTable, brokers__b: Int64s) -> Int32s:
    """The partitions that have no leader, or whose leader may not lead."""
    rows = np.empty(len(table) + 1, np.int32)
    owner__d = None if table.directories__ps is None else table.directories.owner__d
    columns = (table.replicas__ps, table.leader__p, table.directories__ps, owner__d, brokers__b, rows)
    return rows[: kernels.rows_without_active_leader(*columns)]


def settings_of(
    table: PartitionTable,
    rules: Level,
    unclean: bool | npt.ArrayLike | None,
    min_isr: int | npt.ArrayLike,
    elr: bool,
) -> KraftSettings:
    """Settings from arguments of `elect`; TableError for arrays without one entry a partition."""
    if (unclean is None or isinstance(unclean, bool)) and isinstance(min_isr, int):
        return _uniform_settings(rules, bool(unclean), min_isr, elr)
    allowed = unclean_by_partition(unclean, len(table))
    return KraftSettings(
        rules,
        elr,
        unclean=Setting.by_partition(allowed) if len(allowed) == len(table) else Setting(allowed),
        min_isr=_min_isr(min_isr, len(table)),
    )


@lru_cache(maxsize=256)
def _uniform_settings(rules: Level, unclean: bool, min_isr: int, elr: bool) -> KraftSettings:
    return KraftSettings(rules, elr, Setting(ALWAYS if unclean else NEVER), _min_isr(min_isr, 0))


def _min_isr(min_isr: int | npt.ArrayLike, partitions: int) -> Setting:
    given = as_array("min_isr", min_isr)
    if given.dtype.kind not in "iu" or given.shape not in ((), (partitions,)):
        raise TableError(f"min_isr is a number or {partitions} of them, not {given.dtype} of shape {given.shape}")
    if given.size and not 1 <= given.min() <= given.max() < 2**31:
        raise TableError("min_isr must be 1 or more")
    wanted = np.atleast_1d(given).astype(np.int32)
    return Setting.by_partition(wanted) if given.ndim else Setting(wanted)
