"""Appends batches to a partition's log unchanged, and writes indexes and leader epochs as Kafka does."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from kcore.errors import DecodeError, StorageError
from kcore.replication.epochs import EpochCache
from kcore.storage.checkpoints import LEADER_EPOCHS, read_leader_epochs, write_leader_epochs
from kcore.storage.files import OS, Closing, FileSystem, is_there, path_in, sync_folder, write_all, write_file
from kcore.storage.log.holes import Damage, repair
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import OFFSET_INDEX, TIME_INDEX, Segment, base_offset_of, beside, segment_path
from kcore.wire.record_batch import (
    INDEX_INTERVAL_BYTES,
    MOST_RELATIVE_OFFSET,
    RecordBatches,
    index_entries,
    scan_batches,
    steps_of,
)

logger = logging.getLogger(__name__)
SEGMENT_BYTES: Final = 1 << 30  # The default of log.segment.bytes.


def write_indexes(path: Path, interval_bytes: int = INDEX_INTERVAL_BYTES, files: FileSystem = OS) -> None:
    """Rebuilds a segment's `.index` and `.timeindex` from its valid batches, as Kafka's recovery does."""
    with Segment(path, files) as segment:
        if segment.valid_bytes != len(segment):
            raise StorageError(f"{path}: only {segment.valid_bytes} of {len(segment)} bytes are valid batches")
        try:
            entries = index_entries(segment.batches, segment.base_offset, interval_bytes)
        except DecodeError as error:
            raise StorageError(f"{path}: {error}") from None
    written = {OFFSET_INDEX: entries.offset_index(), TIME_INDEX: entries.time_index()}
    for suffix, data in written.items():
        write_file(beside(path, suffix), data, files)
    sync_folder(path.parent, files)


def epochs_of(segments: Sequence[Path], files: FileSystem = OS) -> EpochCache:
    """The leader epochs of the batches in these segments, each with its first offset."""
    entries: list[tuple[int, int]] = []
    for path in segments:
        with Segment(path, files) as segment:
            batches = scan_batches(segment.data, check_crc=False, stop=True)
        epochs = batches.partition_leader_epoch
        rows = np.flatnonzero(steps_of(epochs, -1))
        entries += zip(epochs[rows].tolist(), batches.base_offset[rows].tolist(), strict=True)
    return EpochCache(entries)


class LogWriter(Closing):
    """Writes to a partition's folder, as its only writer. With `sync`, batches are durable when `append` returns."""

    def __init__(
        self,
        folder: Path,
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        epochs: EpochCache | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        set_aside: bool = False,
        files: FileSystem = OS,
    ) -> None:
        """Opens the folder, which is created if needed, and recovers its log: truncates a torn or damaged end.

        Raises StorageError if whole batches follow damage; with `set_aside`, renames the files with these batches.
        `start_offset` is where a new log begins. For a log that the caller has recovered, `end_offset` is its end, and
        `epochs` are its leader epochs, if known.
        """
        files.mkdir(folder)
        self.folder, self._files = folder, files
        self._segment_bytes, self._interval_bytes, self._set_aside = segment_bytes, index_interval_bytes, set_aside
        self._epochs = epochs if epochs is not None else self._read_epochs()
        paths = segment_files(folder, files)
        if end_offset is None:
            end_offset = self._recover(paths[-1]) if paths else start_offset
        self.end_offset = end_offset
        self._open(paths[-1] if paths else segment_path(folder, start_offset))

    def _read_epochs(self) -> EpochCache:
        path = path_in(self.folder, LEADER_EPOCHS)
        return EpochCache(read_leader_epochs(path, self._files) if is_there(path, self._files) else ())

    def _recover(self, path: Path) -> int:
        """Truncates the last segment and the epochs to the valid batches; returns the log's end offset."""
        with Segment(path, self._files) as segment:
            valid_bytes = segment.valid_bytes
            is_torn = valid_bytes < len(segment)
            batches, problems = segment.batches, segment.problems
            kept = batches.position < valid_bytes
            if problems and problems[0].offset < valid_bytes:
                raise StorageError(f"{path}: {problems[0]}")  # The CRC does not cover a batch's base offset.
            last = (batches.base_offset + batches.last_offset_delta)[kept]
            end_offset = int(last[-1]) + 1 if last.size else segment.base_offset
        if is_torn:
            damage = Damage(path, valid_bytes, end_offset, problems[0].message)
            repair(damage, (), set_aside=self._set_aside, is_lost=False, files=self._files)
        known = len(self._epochs.entries)
        self._epochs.truncate_from_end(end_offset)  # A crash may have come between writing an epoch and its batch.
        if last.size and not self._knows_epoch(int(batches.partition_leader_epoch[kept][-1]), end_offset - 1):
            self._epochs, known = epochs_of(segment_files(self.folder, self._files), self._files), -1
            logger.warning("%s does not fit the log, and is rebuilt from it", self.folder / LEADER_EPOCHS)
        if len(self._epochs.entries) != known:
            write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), self._epochs.entries, self._files)
        return end_offset

    def _knows_epoch(self, epoch: int, last_offset: int) -> bool:
        """Whether the file has `epoch`, the last batch's, at `last_offset`; true for a batch without an epoch."""
        return epoch < 0 or self._epochs.epoch_for_offset(last_offset) == epoch

    def _open(self, path: Path) -> None:
        self._file = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._path = path
        self.base_offset = base_offset_of(path)
        self.size = self._files.size(self._file)  # Bytes of the segment that is written to.
        sync_folder(self.folder, self._files)

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Sets the size at which a segment is full, from the next append on."""
        self._segment_bytes = segment_bytes

    def moved_to(self, folder: Path) -> None:
        """Changes the paths after the folder was renamed to `folder`."""
        self.folder, self._path = folder, folder / self._path.name

    @property
    def epochs(self) -> EpochCache:
        """The leader epochs, which `assign_epoch` and `append` change."""
        return self._epochs

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Records that a leader epoch begins at `start_offset`; durable on return."""
        if self._epochs.assign(epoch, start_offset):
            write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), self._epochs.entries, self._files)

    def append(
        self, data: bytes, *, sync: bool = True, batches: RecordBatches | None = None, roll: bool = False
    ) -> int:
        """Appends whole record batches, which already have their offsets and epochs; returns the log's new end offset.

        `batches`: the result of `scan_batches(data)`, if already known. `roll`: start a new segment, even if the last
        segment is not full. Raises DecodeError unless `data` is whole batches with matching CRCs, StorageError for
        offsets below the log's end or epochs below the last epoch. Writes nothing in these cases.
        """
        batches = scan_batches(data) if batches is None else batches
        self._check(batches)
        if len(batches):
            first_offset, last_offset = int(batches.base_offset[0]), int(batches.last_offset[-1])
            self.write(data, first_offset, last_offset, self._new_epochs(batches), sync=sync, roll=roll)
        return self.end_offset

    def write(
        self,
        data: bytes,
        first_offset: int,
        last_offset: int,
        epochs: Sequence[tuple[int, int]],
        *,
        sync: bool,
        roll: bool = False,
    ) -> None:
        """Appends checked batches, and the (epoch, start offset) pairs that begin in them; `roll` as in `append`."""
        full = roll or self.size + len(data) > self._segment_bytes or self._file < 0  # Closed by a roll that failed.
        if self.size and (full or last_offset - self.base_offset > MOST_RELATIVE_OFFSET):
            self.roll(first_offset)
        if epochs:
            self._write_with_epochs(data, epochs)
        else:
            self._write(data)
        if sync:
            self._files.fsync(self._file)
        self.end_offset = last_offset + 1

    def _check(self, batches: RecordBatches) -> None:
        if (bad := np.flatnonzero(~batches.crc_matches)).size:
            raise DecodeError("a record batch whose CRC does not match", int(batches.position[bad[0]]))
        ends = batches.base_offset + batches.last_offset_delta + 1
        floors = np.concatenate([[self.end_offset], ends[:-1]])[: len(ends)]
        if (low := np.flatnonzero((batches.base_offset < floors) | (ends <= batches.base_offset))).size:
            at = low[0]
            raise StorageError(f"a batch of offsets from {batches.base_offset[at]} cannot follow {floors[at] - 1}")
        epochs = batches.partition_leader_epoch
        latest = self._epochs.latest_epoch
        floors = np.concatenate([[-1 if latest is None else latest], epochs[:-1]])[: len(epochs)]
        if (low := np.flatnonzero((epochs >= 0) & (epochs < floors))).size:
            raise StorageError(f"leader epoch {epochs[low[0]]} cannot follow {floors[low[0]]}")

    def _new_epochs(self, batches: RecordBatches) -> list[tuple[int, int]]:
        """The leader epochs that begin in the batches: pairs of epoch and first offset."""
        epochs, latest = batches.partition_leader_epoch, self._epochs.latest_epoch
        rows = np.flatnonzero(np.diff(epochs, prepend=-1 if latest is None else latest) > 0).tolist()
        return [(int(epochs[row]), int(batches.base_offset[row])) for row in rows]

    def _write_with_epochs(self, data: bytes, epochs: Sequence[tuple[int, int]]) -> None:
        """Makes the epochs durable, then writes the batches, in the order of UnifiedLog.append."""
        known = self._epochs.entries[:]
        try:
            changed = False
            for epoch, start_offset in epochs:
                changed |= self._epochs.assign(epoch, start_offset)
            if changed:
                write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), self._epochs.entries, self._files)
            self._write(data)
        except OSError:
            self._epochs.entries = known  # No record of the new epochs was written.
            raise

    def _write(self, data: bytes) -> None:
        """Appends all of `data` or nothing: an incomplete batch on a full disk must not precede the next append."""
        try:
            write_all(self._file, data, self._files)
        except OSError:
            self._files.ftruncate(self._file, self.size)
            raise
        self.size += len(data)

    def duplicate(self) -> int | None:
        """A descriptor of the last segment for an fsync, to be closed by the caller; None if the segment is closed."""
        return None if self._file < 0 else self._files.dup(self._file)

    def roll(self, base_offset: int) -> None:
        """Closes the last segment, and starts a new segment with `base_offset`."""
        self.close()
        self._open(segment_path(self.folder, base_offset))

    def abandon(self) -> None:
        """Closes the file without a sync, because its disk fails or it is truncated next."""
        if self._file >= 0:
            self._files.close(self._file)
            self._file = -1

    def close(self) -> None:
        """Makes the last segment durable, closes it, and writes its indexes."""
        if self._file < 0:
            return
        self._files.fsync(self._file)
        self.abandon()
        write_indexes(self._path, self._interval_bytes, self._files)
