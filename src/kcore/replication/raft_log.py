"""Validates a fetcher's last offset against a metadata log: valid, diverging, or snapshot needed (KIP-595, KIP-630)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from kcore.constants import UNDEFINED_EPOCH_OFFSET
from kcore.errors import TableError
from kcore.releases.release import NEWEST_LOG_LEVEL, SNAPSHOTS_WITHIN_BATCHES, LogLevel
from kcore.replication.epochs import EpochCache

Level = LogLevel
NEWEST_LEVEL: Final = NEWEST_LOG_LEVEL


class OffsetAndEpoch(NamedTuple):
    """The end of a log or a snapshot: the offset after its last record, and that record's epoch."""

    offset: int
    epoch: int


def snapshot_name(snapshot: OffsetAndEpoch) -> str:
    """The snapshot's name in messages."""
    return f"the snapshot {snapshot.offset}-{snapshot.epoch}"


class ValidOffsetAndEpoch(NamedTuple):
    """`kind` is VALID, DIVERGING (truncate to `offset_and_epoch`) or SNAPSHOT (fetch that snapshot)."""

    kind: Literal["VALID", "DIVERGING", "SNAPSHOT"]
    offset_and_epoch: OffsetAndEpoch


@dataclass(slots=True)
class RaftLog:
    """The facts of a metadata log for these rules: its epochs, start and end, and its snapshots.

    Raises TableError for a start after the end, or one snapshot without the other. Source: ReplicatedLog (RaftLog in
    later versions), KafkaMetadataLog.
    """

    cache: EpochCache
    start_offset: int
    end_offset: int
    earliest_snapshot: OffsetAndEpoch | None = None
    latest_snapshot: OffsetAndEpoch | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start_offset <= self.end_offset:
            raise TableError(f"a log cannot start at {self.start_offset} and end at {self.end_offset}")
        if (self.earliest_snapshot is None) != (self.latest_snapshot is None):
            raise TableError("a log has an earliest and a latest snapshot, or none")

    @property
    def last_fetched_epoch(self) -> int:
        """The log's latest epoch; the snapshot's epoch if the log has only a snapshot; 0 for an empty log."""
        if self.cache.latest_epoch is not None:
            return self.cache.latest_epoch
        if self.latest_snapshot is None:
            return 0
        if not self.latest_snapshot.offset == self.start_offset == self.end_offset:
            raise TableError(f"a log without epochs must start and end at its snapshot {self.latest_snapshot}")
        return self.latest_snapshot.epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end of `epoch`, or of the last epoch below if the log lacks it; the end of the log without either."""
        found, end_offset = self.cache.end_offset_for(epoch, self.end_offset)
        if end_offset == UNDEFINED_EPOCH_OFFSET:
            return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch)
        if self.earliest_snapshot and (end_offset, found) == (self.earliest_snapshot.offset, epoch):
            return self.earliest_snapshot  # Only the snapshot has epochs below the log's first epoch.
        return OffsetAndEpoch(end_offset, found)

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """The largest valid end of a replica's log that ends at `offset` with a record of `epoch`."""
        if self.start_offset == 0 and offset == 0:
            return ValidOffsetAndEpoch("VALID", OffsetAndEpoch(0, 0))
        if self.earliest_snapshot and self.latest_snapshot and self._needs_snapshot(offset, epoch):
            return ValidOffsetAndEpoch("SNAPSHOT", self.latest_snapshot)
        end = self.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return ValidOffsetAndEpoch("DIVERGING", end)
        return ValidOffsetAndEpoch("VALID", OffsetAndEpoch(offset, epoch))

    def truncation_offset(self, leader_end: OffsetAndEpoch) -> int:
        """The offset to truncate to. Below this offset the log may equal the leader's log.

        `leader_end`: the end of the requested epoch, or of the last epoch before it, in the leader's log.

        Source: ReplicatedLog.truncateToEndOffset.
        """
        offset = min(leader_end.offset, self.end_offset)
        if leader_end.epoch <= 0:  # No leader had this epoch: compare only the offset.
            return offset
        own = self.end_offset_for_epoch(leader_end.epoch)
        return min(own.offset, offset) if own.epoch == leader_end.epoch else own.offset

    def _needs_snapshot(self, offset: int, epoch: int) -> bool:
        assert self.earliest_snapshot
        if offset < self.start_offset or epoch < self.earliest_snapshot.epoch:
            return True
        return offset == self.start_offset and epoch != self.earliest_snapshot.epoch

    def why_no_snapshot(
        self, snapshot: OffsetAndEpoch, high_watermark: int, batch_starts: Sequence[int], level: Level
    ) -> str | None:
        """The reason why no snapshot may end at `snapshot`, or None; `batch_starts` are the log's base offsets.

        A snapshot before the log's start is no error: Kafka then makes no snapshot.
        """
        if snapshot.offset < self.start_offset:
            return None
        if snapshot.offset > high_watermark:
            return f"snapshot {snapshot} is past the high watermark {high_watermark}"
        valid = self.validate_offset_and_epoch(snapshot.offset, snapshot.epoch)
        if valid.kind != "VALID":
            return f"snapshot {snapshot} is not in the log: {valid}"
        if level == SNAPSHOTS_WITHIN_BATCHES or snapshot.offset == high_watermark:
            return None
        # A follower that loads a snapshot ending within a batch could not append the batch that it fetches next.
        base_offset = batch_starts[bisect_right(batch_starts, snapshot.offset) - 1]
        if base_offset != snapshot.offset:
            return f"snapshot {snapshot} ends within the batch that begins at {base_offset}"
        return None
