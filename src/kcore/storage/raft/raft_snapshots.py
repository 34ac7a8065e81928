"""The snapshots in a metadata log's folder (KIP-630). An incomplete snapshot has another name than a complete one.

A snapshot that is damaged when the folder is opened is ignored: an older snapshot and the log may have its records.
"""

import logging
import os
from pathlib import Path
from typing import Final

from kcore.errors import RaftLogError
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.files import OS, FileSystem, opened, path_in, remove, sync_folder, write_all
from kcore.storage.log.holes import ASIDE, rename
from kcore.storage.raft.snapshot import SnapshotId, age, check_one_history, snapshots_in, why_damaged

logger = logging.getLogger(__name__)
PARTIAL: Final = ".part"
DAMAGED: Final = ".damaged"
DELETED: Final = ".deleted"


class RaftSnapshots:
    """A folder's snapshots. Raises OSError if the disk fails, RaftLogError for a snapshot that was not begun.

    Raises StorageError at the start if two snapshots cannot be of one log.
    """

    def __init__(self, folder: Path, files: FileSystem = OS) -> None:
        self._folder, self._files = folder, files
        found = [OffsetAndEpoch(*each) for each in snapshots_in(folder, files)]
        reasons = {each: why_damaged(self._path(each), files) for each in found}
        self.damaged = {each: why for each, why in reasons.items() if why is not None}  # The fault by snapshot.
        self._set(sorted((each for each in found if each not in self.damaged), key=age))
        check_one_history(folder, self._by_age)
        self._begun: dict[OffsetAndEpoch, int] = {}  # The file descriptors of incomplete snapshots.

    def why_damaged(self, snapshot: OffsetAndEpoch) -> str:
        """The path of a damaged snapshot, and its fault."""
        return f"{self._path(snapshot)}: {self.damaged[snapshot]}"

    def rename_damaged(self) -> None:
        """Renames the damaged snapshots, so that no process loads them."""
        for snapshot in self.damaged:
            rename(self._path(snapshot), DAMAGED, self._files)
        if self.damaged:
            sync_folder(self._folder, self._files)

    def set_aside_older(self, latest: OffsetAndEpoch, segments: list[Path], end_offset: int) -> None:
        """Renames the segments of a log that snapshot `latest` replaces, and older snapshots, so that none is lost."""
        if not any(map(self._files.size_of, segments)):
            return
        older = self.older_than(latest)
        for path in [*reversed(segments), *map(self._path, sorted(older, reverse=True))]:
            rename(path, files=self._files)
        self._set([each for each in self._by_age if each not in older])
        logger.warning(
            "%s: the log up to offset %d gives way to snapshot %d-%d, which it does not lead to. Its files are renamed "
            "to *%s: delete them, unless the snapshot is foreign",
            *(self._folder, end_offset, *latest, ASIDE),
        )

    def __contains__(self, snapshot: object) -> bool:
        return snapshot in self._by_age

    @property
    def by_age(self) -> list[OffsetAndEpoch]:
        """The complete, undamaged snapshots, oldest first."""
        return self._by_age[:]

    def _set(self, by_age: list[OffsetAndEpoch]) -> None:
        self._by_age = by_age
        self.earliest = by_age[0] if by_age else None
        self.latest = by_age[-1] if by_age else None

    @property
    def count_begun(self) -> int:
        """The number of incomplete snapshots."""
        return len(self._begun)

    def _path(self, snapshot: OffsetAndEpoch, suffix: str = "") -> Path:
        return path_in(self._folder, SnapshotId(*snapshot).file_name + suffix)

    def piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        """See `RaftLog.snapshot_piece`; no bytes for a position outside the snapshot."""
        if snapshot not in self._by_age:
            return None
        with opened(self._path(snapshot), files=self._files) as file:
            size = self._files.size(file)
            data = self._files.pread(file, max_bytes, position) if 0 <= position < size else b""
        return SnapshotPiece(data, size)

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        self._close(snapshot)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._begun[snapshot] = self._files.open(self._path(snapshot, PARTIAL), flags, 0o644)

    def append(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        """Appends bytes to an incomplete snapshot; returns its size so far. After an error no byte is appended."""
        file = self._begun_file(snapshot)
        size = self._files.size(file)
        try:
            write_all(file, data, self._files)
        except OSError:
            self._files.ftruncate(file, size)
            raise
        return size + len(data)

    def duplicate(self, snapshot: OffsetAndEpoch) -> int:
        """Another file descriptor of an incomplete snapshot; the caller closes it."""
        return self._files.dup(self._begun_file(snapshot))

    def freeze(self, snapshot: OffsetAndEpoch) -> None:
        """Completes a snapshot: makes its bytes and its name durable and, as in Kafka, its file read-only."""
        file = self._begun_file(snapshot)
        self._files.fsync(file)
        self._files.protect(file)
        self._files.replace(self._path(snapshot, PARTIAL), self._path(snapshot))
        sync_folder(self._folder, self._files)
        self._close(snapshot)
        if snapshot not in self._by_age:
            self._set(sorted([*self._by_age, snapshot], key=age))

    def _begun_file(self, snapshot: OffsetAndEpoch) -> int:
        if snapshot not in self._begun:
            raise RaftLogError(f"snapshot {SnapshotId(*snapshot).file_name} was not begun")
        return self._begun[snapshot]

    def drop(self, snapshot: OffsetAndEpoch) -> None:
        """Closes and removes an incomplete snapshot; no effect if there is no incomplete snapshot of that id."""
        if snapshot in self._begun:
            self._close(snapshot)
            remove(self._path(snapshot, PARTIAL), self._files)

    def _close(self, snapshot: OffsetAndEpoch) -> None:
        if (file := self._begun.pop(snapshot, None)) is not None:
            self._files.close(file)

    def forget(self, gone: set[OffsetAndEpoch]) -> None:
        """Deletes snapshots. Renames all of them first, so that a crash leaves no snapshot that is partly deleted."""
        if not gone:
            return
        self._set([each for each in self._by_age if each not in gone])
        for snapshot in sorted(gone):
            self._files.replace(self._path(snapshot), self._path(snapshot, DELETED))
        sync_folder(self._folder, self._files)
        for snapshot in sorted(gone):
            self._files.unlink(self._path(snapshot, DELETED))

    def older_than(self, snapshot: OffsetAndEpoch) -> set[OffsetAndEpoch]:
        return {each for each in self._by_age if age(each) < age(snapshot)}

    def below(self, offset: int) -> set[OffsetAndEpoch]:
        """The snapshots that end before `offset`."""
        return {each for each in self._by_age if each.offset < offset}

    def close(self) -> None:
        """Drops all incomplete snapshots."""
        for snapshot in [*self._begun]:
            self.drop(snapshot)
