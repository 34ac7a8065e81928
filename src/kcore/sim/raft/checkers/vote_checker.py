"""Checks votes and pre-votes: Raft's election restriction, and KIP-996's protection of a live leader.

A vote protects the voter's durable records; the voter may have written more. So the checker compares a granted vote
with the durable end, and a refused vote with the written end.
"""

from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import NO_DIRECTORY
from kcore.raft.states import Candidate, Follower, Leader, Prospective, State, Unattached
from kcore.schema.fetch import FetchRequest, FetchResponse
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.schema.raft_voters import AddRaftVoterRequest, UpdateRaftVoterRequest
from kcore.schema.raft_votes import VoteRequest, VoteRequestPartitionData, VoteResponse
from kcore.sim.kernel.simulated_process import NEVER_US
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker, only_for
from kcore.sim.raft.simulated_machine import Call, Machine, Reply
from kcore.sim.raft.world_state import WorldState

OLDER: Final = "3.9"  # Nodes of this release neither send nor answer pre-votes.


class Round:
    """One node's round of pre-votes."""

    def __init__(self, since_us: int) -> None:
        self.since_us = since_us
        self.granted: set[int] = set()  # Ids of the voters that granted, even if the answer was lost.
        self.has_older = False  # A voter answered UNSUPPORTED_VERSION: the node stands at once.


class Votes(Checker):
    """VoteOfThisReplica, ElectionRestriction, VoteIsGranted, LeaderIsKept, CandidateHasPreVotes: the invariants of
    this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        # By machine.
        self._since_us: dict[int, int] = {}  # When the machine entered its state.
        self._fetched: dict[int, tuple[State, int]] = {}  # The state in which it fetched, and the first time.
        self._last_fetch: dict[int, Call] = {}
        self._rounds: dict[int, Round] = {}  # The last round of pre-votes, by machine.
        self._before_request: dict[int, State] = {}  # The machine's state when the last request arrived.

    def on_boot(self, machine: Machine) -> None:
        for known in (self._since_us, self._fetched, self._last_fetch, self._rounds):
            known.pop(machine.index, None)

    # Answers of voters.

    @only_for(VoteRequest)
    def on_request(self, machine: Machine, call: Call) -> None:
        self._before_request[machine.index] = machine.node.quorum.state

    @only_for(VoteResponse)
    def on_answer(self, machine: Machine, call: Call, response: Any) -> None:
        if not response.topics:
            return
        request: Any = call.request
        requested, answered = request.topics[0].partitions[0], response.topics[0].partitions[0]
        if answered.error_code:
            return
        if answered.vote_granted:
            self._check_granted(machine, request, requested)
            if type(call.note) is Round:
                call.note.granted.add(machine.index)
        elif self._must_grant(machine, requested):
            raise Violation("VoteIsGranted", f"node {machine.index}, {machine.node.state}, refuses {requested}")

    def _check_granted(self, machine: Machine, request: VoteRequest, requested: VoteRequestPartitionData) -> None:
        own_directory_id = machine.key.directory_id
        is_this = request.voter_id == machine.index and requested.voter_directory_id in (NO_DIRECTORY, own_directory_id)
        if request.voter_id >= 0 and not is_this:
            raise Violation(
                "VoteOfThisReplica", f"{machine.key} grants a request to voter {request.voter_id}: {requested}"
            )
        durable = machine.log.durable_epoch, machine.log.durable_end
        if (requested.last_offset_epoch, requested.last_offset) < durable:
            raise Violation(
                "ElectionRestriction", f"node {machine.index} is durable to {durable} and grants {requested}"
            )
        if requested.pre_vote and self._follows_live_leader(machine):
            raise Violation("LeaderIsKept", f"node {machine.index}, {machine.node.state}, grants {requested}")

    def _must_grant(self, machine: Machine, requested: VoteRequestPartitionData) -> bool:
        """A voter must grant if its log is not ahead and nothing else forbids it; otherwise elections may never end."""
        state, before, log = machine.node.state, self._before_request[machine.index], machine.log
        if state is not before and before.epoch >= requested.replica_epoch:
            return False  # The state has changed between request and answer.
        if state.epoch != requested.replica_epoch or (requested.last_offset_epoch, requested.last_offset) < (
            log.last_epoch,
            log.end_offset,
        ):
            return False
        if requested.pre_vote:
            return not isinstance(state, Leader) and not (type(state) is Follower and state.has_fetched_from_leader)
        return isinstance(state, Unattached | Prospective) and state.leader_id < 0 and state.voted is None

    # Contact with a leader.

    @only_for(FetchRequest, VoteRequest)
    def on_send(self, machine: Machine, call: Call) -> None:
        if type(call.request) is FetchRequest:
            self._last_fetch[machine.index] = call
        elif type(call.request) is VoteRequest and call.request.topics[0].partitions[0].pre_vote:
            call.note = self._rounds.setdefault(machine.index, Round(self.world.now_us))

    @only_for(FetchRequest, FetchSnapshotRequest, VoteRequest, AddRaftVoterRequest, UpdateRaftVoterRequest)
    def before_response(self, machine: Machine, reply: Reply) -> None:
        call, response, state = reply.call, reply.response, machine.node.quorum.state
        if type(response) is VoteResponse and response.error_code == Errors.UNSUPPORTED_VERSION:
            self._rounds.setdefault(machine.index, Round(self.world.now_us)).has_older = True
        if reply.is_refused and self.world.options.elects_when_refused and call.destination.index == state.leader_id:
            self._fetched.pop(machine.index, None)  # The node knows that its leader is gone.
        if type(response) is FetchResponse and type(state) is Follower and call.state is state:
            fetched = self._fetched.get(machine.index)
            if (fetched is None or fetched[0] is not state) and self._counts(machine, reply, state):
                self._fetched[machine.index] = state, self.world.now_us

    def _counts(self, machine: Machine, reply: Reply, state: Follower) -> bool:
        """Whether a response shows contact: undamaged, in time, from the leader, to the last fetch, for this log."""
        call = reply.call
        request: Any = call.request
        if reply.is_damaged or call is not self._last_fetch.get(machine.index):
            return False
        if call.destination.index != state.leader_id or state.fetching_snapshot is not None:
            return False
        waited_ms = machine.clock.ms(self.world.now_us) - call.sent_ms
        response: Any = reply.response
        if waited_ms >= machine.node.config.request_timeout_ms or response.error_code or not response.responses:
            return False
        data, requested = response.responses[0].partitions[0], request.topics[0].partitions[0]
        is_plain = not data.error_code and data.diverging_epoch.epoch < 0 and data.snapshot_id.epoch < 0
        leads = (data.current_leader.leader_id, data.current_leader.leader_epoch) == (state.leader_id, state.epoch)
        is_current = (requested.fetch_offset, requested.last_fetched_epoch) == (
            machine.log.end_offset,
            machine.log.last_epoch,
        )
        return is_plain and leads and is_current

    def _follows_live_leader(self, machine: Machine, since_us: int = NEVER_US) -> bool:
        """Whether the machine leads, or fetches from its leader in its present state, since `since_us` or longer."""
        state = machine.node.quorum.state
        if type(state) is Leader:
            return self._since_us[machine.index] <= since_us
        fetched = self._fetched.get(machine.index)
        return fetched is not None and fetched[0] is state and fetched[1] <= since_us

    # Candidacies.

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        self._since_us[machine.index] = self.world.now_us
        if type(state) is Prospective and type(before) is not Prospective:
            self._rounds[machine.index] = Round(self.world.now_us)
        if type(state) is Candidate and before is not None and machine.level != OLDER:
            self._check_candidate(machine, before)

    def _check_candidate(self, machine: Machine, before: State) -> None:
        voters, is_endless = machine.node.voters, self.world.options.endless_elections
        if (is_endless and type(before) is not Prospective) or voters.is_only_voter(machine.key):
            return
        tally = self._rounds.get(machine.index) if type(before) is Prospective else None
        if tally is None:
            raise Violation("CandidateHasPreVotes", f"node {machine.index} was {before} and stands without pre-votes")
        if tally.has_older:
            return
        count = len(tally.granted & voters.ids - {machine.index}) + 1
        if count < voters.majority:
            message = f"node {machine.index} stands with {count} pre-votes of {voters.keys}"
            raise Violation("CandidateHasPreVotes", message)
        others = [self.world.machines[key.id] for key in voters.keys if key.id != machine.index]
        kept = [other.index for other in others if self._is_kept(other, tally.since_us)]
        if len(voters) - len(kept) < voters.majority:
            message = f"node {machine.index} stands, but {kept} of {voters.keys} fetch from their leader"
            raise Violation("LeaderIsKept", message)

    def _is_kept(self, machine: Machine, since_us: int) -> bool:
        """Whether the machine has had contact with a leader since `since_us`, and so has denied all pre-votes."""
        return machine.is_up and machine.level != OLDER and self._follows_live_leader(machine, since_us)
