"""Owns the arrays of a partition table: with room to grow, widened on demand, and read-only for readers."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from kcore._ext.tables import row_images as kernels
from kcore.errors import TableError
from kcore.metadata.image.journal import RowImages
from kcore.metadata.table.arrays import Array, grown, together, widened
from kcore.metadata.table.column_list import ALL_COLUMNS, ON_DEMAND_COLUMNS
from kcore.types import Int8s, Int16s, Int32s
from kcore.wire.buffers import read_only

# Rows that are prepared ahead, so that partitions that come one by one do not write every column twice.
_FREE_AHEAD: Final = 64
_AHEAD: Final = 16  # A column grows when less than one row in this many is free.
_WIDENED_AT_ONCE: Final = 1 << 18  # Rows that a part copies: the first use of memory takes far longer than the copy.
_ON_REPLICAS: Final = {"replicas__ps": ("replicas__ps", "directories__ps")}  # Columns that must be equally wide.


class PartitionColumns:
    """One attribute for each column of `kcore.metadata.table.column_list`: a read-only view of the rows in use.

    A view is valid until the table grows, a column is widened, or a column is added on demand. NumPy refuses to make a
    view writable, and the table refuses to replace an array: TableError.
    """

    topic_row__p: Int32s
    partition_index__p: Int32s
    replicas__ps: Int16s
    isr__pi: Int16s
    leader__p: Int16s
    leader_epoch__p: Int32s
    partition_epoch__p: Int32s
    controller_epoch__p: Int32s
    leader_recovery_state__p: Int8s
    directories__ps: Int32s | None
    elr__pi: Int16s | None
    last_known_elr__pi: Int16s | None

    def __init__(self, columns: Mapping[str, Array]) -> None:
        """Takes ownership of the arrays, which must have the same length."""
        self._own(together(columns), len(columns["leader__p"]))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ALL_COLUMNS:
            raise TableError(f"{name} is read-only: only the table's methods change it")
        super().__setattr__(name, value)

    def _own(self, columns: dict[str, Array], length: int) -> None:
        self.layout_version = 0  # Changes with `layout`.
        vars(self).update((column.name, None) for column in ON_DEMAND_COLUMNS)
        self._length = self._free_to = length  # Rows from `_length` to `_free_to` have the values of free rows.
        self._room: dict[str, Array] = {}  # Arrays that may have room after the rows in use.
        self._read_only: dict[str, Array] = {}  # The same arrays as read-only views, for readers.
        for name, array in columns.items():
            self._set_room(name, array)

    def _set_room(self, name: str, array: Array) -> None:
        """Replace the column's array."""
        view = read_only(array)
        self._room[name], self._read_only[name] = array, view
        vars(self)[name] = view[: self._length]

    def _show(self, length: int) -> None:
        attributes = vars(self)
        attributes["_length"] = length
        for name, view in self._read_only.items():
            attributes[name] = view[:length]

    def __len__(self) -> int:
        """The number of rows, free ones included."""
        return self._length

    def _set_length(self, length: int) -> None:
        """Set the number of rows. Added rows are free, and removed rows must be free."""
        known = self._length
        if length > known:
            self._make_room(length)
        if length > self._free_to:
            begin = max(known, self._free_to)
            self._free_to = min(length + _FREE_AHEAD, *map(len, self._room.values()))
            for name, array in self._room.items():
                array[begin : self._free_to] = ALL_COLUMNS[name].nothing
        self._show(length)

    def _make_room(self, length: int) -> None:
        """Make room for that many rows in every column. A call also grows one column that is nearly full.

        Copying a column of a million rows takes some milliseconds; copying all of them together would delay requests.
        """
        known = self._length
        narrow = [name for name, array in self._room.items() if len(array) < length]
        if not narrow:
            least = min(self._room, key=lambda name: len(self._room[name]))
            narrow = [least] if len(self._room[least]) < length + length // _AHEAD else []
        for name in narrow:  # One after the other: two copies of each would take too much memory.
            self._set_room(name, grown(self._room[name][:known], length + length // _AHEAD))
            self._free_to = known

    def _make(self, name: str, width: int) -> None:
        """Make a column of ON_DEMAND_COLUMNS, or widen it, so that it is at least `width` wide."""
        if name in self._room:
            self._widen(name, width)
            return
        column, rows = ALL_COLUMNS[name], min(map(len, self._room.values()))
        if name == "directories__ps":
            width = self._room["replicas__ps"].shape[1]
        array = np.zeros((rows, width), column.dtype)  # Takes no memory until it is written.
        if column.nothing:
            array[...] = column.nothing
        self.layout_version += 1
        self._set_room(name, array)

    def widening(self, name: str, width: int) -> Iterator[None]:
        """Widen a 2-D column, and the columns that must be equally wide, if needed.

        A part copies some rows of one column; the table changes after the last part. The rows must not change
        meanwhile.
        """
        if width <= self._room[name].shape[1]:
            return
        room = dict[str, Array]()
        for each in self._as_wide_as(name):
            rows = self._room[each]
            room[each] = np.empty((len(rows), width), rows.dtype)
            for begin in range(0, len(rows), _WIDENED_AT_ONCE):
                part = rows[begin : begin + _WIDENED_AT_ONCE]
                room[each][begin : begin + _WIDENED_AT_ONCE] = widened(part, width, ALL_COLUMNS[each].nothing)
                if len(rows) > _WIDENED_AT_ONCE:
                    yield
        self._widen(name, width, room)

    def _as_wide_as(self, name: str) -> list[str]:
        return [each for each in _ON_REPLICAS.get(name, (name,)) if each in self._room]

    def _widen(self, name: str, width: int, room: Mapping[str, Array] = MappingProxyType({})) -> None:
        """Widen a column and those that must be equally wide. `room`: the wide arrays, if they are made already."""
        if width <= self._room[name].shape[1]:
            return
        self.layout_version += 1
        for each in self._as_wide_as(name):
            wide = room.get(each)
            self._set_room(each, widened(self._room[each], width, ALL_COLUMNS[each].nothing) if wide is None else wide)

    def _write_lists(self, name: str, rows: Int32s, lists: Array) -> None:
        """Write rows of a 2-D column, widened first if needed."""
        self._widen(name, lists.shape[1])
        width = self._room[name].shape[1]
        # Whole rows: NumPy writes them far faster than a part of each.
        self._room[name][rows] = lists if lists.shape[1] == width else widened(lists, width, ALL_COLUMNS[name].nothing)

    def _write_list(self, name: str, row: int, members: Sequence[int]) -> None:
        """As `_write_lists`, for one row."""
        self._widen(name, len(members))
        array = self._room[name]
        array[row] = [*members, *[ALL_COLUMNS[name].nothing] * (array.shape[1] - len(members))]

    def columns_in_use(self) -> dict[str, Array]:
        """The columns by name, without the room after the rows in use."""
        return {name: array[: self._length] for name, array in self._room.items()}

    def column_arrays(self) -> tuple[Array, ...]:
        """For kernels: all existing columns with their room, in the order of `layout`."""
        return tuple(self._room.values())

    def arrays_by_name(self) -> tuple[Array | None, ...]:
        """For kernels: the columns in the order of ALL_COLUMNS, None for a missing one."""
        return tuple(self._room.get(name) for name in ALL_COLUMNS)

    def layout(self) -> dict[str, tuple[int, int]]:
        """The place and width in bytes of each column in a row's image: one after the other."""
        places: dict[str, tuple[int, int]] = {}
        end = 0
        for name, array in self._room.items():
            width = array.itemsize * (array.shape[1] if array.ndim > 1 else 1)
            places[name], end = (end, width), end + width
        return places

    def _restore_columns(self, images: RowImages) -> None:
        """Restore saved rows; columns and parts of columns that did not exist when they were saved become empty."""
        layout = [(*images.layout.get(name, (0, 0)), ALL_COLUMNS[name].nothing & 0xFF) for name in self._room]
        rows, count = images.rows[: images.count], images.count
        kernels.restore(self.column_arrays(), rows, images.images[:count], np.array(layout, np.int64))

    def column_bytes(self) -> dict[str, int]:
        """Bytes of each column with its room to grow."""
        return {name: array.nbytes for name, array in self._room.items()}

    def _copy_columns_to(self, twin: "PartitionColumns", room: Mapping[str, Array]) -> None:
        copies = {name: _copied(array[: self._length], room.get(name)) for name, array in self._room.items()}
        twin._own(copies, self._length)


def _copied(array: Array, room: Array | None) -> Array:
    """A copy, in `room` if that array is large enough."""
    if room is None or room.shape[1:] != array.shape[1:] or len(room) < len(array):
        return array.copy()
    room[: len(array)] = array
    return room
