"""Checks what a node sends its state machine: all committed records, once and in order, and the current leader.

`watched_state_machine.py` checks the calls that each node's state machine gets. This checker compares the node's
effects and the state machine's records with the committed records of the world. The node may delay no committed record.
"""

from kcore.raft.effects import Committed, LeaderChanged, SnapshotLoaded
from kcore.raft.states import Leader, Resigned, State
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.watched_state_machine import WatchedStateMachine


class Consumers(Checker):
    """CommitReported, ReadsBelowHighWatermark, SameCommittedData, LeaderReported, OwnEpochCommitted, SingleLeader,
    LeaderNeverLoadsSnapshot, NoAckedAppendLost: the invariants of this checker."""

    # Committed records.

    def on_committed(self, machine: Machine, effect: Committed) -> None:
        watched, known = machine.watched, machine.node.high_watermark
        high_watermark = effect.high_watermark
        if known is None or high_watermark > known:
            raise Violation("ReadsBelowHighWatermark", f"node {machine.index} reports {effect}, but has {known}")
        if high_watermark < max(watched.high_watermark + (not watched.may_repeat), watched.position):
            after = max(watched.high_watermark, watched.position)
            raise Violation("CommitReported", f"node {machine.index} reports {effect} after {after}")
        watched.high_watermark, watched.may_repeat = high_watermark, False

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        if type(state) is Leader:
            machine.watched.may_repeat = True

    def on_snapshot_loaded(self, machine: Machine, effect: SnapshotLoaded) -> None:
        watched = machine.watched
        if type(machine.node.state) is Leader:
            raise Violation("LeaderNeverLoadsSnapshot", f"node {machine.index} leads and reports {effect}")
        latest = machine.log.latest_snapshot
        if effect.snapshot != latest:
            raise Violation("CommitReported", f"node {machine.index} reports {effect}, but its log has {latest}")
        if effect.snapshot.offset <= watched.position:
            raise Violation("CommitReported", f"node {machine.index} reports {effect} after {watched.position}")

    # The leader.

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        """All nodes report one leader; a leader's state machine waits for the epoch's first record (KAFKA-12619)."""
        watched, node = machine.watched, machine.node
        leader = effect.leader_id, effect.epoch
        if leader == watched.leader or effect.epoch < watched.leader[1]:
            raise Violation("LeaderReported", f"node {machine.index} reports {effect} after {watched.leader}")
        if effect.epoch == watched.leader[1] and effect.leader_id >= 0 and watched.resigned == effect.epoch:
            raise Violation("LeaderReported", f"node {machine.index} reports {effect} after it resigned (KAFKA-17333)")
        if watched.leader == (machine.index, effect.epoch):
            watched.resigned = effect.epoch
        watched.leader = leader
        if effect.leader_id < 0:
            return
        if effect.leader_id == machine.index and (node.high_watermark or 0) <= effect.epoch_start_offset:
            raise Violation("OwnEpochCommitted", f"node {machine.index} reports {effect} at {node.high_watermark}")
        known = self.facts.leaders.get(effect.epoch)
        if known is None or known[0].id != effect.leader_id:
            raise Violation("SingleLeader", f"node {machine.index} reports {effect}, but {known} leads")

    # Committed records and the leader.

    def after_event(self, machine: Machine) -> None:
        """The state machine gets exactly the committed records, without delay unless an election is being stored."""
        watched = machine.watched
        if watched.given:
            self._check_given(machine, watched)
        if machine.storing is not None:
            return
        quorum = machine.node.quorum
        high_watermark, state = quorum.high_watermark, quorum.state
        if high_watermark is not None and high_watermark != watched.high_watermark:
            message = f"node {machine.index} has {high_watermark}, but its state machine got {watched.high_watermark}"
            raise Violation("CommitReported", message)
        if watched.high_watermark > watched.position and not _is_busy(watched):
            message = f"node {machine.index} has {watched.high_watermark}, but its state machine {watched.position}"
            raise Violation("CommitReported", message)
        if machine.node.is_stopped:
            return
        leads = type(state) is Leader
        if watched.epoch is None:
            if leads:
                self._check_leads(machine, watched)
        elif not leads or state.epoch != watched.epoch:
            message = f"node {machine.index} is {state}, but its state machine leads epoch {watched.epoch}"
            raise Violation("LeaderReported", message)
        if leads and high_watermark is None:
            return
        leader = -1 if type(state) is Resigned else state.leader_id, state.epoch
        if leader != watched.leader:
            raise Violation("LeaderReported", f"node {machine.index} is {state}, but reported {watched.leader}")

    def _check_leads(self, machine: Machine, watched: WatchedStateMachine) -> None:
        """The state machine of a leading node leads as soon as it has all records of the log."""
        node = machine.node
        has_all = node.high_watermark is not None and watched.position == node.next_offset
        if has_all and not _is_busy(watched):
            raise Violation("LeaderReported", f"node {machine.index} is {node.state}, its state machine does not lead")

    def _check_given(self, machine: Machine, watched: WatchedStateMachine) -> None:
        committed = self.facts.committed
        for given in watched.given:
            if given.batches:
                committed.check_bytes(given.batches, given.offset, given.end_offset, machine.index)
        for held in watched.acknowledged:
            committed.check_append(held)
            self.facts.acknowledged += 1
        watched.given, watched.acknowledged = [], []


def _is_busy(watched: WatchedStateMachine) -> bool:
    """Whether the driver must wait for the state machine."""
    return watched.is_reading or watched.is_at_work
