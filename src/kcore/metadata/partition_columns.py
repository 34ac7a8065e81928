"""The columns of a partition table as arrays: with room to grow, wider when they must be, shown read-only."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from kcore.metadata.arrays import Array, grown, together, widened
from kcore.metadata.columns import ALL_COLUMNS
from kcore.types import Int8s, Int16s, Int32s

_ON_REPLICAS: Final = {"replicas__ps": ("replicas__ps", "directories__ps")}  # What must be equally wide.


class PartitionColumns:
    """An attribute a column, as `kcore.metadata.columns` lists them: a read-only view of the rows in use.

    A view is good until the table grows, a column gets wider, or one comes to be that was not needed before.
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
        """Owns the arrays from now on, all of one length."""
        self._room: dict[str, Array] = together(columns)  # May have room behind the rows in use.
        self.directories__ps = self.elr__pi = self.last_known_elr__pi = None
        self._show(len(columns["leader__p"]))

    def _show(self, length: int) -> None:
        self._length = length
        for name in self._room:
            self._show_column(name)

    def _show_column(self, name: str) -> None:
        view = self._room[name][: self._length]
        view.flags.writeable = False
        setattr(self, name, view)

    def __len__(self) -> int:
        """Rows, free ones included."""
        return self._length

    def _set_length(self, length: int) -> None:
        """So many rows are in use; there may be no room for them yet."""
        if length > len(self._room["leader__p"]):
            for name, array in self._room.items():  # One after the other: two of each would be too much at a time.
                self._room[name] = grown(array[: self._length], length)
        self._show(length)

    def _make(self, name: str, width: int) -> None:
        """A column that is made on demand is there, and at least so wide."""
        if name in self._room:
            self._widen(name, width)
            return
        column, rows = ALL_COLUMNS[name], len(self._room["leader__p"])
        if name == "directories__ps":
            width = self._room["replicas__ps"].shape[1]
        array = np.zeros((rows, width), column.dtype)  # Takes no memory until it is written.
        if column.fill:
            array[...] = column.fill
        self._room[name] = array
        self._show_column(name)

    def _widen(self, name: str, width: int) -> None:
        if width <= self._room[name].shape[1]:
            return
        for each in _ON_REPLICAS.get(name, (name,)):
            if each in self._room:
                self._room[each] = widened(self._room[each], width, ALL_COLUMNS[each].fill)
                self._show_column(each)

    def _write(self, name: str, rows: Int32s, values: Array) -> None:
        self._room[name][rows] = values

    def _write_lists(self, name: str, rows: Int32s, lists: Array) -> None:
        """Writes rows of a 2-D column, made wider first if it must be."""
        self._widen(name, lists.shape[1])
        width = self._room[name].shape[1]
        # Whole rows: NumPy writes them far faster than a part of each.
        self._room[name][rows] = lists if lists.shape[1] == width else widened(lists, width, ALL_COLUMNS[name].fill)

    def _write_list(self, name: str, row: int, members: list[int]) -> None:
        """The same for one row."""
        self._widen(name, len(members))
        array = self._room[name]
        array[row] = members + [ALL_COLUMNS[name].fill] * (array.shape[1] - len(members))

    def column_bytes(self) -> dict[str, int]:
        """Bytes of each column with its room to grow."""
        return {name: array.nbytes for name, array in self._room.items()}

    def _copy_columns_to(self, twin: "PartitionColumns") -> None:
        twin._room = {name: array[: self._length].copy() for name, array in self._room.items()}
        twin.directories__ps = twin.elr__pi = twin.last_known_elr__pi = None
        twin._show(self._length)
