"""Checks appends, truncations and flushes, and each node's claims about its durable log."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from kcore.raft.log.batches import StoredBatch
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.states import Leader
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_votes import VoteRequest
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker, only_for
from kcore.sim.raft.disk import ParsedFile
from kcore.sim.raft.simulated_machine import Call, Machine
from kcore.sim.raft.world_state import WorldState


class Logs(Checker):
    """LogMatching, LeaderAppendOnly, CutsDivergence, WrittenIsFlushed, ClaimsAreDurable, DurableIsFound: the
    invariants of this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        self._durable: dict[ReplicaKey, tuple[int, int]] = {}  # By disk: the log's last durable end and epoch.

    def on_end(self, machine: Machine) -> None:
        self._durable[machine.key] = machine.log.durable_end, machine.log.durable_epoch

    def on_open(self, machine: Machine) -> None:
        """An opened log has all durable records, and only records that were written."""
        log, (end, epoch) = machine.log, self._durable.get(machine.key, (0, 0))
        before: int | None = None
        for parsed in log.found:
            before = self._check_found(machine, parsed, before)
        latest = log.latest_snapshot
        if latest is not None and (latest.epoch, latest.offset) >= (epoch, end):
            return  # The snapshot covers the durable records.
        if log.end_offset < end or (end > log.start_offset and log.epoch_at(end - 1) != epoch):
            message = f"node {machine.index} had the durable end {end} of epoch {epoch}, and finds {log.end_offset}"
            raise Violation("DurableIsFound", message)

    def _check_found(self, machine: Machine, parsed: ParsedFile, before: int | None) -> int | None:
        """Checks that a segment has the written batches, after a batch of epoch `before`; returns its last epoch.

        Batches that an earlier start has compared are skipped while they are unchanged.
        """
        facts, batches = self.facts, parsed.batches
        written, begin = facts.written, parsed.judged
        if begin and before is not None:
            first = written.get((batches[0].base_offset, batches[0].epoch))
            begin = begin if first is not None and first[1] == before else 0
        if begin:
            before = batches[begin - 1].epoch
        unknown = batches[begin:]
        for batch in () if _are_as_written(unknown, written, before) else unknown:
            base_offset, _, batch_epoch, _, data = batch
            known = written.get((base_offset, batch_epoch))
            if known is None:
                if before is not None:  # The process ended in the middle of its write.
                    self.on_appended(machine, batch, before)
            elif known[0] != data or (before != known[1] and before is not None):
                message = f"node {machine.index} finds another batch at offset {base_offset} of epoch {batch_epoch}"
                raise Violation("LogMatching", message)
            before = batch_epoch
        parsed.judged = len(batches)
        return batches[-1].epoch if batches else before

    def on_appended(self, machine: Machine, batch: StoredBatch, epoch_before: int) -> None:
        """Two logs with a batch of the same offset and epoch are equal up to this batch."""
        self.facts.epoch_starts.setdefault(batch.epoch, batch.base_offset)
        this = batch.data, epoch_before
        known = self.facts.written.setdefault((batch.base_offset, batch.epoch), this)
        if known is not this and known != this:
            what = "two batches" if known[0] != batch.data else f"epochs {known[1]} and {epoch_before} before the batch"
            raise Violation("LogMatching", f"{what} at offset {batch.base_offset} of epoch {batch.epoch}")

    def on_cut(self, machine: Machine, batches: tuple[StoredBatch, ...], durable_end: int) -> None:
        """A follower cuts no durable batch that its leader has: the leader may have counted the batch."""
        if not batches or batches[0].base_offset >= durable_end:
            return
        node = machine.node
        if type(node.state) is Leader:
            raise Violation("LeaderAppendOnly", f"node {machine.index} leads and cuts at {batches[0].base_offset}")
        leader = self._leader_of(node.epoch)
        if leader is not None and has(leader.log.batches, batches[0]):
            message = f"node {machine.index} cuts at {batches[0].base_offset}; its leader {leader.index} has the batch"
            raise Violation("CutsDivergence", message)

    def _leader_of(self, epoch: int) -> Machine | None:
        """The machine that leads this epoch, None if that incarnation has stopped or changed its epoch."""
        known = self.facts.leaders.get(epoch)
        if known is None:
            return None
        machine = self.world.machines[known[0].id]
        is_there = machine.is_up and machine.incarnation == known[1] and machine.node.epoch == epoch
        return machine if is_there and type(machine.node.state) is Leader else None

    def after_write(self, machine: Machine) -> None:
        """All written records are flushed, unless a flush is running."""
        if machine.fsync is not None or machine.storing is not None:
            return
        log, counted = machine.log, machine.node.flushed_end_offset
        if log.flushed_end < log.end_offset or counted < log.end_offset:
            message = (
                f"node {machine.index} has written up to {log.end_offset}, flushed up to {log.flushed_end} ({counted})"
            )
            raise Violation("WrittenIsFlushed", f"{message}, and flushes nothing")

    @only_for(FetchRequest, VoteRequest)
    def on_send(self, machine: Machine, call: Call) -> None:
        """Fetch and Vote requests claim only durable records, because majorities are counted by these claims."""
        request = call.request
        if type(request) is FetchRequest:
            partition = request.topics[0].partitions[0]
            claimed = partition.fetch_offset
            if partition.log_start_offset >= 0:
                claimed = min(claimed, partition.log_start_offset)
            if claimed > machine.log.durable_end:
                message = f"node {machine.index} fetches from {claimed}, but is durable up to {machine.log.durable_end}"
                raise Violation("ClaimsAreDurable", message)
        elif type(request) is VoteRequest:
            requested = request.topics[0].partitions[0]
            durable = machine.log.durable_epoch, machine.log.durable_end
            if (requested.last_offset_epoch, requested.last_offset) > durable:
                raise Violation(
                    "ClaimsAreDurable", f"node {machine.index} is durable to {durable} and sends {requested}"
                )


def _are_as_written(
    batches: Sequence[StoredBatch], written: Mapping[tuple[int, int], tuple[bytes, int]], before: int | None
) -> bool:
    """Whether all batches equal the written ones; usually they do, and one comparison of all is fast.

    `before`: the epoch before the first batch, None without an earlier batch.
    """
    if not batches:
        return True
    offsets, _, epochs, _, data = zip(*batches, strict=True)
    found = [*map(written.get, zip(offsets, epochs, strict=True))]
    first, *rest = found
    if first is None or first[0] != data[0] or before not in (None, first[1]):
        return False
    return rest == [*zip(data[1:], epochs, strict=False)]


def has(batches: Sequence[StoredBatch], batch: StoredBatch) -> bool:
    """Whether the log has that batch."""
    at = bisect_left(batches, batch.base_offset, key=lambda each: each.base_offset)
    return at < len(batches) and batches[at].base_offset == batch.base_offset and batches[at].epoch == batch.epoch
