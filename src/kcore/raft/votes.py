"""Vote: grants votes and pre-votes, asks for them and counts them (KIP-595, KIP-996)."""

from collections.abc import Hashable

from kcore.constants import METADATA_TOPIC
from kcore.protocol_errors import Errors
from kcore.raft import leading
from kcore.raft.membership.replicas import NO_DIRECTORY, ReplicaKey
from kcore.raft.node_context import NodeContext
from kcore.raft.responses import (
    handle_common,
    is_this_cluster,
    is_this_voter,
    leader_endpoints,
    node_endpoints,
    only_partition,
    voter_only_error,
)
from kcore.raft.states import NEVER_MS, Candidate, Follower, Leader, Prospective, Unattached
from kcore.raft.transitions import Event
from kcore.schema.raft_votes import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)

BACKOFF_BASE_MS = 100  # 3.9's RETRY_BACKOFF_BASE_MS, not a setting.

# The voter's side.


def on_vote_request(
    node: NodeContext, request: VoteRequest, version: int, reply_to: Hashable, now_ms: int
) -> VoteResponse:
    """Grants or rejects a vote or a pre-vote. Source: handleVoteRequest."""
    if not is_this_cluster(node, request.cluster_id):
        return VoteResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
    partition = only_partition(request.topics)
    if partition is None:
        return VoteResponse(error_code=Errors.INVALID_REQUEST)
    if partition.pre_vote and not node.quorum.pre_vote:
        return VoteResponse(error_code=Errors.UNSUPPORTED_VERSION)
    error = _vote_error(node, partition)
    if error is not Errors.NONE:
        return _vote_response(node, version, error, False)
    if partition.replica_epoch > node.quorum.state.epoch:
        if not node.quorum.allows(partition.replica_epoch, now_ms):
            return _vote_response(node, version, Errors.INVALID_REQUEST, False)
        node.quorum.become_unattached(partition.replica_epoch, now_ms)
    if not is_this_voter(node, request.voter_id, partition.voter_directory_id):
        return _vote_response(node, version, Errors.INVALID_VOTER_KEY, False)

    candidate = ReplicaKey(partition.replica_id, partition.replica_directory_id)
    granted = can_grant_vote(node, candidate, partition)
    if granted and not partition.pre_vote and node.quorum.state.voted is None:
        node.quorum.grant_vote(candidate, now_ms)
    return _vote_response(node, version, Errors.NONE, granted)


def _vote_error(node: NodeContext, partition: VoteRequestPartitionData) -> Errors:
    # No record can have a candidate's new epoch yet. A pre-vote names the current epoch, which records may have.
    is_illegal = partition.last_offset_epoch > partition.replica_epoch - (not partition.pre_vote)
    if partition.last_offset < 0 or partition.last_offset_epoch < 0 or is_illegal:
        return Errors.INVALID_REQUEST
    return voter_only_error(node, partition.replica_id, partition.replica_epoch)


def can_grant_vote(node: NodeContext, candidate: ReplicaKey, partition: VoteRequestPartitionData) -> bool:
    """Whether this node grants the vote or pre-vote in its state. Source: canGrantVote of each state."""
    state = node.quorum.state
    log = node.log
    # The voter compares with its whole log, unflushed records included: these may be committed.
    up_to_date = (partition.last_offset_epoch, partition.last_offset) >= (log.last_epoch, log.end_offset)
    if partition.pre_vote:
        # A node with a live leader denies pre-votes, so that removed voters (KAFKA-17030) and partitioned voters cannot
        # disturb the quorum. But a leader that has just resigned also counts as live (KAFKA-20895).
        follows = type(state) is Follower and state.has_fetched_from_leader and not _may_forget_leader(node, state)
        return up_to_date and not follows and type(state) is not Leader
    if not isinstance(state, Unattached | Prospective) or not up_to_date:
        # The node has voted for itself, or has a leader, or the candidate's log is behind this node's log. The logs are
        # compared even if this node has voted for the candidate: since then the candidate may have lost the end of its
        # log in a crash. Kafka compares them only the first time.
        return False
    if state.voted is not None:
        return state.voted.id == candidate.id and state.voted.directory_id in (NO_DIRECTORY, candidate.directory_id)
    return state.leader_id < 0


def _may_forget_leader(node: NodeContext, state: Follower) -> bool:
    """Whether this follower may grant pre-votes although it has fetched from its leader.

    With `pre_votes_after_resignation` it may once the leader has resigned, so that the first successor is elected at
    once. With `elects_when_refused` it may once the leader's address refuses connections.
    """
    return state.is_leader_gone or (node.config.pre_votes_after_resignation and state.has_leader_resigned)


def _vote_response(node: NodeContext, version: int, error: Errors, granted: bool) -> VoteResponse:
    state = node.quorum.state
    vote = VoteResponsePartitionData(
        error_code=error, leader_id=state.leader_id, leader_epoch=state.epoch, vote_granted=granted
    )
    return VoteResponse(
        topics=[VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[vote])],
        node_endpoints=node_endpoints(node, version),
    )


# The candidate's side.


def ask_for_votes(node: NodeContext, state: Prospective | Candidate, now_ms: int) -> int:
    """Sends Vote to voters that have not responded, unless the election is lost; returns when to call it again."""
    deadline_ms = NEVER_MS
    if state.election.is_lost:
        return deadline_ms
    voters, connections, listener = node.voter_history.last_voters, node.connections, node.config.listener
    for voter in state.election.unrecorded:
        address = voters.address(voter.id, listener)
        if address is None:
            continue
        ready_ms = connections.ready_ms(voter.id)
        if ready_ms <= now_ms:
            request = _vote_request(node, state, voter)
            ready_ms = connections.send(node.effects, voter.id, address, request, now_ms)
        if ready_ms < deadline_ms:
            deadline_ms = ready_ms
    return deadline_ms


def _vote_request(node: NodeContext, state: Prospective | Candidate, voter: ReplicaKey) -> VoteRequest:
    # A voter compares its log with the end in this request, so that end must survive a crash of the candidate: it is
    # the durable end. Kafka's candidates send the log's end, as they flush every append at once. A pre-vote has the
    # same end as the vote; otherwise a candidate that cannot win the vote could win the pre-vote and raise the epoch.
    end = node.durable_end
    partition = VoteRequestPartitionData(
        replica_epoch=state.epoch,
        replica_id=node.local.id,
        replica_directory_id=node.local.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=type(state) is Prospective,
    )
    return VoteRequest(
        cluster_id=node.cluster_id,
        voter_id=voter.id,
        topics=[VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def on_vote_response(
    node: NodeContext, voter_id: int, request: VoteRequest, response: VoteResponse, now_ms: int
) -> bool:
    """Counts a voter's response; `connections` has dropped responses to earlier elections and pre-votes.

    Source: handleVoteResponse.
    """
    if response.error_code == Errors.UNSUPPORTED_VERSION and type(node.quorum.state) is Prospective:
        stand_for_election(node, Event.PRE_VOTE_WON, now_ms)  # The voter's release is older than pre-votes.
        return True
    vote = only_partition(response.topics)
    if response.error_code != Errors.NONE or vote is None:
        return False
    endpoints = leader_endpoints(node, vote.leader_id, response.node_endpoints)
    handled = handle_common(node, vote.error_code, vote.leader_id, vote.leader_epoch, endpoints, now_ms)
    if handled is not None:
        return handled
    if vote.error_code != Errors.NONE:
        return False
    state = node.quorum.state
    if isinstance(state, Prospective | Candidate):
        state.election.record(voter_id, vote.vote_granted)
        settle(node, state, now_ms)
    return True


# The result of an election.


def settle(node: NodeContext, state: Prospective | Candidate, now_ms: int) -> None:
    """Changes the state if the election is won or a pre-vote is lost; a Candidate that has lost waits."""
    election = state.election
    if type(state) is Prospective:
        if election.is_won:
            stand_for_election(node, Event.PRE_VOTE_WON, now_ms)
        elif election.is_lost:
            lose_pre_vote(node, state, now_ms)
    elif type(state) is Candidate:
        if election.is_won:
            node.quorum.become_leader(now_ms)
            leading.begin(node, now_ms)
        elif election.is_lost and not node.quorum.pre_vote and state.backoff_deadline_ms is None:
            state.backoff_deadline_ms = now_ms + backoff_ms(node, state.retries)


def lose_pre_vote(node: NodeContext, state: Prospective, now_ms: int) -> None:
    """Follows the known leader again, or becomes Unattached. Source: prospectiveTransitionAfterElectionLoss."""
    if state.leader_id >= 0 and node.config.listener in state.leader_endpoints:
        node.quorum.become_follower(state.epoch, state.leader_id, state.leader_endpoints, now_ms, Event.PRE_VOTE_LOST)
    else:
        node.quorum.become_unattached(state.epoch, now_ms, Event.PRE_VOTE_LOST)


def seek_election(node: NodeContext, event: Event, now_ms: int) -> None:
    """Starts an election; 4.x begins it with pre-votes."""
    if not node.quorum.pre_vote:
        stand_for_election(node, event, now_ms)
        return
    node.quorum.become_prospective(event, now_ms)
    state = node.quorum.state
    assert type(state) is Prospective
    settle(node, state, now_ms)  # An only voter has already won, with its own pre-vote.


def stand_for_election(node: NodeContext, event: Event, now_ms: int) -> None:
    """Becomes a candidate in the next epoch."""
    node.quorum.become_candidate(event, now_ms)
    state = node.quorum.state
    assert type(state) is Candidate
    settle(node, state, now_ms)


def backoff_ms(node: NodeContext, retries: int) -> int:
    """The back-off after `retries` lost elections in a row: random, with a bound that doubles each time.

    Kafka 3.9 draws a number, then limits it to quorum.election.backoff.max.ms. After some ten lost elections nearly all
    results are that limit, and two candidates that need each other's vote keep starting elections at the same time.
    Here the limit bounds the range from which the number is drawn.
    """
    most_ms = node.config.election_backoff_max_ms
    steps = min(2 << min(20, retries - 1), most_ms // BACKOFF_BASE_MS + 1)
    return BACKOFF_BASE_MS * node.config.jitter_ms(steps)
