"""Copies the current log of a replica to its future log, a slice at a time (ReplicaAlterLogDirsThread)."""

from typing import Final

from kcore.errors import StorageError
from kcore.replication.epochs import EpochCache
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.live_log import NOTHING_CUT, LiveLog
from kcore.storage.log.log_directory import LogDirectory
from kcore.wire.record_batch import scan_batches

SLICE_BYTES: Final = 1 << 18  # The size of a slice, which blocks the event loop.
SYNC_BYTES: Final = 1 << 24  # The copy is synced after so many bytes, so that the promotion has little to sync.


class FutureCopy:
    """The copy of one partition. After a KafkaStorageException, `at` is the directory whose disk failed."""

    def __init__(self, key: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
        """KeyError unless the source has the current log, and the target a future one."""
        self.key, self.source, self.target = key, source, target
        self.is_near = False  # Whether it has caught up once.
        self.not_before_ms = 0  # The time of the next try after an error.
        self.at = target
        self._log, self._future = source.logs[key], target.futures[key]
        self._unsynced = 0

    @property
    def is_there(self) -> bool:
        """Whether both logs still exist."""
        same = self.source.logs.get(self.key) is self._log
        return same and self.target.futures.get(self.key) is self._future

    @property
    def lag(self) -> int:
        """The number of offsets that the future log lacks."""
        return self._log.end_offset - self._future.end_offset

    def begin(self) -> None:
        """Truncates the future log to the common records: the current log may have been truncated meanwhile.

        The common end is found by leader epochs, as between brokers. Source: ReplicaAlterLogDirsThread.truncate.
        """
        self.at = self.target
        self._log.lowest_cut = NOTHING_CUT
        self._cut(common_end(self._log, self._future))

    def step(self) -> bool:
        """Copies a slice. Returns whether both logs end at the same offset. StorageError for a corrupt batch."""
        source, future = self._log, self._future
        self.at = self.target
        if source.lowest_cut < NOTHING_CUT:
            lowest, source.lowest_cut = source.lowest_cut, NOTHING_CUT
            self._cut(lowest)
        start_offset = source.start_offset
        is_empty_there = future.start_offset == future.end_offset == start_offset
        if future.end_offset <= start_offset and not is_empty_there:
            future.truncate_fully_and_start_at(start_offset)  # The current log no longer has any of its records.
        if future.end_offset < source.end_offset:
            self.at = self.source
            data = source.read(future.end_offset, SLICE_BYTES, source.end_offset, at_least_one=True)
            self.at = self.target
            self._append(data)
        future.raise_start_offset(source.start_offset)
        future.high_watermark = max(min(source.high_watermark, future.end_offset), future.start_offset)
        return future.end_offset == source.end_offset

    def _cut(self, offset: int) -> None:
        future = self._future
        if offset < future.start_offset:
            if future.end_offset > future.start_offset or future.start_offset > self._log.start_offset:
                future.truncate_fully_and_start_at(self._log.start_offset)
        elif offset < future.end_offset:
            future.truncate_to(offset)

    def _append(self, data: bytes) -> None:
        batches, future = scan_batches(data), self._future
        if not len(batches) or not batches.crc_matches.all():
            raise StorageError(f"{self._log.folder}: the batch at offset {future.end_offset} is missing or corrupt")
        first_offset = int(batches.base_offset[0])
        if first_offset < future.end_offset == future.start_offset:
            # The current log starts in the middle of a batch (Partition.appendRecordsToFollowerOrFutureReplica).
            future.truncate_fully_and_start_at(first_offset)
        future.append(data, batches)
        self._unsynced += len(data)
        if self._unsynced >= SYNC_BYTES:
            self._unsynced = 0
            future.sync()


def common_end(one: LiveLog, other: LiveLog) -> int:
    """The offset up to which two logs of a partition have the same records, by leader epochs; -1 if unknown."""
    end_offset = other.end_offset
    for epoch, start_offset in reversed(other.epochs.entries):
        known = EpochCache(one.epochs.entries).end_offset_for(epoch, one.end_offset)
        if known.epoch == epoch:
            return min(known.end_offset, end_offset)
        end_offset = start_offset
    return -1
