"""Applies many KRaft changes to a partition table at once, as PartitionRegistration.merge does to one."""

from typing import Final

import numpy as np

from kcore.constants import NO_BROKER_ROW, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERING
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array, as_integers, padded, widened
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.directory_table import MIGRATING
from kcore.metadata.table.partition_rows import PartitionRows
from kcore.metadata.table.validation import MAX_EPOCH, check_broker_rows, check_directories, check_range, check_replicas
from kcore.types import Bools, Int16s, Int32s
from kcore.wire.columns import Vectors

_LISTS: Final = {"isr__pi": "isr", "elr__pi": "elr", "last_known_elr__pi": "last_known_elr"}
_MOVES: Final = ("adding", "removing")


def apply_kraft_changes(table: PartitionRows, changes: KraftChanges) -> None:
    """Apply decided changes. TableError, with nothing changed, for unknown rows or brokers, or invalid lists."""
    rows = table.known_rows(changes.rows)
    values: dict[str, Array] = {}
    for column, field in _LISTS.items():
        lists: Vectors | None = getattr(changes, field)
        if lists is not None:
            values[column] = _brokers(table, column, field, rows, lists)
    if changes.replicas is not None:
        values["replicas__ps"] = _brokers(table, "replicas__ps", "replicas", rows, changes.replicas)
        check_replicas(values["replicas__ps"], table.brokers)
    values |= _directories(table, changes, rows, values.get("replicas__ps"))
    values |= _leaders(table, changes, rows)
    if changes.recovery is not None:
        recovery = as_integers("recovery", changes.recovery, np.int8, rows.shape)
        check_range("leader recovery state", recovery, NO_RECOVERY_CHANGE, RECOVERING)
        known = table.leader_recovery_state__p[rows]
        values["leader_recovery_state__p"] = np.where(recovery == NO_RECOVERY_CHANGE, known, recovery)
    values["partition_epoch__p"] = _one_more("partition epoch", table.partition_epoch__p[rows], True)
    moves = {part: _moves(table, rows, getattr(changes, part)) for part in _MOVES}
    table.write_rows(rows, values, moves)


def _valid(lists: Vectors, count: int) -> Bools:
    if len(lists) != count:
        raise TableError(f"{len(lists)} lists for {count} rows")
    return np.ones(count, np.bool_) if lists.valid is None else lists.valid


def _brokers(table: PartitionRows, column: str, field: str, rows: Int32s, lists: Vectors) -> Int16s:
    """The column's rows after the change: the given brokers, or the present ones."""
    valid = _valid(lists, len(rows))
    given = table.brokers.rows(padded(lists.offsets, lists.values))
    check_broker_rows(field, given, table.brokers)
    return _given_or_known(table, column, rows, given, valid)


def _given_or_known(table: PartitionRows, column: str, rows: Int32s, given: Array, valid: Bools) -> Array:
    known: Array | None = getattr(table, column)
    if known is None or valid.all():
        return given
    width = max(given.shape[1], known.shape[1])
    fill = MIGRATING if column == "directories__ps" else NO_BROKER_ROW
    return np.where(valid[:, None], widened(given, width, fill), widened(known[rows], width, fill))


def _directories(table: PartitionRows, changes: KraftChanges, rows: Int32s, after: Int16s | None) -> dict[str, Array]:
    """The directories of all replicas; MIGRATING if replicas change without directories and their number differs."""
    if changes.directories is None and (after is None or table.directories__ps is None):
        return {}
    replicas = table.replicas__ps[rows] if after is None else after
    counts = (replicas != NO_BROKER_ROW).sum(axis=1)
    kept = (counts == (table.replicas__ps[rows] != NO_BROKER_ROW).sum(axis=1))[:, None]
    width = max(replicas.shape[1], table.replicas__ps.shape[1])
    known = np.zeros((len(rows), width), np.int32)
    if table.directories__ps is not None:
        known = np.where(kept, widened(table.directories__ps[rows], width, MIGRATING), MIGRATING)
    if (lists := changes.directories) is not None:
        valid, lengths = _valid(lists, len(rows)), np.diff(lists.offsets)
        if (wrong := valid & (lengths != 0) & (lengths != counts)).any():
            row = int(wrong.argmax())
            raise TableError(f"{lengths[row]} directories for the {counts[row]} replicas of row {rows[row]}")
        given = padded(lists.offsets, lists.values)
        given[given == NO_BROKER_ROW] = MIGRATING
        known = np.where(valid[:, None], widened(given, width, MIGRATING), known)
    known = known.astype(np.int32)
    check_directories(known, widened(replicas, width), table.brokers)
    return {"directories__ps": known}


def _leaders(table: PartitionRows, changes: KraftChanges, rows: Int32s) -> dict[str, Array]:
    if changes.leaders is None:
        return {}
    leaders = as_integers("leaders", changes.leaders, np.int32, rows.shape)
    named = leaders != NO_LEADER_CHANGE
    found = table.brokers.rows(np.where(named, leaders, NO_BROKER_ROW))
    return {
        "leader__p": np.where(named, found, table.leader__p[rows]),
        "leader_epoch__p": _one_more("leader epoch", table.leader_epoch__p[rows], named),
    }


def _one_more(name: str, epochs: Int32s, rises: Bools | bool) -> Int32s:
    if ((epochs == MAX_EPOCH) & rises).any():
        raise TableError(f"a {name} cannot rise any more")
    return epochs + np.asarray(rises, np.int32)


def _moves(table: PartitionRows, rows: Int32s, lists: Vectors | None) -> dict[int, tuple[int, ...]]:
    """The broker rows of `lists` (adding or removing replicas) by partition row; () if a partition now has none."""
    if lists is None:
        return {}
    valid = _valid(lists, len(rows))
    offsets, brokers = lists.offsets.tolist(), table.brokers.rows(lists.values).tolist()
    spans = zip(rows.tolist(), valid.tolist(), offsets, offsets[1:], strict=False)
    return {row: tuple(brokers[first:end]) for row, is_given, first, end in spans if is_given}


def clear_elr(table: PartitionRows, rows: Int32s) -> None:
    """Remove the eligible leader replicas of `rows`; partitions that had any get a new partition epoch (KIP-966)."""
    had = np.zeros(len(rows), np.bool_)
    for column in (table.elr__pi, table.last_known_elr__pi):
        if column is not None and column.shape[1]:
            had |= column[rows, 0] != NO_BROKER_ROW
    changed = rows[had]
    if not len(changed):
        return
    changed = np.sort(changed)
    no_brokers = np.full((len(changed), 1), NO_BROKER_ROW, np.int16)
    epochs = _one_more("partition epoch", table.partition_epoch__p[changed], True)
    table.write_rows(changed, {"elr__pi": no_brokers, "last_known_elr__pi": no_brokers, "partition_epoch__p": epochs})
