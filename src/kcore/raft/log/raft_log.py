"""What a raft node needs of a log; `MemoryLog` keeps it in memory, `kcore.storage` on a disk.

Offsets count records. What is written is not durable before `flush`: after a crash a log may end anywhere between what
was last flushed and what was written. What a log has when a node is made with it is durable: opening it sees to that,
since the process before may have been killed between a write and its flush.
Source: RaftLog and ReplicatedLog, KafkaRaftLog and KafkaMetadataLog.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kcore.raft.log.batches import SplitBatches
from kcore.replication.raft_log import OffsetAndEpoch, ValidOffsetAndEpoch


class Appended(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int


class Refused(NamedTuple):
    """An append that was not taken, nothing of it: the node leads another epoch, or its next offset is another."""

    epoch: int  # That the node leads; -1 if it does not lead.
    next_offset: int  # Of its next append; -1 if it does not lead.


class SnapshotPiece(NamedTuple):
    """Bytes of a snapshot from a position on, and its whole size."""

    data: bytes
    size: int


class RaftLog(Protocol):
    """A metadata log with its snapshots."""

    @property
    def start_offset(self) -> int:
        """Of the first record; above 0 there is a snapshot that ends there or later."""

    @property
    def end_offset(self) -> int:
        """Behind the last record written, flushed or not."""

    @property
    def last_epoch(self) -> int:
        """Of the last record; of a log that is but a snapshot, the snapshot's; of an empty log 0 (lastFetchedEpoch)."""

    @property
    def high_watermark(self) -> int:
        """The value of the last `update_high_watermark`; at the start the latest snapshot's end, or 0."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The whole snapshot with the largest end, if there is one."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The whole snapshot with the smallest end, if there is one."""

    @property
    def snapshots(self) -> list[OffsetAndEpoch]:
        """The whole ones, oldest first."""

    @property
    def size_bytes(self) -> int:
        """Of all batches that are kept, without the snapshots."""

    def update_high_watermark(self, offset: int) -> None:
        """RaftLogError below where it was, or above the end."""

    def append_as_leader(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended:
        """Writes whole batches of `epoch` that go on from the end; RaftLogError if they do not or it is older.

        `split`: what `split_batches(batches)` returns, where that is known already.
        """

    def append_as_follower(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended | None:
        """Writes what a leader of `epoch` sent, offsets and epochs as they are there; None if nothing was new.

        An incomplete last batch is left out, and so is everything from a batch of an epoch above `epoch` on
        (KAFKA-18723). DecodeError for a damaged batch, with those before it written; RaftLogError for offsets that do
        not continue the log. `split`: what `split_batches(batches)` returned, if that was called already.
        """

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one, up to `max_bytes` and below `end_offset`."""

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; RaftLogError for an offset that is not in the log."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Where `epoch`, or else the last one below it, ends."""

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """What a fetcher's end makes of it: valid, diverging, or a snapshot is needed."""

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        """Cuts what a leader whose log has `end` cannot have; the new end. RaftLogError below the high watermark."""

    def flush(self) -> None:
        """Everything written is durable."""

    # Snapshots.

    def snapshot_piece(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPiece | None:
        """Bytes of a whole snapshot, None if there is no such one."""

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """An empty one to be filled by `append_snapshot`; drops what was begun under that id before."""

    def append_snapshot(self, snapshot: OffsetAndEpoch, data: bytes) -> int:
        """More bytes of one that was begun; its size so far."""

    def snapshot_flush(self, snapshot: OffsetAndEpoch) -> Callable[[], None]:
        """What makes durable, when it is called, all that was appended to one that was begun; from any thread, once.

        Then `freeze_snapshot` has nothing left to wait for.
        """

    def drop_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Removes one that was begun and is not whole; nothing happens if there is none of that id."""

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """The snapshot is complete, and durable from now on."""

    def truncate_to_latest_snapshot(self) -> bool:
        """Empties the log where it ends before the latest snapshot, or diverges from it; False if neither."""

    def delete_before(self, snapshot: OffsetAndEpoch) -> bool:
        """Moves the start of the log up to a whole snapshot below the high watermark; False if it is there already."""

    # What is read back.

    def why_no_snapshot(self, snapshot: OffsetAndEpoch) -> str | None:
        """Why the state at `snapshot` may not become one (KIP-630), or None."""


def gives_way_to(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Whether a log ends before a snapshot, or parts from it.

    Kafka compares the epochs first, and does not load a snapshot of an epoch below the log's last. Such a log may have
    to give way: a former leader's, with a record of its own epoch, where a later leader has committed what was before.
    """
    if log.end_offset < snapshot.offset:
        return True
    end = log.end_offset_for_epoch(snapshot.epoch)
    return end.epoch != snapshot.epoch or end.offset < snapshot.offset
