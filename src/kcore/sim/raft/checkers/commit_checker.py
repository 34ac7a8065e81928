"""The high watermark: records below it are durable at a majority, equal on all nodes, and never lost."""

from typing import Any

from kcore.raft.membership.replicas import NO_DIRECTORY, ReplicaKey
from kcore.raft.states import Leader, State
from kcore.schema.fetch import FetchResponse
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker, only_for
from kcore.sim.raft.simulated_machine import Call, Machine
from kcore.sim.raft.world_state import WorldState

UNKNOWN: int = -1


class Commits(Checker):
    """MonotonicHighWatermark, HighWatermarkInLog, OwnEpochCommitted, MajorityReachedHighWatermark,
    LeaderCompleteness, ReadsBelowHighWatermark, SameCommittedData: the invariants of this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        # By machine.
        self._seen: dict[int, int] = {}  # The last high watermark.
        self._led: dict[int, State] = {}  # The state after the last event.

    def on_boot(self, machine: Machine) -> None:
        self._seen[machine.index] = UNKNOWN
        self._led.pop(machine.index, None)

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        if type(state) is Leader:
            self.facts.committed.check_leader(machine.log, state.epoch)
            if before is not None:  # The new leader may move the high watermark in this same event.
                self._led[machine.index] = state

    def after_event(self, machine: Machine) -> None:
        quorum = machine.node.quorum
        high_watermark = quorum.high_watermark
        if high_watermark is not None and high_watermark != self._seen[machine.index]:
            self._on_high_watermark(machine, high_watermark)
        self._led[machine.index] = quorum.state

    def on_crash_in_event(self, machine: Machine) -> None:
        """Checks the leader's high watermark although the event did not end: followers may have got it already."""
        if type(machine.node.quorum.state) is Leader:
            self.after_event(machine)

    def _on_high_watermark(self, machine: Machine, high_watermark: int) -> None:
        before = self._seen[machine.index]
        if high_watermark < before:
            raise Violation("MonotonicHighWatermark", f"node {machine.index} goes from {before} to {high_watermark}")
        if high_watermark > machine.log.end_offset:
            message = f"node {machine.index} has {high_watermark}, but its log ends at {machine.log.end_offset}"
            raise Violation("HighWatermarkInLog", message)
        self._seen[machine.index] = high_watermark
        state, committed = machine.node.quorum.state, self.facts.committed
        led = state if type(state) is Leader else self._led.get(machine.index)  # It may have resigned in this event.
        if type(led) is Leader:
            self._check_own_epoch(machine, led.epoch, high_watermark)
            self._check_majority(machine, high_watermark)
            committed.extend(machine.log, high_watermark, led.epoch, machine.index)
        elif high_watermark > committed.end:
            raise Violation("SameCommittedData", f"node {machine.index} has {high_watermark}, which no leader had")

    def _check_own_epoch(self, machine: Machine, epoch: int, high_watermark: int) -> None:
        start_offset = self.facts.epoch_starts.get(epoch)
        if start_offset is None or high_watermark <= start_offset:
            message = f"node {machine.index} has {high_watermark}, but no record of epoch {epoch} below (KAFKA-12619)"
            raise Violation("OwnEpochCommitted", message)

    def _check_majority(self, machine: Machine, high_watermark: int) -> None:
        voters = machine.node.voters
        ends = {voter.key.id: self._durable_end(voter.key) for voter in voters.voters.values()}
        if sum(end >= high_watermark for end in ends.values()) < voters.majority:
            message = f"node {machine.index} has {high_watermark}; its voters are durable up to {ends}"
            raise Violation("MajorityReachedHighWatermark", message)

    def _durable_end(self, key: ReplicaKey) -> int:
        machine = self.world.machines[key.id]
        return machine.log.durable_end if key.directory_id in (NO_DIRECTORY, machine.key.directory_id) else UNKNOWN

    def at_end(self) -> None:
        """Each whole log equals the committed records, up to the node's high watermark."""
        for machine in self.world.machines:
            log, high_watermark = machine.log, machine.node.high_watermark or 0
            if machine.is_up and high_watermark > log.start_offset:
                self.facts.committed.check(log, log.start_offset, high_watermark, machine.index)

    @only_for(FetchResponse)
    def on_answer(self, machine: Machine, call: Call, response: Any) -> None:
        """The high watermark in a Fetch response is at most the node's own."""
        for topic in response.responses:
            known = machine.node.quorum.high_watermark
            if topic.partitions[0].high_watermark > (-1 if known is None else known):
                message = f"node {machine.index} answers {topic.partitions[0].high_watermark}, but has {known}"
                raise Violation("ReadsBelowHighWatermark", message)
