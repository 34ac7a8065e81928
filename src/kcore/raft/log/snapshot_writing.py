"""Writes a snapshot of a state machine's records in slices while the node goes on (KIP-630).

The edge calls `begin`, then `add` and `add_values` any number of times, with other events of the node in between. It
runs the function that `flush` returns, in any thread, and then calls `freeze`. Only a frozen snapshot can be read.
Source: RecordsSnapshotWriter, FileRawSnapshotWriter.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self

from kcore.errors import RaftLogError
from kcore.raft.log.accumulator import Accumulator
from kcore.raft.log.batches import restamped, split_batches
from kcore.raft.log.control_records import snapshot_footer, snapshot_header
from kcore.replication.raft_log import OffsetAndEpoch

if TYPE_CHECKING:
    from kcore.raft.node_context import NodeContext


class SnapshotWriter:
    """Writes the snapshot of id `snapshot`. Call `drop` to abandon it, and after an error of `add` or `freeze`."""

    __slots__ = ("_filling", "_node", "_now_ms", "snapshot")

    def __init__(self, node: "NodeContext", snapshot: OffsetAndEpoch, now_ms: int) -> None:
        self.snapshot = snapshot
        self._node, self._now_ms = node, now_ms
        self._filling = Accumulator(0)

    @classmethod
    def begin(
        cls, node: "NodeContext", snapshot: OffsetAndEpoch, last_contained_log_timestamp: int, now_ms: int
    ) -> Self | None:
        """Starts a snapshot with its header, which has kraft.version and the voters at the snapshot's offset.

        Returns None if the log may not have the snapshot or has it already, or if another writer has begun it.
        """
        log, history = node.log, node.voter_history
        is_known = snapshot in node.writing or log.snapshot_piece(snapshot, 0, 0) is not None
        if is_known or snapshot.offset < log.start_offset or log.why_no_snapshot(snapshot) is not None:
            return None
        last = snapshot.offset - 1  # The id is an end offset, so this is the snapshot's last record (KAFKA-14618).
        version, voters = history.kraft_version_at(last), history.voters_at(last)
        writer = cls(node, snapshot, now_ms)
        node.writing.add(snapshot)
        try:
            log.begin_snapshot(snapshot)
            header, count = snapshot_header(snapshot.epoch, last_contained_log_timestamp, version, voters, now_ms)
            log.append_snapshot(snapshot, header)
        except BaseException:
            writer.drop()
            raise
        writer._filling.next_offset = count
        return writer

    def add(self, batches: bytes) -> None:
        """Adds whole batches of data, and gives them the snapshot's offsets and epoch; RaftLogError for other bytes."""
        self._drain()
        found, problem = split_batches(batches, check_crc=False)
        if problem is not None or sum(len(each.data) for each in found) < len(batches):
            raise RaftLogError(f"a snapshot is made of whole batches: {problem or 'the last one is cut off'}")
        parts = []
        for batch in found:
            if batch.is_control:
                raise RaftLogError("a state machine writes no control records into a snapshot")
            parts.append(restamped(batch, self._filling.next_offset, self.snapshot.epoch))
            self._filling.next_offset += batch.last_offset - batch.base_offset + 1
        self._append(b"".join(parts))

    def add_values(self, values: Iterable[bytes]) -> None:
        """Adds records by their values; the records are written when they fill a batch, or by `flush`."""
        for value in values:
            if not self._filling.has_room([value]):
                self._drain()
            self._filling.add([value], self._now_ms, 0)

    def flush(self) -> Callable[[], None]:
        """Writes the remaining records and the footer.

        Returns a function that makes the snapshot durable; call it once, in any thread.
        """
        self._drain()
        footer = snapshot_footer(self.snapshot.epoch, self._filling.next_offset, self._now_ms)
        self._append(footer)
        return self._node.log.snapshot_flush(self._check_open())

    def freeze(self) -> bool:
        """Completes the snapshot after `flush`, so that the log has it. False if it is obsolete and was dropped.

        It is obsolete if the log now begins above it: a leader's snapshot or a newer own snapshot came first.
        """
        log = self._node.log
        if self._check_open().offset < log.start_offset:
            self.drop()
            return False
        log.freeze_snapshot(self.snapshot)
        self._node.writing.remove(self.snapshot)
        return True

    def drop(self) -> None:
        """Removes the incomplete snapshot; no effect if it is frozen or dropped already."""
        if self.snapshot in self._node.writing:
            self._node.writing.remove(self.snapshot)
            self._node.log.drop_snapshot(self.snapshot)

    def _drain(self) -> None:
        if self._filling.records:
            self._append(self._filling.drain(self.snapshot.epoch).data)

    def _append(self, batches: bytes) -> None:
        if batches:
            self._node.log.append_snapshot(self._check_open(), batches)

    def _check_open(self) -> OffsetAndEpoch:
        if self.snapshot not in self._node.writing:
            raise RaftLogError(f"the snapshot {self.snapshot} is frozen or dropped: it cannot be written any more")
        return self.snapshot
