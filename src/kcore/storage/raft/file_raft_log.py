"""A metadata log on a disk, in Kafka's file formats; implements `RaftLog` for a raft node.

Source: KafkaRaftLog (KafkaMetadataLog of 3.9.1), UnifiedLog.
"""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final

from kcore.errors import RaftLogError, StorageError
from kcore.raft.log.batches import SplitBatches, StoredBatch, begins_inside, check_sequence, size_of, split_batches
from kcore.raft.log.raft_log import Appended, SnapshotPiece, gives_way_to
from kcore.replication.raft_log import NEWEST_LEVEL, Level, OffsetAndEpoch, ValidOffsetAndEpoch
from kcore.replication.raft_log import RaftLog as Rules
from kcore.storage.checkpoints import OFFSETS, read_offsets, write_offsets
from kcore.storage.files import OS, Closing, FileSystem, is_there, lock_directory, path_in, sync_folder
from kcore.storage.log.last_reads import FEW_BYTES, LastAppends, LastReads
from kcore.storage.log.partition_folder import partition_of
from kcore.storage.log.segment import Segment
from kcore.storage.log.segmented_log import Place, SegmentedLog, Settings
from kcore.storage.raft.raft_recovery import recover, remove_left_behind, sync_segments
from kcore.storage.raft.raft_snapshots import DAMAGED, RaftSnapshots
from kcore.wire.record_batch import scan_batches

logger = logging.getLogger(__name__)
RECOVERY_POINTS: Final = OFFSETS[1]
# Kafka's default is 1 GiB. Recovery after a crash checks about one segment, so its size determines how long that takes.
SEGMENT_BYTES: Final = 64 << 20
MOST_NEWEST_BYTES: Final = 8 << 20  # The last append is kept up to this size, controller.quorum.fetch.max.bytes.
NOTHING_NEW: Final = (-1, -1, b"")  # The value of `_newest` if the last append is not kept.
FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # Errors of a full disk, after which a log stays usable.


class Refusals:
    """A context manager that turns an OSError into a StorageError with the folder's path; fast, as it is a class."""

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"{self._folder}: {error}") from error


class _Writing:
    """A context manager for writes: admits one thread at a time, and none after a failure other than a full disk."""

    __slots__ = ("_folder", "failure", "lock")

    def __init__(self, folder: Path) -> None:
        self._folder, self.lock = folder, Lock()
        self.failure: OSError | None = None

    def __enter__(self) -> None:
        self.lock.acquire()
        if self.failure is not None:
            self.lock.release()
            raise StorageError(f"{self._folder}: {self.failure}") from self.failure

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.lock.release()
            return
        if isinstance(error, OSError) and error.errno not in FULL:
            self.failure = error
        self.lock.release()
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"{self._folder}: {error}") from error


class DiskRaftLog(Closing):
    """A RaftLog in a `__cluster_metadata-0` folder, which only this object changes. StorageError if the disk fails.

    All methods but `flush` must be called in one thread. After an append fails because the disk is full, the log has no
    byte of it and can be used. After another failed write or flush it cannot: the content of the disk is then unknown.
    """

    def __init__(
        self, folder: Path, settings: Settings | None = None, *, level: Level = NEWEST_LEVEL, files: FileSystem = OS
    ) -> None:
        """Opens the folder, which is created if needed, and recovers the log, which is then durable.

        `level` is the release whose rule for new snapshots applies. As in Kafka, the parent folder has the recovery
        point and the lock. Raises StorageError if another process holds the lock, for damage that no crash causes, and
        for a log that begins above every snapshot.
        """
        self.folder, self._settings, self._files = folder, settings or Settings(SEGMENT_BYTES), files
        if (partition := partition_of(folder)) is None:
            raise StorageError(f"{folder}: not named as a partition's folder")
        self._partition, self._level, self._above = partition, level, folder.parent
        self._writing = _Writing(folder)
        self._is_opening, self._newest = True, NOTHING_NEW  # First offset, end offset and bytes of the last append.
        self._valid = ValidOffsetAndEpoch("VALID", OffsetAndEpoch(-1, -1))  # The last valid result, to be reused.
        self._last_reads, self._last_appends = LastReads(), LastAppends()
        with Refusals(folder):
            files.mkdir(folder)
            sync_folder(self._above, files)
            self._directory_lock = lock_directory(self._above, files)
            try:
                remove_left_behind(folder, files)
                self._open()
            except BaseException:
                files.close(self._directory_lock)
                raise
        self.high_watermark = min(self.latest_snapshot.offset, self.end_offset) if self.latest_snapshot else 0

    def _open(self) -> None:
        points, files = path_in(self._above, RECOVERY_POINTS), self._files
        self._recovery_points: dict[tuple[str, int], int] = {}
        if is_there(points, files):
            self._recovery_points.update(read_offsets(points, files).items())
        self._snapshots = RaftSnapshots(self.folder, files)
        interval_bytes, set_aside = self._settings.index_interval_bytes, self._settings.set_aside
        recovered = recover(self.folder, self._recovery_point, interval_bytes, files, set_aside=set_aside)
        sync_segments(self.folder, self._recovery_point, files)
        end_offset, last, epochs = recovered or (0, None, None)
        if recovered is None:
            end_offset = self.latest_snapshot.offset if self.latest_snapshot else 0
            if end_offset < self._recovery_point:
                raise StorageError(f"{self.folder}: no segment, but the log was there up to {self._recovery_point}")
        elif end_offset < self._recovery_point:
            logger.warning("%s ends at %s, not at %s: cut elsewhere", self.folder, end_offset, self._recovery_point)
            self._write_recovery_point(end_offset)
        # This also makes the names in the folder durable before the node relies on a snapshot or quorum-state.
        self._log = SegmentedLog(
            self.folder,
            self._settings,
            start_offset=end_offset,
            end_offset=end_offset,
            epochs=epochs,
            indexed=True,
            files=files,
        )
        if last is not None:
            self._log.segments[-1].learnt(*last)
        self.start_offset, self.end_offset = self._log.first_offset, self._log.end_offset
        self._check_snapshots()
        self._snapshots.forget(self._snapshots.below(self.start_offset))
        self.truncate_to_latest_snapshot()
        self._is_opening = False
        self._find_end()

    def _check_snapshots(self) -> None:
        """Raises StorageError if neither the log nor a whole snapshot has some records; renames damaged snapshots."""
        snapshots, missing = self._snapshots, ""
        if needed := [each for each in snapshots.damaged if each.offset > self.end_offset]:
            missing = f"the log ends at {self.end_offset}, before the snapshot does"
        if self.start_offset > (snapshots.latest or OffsetAndEpoch(0, 0)).offset:
            needed = [*snapshots.damaged]
            missing = f"{self.folder}: the log begins at {self.start_offset}, and no snapshot there or later"
        if missing:
            self._log.abandon()
            raise StorageError("; ".join([*map(snapshots.why_damaged, needed), missing]))
        for each in snapshots.damaged:
            begin = f"snapshot {snapshots.latest.offset}-{snapshots.latest.epoch}" if snapshots.latest else "offset 0"
            logger.error(
                "%s. It is renamed to *%s; the node starts from %s and the log up to offset %d",
                *(snapshots.why_damaged(each), DAMAGED, begin, self.end_offset),
            )
        snapshots.rename_damaged()

    @property
    def _recovery_point(self) -> int:
        return self._recovery_points.get(self._partition, 0)

    def _write_recovery_point(self, offset: int) -> None:
        """Writes the recovery point: all records below `offset` must be durable."""
        points = self._recovery_points | {self._partition: offset}
        write_offsets(path_in(self._above, RECOVERY_POINTS), points, self._files)
        self._recovery_points = points

    def close(self) -> None:
        """Makes the log durable and closes it, so that the next start need not check any batch."""
        with self._writing.lock, Refusals(self.folder):
            try:
                self._snapshots.close()
                if self._writing.failure is None:
                    self._log.close()
                    self._write_recovery_point(self.end_offset)
            finally:
                self._let_go()

    def abandon(self) -> None:
        """Closes all files without a sync."""
        with self._writing.lock:
            self._let_go()

    def _let_go(self) -> None:
        self._log.abandon()
        if self._directory_lock >= 0:
            self._files.close(self._directory_lock)
            self._directory_lock = -1

    # The log's start and end.

    def _find_end(self) -> None:
        """Sets `end_offset` and `last_epoch` after a change of the log; see `RaftLog`."""
        self.end_offset = self._log.end_offset
        entries = self._log.epochs.entries
        self.last_epoch = entries[-1].epoch if entries else self._rules().last_fetched_epoch

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshots.latest

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshots.earliest

    @property
    def snapshots(self) -> list[OffsetAndEpoch]:
        return self._snapshots.by_age

    @property
    def size_bytes(self) -> int:
        """The size of all segments, including one that is partly below the log's start (UnifiedLog.size)."""
        with Refusals(self.folder):
            return self._log.size_bytes

    def _rules(self) -> Rules:
        snapshots = self._snapshots
        return Rules(self._log.epochs, self.start_offset, self.end_offset, snapshots.earliest, snapshots.latest)

    def update_high_watermark(self, offset: int) -> None:
        if not self.high_watermark <= offset <= self.end_offset:
            raise RaftLogError(f"high watermark {offset} is not from {self.high_watermark} to {self.end_offset}")
        self.high_watermark = offset

    # Appends.

    def append_as_leader(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended:
        found, problem = split or split_batches(batches)
        if problem is not None:
            raise problem
        if not found or size_of(found) < len(batches):
            raise RaftLogError("a leader appends whole batches")
        for batch in found:
            if batch.epoch != epoch:
                raise RaftLogError(f"a leader of epoch {epoch} appends batches of that epoch only")
        return self._append(batches, found)

    def append_as_follower(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended | None:
        found, problem = split or split_batches(batches)
        for row, batch in enumerate(found):
            if batch.epoch > epoch:  # A later leader's batch: the node must adopt that epoch first (KAFKA-18723).
                found, problem = found[:row], None
                break
        appended = self._append(batches[: size_of(found)], found) if found else None
        if problem is not None:
            raise problem
        return appended

    def _append(self, data: bytes, batches: list[StoredBatch]) -> Appended:
        """Appends all of `data` or, after an error, nothing."""
        is_inside = begins_inside(batches, self.start_offset, self.end_offset)
        check_sequence(batches, batches[0].base_offset if is_inside else self.end_offset, self.last_epoch)
        first_offset = self.end_offset
        with self._writing:
            if is_inside:
                self._lower_recovery_point(batches[0].base_offset)
                self._log.start_anew(batches[0].base_offset)
            is_new = self._log.write(data, batches)
            if is_inside:
                self._log.remove_before(first_offset)  # Moves the first epoch's start to the log's start.
            self.end_offset, self.last_epoch = batches[-1].last_offset + 1, batches[-1].epoch
            if is_new:
                self._last_appends.clear()
                self._raise_recovery_point()
        self._last_appends.put(first_offset, self.end_offset, data)
        is_small = len(data) <= MOST_NEWEST_BYTES  # The bytes stay in memory until the next append.
        self._newest = (first_offset, self.end_offset, data) if is_small else NOTHING_NEW
        return Appended(first_offset, self.end_offset - 1)

    def _raise_recovery_point(self) -> None:
        """Moves the recovery point to the last segment's start. Ignores a full disk: the batch is already written."""
        try:
            self._write_recovery_point(self._log.base_offsets[-1])
        except OSError as error:
            if error.errno not in FULL:
                raise

    def flush(self) -> None:
        """Makes all records written so far durable; may be called from any thread."""
        self.begin_flush()()

    def begin_flush(self) -> Callable[[], None]:
        """Returns a function that makes the records written so far durable; call it once, in any thread."""
        with self._writing:
            descriptor = self._log.duplicate()

        def flush() -> None:
            if descriptor is None:
                return
            with Refusals(self.folder):
                try:
                    self._files.fsync(descriptor)
                except OSError as error:
                    self._writing.failure = error  # The pages may be lost, and a second fsync would report success.
                    raise
                finally:
                    self._files.close(descriptor)

        return flush

    # Reads.

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """See `RaftLog.read`; reads batches of one segment. Raises StorageError if their CRCs or offsets are wrong."""
        if not self.start_offset <= offset <= self.end_offset:
            raise RaftLogError(f"offset {offset} is not in the log, from {self.start_offset} to {self.end_offset}")
        if offset >= end_offset:
            return b""
        first_offset, end, data = self._newest  # Most followers fetch the last append next.
        if offset == first_offset and self.end_offset == end <= end_offset and len(data) <= max_bytes:
            return data
        if data := self._last_appends.get(offset, max_bytes, end_offset):
            return data
        up_to = min(end_offset, self.end_offset)
        if (known := self._last_reads.get(offset, max_bytes, up_to)) is not None:
            return known
        try:
            data = self._log.read(offset, max_bytes, end_offset, at_least_one=True)
        except OSError as error:
            raise StorageError(f"{self.folder}: {error}") from error
        if not _is_whole(data, offset) or (not data and offset < self.end_offset <= end_offset):
            raise self._damage_near(offset)
        self._last_reads.put(offset, max_bytes, up_to, data)
        return data

    def _damage_near(self, offset: int) -> StorageError:
        path = self._log.path_of(offset)
        with Segment(path, self._files) as segment:
            problems = segment.problems
        return StorageError(f"{path}: {problems[0] if problems else f'no batch of offset {offset}'}")

    def epoch_at(self, offset: int) -> int:
        epoch = self._log.epochs.epoch_for_offset(offset)
        if epoch is None or not self.start_offset <= offset < self.end_offset:
            raise RaftLogError(f"offset {offset} is not in the log, from {self.start_offset} to {self.end_offset}")
        return epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        return self._rules().end_offset_for_epoch(epoch)

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        if epoch == self.last_epoch and self.start_offset < offset <= self.end_offset:  # For most fetches; as `Rules`.
            if self._valid.offset_and_epoch != (offset, epoch):
                self._valid = ValidOffsetAndEpoch("VALID", OffsetAndEpoch(offset, epoch))
            return self._valid
        return self._rules().validate_offset_and_epoch(offset, epoch)

    # For the answer loop, which reads the files itself.

    def place_of(self, offset: int) -> Place:
        """See `SegmentedLog.place_of`."""
        with Refusals(self.folder):
            return self._log.place_of(offset)

    def written_since(self, place: Place) -> list[tuple[Place, int]]:
        """See `SegmentedLog.written_since`; appended bytes are in the files, not in a buffer of this process."""
        with Refusals(self.folder):
            return self._log.written_since(place)

    def open_segment(self, base_offset: int) -> int:
        """Opens the segment with `base_offset` for reading; the caller closes the returned descriptor."""
        with Refusals(self.folder):
            return self._files.open(self._log.path_of(base_offset))

    # Truncation.

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        wanted = self._batch_at(self._rules().truncation_offset(end))
        is_all = wanted < self.start_offset  # The snapshot ends in the log's first batch, which is removed whole.
        offset = max(wanted, self.start_offset)
        if offset < self.high_watermark:
            raise RaftLogError(f"a cut at {offset} is below the high watermark {self.high_watermark}")
        with self._writing:
            self._lower_recovery_point(offset)
            self._last_appends.clear()
            self._last_reads.clear()
            if is_all:
                self._log.start_anew(offset)
            else:
                self._log.truncate_to(offset)
            self._find_end()
        return self.end_offset

    def _batch_at(self, offset: int) -> int:
        """The base offset of the batch with `offset`; `offset` itself if the log has no such record."""
        if not self.start_offset <= offset < self.end_offset:
            return offset
        return int.from_bytes(self.read(offset, 1, self.end_offset)[:8])

    def _lower_recovery_point(self, offset: int) -> None:
        """Lowers the recovery point before a truncation, or a start would report the truncated batches as lost."""
        if offset < self._recovery_point:
            self._write_recovery_point(offset)

    def truncate_to_latest_snapshot(self) -> bool:
        latest = self.latest_snapshot
        if latest is None or not gives_way_to(self, latest):
            return False
        with self._writing:
            self._lower_recovery_point(self._log.first_offset)
            self._last_appends.clear()
            self._last_reads.clear()
            if self._is_opening:  # The snapshot may belong to another log.
                self._snapshots.set_aside_older(latest, [each.path for each in self._log.segments], self.end_offset)
            self._log.start_anew(latest.offset)
            self.start_offset = self.high_watermark = latest.offset
            self._find_end()
            self._snapshots.forget(self._snapshots.older_than(latest))
        return True

    def delete_before(self, snapshot: OffsetAndEpoch) -> bool:
        if snapshot not in self._snapshots or snapshot.offset <= self.start_offset:
            return False
        if snapshot.offset > self.high_watermark:  # Uncommitted records must stay (KAFKA-14238).
            raise RaftLogError(f"{snapshot} is past the high watermark {self.high_watermark}")
        with self._writing:
            self.start_offset = snapshot.offset
            self._log.remove_before(snapshot.offset)
            self._snapshots.forget(self._snapshots.older_than(snapshot))
        return True

    # Snapshots.

    def snapshot_piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        with Refusals(self.folder):
            return self._snapshots.piece(snapshot, position, max_bytes)

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        with Refusals(self.folder):
            self._snapshots.begin(snapshot)

    def append_snapshot(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        with Refusals(self.folder):
            return self._snapshots.append(snapshot, data)

    def snapshot_flush(self, snapshot: OffsetAndEpoch) -> Callable[[], None]:
        with Refusals(self.folder):
            descriptor = self._snapshots.duplicate(snapshot)

        def flush() -> None:
            with Refusals(self.folder):
                try:
                    self._files.fsync(descriptor)
                finally:
                    self._files.close(descriptor)

        return flush

    def drop_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        with Refusals(self.folder):
            self._snapshots.drop(snapshot)

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        with Refusals(self.folder):
            self._snapshots.freeze(snapshot)

    def why_no_snapshot(self, snapshot: OffsetAndEpoch) -> str | None:
        offset = snapshot.offset  # The high watermark is always between two batches.
        starts = [offset if offset == self.high_watermark else self._batch_at(offset)]
        return self._rules().why_no_snapshot(snapshot, self.high_watermark, starts, self._level)


def _is_whole(data: bytes, offset: int) -> bool:
    """Whether `data` is whole batches with matching CRCs, from the batch with `offset` on, without gaps.

    For a few batches, reading single headers is faster than building columns.
    """
    if len(data) <= FEW_BYTES:
        batches, problem = split_batches(data)
        if problem is not None or size_of(batches) < len(data):
            return False
        next_offset = min(batches[0].base_offset, offset) if batches else offset
        for batch in batches:
            if batch.base_offset != next_offset:
                return False
            next_offset = batch.last_offset + 1
        return True
    found = scan_batches(data, stop=True)
    if found.problem is not None or not found.crc_matches.all():
        return False
    return found.base_offset[0] <= offset and bool((found.base_offset[1:] == found.last_offset[:-1] + 1).all())
