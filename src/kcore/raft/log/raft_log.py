"""The interface of a raft node to its log; `MemoryLog` keeps the log in memory, `kcore.storage` on a disk.

Offsets count records. Records are durable only after `flush`: after a crash a log may end anywhere between the flushed
end and the written end. Opening a log flushes it before a node uses it, since a killed process may have left unflushed
records.
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
    """The result of an append that the node did not write, because its epoch or next offset differs."""

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
        """The offset of the first record; if the offset is above 0, a snapshot ends there or later."""

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
        """Sets the high watermark; raises RaftLogError if `offset` is below the present one or above the log's end."""

    def append_as_leader(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended:
        """Appends whole batches of `epoch`; raises RaftLogError for a gap or an epoch below the last one.

        `split` is the result of `split_batches(batches)`, if the caller has it.
        """

    def append_as_follower(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended | None:
        """Appends batches from a leader of `epoch` with their offsets and epochs; None if no batch was appended.

        Leaves out an incomplete last batch, and the first batch of an epoch above `epoch` with all later ones
        (KAFKA-18723). Raises DecodeError for a damaged batch, once the batches before it are written, and RaftLogError
        for offsets that do not continue the log. `split`: the result of `split_batches(batches)`, if already known.
        """

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches, starting with the batch that contains `offset`, that end at or below `end_offset`.

        Has at most `max_bytes`, or one batch if the first batch is larger.
        """

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; raises RaftLogError for an offset that is not in the log."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end of `epoch`, or of the last epoch below it if the log does not have `epoch`."""

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """Whether a replica whose log has this end can go on, diverges, or needs a snapshot."""

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        """Truncates records that the leader does not have, by `end`, the diverging epoch in its Fetch response.

        Returns the new end.

        Raises RaftLogError, and truncates nothing, if the new end would be below the high watermark.
        """

    def flush(self) -> None:
        """Makes all written records durable."""

    # Snapshots.

    def snapshot_piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        """Bytes of a complete snapshot; None if there is no snapshot of that id."""

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Starts a snapshot, to be filled by `append_snapshot`; drops an incomplete snapshot of the same id."""

    def append_snapshot(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        """Appends bytes to an incomplete snapshot; returns its size so far."""

    def snapshot_flush(self, snapshot: OffsetAndEpoch) -> Callable[[], None]:
        """Returns a function that makes an incomplete snapshot's bytes durable; call it once, in any thread.

        After this call, `freeze_snapshot` need not wait for the disk.
        """

    def drop_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Removes an incomplete snapshot; no effect if there is no incomplete snapshot of that id."""

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Completes a snapshot and makes it durable."""

    def truncate_to_latest_snapshot(self) -> bool:
        """Restarts the log at the latest snapshot if the log ends before or diverges from that snapshot; else False."""

    def delete_before(self, snapshot: OffsetAndEpoch) -> bool:
        """Deletes the log below a complete snapshot, and older snapshots; False if there is nothing to delete.

        Raises RaftLogError if the snapshot ends above the high watermark.
        """

    def why_no_snapshot(self, snapshot: OffsetAndEpoch) -> str | None:
        """The reason why the log may not have a snapshot of that id (KIP-630); None if it may."""


def gives_way_to(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Whether a snapshot must replace a log: the log ends before the snapshot or diverges from it.

    Kafka compares the epochs first, and never loads a snapshot whose epoch is below the log's last epoch. But the log
    of a former leader may end with uncommitted records of a later epoch, and must then be replaced, too.
    """
    if log.end_offset < snapshot.offset:
        return True
    end = log.end_offset_for_epoch(snapshot.epoch)
    return end.epoch != snapshot.epoch or end.offset < snapshot.offset
