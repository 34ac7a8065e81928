"""Checks Raft's rules about epochs, votes and leaders, and the content of quorum-state."""

from typing import Any

from kcore.raft.membership.replicas import NO_DIRECTORY, ElectionState, ReplicaKey
from kcore.raft.states import Candidate, Leader, Prospective, Resigned, State
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker, only_for
from kcore.sim.raft.simulated_machine import Call, Machine
from kcore.sim.raft.world_state import WorldState


class Elections(Checker):
    """MonotonicEpoch, EpochIsStoodFor, CandidacyIsNew, OnlyVotersStand, NothingForgotten, OneVoteAnEpoch,
    VoteIsDurable, SingleLeader, ElectedByMajority, DurableIsFound: the invariants of this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        self._votes: dict[tuple[ReplicaKey, int], int] = {}  # By voter and epoch: the candidate voted for.
        # By epoch and candidate: the voters that granted, each twice: with its directory id, and with only its id.
        self._granted: dict[tuple[int, int], set[ReplicaKey]] = {}
        self._last_epoch = 0  # The highest epoch of any node so far.
        self._stored: dict[ReplicaKey, ElectionState] = {}  # By disk: the last state reported as stored.

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        if before is not None and state.epoch < before.epoch:
            raise Violation("MonotonicEpoch", f"node {machine.index} went from {before} to {state}")
        if state.epoch > self._last_epoch:
            self._check_new_epoch(machine, before, state)
            self._last_epoch = state.epoch
        if type(state) is Candidate:
            self._check_candidacy(machine, state)
        if isinstance(state, Candidate | Prospective) and not machine.node.is_voter:
            raise Violation("OnlyVotersStand", f"node {machine.index}, no voter, is {state} (KAFKA-17067)")
        if type(state) is Leader:
            self._check_majority(machine, state.epoch)
            self._leads(machine, state.epoch)

    def _check_new_epoch(self, machine: Machine, before: State | None, state: State) -> None:
        """Only a candidate or a resigned node enters a new epoch, and only a resigned node may skip one epoch."""
        has_resigned = type(before) is Resigned
        stood = isinstance(state, Candidate | Leader)  # A quorum's only voter becomes leader within one event.
        if not (stood or has_resigned) or state.epoch > self._last_epoch + 1 + has_resigned:
            raise Violation("EpochIsStoodFor", f"node {machine.index} went from {before} to {state}")

    def _check_candidacy(self, machine: Machine, state: Candidate) -> None:
        """A candidate's epoch is later than its stored one, whose votes may be for a log that a crash has cut."""
        stored = machine.stored
        if stored is not None and stored.epoch >= state.epoch:
            raise Violation("CandidacyIsNew", f"node {machine.index} is {state}, but its disk has {stored}")

    def after_event(self, machine: Machine) -> None:
        if machine.storing is None:
            stored = machine.stored
            state = machine.node.quorum.state
            if state.epoch != (stored.epoch if stored is not None else 0):
                raise Violation("MonotonicEpoch", f"node {machine.index} is {state}, but its disk has {stored}")

    def _check_majority(self, machine: Machine, epoch: int) -> None:
        """The leader has votes of a majority of its log's latest voters, committed or not; its own vote counts too."""
        voters = machine.node.voters
        granted = self._granted.get((epoch, machine.index), set()) | {machine.key, ReplicaKey(machine.index)}
        count = sum(key in granted for key in voters.keys)
        if count < voters.majority:
            text = f"node {machine.index} leads epoch {epoch} by the votes of {granted}; the voters are {voters.keys}"
            raise Violation("ElectedByMajority", text)

    def _leads(self, machine: Machine, epoch: int) -> None:
        this = machine.key, machine.incarnation
        known = self.facts.leaders.setdefault(epoch, this)
        if known != this:
            again = " after a restart (KAFKA-10527)" if known[0] == this[0] else ""
            raise Violation("SingleLeader", f"nodes {known[0].id} and {machine.index} lead epoch {epoch}{again}")

    # The stored election state.

    def on_open(self, machine: Machine) -> None:
        """A restart finds the last reported election state, or a later one whose write was pending."""
        stored, found = self._stored.get(machine.key), machine.stored
        if stored is None:
            return
        is_older = found is None or found.epoch < stored.epoch
        if is_older:
            raise Violation("DurableIsFound", f"node {machine.index} has stored {stored}, but finds {found}")

    def on_stored(self, machine: Machine, election: ElectionState) -> None:
        self._stored[machine.key] = election
        before = machine.stored
        if before is not None and election.epoch < before.epoch:
            raise Violation("MonotonicEpoch", f"node {machine.index} stores {election} over {before}")
        if before is not None and election.epoch == before.epoch:
            keeps_leader = -1 < before.leader_id == election.leader_id
            keeps_vote = _is_kept(before.voted, election.voted)  # A candidate that restarts keeps its vote too.
            finds_leader = before.leader_id < 0 <= election.leader_id
            knew_nothing = before.leader_id < 0 and before.voted is None
            if not (keeps_leader or keeps_vote or finds_leader or knew_nothing):
                raise Violation("NothingForgotten", f"node {machine.index} stores {election} over {before}")
        if election.voted is not None:
            self._vote(machine, election.epoch, election.voted.id)
        if election.leader_id == machine.index:  # It has led, even if it stops and resigns at once.
            self._leads(machine, election.epoch)

    def _vote(self, machine: Machine, epoch: int, candidate_id: int) -> None:
        before = self._votes.setdefault((machine.key, epoch), candidate_id)
        if before != candidate_id:
            message = f"node {machine.index} votes for {before} and for {candidate_id} in epoch {epoch}"
            raise Violation("OneVoteAnEpoch", message)
        self._granted.setdefault((epoch, candidate_id), set()).update((machine.key, ReplicaKey(machine.index)))

    def on_end(self, machine: Machine) -> None:
        """Forgets a leader whose election is not stored yet: no other node has seen that leader or its records."""
        if machine.storing is None:
            return
        epoch, stored = machine.node.epoch, machine.stored
        is_known = stored is not None and (stored.epoch, stored.leader_id) == (epoch, machine.index)
        if not is_known and self.facts.leaders.get(epoch) == (machine.key, machine.incarnation):
            del self.facts.leaders[epoch]
            self.facts.epoch_starts.pop(epoch, None)
            for parsed in machine.log.found:
                parsed.doubt(epoch)
            for batch in machine.log.batches:
                if batch.epoch == epoch:
                    self.facts.written.pop((batch.base_offset, batch.epoch), None)

    def on_forgotten(self, machine: Machine) -> None:
        self._votes = {key: vote for key, vote in self._votes.items() if key[0].id != machine.index}

    # Messages.

    @only_for(VoteRequest)
    def on_send(self, machine: Machine, call: Call) -> None:
        """A candidate that requests votes has voted for itself."""
        request: Any = call.request
        data = request.topics[0].partitions[0]
        if not data.pre_vote:
            self._vote(machine, data.replica_epoch, machine.index)

    @only_for(VoteResponse)
    def on_answer(self, machine: Machine, call: Call, response: Any) -> None:
        request: Any = call.request
        for topic in response.topics:
            requested = request.topics[0].partitions[0]
            if not topic.partitions[0].vote_granted or requested.pre_vote:
                continue
            self._vote(machine, requested.replica_epoch, requested.replica_id)
            stored = machine.stored
            voted = None if stored is None or stored.epoch != requested.replica_epoch else stored.voted
            if voted is None or voted.id != requested.replica_id:
                raise Violation("VoteIsDurable", f"node {machine.index} grants {requested}, but its disk has {stored}")


def _is_kept(voted: ReplicaKey | None, again: ReplicaKey | None) -> bool:
    """Whether two votes are equal: below kraft.version 1 the disk keeps only the id."""
    if voted is None or again is None or voted.id != again.id:
        return False
    return voted.directory_id == again.directory_id or NO_DIRECTORY in (voted.directory_id, again.directory_id)
