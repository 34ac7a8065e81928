"""Bugs in flushes, in recovery and truncation, and in a node's claims about its durable log."""

from typing import Any

from kcore.raft import following, leading
from kcore.raft.effects import Flush
from kcore.raft.log.batches import split_batches
from kcore.raft.node import RaftNode
from kcore.raft.node_context import NodeContext
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.log.segmented_log import SegmentedLog
from kcore.storage.raft import file_raft_log as raft_log
from kcore.storage.raft import raft_recovery
from kcore.storage.raft.file_raft_log import DiskRaftLog
from planted_raft.patches import Patches, planted_bug


@planted_bug("MajorityReachedHighWatermark")
def leader_counts_what_is_not_flushed(patches: Patches) -> None:
    """The leader counts its own written records for the high watermark before it has flushed them."""

    def make(write: Any) -> Any:
        def broken(node: Any, *given: Any) -> None:
            write(node, *given)
            node.leading.progress_of(node.local).end_offset = node.log.end_offset

        return broken

    patches.put(leading, "_write", make)


@planted_bug("ClaimsAreDurable")
def follower_fetches_before_it_flushed(patches: Patches) -> None:
    """A follower's fetch offset claims records that it has not flushed, so that a crash may lose them."""

    def make(fetch_request: Any) -> Any:
        def broken(node: Any) -> Any:
            flushed, node.flushed_end_offset = node.flushed_end_offset, node.log.end_offset
            request = fetch_request(node)
            node.flushed_end_offset = flushed
            return request

        return broken

    patches.put(following, "fetch_request", make)


@planted_bug("WrittenIsFlushed")
def restart_counts_what_is_not_flushed(patches: Patches) -> None:
    """A node that opens its log after kill -9 does not flush the records that it finds."""
    patches.put(raft_log, "sync_segments", lambda _: lambda *given: None)


@planted_bug("ClaimsAreDurable")
def flush_from_before_a_cut_counts(patches: Patches) -> None:
    """An fsync that began before a cut of the log counts for the records that were written after the cut."""

    def make(on_flushed: Any) -> Any:
        return lambda self, flush, now_ms: on_flushed(self, Flush(flush.end_offset, self.cuts), now_ms)

    patches.put(RaftNode, "on_flushed", make)


@planted_bug("WrittenIsFlushed")
def no_flush_after_a_cut(patches: Patches) -> None:
    """After a cut of the log, the node requests no flush for the rest of the log."""

    def make(was_cut: Any) -> Any:
        def broken(self: Any, offset: int) -> None:
            kept = list(self.effects)
            was_cut(self, offset)
            self.effects[:] = kept

        return broken

    patches.put(NodeContext, "was_cut", make)


@planted_bug("WrittenIsFlushed")
def damaged_answer_keeps_its_beginning_from_the_disk(patches: Patches) -> None:
    """The node writes the batches before the damage and does not flush them."""

    def make(append: Any) -> Any:
        def broken(node: Any, records: bytes) -> Any:
            kept = list(node.effects)
            is_whole = append(node, records)
            if not is_whole:
                node.effects[:] = kept
            return is_whole

        return broken

    patches.put(following, "append", make)


@planted_bug("DurableIsFound")
def recovery_cuts_a_batch_that_is_whole(patches: Patches) -> None:
    """Recovery after a crash cuts the last batch of the log, although the batch was flushed."""

    def make(whole: Any) -> Any:
        return lambda batches, end_offset, epoch: max(whole(batches, end_offset, epoch) - 1, 0)

    patches.put(raft_recovery, "_whole", make)


@planted_bug("LeaderCompleteness")
def node_that_starts_cuts_a_batch(patches: Patches) -> None:
    """A node that starts with uncommitted batches cuts the last batch of its recovered log."""

    def make(init: Any) -> Any:
        def broken(self: Any, config: Any, log: Any) -> None:
            if log.end_offset > max(log.start_offset, log.high_watermark):
                last = split_batches(log.read(log.end_offset - 1, 1, log.end_offset))[0][0]
                log.truncate_to_end_offset(OffsetAndEpoch(last.base_offset, last.epoch))
            init(self, config, log)

        return broken

    patches.put(RaftNode, "__init__", make)


@planted_bug("Liveness")
def truncation_keeps_one_batch(patches: Patches) -> None:
    """A truncation leaves one batch too many in the log."""

    def make(truncate_to: Any) -> Any:
        def broken(self: Any, offset: int) -> bool:
            kept = self.read(offset, 1, self.end_offset, at_least_one=True)
            return bool(truncate_to(self, split_batches(kept)[0][0].last_offset + 1 if kept else offset))

        return broken

    patches.put(SegmentedLog, "truncate_to", make)


@planted_bug("CutsDivergence")
def truncation_takes_one_batch_too_many(patches: Patches) -> None:
    """A follower also cuts the batch before the divergence, which its leader has, unless the batch is committed."""

    def make(truncate: Any) -> Any:
        def broken(self: Any, end: Any) -> int:
            offset = int(truncate(self, end))
            if offset > max(self.start_offset, self.high_watermark):
                last = self._batch_at(offset - 1)
                if last >= self.high_watermark:
                    self._log.truncate_to(last)
                    self.end_offset = offset = last
            return offset

        return broken

    patches.put(DiskRaftLog, "truncate_to_end_offset", make)
