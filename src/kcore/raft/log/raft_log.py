"""The interface of a raft node to its log; `MemoryLog` keeps the log in memory, `kcore.storage` on a disk.

Offsets count records. Records are not durable before `flush`: after a crash a log may end anywhere between the flushed
end and the written end. Opening a log makes its records durable before a node uses it. Otherwise records could remain
unflushed that a killed process has written.
Source: RaftLog and ReplicatedLog, KafkaRaftLog and KafkaMetadataLog.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kcore.raft.log.batches import SplitBatches
from kcore.replication.raft_log import OffsetAndEpoch, ValidOffsetAndEpoch


class Appended(NamedTuple):
    """The offsets of an append's first and last record."""

    first_offset: int
    last_offset: int


class Refused(NamedTuple):
    """An append of which nothing was written, as the node's epoch or next offset differs."""

    epoch: int  # The epoch that the node leads; -1 if it does not lead.
    next_offset: int  # The offset of the node's next append; -1 if it does not lead.


class SnapshotPiece(NamedTuple):
    """Bytes of a snapshot from a position on, and the size of the whole snapshot."""

    data: bytes
    size: int


class RaftLog(Protocol):
    """A metadata log with its snapshots."""

    @property
    def start_offset(self) -> int:
        """The offset of the first record; if it is above 0, a snapshot ends there or later."""

    @property
    def end_offset(self) -> int:
        """The offset after the last written record, flushed or not."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if there is no record, or 0 (lastFetchedEpoch)."""

    @property
    def high_watermark(self) -> int:
        """The last value of `update_high_watermark`; at the start the latest snapshot's end, or 0."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The complete snapshot with the largest end, if there is one."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The complete snapshot with the smallest end, if there is one."""

    @property
    def snapshots(self) -> list[OffsetAndEpoch]:
        """The complete snapshots, oldest first."""

    @property
    def size_bytes(self) -> int:
        """The size of all batches, without the snapshots."""

    def update_high_watermark(self, offset: int) -> None:
        """Sets the high watermark; raises RaftLogError for an offset below it or above the log's end."""

    def append_as_leader(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended:
        """Appends whole batches of `epoch`; raises RaftLogError for a gap or an epoch below the last one.

        `split` is the result of `split_batches(batches)`, if the caller has it.
        """

    def append_as_follower(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended | None:
        """Appends batches from a leader of `epoch` with their offsets and epochs; None if nothing was new.

        Leaves out an incomplete last batch, and all batches from an epoch above `epoch` on (KAFKA-18723). Raises
        DecodeError for a damaged batch, after those before it were written, and RaftLogError for offsets that do not
        continue the log. `split` is the result of `split_batches(batches)`, if the caller has it.
        """

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches from the one with `offset` on, at least one, up to `max_bytes` and below `end_offset`."""

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; raises RaftLogError for an offset that is not in the log."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end of `epoch`, or of the last epoch below it if the log does not have `epoch`."""

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """Whether a fetcher with this end can go on, diverges, or needs a snapshot."""

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        """Truncates records that a leader with `end` cannot have, and returns the new end.

        Raises RaftLogError, and truncates nothing, if that is below the high watermark.
        """

    def flush(self) -> None:
        """Makes all written records durable."""

    # Snapshots.

    def snapshot_piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        """Bytes of a complete snapshot; None if there is no snapshot of that id."""

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Starts a snapshot, to be filled by `append_snapshot`; drops an incomplete one of the same id."""

    def append_snapshot(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        """Appends bytes to an incomplete snapshot; returns its size so far."""

    def snapshot_flush(self, snapshot: OffsetAndEpoch) -> Callable[[], None]:
        """Returns a function that makes an incomplete snapshot's bytes durable; to be called once, in any thread.

        It spares `freeze_snapshot` a wait for the disk.
        """

    def drop_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Removes an incomplete snapshot; no effect if there is none of that id."""

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Completes a snapshot and makes it durable."""

    def truncate_to_latest_snapshot(self) -> bool:
        """Restarts the log at the latest snapshot if the log ends before it or diverges from it; False if neither."""

    def delete_before(self, snapshot: OffsetAndEpoch) -> bool:
        """Deletes the log below a complete snapshot, and older snapshots; False if nothing is to be deleted.

        Raises RaftLogError if the snapshot ends above the high watermark.
        """

    def why_no_snapshot(self, snapshot: OffsetAndEpoch) -> str | None:
        """Why the log may not have a snapshot of that id (KIP-630), or None."""


def gives_way_to(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Whether a snapshot must replace a log: the log ends before it or diverges from it.

    Kafka compares the epochs first, and does not load a snapshot with an epoch below the log's last. But the log of a
    former leader may have to be replaced: its last record is uncommitted, and later leaders have committed others.
    """
    if log.end_offset < snapshot.offset:
        return True
    end = log.end_offset_for_epoch(snapshot.epoch)
    return end.epoch != snapshot.epoch or end.offset < snapshot.offset
