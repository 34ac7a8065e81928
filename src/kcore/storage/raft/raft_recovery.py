"""Recovers a metadata log after a crash: truncates it after the last whole batch, rebuilds its indexes and epochs.

All bytes after the recovery point are checked, and the log ends before the first damaged batch. Bytes below the point
were durable before the point was written, so no crash damages them. Truncating them would lose records that this
replica has acknowledged, so such damage is an error. A whole batch after damage is never removed (`holes.py`). A log
without damage that ends below the recovery point was truncated by a process that does not store the point, such as a
Kafka controller that used the directory. The recovery point is then lowered, as in Kafka.

Source: LogLoader (recoverLog), LogSegment.recover.
"""

from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kcore.errors import StorageError
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.replication.epochs import EpochCache
from kcore.storage.checkpoints import LEADER_EPOCHS, read_leader_epochs, write_leader_epochs
from kcore.storage.files import OS, FileSystem, is_there, path_in, sync_file
from kcore.storage.log.holes import Damage, lost, repair
from kcore.storage.log.indexes import OffsetIndex, TimeIndex
from kcore.storage.log.log_writer import epochs_of, write_indexes
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import Segment, base_offset_of
from kcore.storage.log.segmented_log import remove_indexes
from kcore.wire.record_batch import Integer, RecordBatches, scan_batches, steps_of

# Up to this many bytes, it is faster to read batch headers one by one than all at once as columns.
FEW_BYTES: Final = 1 << 12
LEFT_BEHIND: Final = (".deleted", ".part", ".tmp")  # Suffixes of files that a crash left unfinished or undeleted.


def remove_left_behind(folder: Path, files: FileSystem = OS) -> None:
    """Deletes files that were being written or deleted when the process ended."""
    for name in files.names(folder):
        if name.endswith(LEFT_BEHIND):
            files.unlink(folder / name)


class Found(NamedTuple):
    """The content of a recovered segment: its indexes, if valid, and its batches from the last indexed batch on."""

    offsets: OffsetIndex | None
    times: TimeIndex | None
    batches: RecordBatches | list[StoredBatch]


class Recovered(NamedTuple):
    """The result of a recovery: the log's end, the content of the last segment if it was whole, and the epochs."""

    end_offset: int
    last: Found | None
    epochs: EpochCache  # The present content of leader-epoch-checkpoint.


def recover(
    folder: Path, recovery_point: int, index_interval_bytes: int, files: FileSystem = OS, *, set_aside: bool = False
) -> Recovered | None:
    """Repairs a folder's log, which may then end below `recovery_point`; None without segments.

    In segments below `recovery_point`, checks only the batches from the last index entry on. For damage below the
    recovery point and for a hole, a StorageError names the file and the position. With `set_aside`, the files after a
    hole are renamed instead.
    """
    paths = segment_files(folder, files)
    if not paths:
        return None
    recovery = _Recovery(paths, recovery_point, index_interval_bytes, files, set_aside=set_aside)
    recovery.run()
    epochs = _recover_epochs(folder, recovery.seen, recovery.end_offset, files)
    return Recovered(recovery.end_offset, recovery.last, epochs)


def sync_segments(folder: Path, recovery_point: int, files: FileSystem = OS) -> None:
    """Makes all segments with bytes after `recovery_point` durable, and always the last segment.

    A killed process may have left unsynced batches in the operating system's cache, where a power cut would lose them.
    But the node that starts now reports these batches as durable to its leader and to candidates.
    """
    paths = segment_files(folder, files)
    for path, next_path in zip_longest(paths, paths[1:]):
        if next_path is None or base_offset_of(next_path) > recovery_point:
            sync_file(path, files)


class _Recovery:
    """Checks the segments in order; `end_offset` is the end of the batches that were checked so far."""

    def __init__(
        self, paths: list[Path], recovery_point: int, interval_bytes: int, files: FileSystem, *, set_aside: bool
    ) -> None:
        self._files, self._set_aside = files, set_aside
        self._paths, self._recovery_point, self._interval_bytes = paths, recovery_point, interval_bytes
        self._bases = [base_offset_of(path) for path in paths]
        self.end_offset, self._epoch = self._bases[0], -1
        self.last: Found | None = None
        self.seen: list[tuple[int, int]] = []  # Base offset and epoch of batches that begin an epoch or end a segment.

    def run(self) -> None:
        for at, path in enumerate(self._paths):
            if self._bases[at] != self.end_offset:
                before = self._paths[at - 1]
                reason = f"the next segment begins at offset {self._bases[at]}"
                is_lost = self.end_offset < self._recovery_point
                self._repair(at - 1, self._files.size_of(before), reason, is_lost=is_lost)
                return
            if not self._recover_segment(at, path):
                return

    def _repair(self, at: int, position: int, reason: str, *, is_lost: bool) -> None:
        """Ends the log at `position` in the segment `self._paths[at]`; raises StorageError as `holes.repair` does."""
        damage = Damage(self._paths[at], position, self.end_offset, reason, self._recovery_point)
        repair(damage, self._paths[at + 1 :], set_aside=self._set_aside, is_lost=is_lost, files=self._files)
        self.last = None

    def _recover_segment(self, at: int, path: Path) -> bool:
        """Recovers the segment `self._paths[at]`; returns False if the log ends in this segment."""
        next_base = None if at + 1 == len(self._paths) else self._bases[at + 1]
        settled = self._recovery_point if next_base is None else min(self._recovery_point, next_base)
        with Segment(path, self._files) as segment:
            index = _right_index(segment, settled)
            begin = int(index.positions[-1]) if index is not None and len(index.positions) else 0
            known = self.end_offset, self._epoch
            batches, position = self._go_through(segment, begin)
            if position == begin > 0:  # The batch of the last index entry is damaged: check the whole segment.
                index, (self.end_offset, self._epoch) = None, known
                batches, position = self._go_through(segment, 0)
            size = len(segment)
            times = segment.time_index if index is not None else None
            reason = _reason(segment, position, self.end_offset) if position < size else ""
        self.last = Found(index, times, batches)
        is_lost = self._is_lost(position < size, settled, next_base)
        if position < size:
            self._repair(at, position, reason, is_lost=is_lost)
        elif is_lost:
            raise StorageError(lost(Damage(path, position, self.end_offset, reason, self._recovery_point)))
        if next_base == self.end_offset and (index is None or settled < next_base):
            write_indexes(path, self._interval_bytes, self._files)
        elif index is None:
            remove_indexes(path, self._files)
        return position == size

    def _is_lost(self, is_damaged: bool, settled: int, next_base: int | None) -> bool:
        """Whether durable batches are lost. An undamaged last segment may end below the recovery point."""
        if self.end_offset < settled:
            return is_damaged or next_base is not None
        return settled == next_base and (is_damaged or self.end_offset > settled)

    def _go_through(self, segment: Segment, begin: int) -> tuple[RecordBatches | list[StoredBatch], int]:
        """The batches from position `begin` on, and the position after the last valid batch."""
        if len(segment) - begin <= FEW_BYTES:
            return self._go_through_few(segment.data[begin:], begin)
        batches = scan_batches(segment.data, start=begin, stop=True)
        if begin and len(batches):  # The batches before `begin` are not checked.
            self.end_offset, self._epoch = int(batches.base_offset[0]), int(batches.partition_leader_epoch[0])
        count = _whole(batches, self.end_offset, self._epoch)
        if count:
            epochs = batches.partition_leader_epoch[:count]
            rows = [*steps_of(epochs, self._epoch).nonzero()[0].tolist(), count - 1]
            self.seen += zip(batches.base_offset[rows].tolist(), epochs[rows].tolist(), strict=True)
            self.end_offset, self._epoch = int(batches.last_offset[count - 1]) + 1, int(epochs[-1])
        return batches, int(batches.position[count]) if count < len(batches) else batches.end

    def _go_through_few(self, data: bytes, begin: int) -> tuple[list[StoredBatch], int]:
        batches, _ = split_batches(data)
        if begin and batches:
            self.end_offset, self._epoch = batches[0].base_offset, batches[0].epoch
        count = _whole(batches, self.end_offset, self._epoch)
        for row, batch in enumerate(batches[:count]):
            if batch.epoch != self._epoch or row + 1 == count:
                self.seen.append((batch.base_offset, batch.epoch))
            self.end_offset, self._epoch = batch.last_offset + 1, batch.epoch
            begin += len(batch.data)
        return batches, begin


def _whole(batches: RecordBatches | list[StoredBatch], end_offset: int, epoch: int) -> int:
    """How many leading batches are valid: the CRC matches, the offsets continue, and the epochs do not decrease."""
    if isinstance(batches, list):  # `split_batches` has ended the list before the first wrong CRC.
        for row, batch in enumerate(batches):
            if batch.base_offset != end_offset or batch.epoch < epoch:
                return row
            end_offset, epoch = batch.last_offset + 1, batch.epoch
        return len(batches)
    epochs = batches.partition_leader_epoch  # The CRC does not cover the epoch.
    ends = batches.last_offset + 1
    goes_on = batches.base_offset == _behind(end_offset, ends)
    rises = epochs >= _behind(epoch, epochs)
    is_good = batches.crc_matches & goes_on & rises & (batches.last_offset_delta >= 0)
    return len(batches) if is_good.all() else int(is_good.argmin())


def _reason(segment: Segment, position: int, end_offset: int) -> str:
    """The reason, in words, why no valid batch with base offset `end_offset` begins at `position`."""
    found = scan_batches(segment.data, start=position, limit=1, stop=True)
    if not len(found):
        return "the last batch is cut off or its length is damaged"
    if not found.crc_matches[0]:
        return "a batch whose CRC does not match"
    if found.base_offset[0] != end_offset:
        return f"a batch of offset {found.base_offset[0]} where offset {end_offset} is next"
    return f"a batch of epoch {found.partition_leader_epoch[0]} behind a later one"


def _behind(first: int, values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """`first`, then all values but the last. For a few values, `np.concatenate` takes several times as long."""
    moved = np.empty_like(values)
    moved[:1] = first
    moved[1:] = values[:-1]
    return moved


def _right_index(segment: Segment, below: int) -> OffsetIndex | None:
    """The segment's index if it is valid: readable, without entries at `below` or above, and its last entry fits."""
    try:
        index = segment.offset_index
        times = segment.time_index if index is not None else None
    except StorageError:
        return None
    if index is None or times is None or max(times.offsets, default=-1) >= below:
        return None
    if len(index.offsets):
        last = scan_batches(segment.data, start=int(index.positions[-1]), limit=1, check_crc=False, stop=True)
        if not len(last) or last.last_offset[0] != index.offsets[-1] or index.offsets[-1] >= below:
            return None
    return index


def _recover_epochs(folder: Path, seen: list[tuple[int, int]], end_offset: int, files: FileSystem) -> EpochCache:
    """The leader epochs in leader-epoch-checkpoint below `end_offset`; read from the batches if the file is wrong.

    Adds the epochs of the first segment's batches if the segment begins below the first epoch's start offset. The log
    begins with this segment now, and would have no epoch after a truncation to the log's start.
    """
    path, segments = path_in(folder, LEADER_EPOCHS), segment_files(folder, files)
    try:
        entries = read_leader_epochs(path, files) if is_there(path, files) else None
    except StorageError:
        entries = None
    epochs = EpochCache(entries or ())
    epochs.truncate_from_end(end_offset)
    begun = {start_offset: epoch for epoch, start_offset in epochs.entries}
    if any(begun.get(offset) != epoch != epochs.epoch_for_offset(offset) for offset, epoch in seen):
        epochs = epochs_of(segments, files)
    elif epochs.entries and epochs.entries[0].start_offset > base_offset_of(segments[0]):
        epochs = EpochCache([*epochs_of(segments[:1], files).entries, *epochs.entries])
    if epochs.entries != entries:
        write_leader_epochs(path, epochs.entries, files)
    return epochs
