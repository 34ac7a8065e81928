"""The segments of a partition's folder while they are in use: appended to, read and cut at once (LocalLog)."""

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
INDEXES: Final = (OFFSET_INDEX, TIME_INDEX)  # Rebuilt from the segment alone.


class Settings(NamedTuple):
    """A log's settings, with Kafka's defaults."""

    segment_bytes: int = SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    segment_ms: int | None = None  # A segment whose first batch is so much older than an append is full.
    set_aside: bool = False  # True: rename the files after a hole and open the log; False: refuse to open it.


def remove_indexes(path: Path, files: FileSystem = OS) -> None:
    """Deletes a segment's indexes but the transaction index, which cannot be rebuilt from the segment alone."""
    for suffix in INDEXES:
        remove(beside(path, suffix), files)


def remove_segment(path: Path, files: FileSystem = OS) -> None:
    """Deletes a segment and its other files; indexes first, so that none is left without its segment."""
    remove_indexes(path, files)
    remove(beside(path, TRANSACTION_INDEX), files)
    remove(path, files)


class Place(NamedTuple):
    """The position of a batch, or of the log's end: the segment's base offset, and the byte in the segment."""

    base_offset: int
    position: int


class SegmentedLog:
    """The only owner of a folder's segments and leader epochs. Raises OSError and StorageError if the disk fails.

    Appended bytes are with the operating system: only a roll and `close` fsync.
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
        """Opens the folder as LogWriter does; with `indexed`, existing indexes are trusted, which spares scans."""
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
        """All is on the disk, the indexes too. `let_go` is the caller's."""
        self.segments[-1].transactions.sync()
        self._writer.close()

    def abandon(self) -> None:
        """Files are closed as they are."""
        self._writer.abandon()
        self.let_go()

    def let_go(self) -> None:
        """No file is held for reading; a later read takes it again."""
        for segment in self.segments:
            segment.close()

    @property
    def first_offset(self) -> int:
        """Where the first segment begins."""
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
        """As `Settings` has it, from now on."""
        self._settings = self._settings._replace(segment_ms=segment_ms)

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """A segment that has so many bytes is full, from now on."""
        if segment_bytes != self._settings.segment_bytes:
            self._settings = self._settings._replace(segment_bytes=segment_bytes)
            self._writer.set_segment_bytes(segment_bytes)

    def kept_from(self, end_offset: int, oldest_ms: int | None, most_bytes: int | None) -> int:
        """The first offset that retention keeps; the log's end offset if it deletes all segments.

        It deletes segments whose records are all older than `oldest_ms`, and segments that the log does not need to
        have `most_bytes`; None disables either rule. Segments that are not wholly below `end_offset` stay. Source:
        UnifiedLog.deletableSegments.
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
        """The segment that has that offset, or would have it."""
        return self.segments[self._row_of(offset)].path

    def _row_of(self, offset: int) -> int:
        """The row of the segment with that offset, or 0 for an offset below the log."""
        return max(bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1, 0)

    @property
    def segment_bytes(self) -> int:
        """A segment that has so many bytes is full."""
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
        """The folder was renamed to that: files that are open stay so."""
        self.folder = folder
        self._writer.moved_to(folder)
        for segment in self.segments:
            segment.moved_to(folder)

    def duplicate(self) -> int | None:
        """See `LogWriter.duplicate`; older segments are durable."""
        return self._writer.duplicate()

    # Written.

    def append(self, data: bytes, batches: RecordBatches) -> bool:
        """Whole batches, `batches` their scan; whether they begin a new segment. After an error nothing is there."""
        is_old = len(batches) > 0 and self._is_old(int(batches.max_timestamp.max()))
        self._writer.append(data, sync=False, batches=batches, roll=is_old)
        is_new = self._follow_roll()
        self.segments[-1].appended(batches, self._writer.size - len(data))
        return is_new

    def _is_old(self, timestamp: int) -> bool:
        """Whether the last segment is too old for records of that time, by its first batch.

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
        """As `append`, of a few batches that were checked."""
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
        """On the disk when this returns."""
        self._writer.assign_epoch(epoch, start_offset)

    def replace_epochs(self, entries: Sequence[EpochEntry]) -> None:
        """These are the leader epochs of the same records; on the disk when this returns."""
        known = self.epochs.entries
        self.epochs.entries = [*entries]
        self._write_epochs_unless(known)

    # Cut.

    def truncate_to(self, offset: int) -> bool:
        """Nothing from `offset` on is left, nor of epochs from there on; whether there was any of it.

        A batch that reaches over `offset` goes whole. `offset` is not below the first segment.
        """
        is_cut = offset < self.end_offset
        if is_cut:
            self._cut(offset)
        self._forget_epochs(min(offset, self.end_offset))
        return is_cut

    def _cut(self, offset: int) -> None:
        """From the end backwards, so that a crash in between leaves a log that is longer, but whole.

        The later segments are gone for good before the last one is cut: a power cut that brought them back would leave
        them behind a hole.
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
        """Nothing is left; the next record gets `offset`."""
        self._writer.abandon()
        self.let_go()
        self._remove_segments(-1)
        write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), (), self._files)
        sync_folder(self.folder, self._files)
        self._open(offset, offset)

    def _remove_segments(self, above: int) -> list[Path]:
        """Removes the segments that begin above that offset, last ones first; returns the other segments' files."""
        paths = segment_files(self.folder, self._files)
        while paths and base_offset_of(paths[-1]) > above:
            remove_segment(paths.pop(), self._files)
        return paths

    def remove_before(self, offset: int) -> int:
        """Removes segments and epochs wholly below `offset`, but the last segment; returns how many segments went."""
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

    def _forget_epochs(self, end_offset: int) -> None:
        known = self.epochs.entries[:]
        self.epochs.truncate_from_end(end_offset)
        self._write_epochs_unless(known)

    def _write_epochs_unless(self, known: object) -> None:
        if self.epochs.entries != known:
            write_leader_epochs(path_in(self.folder, LEADER_EPOCHS), self.epochs.entries, self._files)

    # Read.

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Whole batches from the one that reaches `offset` on, below `end_offset`; of one segment, as Kafka does."""
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
                break  # The batch is larger than `max_bytes`, or reaches `end_offset`.
        return b""

    def place_of(self, offset: int) -> Place:
        """The place of the batch that reaches `offset`; the end of the log if none does."""
        segment = self.segments[self._row_of(offset)]
        return Place(segment.base_offset, segment.position_of(offset))

    def written_since(self, place: Place) -> list[tuple[Place, int]]:
        """The pieces of the files from there on, one per segment: where each begins, and its size in bytes."""
        found = []
        for segment in self.segments[self._row_of(place.base_offset) :]:
            begin = place.position if segment.base_offset == place.base_offset else 0
            if segment.size > begin:
                found.append((Place(segment.base_offset, begin), segment.size - begin))
        return found

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions in the indexes for [offset, end_offset) (LocalLog.collectAbortedTransactions)."""
        found: list[AbortedTransaction] = []
        for segment in self.segments[self._row_of(offset) :]:
            aborted, is_complete = segment.transactions.overlapping(offset, end_offset)
            found += aborted
            if is_complete:
                break
        return found
