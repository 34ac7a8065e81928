"""A replica's log while its broker runs: appended to, read and truncated (UnifiedLog and LocalLog of 3.9.1).

Appended bytes are in the operating system's cache, so a kill -9 loses none of them. As with Kafka's defaults, only a
roll and a clean close fsync: after a power cut the other replicas have the lost records.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kcore.broker.replicas.log import TimestampAndOffset
from kcore.broker.replicas.producers import AppendedBatch, Producer, Producers
from kcore.broker.replicas.transactions import AbortedTransaction, end_markers
from kcore.errors import StorageError
from kcore.protocol_errors import Errors, exception_of
from kcore.replication.epochs import EpochCache
from kcore.storage.files import OS, Closing, FileSystem, is_there, sync_folder, write_atomically
from kcore.storage.log.producer_snapshot import PRODUCER_SNAPSHOT, ProducerState, format_producers, read_producers
from kcore.storage.log.segmented_log import SegmentedLog, Settings
from kcore.wire.record_batch import RecordBatches

__all__ = ["LiveLog", "Settings", "disk_failures"]
NOTHING_CUT: Final = 2**63 - 1  # `lowest_cut` of a log that was not truncated.


@contextmanager
def disk_failures(folder: Path) -> Iterator[None]:
    """Turns OSError and StorageError into KafkaStorageException, so that the broker takes the directory offline."""
    try:
        yield
    except (OSError, StorageError) as error:
        raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{folder}: {error}") from error


class LiveLog(Closing):
    """A ReplicaLog on a disk. Only this object changes its partition's folder."""

    def __init__(
        self,
        folder: Path,
        *,
        start_offset: int = 0,
        settings: Settings | None = None,
        before_append: Callable[[Path], None] | None = None,
        files: FileSystem = OS,
    ) -> None:
        """Opens or creates the folder, and truncates an incomplete batch at the end, which a crash may have left.

        A new log begins at `start_offset`. `before_append` gets the folder. `files`: opens segments, and deletes
        segments and producer snapshots. Raises KafkaStorageException if the disk fails.
        """
        self.folder, self._before_append, self._files = folder, before_append, files
        self.producers = Producers()
        with disk_failures(folder):
            self._log = SegmentedLog(folder, settings or Settings(), start_offset=start_offset, files=files)
            self.high_watermark = self._start_offset = self._log.first_offset
            self.lowest_cut = NOTHING_CUT  # The lowest truncation that the future log has not followed yet.
            self._rebuild_producers()

    def close(self) -> None:
        """Makes the log, the indexes and the producers' state durable, and closes the files."""
        with disk_failures(self.folder):
            self._log.close()
            self._write_producers(self.end_offset)
        self._log.let_go()

    def abandon(self) -> None:
        """Closes the files without a sync, because the disk fails or the log is deleted next."""
        self._log.abandon()

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def size_bytes(self) -> int:
        """The size of the segments' `.log` files."""
        with disk_failures(self.folder):
            return self._log.size_bytes

    @property
    def epochs(self) -> EpochCache:
        return self._log.epochs

    # Appends.

    def append(self, data: bytes, batches: RecordBatches) -> None:
        """Appends checked batches (ReplicaLog). After a failure the log has no byte of `data`."""
        markers = end_markers(data, batches)
        with disk_failures(self.folder):
            if self._before_append is not None:
                self._before_append(self.folder)
            if self._log.append(data, batches):
                self._write_producers(self._log.base_offsets[-1])
            self._log.segments[-1].transactions.append(self.producers.take(batches, markers))

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        with disk_failures(self.folder):
            self._log.assign_epoch(epoch, start_offset)

    def raise_start_offset(self, offset: int) -> None:
        """Raises the log start offset; deletes segments wholly below it, and their producer snapshots."""
        if offset > self._start_offset:
            self._start_offset = min(offset, self.end_offset)
            self.high_watermark = max(self.high_watermark, self._start_offset)
            with disk_failures(self.folder):
                self._remove_before_start()

    def _remove_before_start(self) -> bool:
        """Deletes segments wholly below the start offset, and their producer snapshots; returns whether it did."""
        is_gone = self._log.remove_before(self._start_offset) > 0
        if is_gone:
            for path in self._snapshots():
                if int(path.stem) < self._log.first_offset:
                    self._files.unlink(path)
        return is_gone

    @property
    def segment_bytes(self) -> int:
        """The size at which a segment is full."""
        return self._log.segment_bytes

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Changes segment.bytes."""
        self._log.set_segment_bytes(segment_bytes)

    def set_segment_ms(self, segment_ms: int | None) -> None:
        """Changes segment.ms."""
        self._log.set_segment_ms(segment_ms)

    def delete_old(self, oldest_ms: int | None, most_bytes: int | None) -> bool:
        """Deletes committed segments by age and size (`SegmentedLog.kept_from`); returns whether any was deleted.

        If all segments are to be deleted, starts a new segment first (UnifiedLog.deleteSegments). A follower that knows
        the leader's start offset already may have the log's end as its own: the last segment still goes.
        """
        with disk_failures(self.folder):
            kept = self._log.kept_from(self.high_watermark, oldest_ms, most_bytes)
            if kept == self.end_offset and self._log.base_offsets[-1] < kept:
                self._log.roll()
                self._write_producers(kept)
            self._start_offset = max(kept, self._start_offset)
            return self._remove_before_start()

    # Truncation.

    def truncate_to(self, offset: int) -> None:
        """Truncates the log (ReplicaLog); a batch that spans `offset` is removed as a whole."""
        if offset < self._log.first_offset:
            self.truncate_fully_and_start_at(offset)
            return
        with disk_failures(self.folder):
            if self._log.truncate_to(offset):
                self.lowest_cut = min(self.lowest_cut, self.end_offset)
                self._rebuild_producers()
        self._start_offset = min(self._start_offset, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        with disk_failures(self.folder):
            for path in self._snapshots():
                self._files.unlink(path)
            self._log.start_anew(offset)
        self.high_watermark = self._start_offset = offset
        self.lowest_cut = -1
        self.producers.restore({})

    # Moves to another directory.

    def sync(self) -> None:
        """Makes appended batches durable."""
        with disk_failures(self.folder):
            self._log.sync()

    def take_over(self, source: "LiveLog") -> None:
        """Takes over the state of `source`, which has the same records and is no longer used; durable on return.

        This state cannot be read from the records: leader epochs without a record, producers whose records are deleted,
        and the high watermark.
        """
        assert self.end_offset == source.end_offset
        epochs = EpochCache(source.epochs.entries)
        epochs.truncate_from_start(self.start_offset)
        with disk_failures(self.folder):
            self._log.sync()
            self._log.replace_epochs(epochs.entries)
            self.producers = source.producers
            self._write_producers(self.end_offset)
        self.high_watermark = source.high_watermark

    def move_to(self, folder: Path) -> None:
        """Renames the folder; durable on return (UnifiedLog.renameDir)."""
        with disk_failures(self.folder):
            if is_there(folder):
                raise StorageError(f"{folder} exists already")
            self.folder.rename(folder)
            self.folder = folder
            self._log.moved_to(folder)
            sync_folder(folder.parent)

    # Reads.

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Reads batches (ReplicaLog); as in Kafka, batches of one segment only."""
        with disk_failures(self.folder):
            return self._log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        with disk_failures(self.folder):
            return self._log.aborted_transactions(offset, end_offset)

    def find_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        with disk_failures(self.folder):
            found = (segment.find_timestamp(timestamp_ms, self._start_offset) for segment in self._log.segments)
            return next((each for each in found if each is not None), None)

    def find_latest_timestamp(self) -> TimestampAndOffset | None:
        with disk_failures(self.folder):
            highest = max(self._log.segments, key=lambda segment: segment.max_timestamp)
            return highest.find_timestamp(highest.max_timestamp, self._start_offset)

    # Producers.

    def _snapshots(self) -> list[Path]:
        paths = self.folder.glob(f"*{PRODUCER_SNAPSHOT}")
        return sorted(path for path in paths if path.stem.isdecimal())

    def _write_producers(self, offset: int) -> None:
        """Writes a snapshot of the producers' state at `offset` (ProducerStateManager.takeSnapshot)."""
        path = self.folder / f"{offset:020}{PRODUCER_SNAPSHOT}"
        write_atomically(path, format_producers(state_of(*each) for each in self.producers.by_id.items()))

    def _rebuild_producers(self) -> None:
        """Rebuilds the producers' state and transaction indexes from the batches after the newest producer snapshot.

        Starts from the log's beginning if no snapshot is readable or a transaction index is torn.
        """
        is_whole = all(segment.transactions.is_whole() for segment in self._log.segments)
        begin = self._restore_producers() if is_whole else -1
        ends = [*self._log.base_offsets[1:], self.end_offset]
        for segment, end in zip(self._log.segments, ends, strict=True):
            if end > begin:
                segment.transactions.truncate_to(begin)
                segment.transactions.append(segment.replay(begin, self.producers))

    def _restore_producers(self) -> int:
        """Loads the newest readable producer snapshot; returns its offset, or -1 if there is none."""
        self.producers.restore({})
        for path in reversed(self._snapshots()):
            try:
                states = read_producers(path)
            except StorageError:
                states = None
            if states is None or int(path.stem) > self.end_offset:
                # The snapshot is damaged, or above the log's end, where other batches will follow.
                self._files.unlink(path)
                continue
            self.producers.restore({each.producer_id: _producer_of(each) for each in states})
            return int(path.stem)
        return -1


def state_of(producer_id: int, producer: Producer) -> ProducerState:
    """A producer's entry in a snapshot (ProducerStateManager.writeSnapshot)."""
    last = producer.batches[-1] if producer.batches else AppendedBatch(-1, -1, -1, -1, -1)
    delta = last.last_offset - last.first_offset
    batch = (last.last_sequence, last.last_offset, delta, producer.last_timestamp)
    open_since = -1 if producer.transaction_offset is None else producer.transaction_offset
    return ProducerState(producer_id, producer.epoch, *batch, producer.coordinator_epoch, open_since)


def _producer_of(state: ProducerState) -> Producer:
    open_since = state.current_txn_first_offset
    producer = Producer(
        state.producer_epoch,
        last_timestamp=state.timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_offset=open_since if open_since >= 0 else None,
    )
    if state.last_offset >= 0:
        offsets = state.last_offset - state.offset_delta, state.last_offset
        producer.batches.append(AppendedBatch(state.first_sequence, state.last_sequence, *offsets, state.timestamp))
    return producer
