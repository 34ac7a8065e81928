"""Holds the log directories of a cluster's replicas, by row (KIP-858)."""

from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.metadata.image.recorder import Recorder
from kcore.metadata.table.arrays import Array, grown
from kcore.metadata.table.uuid_index import UuidIndex
from kcore.types import Int16s, Uuid
from kcore.wire.buffers import read_only

MIGRATING_UUID: Final = Uuid(bytes(16))
UNASSIGNED_UUID: Final = Uuid(bytes(15) + b"\1")
LOST_UUID: Final = Uuid(bytes(15) + b"\2")
RESERVED: Final = (MIGRATING_UUID, UNASSIGNED_UUID, LOST_UUID)

MIGRATING: Final = 0  # DirectoryId.MIGRATING: the broker has not reported the directory of an old replica yet.
UNASSIGNED: Final = 1  # DirectoryId.UNASSIGNED: the broker has not chosen a directory for a new replica yet.
LOST: Final = 2  # DirectoryId.LOST: any of the broker's offline directories.

_RESERVED_IDS: Final = 100


def is_reserved_directory(directory: bytes) -> bool:
    """True for an id that no directory may have; the lower half is compared as signed (DirectoryId.reserved)."""
    return not any(directory[:8]) and int.from_bytes(directory[8:], signed=True) < _RESERVED_IDS


class DirectoryTable:
    """Directories by row: first the three reserved directories, then others in the order of their first mention.

    A row is never reused. The broker's registration decides whether a directory is online. A replica of broker b in
    directory d is online if d is MIGRATING or UNASSIGNED, or `owner__d[d] == b`. It is also online if d is not LOST and
    broker b lists no directory at all (KAFKA-16162). Source: org.apache.kafka.common.DirectoryId.isOnline.
    """

    owner__d: Int16s  # The row of the broker whose registration lists the directory; -1 for none. Read-only.

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self._index = UuidIndex(RESERVED)
        self._owner = np.full(16, NO_BROKER_ROW, np.int16)
        self._show()

    def _show(self) -> None:
        self.owner__d = read_only(self._owner[: len(self._index)])

    def __len__(self) -> int:
        return len(self._index)

    @property
    def uuids(self) -> list[Uuid]:
        """The Uuid of each row."""
        return self._index.uuids

    @property
    def index(self) -> UuidIndex:
        """The hash table for kernels."""
        return self._index

    def row(self, uuid: bytes) -> int:
        """The row of a directory; -1 if it has none."""
        return self._index.row(uuid)

    def name(self, uuids: Iterable[bytes]) -> tuple[int, ...]:
        """The rows of these directories; new ones are added, all at once."""
        new: dict[bytes, int] = {}
        first = len(self)
        rows = tuple(
            found if (found := self._index.row(uuid)) >= 0 else new.setdefault(uuid, first + len(new)) for uuid in uuids
        )
        if new:
            self._append(new)
        return rows

    def _append(self, uuids: Collection[bytes]) -> None:
        first, end = len(self), len(self) + len(uuids)
        if self.recorder is not None:
            self.recorder.undo(lambda image, count: image.directories.truncate(count), first)
        self._index.put_run(first, np.frombuffer(b"".join(uuids), np.uint8).reshape(-1, 16))
        if end > len(self._owner):
            self._owner = grown(self._owner, max(end, 2 * first))
        self._owner[first:end] = NO_BROKER_ROW
        self._show()

    def truncate(self, count: int) -> None:
        """Keep only the first `count` rows: reverted changes added the later ones."""
        while len(self._index) > count:
            self._index.pop()
        self._show()

    def set_owner(self, rows: Iterable[int], broker_row: int) -> None:
        """Make the broker the owner of these directories, except reserved ones."""
        for row in rows:
            if row >= len(RESERVED):
                self.write_owner(row, broker_row)

    def disown(self, rows: Iterable[int], broker_row: int) -> None:
        """Remove the broker as the owner of these directories."""
        for row in rows:
            if self._owner[row] == broker_row:
                self.write_owner(row, NO_BROKER_ROW)

    def write_owner(self, row: int, broker_row: int) -> None:
        """Set the owner; -1 for none."""
        if self.recorder is not None:
            before = int(self._owner[row])
            self.recorder.undo(lambda image: image.directories.write_owner(row, before))
        self._owner[row] = broker_row

    def online(self, broker_rows: Array, directories: Array, lists_directories__b: Array) -> Array:
        """True where replicas of these brokers in these directories are online, in the same shape.

        `lists_directories__b`: BrokerTable's. False for broker -1.
        """
        certain = (directories == MIGRATING) | (directories == UNASSIGNED)
        silent = ~np.append(lists_directories__b, True)[broker_rows] & (directories != LOST)
        found: Array = (certain | silent | (self.owner__d[directories] == broker_rows)) & (broker_rows != NO_BROKER_ROW)
        return found

    def copy(self) -> "DirectoryTable":
        """A copy that shares nothing with this one."""
        twin = object.__new__(DirectoryTable)
        twin._index, twin._owner, twin.recorder = self._index.copy(), self._owner.copy(), None
        twin._show()
        return twin

    def __copy__(self) -> "DirectoryTable":
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have the Uuids and their owners, without the recorder."""
        return {"index": self._index, "owner": self._owner[: len(self._index)].copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._index, self._owner, self.recorder = state["index"], state["owner"], None
        self._show()

    def __repr__(self) -> str:
        return f"<DirectoryTable: {len(self) - len(RESERVED)} besides the reserved ones>"

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._index.nbytes + self._owner.nbytes
