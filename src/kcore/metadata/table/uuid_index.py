"""Maps rows to Uuids and Uuids to rows, in a form that kernels read, too."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from kcore._ext.tables import uuid_index as kernels
from kcore.metadata.table.arrays import FEWEST_SLOTS, grown
from kcore.types import ZERO_UUID, Int32s, UInt8s, Uuid


class UuidIndex:
    """One Uuid for each row. The index leaves out rows with the Uuid `absent`, such as topics without an id.

    If several rows have the same Uuid, `row` returns the row that got it last.
    """

    def __init__(self, uuids: Iterable[Uuid] = (), absent: Uuid | None = None) -> None:
        """Rows in the given order. `absent`: the Uuid that stands for none, by which no row is found."""
        self.uuids: list[Uuid] = list(uuids)
        self._absent = absent
        self._room = np.frombuffer(b"".join(chain(self.uuids, [ZERO_UUID])), np.uint8).reshape(-1, 16).copy()
        self._found = 0
        self._slots = np.empty(0, np.int32)
        self._rehash()

    def _rehash(self) -> None:
        """Build new slots, at most a quarter full, without the dropped rows."""
        rows = [row for row, uuid in enumerate(self.uuids) if uuid != self._absent]
        owners = self._slots[self._slots >= 0]
        self._slots = np.full(max(FEWEST_SLOTS, 1 << (4 * len(rows)).bit_length()), -1, np.int32)
        self._found = kernels.put_all(self._slots, self._room, np.array(rows, np.int32))
        kernels.put_all(self._slots, self._room, owners)

    def __len__(self) -> int:
        return len(self.uuids)

    @property
    def slots(self) -> Int32s:
        """The hash table, as in `_ext/tables/uuid_index.pxd`."""
        return self._slots

    @property
    def ids(self) -> UInt8s:
        """The Uuids, 16 bytes for each row; the array is longer than the rows in use."""
        return self._room

    def row(self, uuid: bytes) -> int:
        """The row of a Uuid; -1 for none."""
        return -1 if uuid == self._absent else kernels.find(self._slots, self._room, uuid)

    def append(self, uuid: Uuid) -> int:
        """Add a last row and return it."""
        row = len(self.uuids)
        if row == len(self._room):
            self._room = grown(self._room, 2 * row)
        self.uuids.append(uuid)
        self._enter(row, uuid)
        return row

    def put_run(self, first: int, uuids: UInt8s) -> None:
        """Set the rows from `first` on to `uuids`, uint8[n, 16], none of them absent. The rows are new last rows, or
        have the absent Uuid.
        """
        count, end = len(self.uuids), first + len(uuids)
        if end > len(self._room):
            self._room = grown(self._room[:count], max(end, 2 * count))
        self._room[first:end] = uuids
        self.uuids[first:end] = Uuid.many(uuids.tobytes())
        if 2 * (self._found + len(uuids)) + 2 > len(self._slots):
            self._rehash()
        self._found += kernels.put_all(self._slots, self._room, np.arange(first, end, dtype=np.int32))

    def clear(self, rows: Int32s) -> None:
        """Give these rows, each once and none of them absent, the absent Uuid."""
        assert self._absent is not None
        slots, room, uuids, absent = self._slots, self._room, self.uuids, self._absent
        for row in rows.tolist():
            self._found -= kernels.drop(slots, room, row)
            uuids[row] = absent
        room[rows] = np.frombuffer(absent, np.uint8)

    def __setitem__(self, row: int, uuid: Uuid) -> None:
        """Change the row's Uuid."""
        if self.uuids[row] != self._absent:
            self._found -= kernels.drop(self._slots, self._room, row)
        self.uuids[row] = uuid
        self._enter(row, uuid)

    def _enter(self, row: int, uuid: Uuid) -> None:
        self._room[row] = np.frombuffer(uuid, np.uint8)
        if uuid == self._absent:
            return
        if 2 * self._found + 2 > len(self._slots):
            self._rehash()
        self._found += kernels.put(self._slots, self._room, row)

    def pop(self) -> Uuid:
        """Remove the last row and return its Uuid."""
        row = len(self.uuids) - 1
        if self.uuids[row] != self._absent:
            self._found -= kernels.drop(self._slots, self._room, row)
        return self.uuids.pop()

    def copy(self) -> "UuidIndex":
        """A copy that shares nothing with this one."""
        twin = object.__new__(UuidIndex)
        twin.uuids, twin._absent, twin._found = list(self.uuids), self._absent, self._found
        twin._room, twin._slots = self._room.copy(), self._slots.copy()
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; the Uuids themselves are Python objects."""
        return self._room.nbytes + self._slots.nbytes
