"""Maps broker ids to rows and back."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.constants import MAX_BROKERS, NO_BROKER_ROW
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array, as_array, grown
from kcore.types import Int16s, Int32s
from kcore.wire.buffers import read_only

_DENSE_IDS: Final = 1 << 20  # Smaller ids are looked up in an array by id, larger ones by search.
_UNKNOWN_ROW: Final = -2
_CHUNK: Final = 1 << 18  # NumPy makes int64 copies of the ids for indexing: this bounds them.


class BrokerIds:
    """The ids of a cluster's brokers by row, and rows by id."""

    ids: Int32s  # b, read-only

    def __init__(self, ids: Int32s) -> None:
        """TableError for ids that are negative or repeated, or more than MAX_BROKERS."""
        if len(ids) > MAX_BROKERS:
            raise TableError(f"{len(ids)} brokers; at most {MAX_BROKERS} fit")
        if len(ids) and (least := ids.min()) < 0:
            raise TableError(f"broker id {least} is negative")
        self._row_of = {broker_id: row for row, broker_id in enumerate(ids.tolist())}
        if len(self._row_of) != len(ids):
            repeated = next(each for row, each in enumerate(ids.tolist()) if self._row_of[each] != row)
            raise TableError(f"broker id {repeated} is given twice")
        self._room = ids.copy()
        self._sorted: tuple[Int32s, Int16s] | None = None  # Ids ascending, and their rows; made on demand.
        small = ids[ids < _DENSE_IDS]
        self.dense = _dense(int(small.max(initial=-1)) + 1)
        self.dense[small] = np.flatnonzero(ids < _DENSE_IDS)
        self._show(len(ids))

    def _show(self, count: int) -> None:
        self.ids = read_only(self._room[:count])

    def __contains__(self, broker_id: int) -> bool:
        return broker_id in self._row_of

    def find(self, broker_id: int) -> int | None:
        """The row of one broker; None if there is none."""
        return self._row_of.get(broker_id)

    def find_each(self, broker_ids: Iterable[int]) -> list[int | None]:
        """The rows of several brokers."""
        return list(map(self._row_of.get, broker_ids))

    def row(self, broker_id: int) -> int:
        """The row of one broker; TableError if there is none."""
        try:
            return self._row_of[broker_id]
        except (KeyError, TypeError):  # An unhashable argument, such as a list.
            raise TableError(f"unknown broker {broker_id}") from None

    def rows(self, broker_ids: npt.ArrayLike) -> Int16s:
        """The rows of many brokers, in the same shape; -1 stays -1. TableError names an unknown broker."""
        ids = as_array("broker ids", broker_ids)
        if ids.size and ids.dtype.kind not in "iu":
            raise TableError(f"broker ids must be integers, not {ids.dtype}")
        rows = np.empty(ids.shape, np.int16)
        flat_ids, flat_rows = ids.reshape(-1), rows.reshape(-1)
        for start in range(0, ids.size, _CHUNK):
            chunk = flat_ids[start : start + _CHUNK]
            found = self._find(chunk)
            if found.min() == _UNKNOWN_ROW:
                raise TableError(f"unknown broker {chunk[found == _UNKNOWN_ROW][0]}")
            flat_rows[start : start + _CHUNK] = found
        return rows

    def _find(self, ids: Array) -> Int16s:
        """As `rows`, for a chunk, with -2 for an unknown broker."""
        if ids.min() >= -1 and ids.max() < len(self.dense) - 1:
            return self.dense[ids]
        missing = np.where(ids == -1, NO_BROKER_ROW, _UNKNOWN_ROW).astype(np.int16)
        if not len(self.ids):
            return missing
        if self._sorted is None:
            order = np.argsort(self.ids, kind="stable").astype(np.int16)
            self._sorted = self.ids[order], order
        ascending, by_id = self._sorted
        at = np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)
        return np.where(ascending[at] == ids, by_id[at], missing)

    def check_new(self, broker_ids: Sequence[int]) -> None:
        """TableError for a negative id, and if the table would have more than MAX_BROKERS."""
        count = len(self.ids) + len(broker_ids)
        if broker_ids and (least := min(broker_ids)) < 0:
            raise TableError(f"broker id {least} is negative")
        if count > MAX_BROKERS:
            raise TableError(f"{count} brokers; at most {MAX_BROKERS} fit")

    def append(self, broker_id: int) -> int:
        """Add a last row for an id that has none. TableError as from `check_new`."""
        self.check_new([broker_id])
        row = len(self.ids)
        if row == len(self._room):
            self._room = grown(self._room, 2 * row)
        if len(self.dense) - 1 <= broker_id < _DENSE_IDS:
            longer = _dense(min(2 * broker_id + 16, _DENSE_IDS))
            longer[: len(self.dense) - 1] = self.dense[:-1]
            self.dense = longer
        if broker_id < _DENSE_IDS:
            self.dense[broker_id] = row
        self._room[row], self._row_of[broker_id], self._sorted = broker_id, row, None
        self._show(row + 1)
        return row

    def pop(self) -> None:
        """Removes the last row."""
        row = len(self.ids) - 1
        broker_id = int(self.ids[row])
        if broker_id < _DENSE_IDS:
            self.dense[broker_id] = _UNKNOWN_ROW
        del self._row_of[broker_id]
        self._sorted = None
        self._show(row)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have only the ids; the indexes are made again."""
        return {"ids": self.ids.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        BrokerIds.__init__(self, state["ids"])

    def copy(self) -> "BrokerIds":
        """A copy that shares nothing with this one."""
        twin = object.__new__(BrokerIds)
        twin._row_of, twin._room, twin._sorted = dict(self._row_of), self._room.copy(), self._sorted
        twin.dense = self.dense.copy()
        twin._show(len(self.ids))
        return twin


def _dense(count: int) -> Int16s:
    """Rows by id, for that many ids; the last entry is for id -1."""
    dense = np.full(count + 1, _UNKNOWN_ROW, np.int16)
    dense[-1] = NO_BROKER_ROW
    return dense
