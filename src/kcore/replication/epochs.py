"""Holds leader epochs and their start offsets in a log: one log's table to read and change, many logs' tables as
columns.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter, lt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kcore.constants import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from kcore.errors import TableError
from kcore.metadata.table.arrays import as_array
from kcore.types import Int32s, Int64s


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The end of an epoch: the largest epoch up to the requested one, and the offset after its last record."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


_START_OFFSET = attrgetter("start_offset")


class EpochCache:
    """One log's epochs, ascending in epoch and in start offset (Kafka's LeaderEpochFileCache, without its file)."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """Assign `entries` one by one: an entry evicts earlier ones that contradict it."""
        self.entries: list[EpochEntry] = []
        given = [entry if type(entry) is EpochEntry else EpochEntry(*entry) for entry in entries]
        if _ascend(given):
            self.entries = given
            return
        for epoch, start_offset in given:
            self.assign(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Let `epoch` begin at `start_offset`, and remove entries with the same or a later epoch or offset. False, and
        no change, if the last entry is this epoch and begins there or before.
        """
        if epoch < 0 or start_offset < 0:
            raise TableError(f"neither epoch {epoch} nor start offset {start_offset} may be negative")
        latest = self.latest_entry
        if latest and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))
        return True

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self.entries[-1] if self.entries else None

    @property
    def latest_epoch(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def entry(self, epoch: int) -> EpochEntry | None:
        """The entry of exactly this epoch."""
        return next((entry for entry in self.entries if entry.epoch == epoch), None)

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        """The last entry of an epoch below `epoch`."""
        return next((entry for entry in reversed(self.entries) if entry.epoch < epoch), None)

    def next_entry(self, epoch: int) -> EpochEntry | None:
        """The first entry of an epoch above `epoch`."""
        return next((entry for entry in self.entries if entry.epoch > epoch), None)

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The end of the epoch, or of the last epoch below if the log lacks it; UNDEFINED without either (KIP-101)."""
        if requested_epoch == UNDEFINED_EPOCH:
            return UNDEFINED
        if requested_epoch == self.latest_epoch:
            return EpochEndOffset(requested_epoch, log_end_offset)
        above = self.next_entry(requested_epoch)
        if above is None:
            return UNDEFINED
        # Without an entry at or below the epoch, the log has deleted the epoch's data: its end is the log's start.
        floor = self.previous_entry(requested_epoch + 1)
        return EpochEndOffset(floor.epoch if floor else requested_epoch, above.start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch of the last entry at or below `offset`, even above the log's end; None without such an entry."""
        entries = self.entries
        if entries and entries[-1].start_offset <= offset:  # The usual case.
            return entries[-1].epoch
        row = bisect_right(entries, offset, key=_START_OFFSET) - 1
        return entries[row].epoch if row >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at `end_offset` or later; a negative offset removes none."""
        while end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at `start_offset` or before; the epoch that contains it then begins there."""
        epoch = self.epoch_for_offset(start_offset)
        if epoch is not None:
            self.entries = [entry for entry in self.entries if entry.epoch > epoch]
            self.entries.insert(0, EpochEntry(epoch, start_offset))


def _ascend(entries: Sequence[EpochEntry]) -> bool:
    """True if each entry ascends from the one before, as in a log: then no entry evicts another."""
    if not entries:
        return True
    epochs, starts = zip(*entries, strict=True)
    if epochs[0] < 0 or starts[0] < 0:
        return False
    return all(map(lt, epochs, epochs[1:])) and all(map(lt, starts, starts[1:]))


@dataclass(frozen=True)
class EpochTables:
    """The epochs of many partitions: row r's are `epochs[row_offsets[r]:row_offsets[r + 1]]`, with their `starts`.

    Both ascend within a row. `log_ends` and `high_watermarks` (followers need them) have one offset a row. Raises
    TableError otherwise, so that functions that take an EpochTables need not check it again.
    """

    epochs: Int32s
    starts: Int64s
    row_offsets: Int64s
    log_ends: Int64s
    high_watermarks: Int64s | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # The way to set a frozen dataclass's field.
        set_field(self, "epochs", column("epochs", self.epochs, np.int32))
        for name in ("starts", "row_offsets", "log_ends", "high_watermarks"):
            if getattr(self, name) is not None:
                set_field(self, name, column(name, getattr(self, name), np.int64))
        # Read-only, since kernels use them as indexes without a check.
        set_field(self, "row_offsets", self.row_offsets.copy())
        self.row_offsets.flags.writeable = False
        check_rows(self.epochs, self.starts, self.row_offsets, self.log_ends)
        if self.high_watermarks is not None and len(self.high_watermarks) != len(self):
            raise TableError(f"{len(self.high_watermarks)} high watermarks for {len(self)} rows")
        if len(self.epochs):
            self._check_order()

    def _check_order(self) -> None:
        begins = np.zeros(len(self.epochs), np.bool_)
        occupied = self.row_offsets[:-1] < self.row_offsets[1:]
        begins[self.row_offsets[:-1][occupied]] = True
        for name, values in (("epochs", self.epochs), ("starts", self.starts)):
            if values[begins].min() < 0:
                raise TableError(f"{name} must not be negative")
            if not (begins[1:] | (values[1:] > values[:-1])).all():
                raise TableError(f"{name} must ascend within a row")
        if (self.starts[self.row_offsets[1:][occupied] - 1] > self.log_ends[occupied]).any():
            raise TableError("an epoch begins after the end of its log")

    def __len__(self) -> int:
        return len(self.log_ends)

    @property
    def columns(self) -> tuple[Int32s, Int64s, Int64s, Int64s]:
        """The arguments of the kernels: epochs, starts, row offsets, log ends."""
        return self.epochs, self.starts, self.row_offsets, self.log_ends

    @classmethod
    def of(
        cls,
        tables: Sequence[Sequence[tuple[int, int]]],
        log_ends: Sequence[int],
        high_watermarks: Sequence[int] | None = None,
    ) -> "EpochTables":
        """Make the tables from one sequence of (epoch, start offset) for each partition."""
        try:
            entries = [entry for table in tables for entry in table]
            epochs, starts = [epoch for epoch, _ in entries], [start for _, start in entries]
            row_offsets = np.cumsum([0, *map(len, tables)], dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise TableError(f"an epoch is a pair of a number and its start offset: {error}") from None
        return cls(
            column("epochs", epochs, np.int32),
            column("starts", starts, np.int64),
            row_offsets,
            column("log_ends", log_ends, np.int64),
            None if high_watermarks is None else column("high_watermarks", high_watermarks, np.int64),
        )


def column(name: str, values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """`values` as a contiguous column of `dtype`, without a copy if it is one; TableError if they do not fit."""
    array = as_array(name, values)
    if array.ndim != 1:
        raise TableError(f"{name} must have one dimension, not {array.ndim}")
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    if array.size and array.dtype.kind not in "iu":
        raise TableError(f"{name} must be whole numbers, not {array.dtype}")
    if array.size and not (np.iinfo(dtype).min <= array.min() and array.max() <= np.iinfo(dtype).max):
        raise TableError(f"{name} do not fit into {np.dtype(dtype)}")
    return array.astype(dtype)


def check_rows(epochs: Int32s, starts: Int64s, row_offsets: Int64s, log_ends: Int64s) -> None:
    """TableError unless `row_offsets` divide the entries into as many rows as there are log ends."""
    if len(starts) != len(epochs):
        raise TableError(f"{len(starts)} starts for {len(epochs)} epochs")
    if len(row_offsets) != len(log_ends) + 1:
        raise TableError(f"{len(row_offsets)} row offsets for {len(log_ends)} rows, not {len(log_ends) + 1}")
    if row_offsets[0] != 0 or row_offsets[-1] != len(epochs) or (row_offsets[1:] < row_offsets[:-1]).any():
        raise TableError(f"row offsets must ascend from 0 to {len(epochs)}")
