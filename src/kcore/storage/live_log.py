"""A replica's log while its broker runs: appended to, read and cut at once (UnifiedLog and LocalLog of 3.9.1).

Bytes that were appended are with the operating system: a kill -9 loses nothing of them. As with Kafka's defaults only
a roll and a clean close fsync; what the machine's power cut takes, the other replicas have.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np

from kcore.broker.log import TimestampAndOffset
from kcore.broker.producers import AppendedBatch, Producers
from kcore.errors import StorageError
from kcore.protocol_errors import Errors, exception_of
from kcore.replication.epochs import EpochCache
from kcore.storage.checkpoints import LEADER_EPOCHS, write_leader_epochs
from kcore.storage.files import sync_folder, write_atomically
from kcore.storage.live_segment import LiveSegment
from kcore.storage.log import segment_files
from kcore.storage.log_writer import SEGMENT_BYTES, LogWriter
from kcore.storage.producer_snapshot import PRODUCER_SNAPSHOT, ProducerState, format_producers, parse_producers
from kcore.storage.segment import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, segment_path
from kcore.wire.record_batch import INDEX_INTERVAL_BYTES, RecordBatches

BESIDE: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


class Settings(NamedTuple):
    """Of every log of a broker."""

    segment_bytes: int = SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES


@contextmanager
def disk_failures(folder: Path) -> Iterator[None]:
    """What a disk refuses becomes Kafka's error for it: the directory is to go offline."""
    try:
        yield
    except (OSError, StorageError) as error:
        raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{folder}: {error}") from error


class LiveLog:
    """The one owner of a partition's folder; it is what a broker's machine calls a ReplicaLog."""

    def __init__(self, folder: Path, *, start_offset: int = 0, settings: Settings | None = None) -> None:
        """Opens the folder, made if need be; what a crash left of a batch at the end is cut off.

        `start_offset` is where a new log begins. KafkaStorageException if the disk does not do it.
        """
        self.folder, self._settings = folder, settings or Settings()
        self.producers = Producers()
        with disk_failures(folder):
            self._open(start_offset)
            self.high_watermark = self._start_offset = self._segments[0].base_offset
            self._rebuild_producers()

    def _open(self, start_offset: int) -> None:
        self._writer = LogWriter(self.folder, start_offset=start_offset, **self._settings._asdict())
        interval = self._settings.index_interval_bytes
        self._segments = [LiveSegment(path, interval) for path in segment_files(self.folder)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """All is on the disk, the indexes and the producers too."""
        with disk_failures(self.folder):
            self._writer.close()
            self._write_producers(self.end_offset)
        self._let_go()

    def abandon(self) -> None:
        """The disk fails, or the log is to be deleted: files are closed as they are."""
        self._writer.abandon()
        self._let_go()

    def _let_go(self) -> None:
        for segment in self._segments:
            segment.close()

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._writer.end_offset

    @property
    def epochs(self) -> EpochCache:
        return self._writer.epochs

    # Written.

    def append(self, data: bytes, batches: RecordBatches) -> None:
        """As ReplicaLog has it. After a failure nothing of `data` is there."""
        writer = self._writer
        before = writer.base_offset
        with disk_failures(self.folder):
            writer.append(data, sync=False, batches=batches)
            if writer.base_offset != before:
                path = segment_path(self.folder, writer.base_offset)
                self._segments.append(LiveSegment(path, self._settings.index_interval_bytes))
                self._write_producers(writer.base_offset)
        self._segments[-1].appended(batches, writer.size - len(data))
        self.producers.take(batches)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        with disk_failures(self.folder):
            self._writer.assign_epoch(epoch, start_offset)

    def raise_start_offset(self, offset: int) -> None:
        """Segments stay: this broker deletes none by itself."""
        if offset > self._start_offset:
            self._start_offset = min(offset, self.end_offset)
            self.high_watermark = max(self.high_watermark, self._start_offset)

    # Cut.

    def truncate_to(self, offset: int) -> None:
        """As ReplicaLog has it; a batch that reaches over `offset` goes whole."""
        with disk_failures(self.folder):
            if offset < self._segments[0].base_offset:
                self._start_anew(offset)
                return
            if offset < self.end_offset:
                self._cut(offset)
            self._forget_epochs(min(offset, self.end_offset))
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        with disk_failures(self.folder):
            self._start_anew(offset)

    def _cut(self, offset: int) -> None:
        """From the end backwards, so that a crash in between leaves a log that is longer, but whole."""
        self._writer.abandon()
        while self._segments[-1].base_offset > offset:
            self._remove(self._segments.pop())
        last = self._segments[-1]
        last.cut(offset)
        for suffix in BESIDE:
            last.path.with_suffix(suffix).unlink(missing_ok=True)
        self._let_go()
        sync_folder(self.folder)
        self._open(last.base_offset)
        self._rebuild_producers()

    def _start_anew(self, offset: int) -> None:
        self._writer.abandon()
        for path in self._snapshots():
            path.unlink()
        while self._segments:
            self._remove(self._segments.pop())
        write_leader_epochs(self.folder / LEADER_EPOCHS, ())
        sync_folder(self.folder)
        self._open(offset)
        self.high_watermark = self._start_offset = offset
        self.producers.restore(())

    def _remove(self, segment: LiveSegment) -> None:
        segment.close()
        for path in (segment.path, *map(segment.path.with_suffix, BESIDE)):
            path.unlink(missing_ok=True)

    def _forget_epochs(self, end_offset: int) -> None:
        epochs = self._writer.epochs
        known = len(epochs.entries)
        epochs.truncate_from_end(end_offset)
        if len(epochs.entries) < known:
            write_leader_epochs(self.folder / LEADER_EPOCHS, epochs.entries)

    # Read.

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """As ReplicaLog has it, out of one segment, as Kafka does."""
        if offset >= min(end_offset, self.end_offset):
            return b""
        with disk_failures(self.folder):
            first = max(bisect_right(self._bases, offset) - 1, 0)
            for segment in self._segments[first:]:
                if found := segment.read(offset, max_bytes, end_offset, at_least_one=at_least_one):
                    return found
                if segment.reaches(offset):
                    break  # What there is, is too large or not to be read yet.
        return b""

    @property
    def _bases(self) -> list[int]:
        return [segment.base_offset for segment in self._segments]

    def find_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        with disk_failures(self.folder):
            found = (segment.find_timestamp(timestamp_ms, self._start_offset) for segment in self._segments)
            return next((each for each in found if each is not None), None)

    def find_latest_timestamp(self) -> TimestampAndOffset | None:
        with disk_failures(self.folder):
            highest = max(self._segments, key=lambda segment: segment.max_timestamp)
            return highest.find_timestamp(highest.max_timestamp, self._start_offset)

    # Producers.

    def _snapshots(self) -> list[Path]:
        paths = self.folder.glob(f"*{PRODUCER_SNAPSHOT}")
        return sorted(path for path in paths if path.stem.isdecimal())

    def _write_producers(self, offset: int) -> None:
        """What all batches below `offset` said (ProducerStateManager.takeSnapshot)."""
        path = self.folder / f"{offset:020}{PRODUCER_SNAPSHOT}"
        entries = []
        for producer_id, producer in self.producers.by_id.items():
            last = producer.batches[-1] if producer.batches else AppendedBatch(-1, -1, -1, -1, -1)
            delta = last.last_offset - last.first_offset
            state = (producer.epoch, last.last_sequence, last.last_offset, delta, last.timestamp)
            entries.append(ProducerState(producer_id, *state, -1, -1))
        write_atomically(path, format_producers(entries))

    def _rebuild_producers(self) -> None:
        """From the newest snapshot that can be read, and the batches behind it."""
        begin = -1
        self.producers.restore(())
        for path in reversed(self._snapshots()):
            try:
                states = parse_producers(path.read_bytes())
            except StorageError:
                states = None
            if states is None or int(path.stem) > self.end_offset:
                path.unlink()  # Torn, or of batches that were cut off: others will have their offsets.
                continue
            begin = int(path.stem)
            self.producers.restore((each.producer_id, each.producer_epoch, _last_of(each)) for each in states)
            break
        for segment, end in zip(self._segments, [*self._bases[1:], self.end_offset], strict=True):
            if end > begin:
                batches = segment.batches()
                self.producers.take(batches.take(np.flatnonzero(batches.base_offset >= begin)))


def _last_of(state: ProducerState) -> AppendedBatch | None:
    if state.last_offset < 0:
        return None
    first_offset = state.last_offset - state.offset_delta
    return AppendedBatch(state.first_sequence, state.last_sequence, first_offset, state.last_offset, state.timestamp)
