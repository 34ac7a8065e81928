"""Bugs in votes, pre-votes and leaders."""

from types import SimpleNamespace
from typing import Any

from kcore.protocol_errors import Errors
from kcore.raft import following, leading, timers, votes
from kcore.raft.connections import Connections
from kcore.raft.effects import LeaderChanged, StoreElection
from kcore.raft.epoch_limits import LAST_EPOCH
from kcore.raft.node import RaftNode
from kcore.raft.quorum import Quorum
from kcore.raft.states import NEVER_MS, Candidate, Election, Follower, Leader, Prospective, Resigned, Unattached
from kcore.raft.transitions import Event
from planted_raft.patches import Patches, planted_bug


@planted_bug("VoteIsDurable")
def vote_not_durable(patches: Patches) -> None:
    """A node grants a vote without storing it in quorum-state."""

    def broken(store: Any, self: Any) -> None:
        if not isinstance(self.state, Unattached | Prospective) or self.state.voted is None:
            store(self)

    patches.around(Quorum, "_store", broken)


@planted_bug("VoteIsDurable")
def answer_before_vote_is_stored(patches: Patches) -> None:
    """A node stores its vote after all other effects, so after it has sent the answer."""

    def broken(finish: Any, self: Any, now_ms: int) -> Any:
        return sorted(finish(self, now_ms), key=lambda effect: isinstance(effect, StoreElection))

    patches.around(RaftNode, "_finish", broken)


@planted_bug("ElectionRestriction")
def vote_without_looking_at_the_log(patches: Patches) -> None:
    """A node grants its vote without comparing logs, also to a candidate whose log is behind."""

    def broken(can_grant: Any, node: Any, candidate: Any, asked: Any) -> Any:
        longest = SimpleNamespace(pre_vote=asked.pre_vote, last_offset_epoch=1 << 30, last_offset=1 << 60)
        return can_grant(node, candidate, longest)

    patches.around(votes, "can_grant_vote", broken)


@planted_bug("ElectionRestriction")
def vote_given_again_without_looking_at_the_log(patches: Patches) -> None:
    """A node grants its vote again to the same candidate, even if the candidate has lost the end of its log."""

    def broken(can_grant: Any, node: Any, candidate: Any, asked: Any) -> Any:
        state = node.state
        again = isinstance(state, Unattached | Prospective) and state.voted == candidate and not asked.pre_vote
        return again or can_grant(node, candidate, asked)

    patches.around(votes, "can_grant_vote", broken)


@planted_bug("CandidacyIsNew")
def candidacy_is_resumed(patches: Patches) -> None:
    """A restarted candidate continues its election, although a crash may have cut its log."""

    def broken(initialize: Any, self: Any, election: Any, now_ms: int) -> None:
        initialize(self, election, now_ms)
        state, node = self.state, self.node
        if type(state) is Unattached and state.voted == node.local and node.is_voter:
            votes_of = Election(node.voter_history.last_voters.keys, node.local.id)
            self.state = Candidate(state.epoch, node.local, votes_of, state.election_deadline_ms)

    patches.around(Quorum, "initialize", broken)


@planted_bug("VoteIsGranted")
def vote_needs_epoch_and_length(patches: Patches) -> None:
    """A voter also refuses a candidate whose last epoch is later, if the candidate's log is shorter."""

    def broken(can_grant: Any, node: Any, candidate: Any, asked: Any) -> Any:
        return asked.last_offset >= node.log.end_offset and can_grant(node, candidate, asked)

    patches.around(votes, "can_grant_vote", broken)


@planted_bug("OneVoteAnEpoch")
def two_votes_in_an_epoch(patches: Patches) -> None:
    """An unattached node grants every vote request, even if it has voted for another candidate."""

    def broken(can_grant: Any, node: Any, candidate: Any, asked: Any) -> Any:
        return can_grant(node, candidate, asked) or isinstance(node.state, Unattached)

    patches.around(votes, "can_grant_vote", broken)


@planted_bug("VoteIsDurable")
def vote_for_an_old_epoch(patches: Patches) -> None:
    """A node does not refuse requests of older epochs."""
    patches.put(votes, "voter_only_error", lambda _: lambda node, remote_id, epoch: Errors.NONE)


@planted_bug("VoteOfThisReplica")
def vote_of_the_old_directory(patches: Patches) -> None:
    """A replica with a new directory answers vote requests that were sent to its machine's former replica."""
    patches.put(votes, "is_this_voter", lambda _: lambda node, voter_id, _: voter_id in (-1, node.local.id))


@planted_bug("ElectedByMajority")
def half_is_a_majority(patches: Patches) -> None:
    """Half of the voters elect a leader, such as two of four."""
    patches.put(Election, "is_won", lambda _: property(lambda self: 2 * len(self.granted) >= len(self.voters)))


@planted_bug("ElectedByMajority")
def candidates_count_committed_voters(patches: Patches) -> None:
    """A candidate counts the committed voters instead of the latest voters in its log."""

    def broken(begin: Any, self: Any, *given: Any) -> Any:
        begin(self, *given)
        node = self.node
        committed = node.voter_history.voters_at(node.log.high_watermark - 1) or node.voter_history.last_voters
        self.state.election = Election(committed.keys, node.local.id)

    patches.around(Quorum, "become_candidate", broken)


@planted_bug("CandidateHasPreVotes")
def answers_of_another_round_count(patches: Patches) -> None:
    """A pre-vote that was granted in an earlier round counts in this one."""

    def broken(_: Any, self: Any) -> None:
        self._by_destination.clear()

    patches.around(Connections, "reset_all", broken)


@planted_bug("LeaderIsKept")
def leader_grants_pre_votes(patches: Patches) -> None:
    """A leader grants pre-votes, and so helps to replace itself."""
    _grants_pre_votes(patches, Leader)


@planted_bug("LeaderIsKept")
def follower_of_a_live_leader_grants_pre_votes(patches: Patches) -> None:
    """A follower of a live leader grants pre-votes, so that one isolated node can replace the leader (KIP-996)."""
    _grants_pre_votes(patches, Follower)


@planted_bug("LeaderIsKept")
def any_refusal_counts_as_the_leaders(patches: Patches) -> None:
    """A follower leaves its leader because the process of another node has ended."""

    def make(on_refused: Any) -> Any:
        def broken(node: Any, address: Any, now_ms: int) -> None:
            on_refused(node, node.quorum.state.leader_endpoints.get(node.config.listener), now_ms)

        return broken

    patches.put(following, "on_refused", make)


def _grants_pre_votes(patches: Patches, kind: type) -> None:
    def broken(can_grant: Any, node: Any, candidate: Any, asked: Any) -> Any:
        if not asked.pre_vote or type(node.state) is not kind:
            return can_grant(node, candidate, asked)
        return (asked.last_offset_epoch, asked.last_offset) >= (node.log.last_epoch, node.log.end_offset)

    patches.around(votes, "can_grant_vote", broken)


@planted_bug("CandidateHasPreVotes")
def stands_after_a_lost_pre_vote(patches: Patches) -> None:
    """A node stands for election after a lost pre-vote, and so raises the epoch."""

    def make(_: Any) -> Any:
        return lambda node, state, now_ms: votes.stand_for_election(node, Event.PRE_VOTE_WON, now_ms)

    patches.put(votes, "lose_pre_vote", make)


@planted_bug("ClaimsAreDurable")
def vote_asked_for_by_what_is_not_flushed(patches: Patches) -> None:
    """A candidate requests votes for records that it has not flushed, so that a crash may lose them."""

    def make_request(vote_request: Any) -> Any:
        def broken(node: Any, state: Any, voter: Any) -> Any:
            request = vote_request(node, state, voter)
            asked = request.topics[0].partitions[0]
            asked.last_offset_epoch, asked.last_offset = node.log.last_epoch, node.log.end_offset
            return request

        return broken

    patches.put(votes, "_vote_request", make_request)


@planted_bug("NothingForgotten")
def restarted_leader_is_unattached(patches: Patches) -> None:
    """A restarted leader forgets that it led this epoch (KAFKA-10527, KAFKA-10661)."""

    def broken(first_state: Any, self: Any, election: Any, now_ms: int) -> Any:
        state = first_state(self, election, now_ms)
        if type(state) is not Resigned:
            return state
        return Unattached(state.epoch, -1, None, state.election_deadline_ms)

    patches.around(Quorum, "_first_state", broken)


@planted_bug("MonotonicEpoch")
def epoch_is_forgotten_by_a_restart(patches: Patches) -> None:
    """A starting node takes its epoch from its log, and ignores quorum-state."""
    patches.put(RaftNode, "start", lambda start: lambda self, election, now_ms: start(self, None, now_ms))


@planted_bug("SingleLeader")
def state_machine_gets_another_leader(patches: Patches) -> None:
    """A node reports another leader to its state machine than the leader that it follows."""

    def make(changed: Any) -> Any:
        return lambda leader_id, epoch: changed(leader_id if leader_id < 0 else leader_id + 1, epoch)

    patches.put(timers, "LeaderChanged", make)


@planted_bug("EpochIsStoodFor")
def any_epoch_is_taken_from_strangers(patches: Patches) -> None:
    """A node accepts any epoch from a stranger, even one far ahead of its own."""
    patches.put(Quorum, "allows", lambda _: lambda self, epoch, now_ms: epoch <= LAST_EPOCH)


@planted_bug("LeaderStays")
def leader_does_not_count_fetches(patches: Patches) -> None:
    """A leader resigns at each progress time-out, even if a majority fetches."""
    patches.put(Leader, "count_fetch", lambda _: lambda self, key, now_ms: None)


@planted_bug("LeaderProgress")
def no_progress_timeout(patches: Patches) -> None:
    """A leader never resigns, even if no voter fetches from it (KAFKA-15489)."""

    def broken(_: Any, self: Any, now_ms: int) -> None:
        self.check_quorum_deadline_ms = NEVER_MS

    patches.around(Leader, "restart_check_quorum", broken)


@planted_bug("LeaderReported")
def high_watermark_kept_by_a_new_leader(patches: Patches) -> None:
    """A new leader keeps its old high watermark, and so usually does not call `on_leader` of its state machine."""
    kept: dict[Any, int | None] = {}

    def make_leader(become_leader: Any) -> Any:
        def broken(self: Any, now_ms: int) -> None:
            kept[self] = self.high_watermark
            become_leader(self, now_ms)

        return broken

    def make_begin(begin: Any) -> Any:
        def broken(node: Any, now_ms: int) -> None:
            node.quorum.high_watermark = kept.pop(node.quorum)
            begin(node, now_ms)

        return broken

    patches.put(Quorum, "become_leader", make_leader)
    patches.put(leading, "begin", make_begin)


@planted_bug("OwnEpochCommitted")
def leads_before_it_is_committed(patches: Patches) -> None:
    """A new leader reports its leadership to its state machine before the epoch's first record is committed."""

    def broken(begin: Any, node: Any, now_ms: int) -> None:
        begin(node, now_ms)
        node.effects.append(LeaderChanged(node.local.id, node.epoch, node.leading.epoch_start_offset))

    patches.around(leading, "begin", broken)


@planted_bug("TimersMakeProgress")
def timer_does_nothing(patches: Patches) -> None:
    """A timer does nothing, so its deadline stays in the past (KAFKA-17751)."""
    patches.put(RaftNode, "on_timer", lambda _: lambda self, now_ms: [])
