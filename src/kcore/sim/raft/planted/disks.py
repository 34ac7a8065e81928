"""Bugs in what is flushed, and in what a node says that its disk has."""

from typing import Any

from kcore.raft import following
from kcore.raft.context import NodeContext
from kcore.raft.effects import Flush
from kcore.raft.leading import LeaderState
from kcore.raft.memory_log import MemoryLog
from kcore.raft.node import RaftNode
from kcore.sim.raft.disk import SimLog
from kcore.sim.raft.planted.patches import Patches, plant


@plant("MajorityReachedHighWatermark")
def leader_counts_what_is_not_flushed(patches: Patches) -> None:
    """Its own log's end goes into the high watermark as soon as it is written."""

    def make(write: Any) -> Any:
        def broken(self: Any, node: Any, batch: bytes) -> None:
            write(self, node, batch)
            self.progress_of(self.local).end_offset = node.log.end_offset

        return broken

    patches.put(LeaderState, "_write", make)


@plant("ClaimsAreDurable")
def follower_fetches_before_it_flushed(patches: Patches) -> None:
    """Its fetch offset claims what a crash may take."""

    def make(fetch_request: Any) -> Any:
        def broken(node: Any) -> Any:
            flushed, node.flushed_end_offset = node.flushed_end_offset, node.log.end_offset
            request = fetch_request(node)
            node.flushed_end_offset = flushed
            return request

        return broken

    patches.put(following, "fetch_request", make)


@plant("WrittenIsFlushed")
def restart_counts_what_is_not_flushed(patches: Patches) -> None:
    """Opening a log after kill -9 does not flush what it finds."""
    patches.put(SimLog, "open", lambda _: lambda self: None)


@plant("ClaimsAreDurable")
def flush_from_before_a_cut_counts(patches: Patches) -> None:
    """An fsync that was under way when the log was cut is taken for one of what came there since."""

    def make(on_flushed: Any) -> Any:
        return lambda self, flush, now_ms: on_flushed(self, Flush(flush.end_offset, self.cuts), now_ms)

    patches.put(RaftNode, "on_flushed", make)


@plant("WrittenIsFlushed")
def no_flush_after_a_cut(patches: Patches) -> None:
    """What is left of the log waits for a flush that is not counted any more."""

    def make(was_cut: Any) -> Any:
        def broken(self: Any, offset: int) -> None:
            kept = list(self.effects)
            was_cut(self, offset)
            self.effects[:] = kept

        return broken

    patches.put(NodeContext, "was_cut", make)


@plant("WrittenIsFlushed")
def damaged_answer_keeps_its_beginning_from_the_disk(patches: Patches) -> None:
    """What comes before the damage is written and not flushed."""

    def make(append: Any) -> Any:
        def broken(node: Any, records: bytes) -> Any:
            kept = list(node.effects)
            is_whole = append(node, records)
            if not is_whole:
                node.effects[:] = kept
            return is_whole

        return broken

    patches.put(following, "append", make)


@plant("LeaderCompleteness")
def recovery_cuts_a_batch_that_is_whole(patches: Patches) -> None:
    """A log that is opened after a crash loses its last batch, though that was flushed."""

    def make(opened: Any) -> Any:
        def broken(self: Any, start_offset: int, batches: Any, unsynced: Any) -> Any:
            return opened(self, start_offset, batches[:-1], [])

        return broken

    patches.put(SimLog, "_opened", make)


@plant("Liveness")
def truncation_keeps_one_batch(patches: Patches) -> None:
    """The log is cut one batch too late."""

    def make(cut: Any) -> Any:
        def broken(self: Any, offset: int) -> None:
            kept = next((batch for batch in self.batches if batch.base_offset >= offset), None)
            cut(self, offset if kept is None else kept.last_offset + 1)

        return broken

    patches.put(MemoryLog, "_cut", make)


@plant("CutsDivergence")
def truncation_takes_one_batch_too_many(patches: Patches) -> None:
    """A follower cuts a batch that it has flushed and its leader has; what is committed it keeps."""

    def make(truncate: Any) -> Any:
        def broken(self: Any, end: Any) -> int:
            offset = truncate(self, end)
            if self.batches and self.batches[-1].base_offset >= self.high_watermark:
                offset = self.batches[-1].base_offset
                self._cut(offset)
            return int(offset)

        return broken

    patches.put(MemoryLog, "truncate_to_end_offset", make)
