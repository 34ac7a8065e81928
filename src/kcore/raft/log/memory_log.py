"""A RaftLog in memory, for tests and simulators; `crash` returns the log that survives a crash."""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from kcore.errors import RaftLogError
from kcore.raft.log.batches import SplitBatches, StoredBatch, begins_inside, check_sequence, split_batches
from kcore.raft.log.raft_log import Appended, SnapshotPiece, gives_way_to
from kcore.replication.epochs import EpochCache
from kcore.replication.raft_log import NEWEST_LEVEL, Level, OffsetAndEpoch, ValidOffsetAndEpoch
from kcore.replication.raft_log import RaftLog as Rules


def age(snapshot: OffsetAndEpoch) -> tuple[int, int]:
    """The sort key of snapshots: the epoch before the offset."""
    return snapshot.epoch, snapshot.offset


class MemoryLog:
    """A RaftLog (KafkaRaftLog) whose batches are in a list, oldest first."""

    def __init__(self, level: Level = NEWEST_LEVEL) -> None:
        """`level` is the release whose rule for new snapshots applies."""
        self.level: Level = level
        self.epochs = EpochCache()
        self.start_offset = 0
        self.end_offset = 0
        self.flushed_end = 0  # Records below this offset survive a crash.
        self.high_watermark = 0
        self._batches: list[StoredBatch] = []
        self._base_offsets: list[int] = []  # The batches' base offsets, to find a batch by offset.
        self._snapshots: dict[OffsetAndEpoch, bytes] = {}  # The complete snapshots, oldest first.
        self._begun: dict[OffsetAndEpoch, bytearray] = {}  # The incomplete snapshots.

    @property
    def batches(self) -> Sequence[StoredBatch]:
        """All batches of the log, for tests and tools."""
        return self._batches

    @property
    def snapshots(self) -> list[OffsetAndEpoch]:
        """The complete snapshots, oldest first."""
        return list(self._snapshots)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return next(reversed(self._snapshots), None)

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return next(iter(self._snapshots), None)

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.data) for batch in self._batches)

    @property
    def last_epoch(self) -> int:
        return self.epochs.entries[-1].epoch if self.epochs.entries else self._rules().last_fetched_epoch

    def _rules(self) -> Rules:
        return Rules(self.epochs, self.start_offset, self.end_offset, self.earliest_snapshot, self.latest_snapshot)

    def update_high_watermark(self, offset: int) -> None:
        if not self.high_watermark <= offset <= self.end_offset:
            allowed = f"{self.high_watermark} to {self.end_offset}"
            raise RaftLogError(f"the high watermark cannot be {offset}: only {allowed}")
        self.high_watermark = offset

    # Appends.

    def append_as_leader(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended:
        found, problem = split or split_batches(batches)
        if problem:
            raise problem
        first = self.end_offset
        if not found or sum(len(batch.data) for batch in found) != len(batches):
            raise RaftLogError("a leader appends whole batches")
        if any(batch.epoch != epoch for batch in found):
            raise RaftLogError(f"a leader of epoch {epoch} appends batches of that epoch only")
        check_sequence(found, self.end_offset, self.last_epoch)
        for batch in found:
            self._append(batch)
        return Appended(first, self.end_offset - 1)

    def append_as_follower(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended | None:
        found, problem = split or split_batches(batches)
        newer = next((k for k, batch in enumerate(found) if batch.epoch > epoch), None)
        if newer is not None:  # A later leader's batch: the node must adopt that epoch first (KAFKA-18723).
            found, problem = found[:newer], None
        first = self.end_offset
        is_inside = begins_inside(found, self.start_offset, self.end_offset)
        check_sequence(found, found[0].base_offset if is_inside else first, self.last_epoch)
        for batch in found:
            self._append(batch)
        if is_inside:
            self.epochs.truncate_from_start(first)
        if problem:
            raise problem
        return Appended(first, self.end_offset - 1) if found else None

    def _append(self, batch: StoredBatch) -> None:
        if self.epochs.latest_epoch != batch.epoch:
            self.epochs.assign(batch.epoch, batch.base_offset)
        self._batches.append(batch)
        self._base_offsets.append(batch.base_offset)
        self.end_offset = batch.last_offset + 1

    def flush(self) -> None:
        self.flushed_end = self.end_offset

    # Reads.

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        if not self.start_offset <= offset <= self.end_offset:
            raise RaftLogError(f"offset {offset} is not in the log: {self.start_offset} to {self.end_offset}")
        if offset == self.end_offset:
            return b""
        parts: list[bytes] = []
        size = 0
        for k in range(bisect_right(self._base_offsets, offset) - 1, len(self._batches)):
            batch = self._batches[k]
            if batch.last_offset >= end_offset or (parts and size + len(batch.data) > max_bytes):
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)

    def epoch_at(self, offset: int) -> int:
        epoch = self.epochs.epoch_for_offset(offset)
        if epoch is None or not self.start_offset <= offset < self.end_offset:
            raise RaftLogError(f"offset {offset} is not in the log: {self.start_offset} to {self.end_offset}")
        return epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        return self._rules().end_offset_for_epoch(epoch)

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        return self._rules().validate_offset_and_epoch(offset, epoch)

    # Truncation.

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        offset = self._rules().truncation_offset(end)
        row = bisect_right(self._base_offsets, offset) - 1
        wanted = offset  # The base offset of the batch with `offset`, since a truncation removes whole batches.
        if row >= 0 and self._batches[row].last_offset >= offset:
            wanted = self._base_offsets[row]
        offset = max(wanted, self.start_offset)
        if offset < self.high_watermark:
            raise RaftLogError(f"cannot truncate to {offset}, below the high watermark {self.high_watermark}")
        self._cut(wanted)
        self.end_offset = offset  # The removed batch may begin below the log's start: a snapshot has these records.
        return offset

    def _cut(self, offset: int) -> None:
        while self._batches and self._batches[-1].base_offset >= offset:
            self._batches.pop()
            self._base_offsets.pop()
        self.end_offset = offset
        self.flushed_end = min(self.flushed_end, offset)
        self.epochs.truncate_from_end(offset)

    # Snapshots.

    def snapshot_piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        data = self._snapshots.get(snapshot)
        return None if data is None else SnapshotPiece(data[position : position + max_bytes], len(data))

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        self._begun[snapshot] = bytearray()

    def append_snapshot(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        self._begun[snapshot] += data
        return len(self._begun[snapshot])

    def snapshot_flush(self, snapshot: OffsetAndEpoch) -> Callable[[], None]:
        return lambda: None

    def drop_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        self._begun.pop(snapshot, None)

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        snapshots = self._snapshots | {snapshot: bytes(self._begun.pop(snapshot))}
        self._snapshots = {key: snapshots[key] for key in sorted(snapshots, key=age)}

    def why_no_snapshot(self, snapshot: OffsetAndEpoch) -> str | None:
        return self._rules().why_no_snapshot(snapshot, self.high_watermark, self._base_offsets, self.level)

    def truncate_to_latest_snapshot(self) -> bool:
        latest = self.latest_snapshot
        if latest is None or not gives_way_to(self, latest):
            return False
        self._batches.clear()
        self._base_offsets.clear()
        self.epochs = EpochCache()
        self.start_offset = self.end_offset = self.flushed_end = self.high_watermark = latest.offset
        self._forget_snapshots_before(latest)
        return True

    def delete_before(self, snapshot: OffsetAndEpoch) -> bool:
        if snapshot not in self._snapshots or not self.start_offset < snapshot.offset:
            return False
        if snapshot.offset > self.high_watermark:  # Uncommitted records must stay (KAFKA-14238).
            raise RaftLogError(f"snapshot {snapshot} is past the high watermark {self.high_watermark}")
        gone = next((k for k, batch in enumerate(self._batches) if batch.last_offset >= snapshot.offset), None)
        del self._batches[:gone], self._base_offsets[:gone]
        self.start_offset = snapshot.offset
        self.epochs.truncate_from_start(snapshot.offset)
        self._forget_snapshots_before(snapshot)
        return True

    def _forget_snapshots_before(self, snapshot: OffsetAndEpoch) -> None:
        self._snapshots = {key: data for key, data in self._snapshots.items() if age(key) >= age(snapshot)}

    # For simulators.

    def crash(self, surviving_batches: int = 0) -> "MemoryLog":
        """A log with the batches that survive a crash: the flushed ones and `surviving_batches` more.

        The two logs share batches; this log does not change. Incomplete snapshots are lost.
        """
        log = MemoryLog(self.level)
        log.start_offset = log.end_offset = self.start_offset
        kept = bisect_right(self._base_offsets, self.flushed_end - 1) + surviving_batches
        log._batches, log._base_offsets = self._batches[:kept], self._base_offsets[:kept]
        if log._batches:
            log.end_offset = log._batches[-1].last_offset + 1
        log.epochs = EpochCache(entry for entry in self.epochs.entries if entry.start_offset < log.end_offset)
        log._snapshots = dict(self._snapshots)
        log.flushed_end = log.end_offset
        latest = log.latest_snapshot
        log.high_watermark = min(latest.offset, log.end_offset) if latest else 0
        log.truncate_to_latest_snapshot()
        return log
