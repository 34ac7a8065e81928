"""The snapshots beside a metadata log: written under another name, whole and durable under their own (KIP-630)."""

import os
from pathlib import Path
from typing import Final

from kcore.errors import RaftLogError
from kcore.raft.log import SnapshotPiece
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.files import open_file, open_reader, sync_folder
from kcore.storage.snapshot import SnapshotId, snapshots_in

PARTIAL: Final = ".part"
DELETED: Final = ".deleted"


def age(snapshot: tuple[int, int]) -> tuple[int, int]:
    """What (offset, epoch) are ordered by: the epoch goes first (OffsetAndEpoch)."""
    offset, epoch = snapshot
    return epoch, offset


class RaftSnapshots:
    """A folder's snapshots. OSError where the disk fails; RaftLogError for one that was not begun."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole = {OffsetAndEpoch(*found) for found in snapshots_in(folder)}
        self._begun: dict[OffsetAndEpoch, int] = {}  # File descriptors.

    def __contains__(self, snapshot: object) -> bool:
        return snapshot in self._whole

    @property
    def by_age(self) -> list[OffsetAndEpoch]:
        """The whole ones, oldest first."""
        return sorted(self._whole, key=age)

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        return min(self._whole, key=age, default=None)

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return max(self._whole, key=age, default=None)

    def _path(self, snapshot: OffsetAndEpoch, suffix: str = "") -> Path:
        return self._folder / (SnapshotId(*snapshot).file_name + suffix)

    def piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        """As RaftLog has it; no bytes for a position that is not in it."""
        if snapshot not in self._whole:
            return None
        with open_reader(self._path(snapshot)) as file:
            size = os.fstat(file.fileno()).st_size
            data = os.pread(file.fileno(), max_bytes, position) if 0 <= position < size else b""
        return SnapshotPiece(data, size)

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        self._close(snapshot)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._begun[snapshot] = open_file(self._path(snapshot, PARTIAL), flags, 0o644)

    def append(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        """The size so far. After an error nothing of `data` is there."""
        file = self._begun_file(snapshot)
        size = os.fstat(file).st_size
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(file, view) :]
        except OSError:
            os.ftruncate(file, size)
            raise
        return size + len(data)

    def duplicate(self, snapshot: OffsetAndEpoch) -> int:
        """Another file descriptor of one that was begun, which the caller closes."""
        return os.dup(self._begun_file(snapshot))

    def freeze(self, snapshot: OffsetAndEpoch) -> None:
        """Read only from here on, as Kafka has it, and durable, its name too."""
        file = self._begun_file(snapshot)
        os.fsync(file)
        os.fchmod(file, 0o444)
        self._path(snapshot, PARTIAL).replace(self._path(snapshot))
        sync_folder(self._folder)
        self._close(snapshot)
        self._whole.add(snapshot)

    def _begun_file(self, snapshot: OffsetAndEpoch) -> int:
        if snapshot not in self._begun:
            raise RaftLogError(f"snapshot {SnapshotId(*snapshot).file_name} was not begun")
        return self._begun[snapshot]

    def drop(self, snapshot: OffsetAndEpoch) -> None:
        """Closes and removes what was begun; nothing happens if there is none of that id."""
        if snapshot in self._begun:
            self._close(snapshot)
            self._path(snapshot, PARTIAL).unlink(missing_ok=True)

    def _close(self, snapshot: OffsetAndEpoch) -> None:
        if (file := self._begun.pop(snapshot, None)) is not None:
            os.close(file)

    def forget(self, gone: set[OffsetAndEpoch]) -> None:
        """Removes these: first, of all of them, the name, so that none is offered that is half gone."""
        if not gone:
            return
        self._whole -= gone
        for snapshot in gone:
            self._path(snapshot).replace(self._path(snapshot, DELETED))
        sync_folder(self._folder)
        for snapshot in gone:
            self._path(snapshot, DELETED).unlink()

    def older_than(self, snapshot: OffsetAndEpoch) -> set[OffsetAndEpoch]:
        return {each for each in self._whole if age(each) < age(snapshot)}

    def below(self, offset: int) -> set[OffsetAndEpoch]:
        """Those that end before that offset."""
        return {each for each in self._whole if each.offset < offset}

    def close(self) -> None:
        """What was begun is not finished any more."""
        for snapshot in [*self._begun]:
            self.drop(snapshot)
