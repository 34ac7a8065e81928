"""All segments of a partition's folder while its log is in use: appended to, read and truncated (LocalLog)."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.errors import StorageError
from kcore.raft.log.batches import StoredBatch
from kcore.replication.epochs import EpochCache, EpochEntry
from kcore.storage.checkpoints import LEADER_EPOCHS, write_leader_epochs
from kcore.storage.files import OS, FileSystem, path_in, remove, sync_folder
from kcore.storage.log.live_segment import LiveSegment
from kcore.storage.log.log_writer import SEGMENT_BYTES, LogWriter
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, base_offset_of, beside, segment_path
from kcore.wire.record_batch import INDEX_INTERVAL_BYTES, NO_TIMESTAMP, RecordBatches

_BASE_OFFSET: Final = attrgetter("base_offset")
INDEXES: Final = (OFFSET_INDEX, TIME_INDEX)  # Indexes that can be rebuilt from the segment alone.


class Settings(NamedTuple):
    """A log's settings, with Kafka's defaults."""

    segment_bytes: int = SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    # An append starts a new segment if the first batch of the last segment is older by more than this. None: no limit.
    segment_ms: int | None = None
    set_aside: bool = False  # True: rename the files after a hole and open the log; False: refuse to open it.


def remove_indexes(path: Path, files: FileSystem = OS) -> None:
    """Deletes a segment's indexes, but not the transaction index, which cannot be rebuilt from the segment alone."""
    for suffix in INDEXES:
        remove(beside(path, suffix), files)


def remove_segment(path: Path, files: FileSystem = OS) -> None:
    """Deletes a segment and its indexes; the indexes first, so that a crash leaves no index without its segment."""
    remove_indexes(path, files)
    remove(beside(path, TRANSACTION_INDEX), files)
    remove(path, files)


class Place(NamedTuple):
    """The position of a batch, or of the log's end: the segment's base offset, and the byte in the segment."""

    base_offset: int
    position: int


class SegmentedLog:
    """A log in use. Only this object changes its folder's segments and leader epochs.

    Raises OSError and StorageError if the disk fails. Only a roll, `sync` and `close` make appended bytes durable.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        epochs: EpochCache | None = None,
        indexed: bool = False,
        files: FileSystem = OS,
    ) -> None:
        """Opens the folder as LogWriter does; with `indexed`, trusts existing indexes instead of scanning segments."""
        self.folder, self._settings, self._indexed, self._files = folder, settings, indexed, files
        self._open(start_offset, end_offset, epochs)

    def _open(self, start_offset: int, end_offset: int | None = None, epochs: EpochCache | None = None) -> None:
        segment_bytes, interval_bytes, _, set_aside = self._settings
        self._writer = LogWriter(
            self.folder,
            start_offset=start_offset,
            end_offset=end_offset,
            epochs=epochs,
            segment_bytes=segment_bytes,
            index_interval_bytes=interval_bytes,
            set_aside=set_aside,
            files=self._files,
        )
        self.epochs = self._writer.epochs
        self.segments = [self._live(path) for path in segment_files(self.folder, self._files)]

    def _live(self, path: Path) -> LiveSegment:
        interval_bytes = self._settings.index_interval_bytes
        return LiveSegment(path, interval_bytes, indexed=self._indexed, files=self._files)

    def close(self) -> None:
        """Makes the log and its indexes durable, and closes the writer; the caller then calls `let_go`."""
        self.segments[-1].transactions.sync()
        self._writer.close()

    def abandon(self) -> None:
        """Closes all files without a sync."""
        self._writer.abandon()
        self.let_go()

    def let_go(self) -> None:
        """Closes the files that are open for reading; a later read opens them again."""
        for segment in self.segments:
            segment.close()

    @property
    def first_offset(self) -> int:
        """The base offset of the first segment."""
        return self.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self._writer.end_offset

    @property
    def base_offsets(self) -> list[int]:
        """The segments' base offsets."""
        return [segment.base_offset for segment in self.segments]

    @property
    def size_bytes(self) -> int:
        """The size of the segments' `.log` files."""
        return sum(self._files.size_of(segment.path) for segment in self.segments)

    def set_segment_ms(self, segment_ms: int | None) -> None:
        """Changes `Settings.segment_ms`, from the next append on."""
        self._settings = self._settings._replace(segment_ms=segment_ms)

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Changes the size in bytes at which a segment is full, from the next append on."""
        if segment_bytes != self._settings.segment_bytes:
            self._settings = self._settings._replace(segment_bytes=segment_bytes)
            self._writer.set_segment_bytes(segment_bytes)

    def kept_from(self, end_offset: int, oldest_ms: int | None, most_bytes: int | None) -> int:
        """The first offset that retention keeps; the log's end offset if it deletes all segments.

        Retention deletes the oldest segments while all their records are older than `oldest_ms`, or while the log has
        at least `most_bytes` without them; None disables a rule. It keeps segments that reach above `end_offset`.
        Source: UnifiedLog.deletableSegments.
        """
        excess = 0 if most_bytes is None else self.size_bytes - most_bytes
        kept = self.first_offset
        for segment, end in zip(self.segments, [*self.base_offsets[1:], self.end_offset], strict=True):
            is_old = oldest_ms is not None and NO_TIMESTAMP < segment.max_timestamp < oldest_ms
            is_too_much = most_bytes is not None and excess >= segment.size
            if end > end_offset or not segment.size or not (is_old or is_too_much):
                break
            excess -= segment.size
            kept = end
        return kept

    def path_of(self, offset: int) -> Path:
        """The path of the segment whose range of offsets includes `offset`."""
        return self.segments[self._row_of(offset)].path

    def _row_of(self, offset: int) -> int:
        """The row, in `segments`, of the segment whose range includes `offset`; 0 for an offset below the log."""
        return max(bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1, 0)

    @property
    def segment_bytes(self) -> int:
        """The size in bytes at which a segment is full."""
        return self._settings.segment_bytes

    def sync(self) -> None:
        """Makes appended batches durable."""
        self.segments[-1].transactions.sync()
        if (file := self._writer.duplicate()) is not None:
            try:
                self._files.fsync(file)
            finally:
                self._files.close(file)

    def moved_to(self, folder: Path) -> None:
        """Changes the paths after the folder was renamed to `folder`; open files stay open."""
        self.folder = folder
        self._writer.moved_to(folder)
        for segment in self.segments:
            segment.moved_to(folder)

    def duplicate(self) -> int | None:
        """A descriptor of the last segment for an fsync (`LogWriter.duplicate`); other segments are durable already."""
        return self._writer.duplicate()

    # Appends.

    def append(self, data: bytes, batches: RecordBatches) -> bool:
        """Appends whole batches; returns whether they begin a new segment. After an error no byte is appended.

        `batches` is the result of `scan_batches(data)`.
        """
        is_old = len(batches) > 0 and self._is_old(int(batches.max_timestamp.max()))
        self._writer.append(data, sync=False, batches=batches, roll=is_old)
        is_new = self._follow_roll()
        self.segments[-1].appended(batches, self._writer.size - len(data))
        return is_new

    def _is_old(self, timestamp: int) -> bool:
        """Whether the last segment's first batch is too old for the segment to take records of `timestamp`.

        Source: LogSegment.timeWaitedForRoll.
        """
        segment_ms = self._settings.segment_ms
        if segment_ms is None or not self._writer.size:
            return False
        first_ms = self.segments[-1].first_timestamp
        return first_ms > NO_TIMESTAMP and timestamp - first_ms > segment_ms

    def roll(self) -> None:
        """Starts a new segment, unless the last one is empty."""
        if self._writer.size:
            self._writer.roll(self.end_offset)
            self._follow_roll()

    def write(self, data: bytes, batches: Sequence[StoredBatch]) -> bool:
        """Appends a few checked batches; returns whether they begin a new segment. Faster than `append`."""
        epochs, latest = [], self.epochs.latest_epoch
        for batch in batches:
            if batch.epoch != latest:
                epochs.append((batch.epoch, batch.base_offset))
                latest = batch.epoch
        writer = self._writer
        is_old = self._settings.segment_ms is not None and self._is_old(max(each.max_timestamp for each in batches))
        writer.write(data, batches[0].base_offset, batches[-1].last_offset, epochs, sync=False, roll=is_old)
        is_new = writer.base_offset != self.segments[-1].base_offset and self._follow_roll()
        self.segments[-1].wrote(batches, writer.size - len(data))
        return is_new

    def _follow_roll(self) -> bool:
        base_offset = self._writer.base_offset
        is_new = base_offset != self.segments[-1].base_offset
        if is_new:
            self.segments[-1].transactions.sync()
            self.segments.append(self._live(segment_path(self.folder, base_offset)))
        return is_new

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Records that a leader epoch begins at `start_offset`; durable on return."""
        self._writer.assign_epoch(epoch, start_offset)

    def replace_epochs(self, entries: Sequence[EpochEntry]) -> None:
        """Replaces the leader epochs by `entries`, for the same records; durable on return."""
        known = self.epochs.entries
        self.epochs.entries = [*entries]
        self._write_epochs_unless(known)

    # Truncation.

    def truncate_to(self, offset: int) -> bool:
        """Removes all batches and epochs from `offset` on; returns whether any batch was removed.

        A batch that spans `offset` is removed whole. `offset` must not be below the first segment.
        """
        is_cut = offset < self.end_offset
        if is_cut:
            self._cut(offset)
        known = self.epochs.entries[:]
        self.epochs.truncate_from_end(min(offset, self.end_offset))
        self._write_epochs_unless(known)
        return is_cut

    def _cut(self, offset: int) -> None:
        """Removes batches from the end backwards, so that a crash in between leaves a longer log without holes.

        The removal of later segments is durable before the last remaining segment is truncated. Otherwise a power cut
        could restore the later segments, with a hole before them.
        """
        self._writer.abandon()
        self.let_go()
        *_, path = self._remove_segments(offset)
        if path != self.segments[-1].path:
            sync_folder(self.folder, self._files)
        remove_indexes(path, self._files)
        last = self._live(path)
        last.cut(offset)
        end_offset = last.end_offset
        last.transactions.truncate_to(end_offset)
        last.close()
        sync_folder(self.folder, self._files)
        self._open(last.base_offset, end_offset)

    def start_anew(self, offset: int) -> None:
        """Removes all segments and epochs; the next record gets `offset`."""
        self._writer.abandon()
        self.let_go()
        self._remove_segments(-1)
        write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), (), self._files)
        sync_folder(self.folder, self._files)
        self._open(offset, offset)

    def _remove_segments(self, above: int) -> list[Path]:
        """Removes the segments that begin above the offset `above`, last segment first; returns the remaining paths."""
        paths = segment_files(self.folder, self._files)
        while paths and base_offset_of(paths[-1]) > above:
            remove_segment(paths.pop(), self._files)
        return paths

    def remove_before(self, offset: int) -> int:
        """Removes segments and epochs wholly below `offset`, but never the last segment; returns how many segments."""
        gone = self._row_of(offset)
        for _ in range(gone):
            segment = self.segments.pop(0)
            segment.close()
            remove_segment(segment.path, self._files)
        if gone:
            sync_folder(self.folder, self._files)
        known = self.epochs.entries[:]
        self.epochs.truncate_from_start(offset)
        self._write_epochs_unless(known)
        return gone

    def _write_epochs_unless(self, known: object) -> None:
        if self.epochs.entries != known:
            write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), self.epochs.entries, self._files)

    # Reads.

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Whole batches from the batch with `offset` on, below `end_offset`; of one segment only, as in Kafka."""
        if offset >= min(end_offset, self.end_offset):
            return b""
        for row in range(self._row_of(offset), len(self.segments)):
            segment = self.segments[row]
            if row + 1 < len(self.segments) and segment.end_offset > self.segments[row + 1].base_offset:
                last = segment.end_offset - 1
                raise StorageError(
                    f"{segment.path}: offsets up to {last} reach into {self.segments[row + 1].path.name}"
                )
            if found := segment.read(offset, max_bytes, end_offset, at_least_one=at_least_one):
                return found
            if segment.damaged_at >= 0:
                raise StorageError(f"{segment.path}: no whole batch at position {segment.damaged_at}")
            if segment.reaches(offset):
                break  # The batch is larger than `max_bytes`, or ends above `end_offset`.
        return b""

    def place_of(self, offset: int) -> Place:
        """The place of the first batch whose last offset is at least `offset`; the end of the log if there is none."""
        segment = self.segments[self._row_of(offset)]
        return Place(segment.base_offset, segment.position_of(offset))

    def written_since(self, place: Place) -> list[tuple[Place, int]]:
        """The parts of the segments after `place`, one per segment: where each part begins, and its size in bytes."""
        found = []
        for segment in self.segments[self._row_of(place.base_offset) :]:
            begin = place.position if segment.base_offset == place.base_offset else 0
            if segment.size > begin:
                found.append((Place(segment.base_offset, begin), segment.size - begin))
        return found

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [offset, end_offset) (LocalLog.collectAbortedTransactions)."""
        found: list[AbortedTransaction] = []
        for segment in self.segments[self._row_of(offset) :]:
            aborted, is_complete = segment.transactions.overlapping(offset, end_offset)
            found += aborted
            if is_complete:
                break
        return found
