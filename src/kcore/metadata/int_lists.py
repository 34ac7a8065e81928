"""Lists of integers of any length, a row each, in three flat columns."""

from array import array
from collections.abc import Sequence

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.metadata.arrays import Array
from kcore.types import Int32s, Int64s


class IntLists:
    """Rows of integers of any length, one behind the other."""

    def __init__(self) -> None:
        self._values, self._starts, self._counts = array("i"), array("q"), array("i")

    def append(self, row: Sequence[int]) -> None:
        """A new last row."""
        self._starts.append(len(self._values))
        self._counts.append(len(row))
        self._values.extend(row)

    def append_all(self, counts: Array, values: Array) -> None:
        """New last rows, of so many values each."""
        self._starts.frombytes((len(self._values) + np.cumsum(counts) - counts).astype(np.int64).tobytes())
        self._counts.frombytes(counts.astype(np.int32).tobytes())
        self._values.frombytes(values.astype(np.int32).tobytes())

    def __getitem__(self, row: int) -> tuple[int, ...]:
        start = self._starts[row]
        return tuple(self._values[start : start + self._counts[row]])

    def __setitem__(self, row: int, values: Sequence[int]) -> None:
        if len(values) > self._counts[row]:
            self._starts[row] = len(self._values)
            self._values.extend(values)
        else:
            start = self._starts[row]
            self._values[start : start + len(values)] = array("i", values)
        self._counts[row] = len(values)

    def set_all(self, rows: Array, counts: Array, values: Array) -> None:
        """Each of `rows` becomes the next so many of the values; of a row that is there twice, the last counts."""
        if not len(rows):
            return
        begins = np.cumsum(counts) - counts
        last = last_places(rows)
        rows, counts, begins = rows[last], counts[last], begins[last]
        longer = counts > np.frombuffer(self._counts, np.int32)[rows]
        room, end = np.where(longer, counts, 0), len(self._values)
        self._values.frombytes(bytes(int(room.sum()) * self._values.itemsize))
        starts = np.frombuffer(self._starts, np.int64)
        starts[rows[longer]] = end + (np.cumsum(room) - room)[longer]
        np.frombuffer(self._counts, np.int32)[rows] = counts
        np.frombuffer(self._values, np.int32)[places(starts[rows], counts)] = values[places(begins, counts)]

    def counts(self, rows: Array) -> Int32s:
        """How many integers each of those rows has."""
        counts: Int32s = np.frombuffer(self._counts, np.int32)[rows]
        return counts

    def padded(self, rows: Array) -> Int32s:
        """Those rows as a 2-D array padded with -1."""
        starts, counts = np.array(self._starts, np.int64)[rows], np.array(self._counts, np.int32)[rows]
        slots = np.arange(counts.max(initial=0))
        used = slots < counts[:, None]
        table = np.full(used.shape, NO_BROKER_ROW, np.int32)
        table[used] = np.array(self._values, np.int32)[(starts[:, None] + slots)[used]]
        return table


def places(begins: Array, counts: Array) -> Int64s:
    """begins[0], begins[0] + 1 ... of counts[0] values, then those of the next."""
    flat: Int64s = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return flat


def last_places(rows: Array) -> Int64s:
    """Ascending, the places in `rows` whose row does not come again."""
    if (rows[1:] > rows[:-1]).all():
        return np.arange(len(rows))
    _, from_the_end = np.unique(rows[::-1], return_index=True)
    return np.sort(len(rows) - 1 - from_the_end)
