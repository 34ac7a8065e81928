"""The undo journal of an image: the state before each change, batch by batch.

A controller applies its records as soon as it has decided them, and must be able to revert records that are never
committed. Before a change, the journal saves the values that the change overwrites: rows of partitions as packed
images, everything else by key. `commit` drops the entries of committed batches; `revert_to` writes saved values back,
newest first.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Final, Protocol

import numpy as np

from kcore._ext.tables import row_images as kernels
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array, grown
from kcore.types import Int32s, UInt8s

_FEW_ROWS: Final = 16


class Columns(Protocol):
    """The part of a partition table that the journal needs: its columns as kernels take them."""

    @property
    def layout_version(self) -> int: ...

    def layout(self) -> dict[str, tuple[int, int]]: ...

    def column_arrays(self) -> tuple[Array, ...]: ...


class RowImages:
    """Saved rows of a partition table, in the order of their changes; all have one layout of the columns."""

    def __init__(self, table: Columns) -> None:
        self.layout, self.version = table.layout(), table.layout_version
        self._stride = sum(width for _, width in self.layout.values())
        self.count = 0
        self.rows: Int32s = np.empty(_FEW_ROWS, np.int32)
        self.images: UInt8s = np.empty((_FEW_ROWS, self._stride), np.uint8)

    def reserve(self, count: int) -> None:
        """Make room for that many more rows."""
        wanted = self.count + count
        if wanted > len(self.rows):
            room = max(wanted, 2 * len(self.rows))
            self.rows, self.images = grown(self.rows[: self.count], room), grown(self.images[: self.count], room)

    def as_it_is(self) -> "RowImages":
        """A copy with the rows saved so far; later calls of `save` do not change it."""
        twin = copy(self)
        twin.rows, twin.images = self.rows[: self.count], self.images[: self.count]
        return twin

    def save(self, table: Columns, rows: Int32s) -> None:
        """Save the present values of these rows."""
        self.reserve(len(rows))
        kernels.save(table.column_arrays(), rows, self.images, self.count)
        self.rows[self.count : self.count + len(rows)] = rows
        self.count += len(rows)


Undo = tuple[Any, ...]  # A function of the image and its further arguments.


class Journal:
    """Undo entries by batch. Offsets are offsets of the metadata log."""

    def __init__(self) -> None:
        self._entries: list[Undo] = []
        self._offsets: list[int] = []  # Offset of the first record of each kept batch, ascending.
        self._begins: list[int] = []  # Where the batch begins in `_entries`, counted from the first entry ever kept.
        self._dropped = 0
        self._committed = 0

    def __len__(self) -> int:
        """Number of kept entries."""
        return len(self._entries)

    def begin(self, offset: int) -> None:
        """Begin the batch at this offset. TableError unless offsets ascend."""
        if self._offsets and offset <= self._offsets[-1]:
            raise TableError(f"a batch at offset {offset} behind one at {self._offsets[-1]}")
        self._offsets.append(offset)
        self._begins.append(self._dropped + len(self._entries))

    @property
    def last_batch(self) -> int | None:
        """The offset of the last kept batch."""
        return self._offsets[-1] if self._offsets else None

    def add(self, undo: Callable[..., None], *arguments: Any) -> None:
        """Save how to revert a change that is about to be made: undo(image, *arguments)."""
        self._entries.append((undo, *arguments))

    def save_rows(self, table: Columns, rows: Int32s) -> None:
        """Save the present values of rows that are about to change."""
        self.images_of(table).save(table, rows)

    def images_of(self, table: Columns) -> RowImages:
        """Where the next rows are saved: the last entry if it is of this batch and layout, or a new entry."""
        begins_batch = bool(self._begins) and self._begins[-1] == self._dropped + len(self._entries)
        if self._entries and not begins_batch and self._entries[-1][0] is _restore_rows:
            last: RowImages = self._entries[-1][1]
            if last.version == table.layout_version:
                return last
        images = RowImages(table)
        self.add(_restore_rows, images)
        return images

    def commit(self, offset: int) -> None:
        """Commit all records below `offset`, where a batch ends, and drop their undo entries."""
        self._committed = max(self._committed, offset)
        batches = bisect_left(self._offsets, offset)
        end = self._begins[batches] if batches < len(self._begins) else self._dropped + len(self._entries)
        del self._entries[: end - self._dropped], self._offsets[:batches], self._begins[:batches]
        self._dropped = end

    def revert_copy(self, twin: object, offset: int) -> Iterator[None]:
        """Revert a copy of the image to its state before the batch at `offset`; the journal does not change.

        Each step reverts one of the entries at the time of the call; the image and the journal may change meanwhile.
        """
        self._check_is_kept(offset)
        first = bisect_left(self._offsets, offset)
        begin = self._begins[first] - self._dropped if first < len(self._begins) else len(self._entries)
        entries = self._entries[begin:]
        if entries and entries[-1][0] is _restore_rows:  # The journal may add rows to this entry.
            entries[-1] = (_restore_rows, entries[-1][1].as_it_is())
        return _reverted(twin, entries)

    def _check_is_kept(self, offset: int) -> None:
        if offset < self._committed:
            raise TableError(f"records below {self._committed} are committed: the image cannot be reverted to {offset}")

    def taken_back(self, offset: int) -> Iterator[Undo]:
        """Undo entries that revert all batches from `offset` on, one by one; TableError if one of them is committed.

        Until the last entry is taken, `revert_copy` reverts the remaining entries of these batches.
        """
        self._check_is_kept(offset)
        first = bisect_left(self._offsets, offset)
        begin = self._begins[first] if first < len(self._begins) else self._dropped + len(self._entries)
        while self._dropped + len(self._entries) > begin:
            yield self._entries.pop()
        first = bisect_left(self._offsets, offset)  # Earlier batches may have been committed meanwhile.
        del self._offsets[first:], self._begins[first:]


def _reverted(twin: object, entries: list[Undo]) -> Iterator[None]:
    for undo, *arguments in reversed(entries):
        undo(twin, *arguments)
        yield


class _HasTable(Protocol):
    """The part of an image that reverting a change needs."""

    @property
    def table(self) -> "_RestoresRows": ...


class _RestoresRows(Protocol):
    def restore_rows(self, images: RowImages) -> None: ...


def _restore_rows(image: _HasTable, images: RowImages) -> None:
    image.table.restore_rows(images)
