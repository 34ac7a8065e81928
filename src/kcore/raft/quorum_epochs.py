"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces its leadership and its resignation (KIP-595)."""

from collections.abc import Hashable, Sequence

from kcore.constants import METADATA_TOPIC
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import Address, Endpoints, ReplicaKey
from kcore.raft.node_context import NodeContext
from kcore.raft.responses import (
    handle_common,
    is_this_cluster,
    is_this_voter,
    leader_endpoints,
    maybe_transition,
    node_endpoints,
    only_partition,
    voter_endpoints,
    voter_only_error,
)
from kcore.raft.states import NEVER_MS, Follower, Leader, Resigned
from kcore.schema.raft_votes import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    EndQuorumEpochResponse,
    LeaderEndpoint,
    QuorumEpochPartitionData,
    QuorumEpochTopicData,
    ReplicaInfo,
)

# BeginQuorumEpoch.


def on_begin_quorum_epoch_request(
    node: NodeContext, request: BeginQuorumEpochRequest, version: int, reply_to: Hashable, now_ms: int
) -> BeginQuorumEpochResponse:
    """Adopts the leader that announces itself. Source: handleBeginQuorumEpochRequest."""
    if not is_this_cluster(node, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
    partition_data = only_partition(request.topics)
    if partition_data is None:
        return BeginQuorumEpochResponse(error_code=Errors.INVALID_REQUEST)
    leader_id, epoch = partition_data.leader_id, partition_data.leader_epoch
    error = _adopt_leader(node, leader_id, epoch, request.leader_endpoints, now_ms)
    if error is Errors.NONE and not is_this_voter(node, request.voter_id, partition_data.voter_directory_id):
        error = Errors.INVALID_VOTER_KEY  # The leader is adopted nevertheless.
    return BeginQuorumEpochResponse(topics=_answers(node, error), node_endpoints=node_endpoints(node, version))


def _adopt_leader(
    node: NodeContext, leader_id: int, epoch: int, named: Sequence[LeaderEndpoint], now_ms: int
) -> Errors:
    """Follows the leader that a request names; returns NONE, or the error why this node does not follow it."""
    error = voter_only_error(node, leader_id, epoch)
    if error is not Errors.NONE:
        return error
    if epoch > node.epoch and not node.quorum.allows(epoch, now_ms):
        return Errors.INVALID_REQUEST
    endpoints: Endpoints = {endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in named}
    is_adopted = maybe_transition(node, leader_id, epoch, endpoints or voter_endpoints(node, leader_id), now_ms)
    return Errors.NONE if is_adopted else Errors.UNKNOWN_SERVER_ERROR


def _answers(node: NodeContext, error: Errors) -> list[QuorumEpochTopicData]:
    state = node.quorum.state
    partition = QuorumEpochPartitionData(error_code=error, leader_id=state.leader_id, leader_epoch=state.epoch)
    return [QuorumEpochTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]


def announce(node: NodeContext, state: Leader, now_ms: int) -> None:
    """Sends BeginQuorumEpoch to voters that have not fetched lately, and sets the next deadline.

    3.9 sends it to all other voters each time. Source: maybeSendBeginQuorumEpochRequests.
    """
    interval_ms = node.config.fetch_timeout_ms // 2
    voters = node.voter_history.last_voters
    for voter in voters.keys:
        address = voters.address(voter.id, node.config.listener)
        if voter.id == node.local.id or address is None or not node.connections.is_ready(voter.id, now_ms):
            continue
        if node.quorum.pre_vote and now_ms - state.last_fetch_ms(voter) < interval_ms:
            continue
        request = _begin_quorum_epoch_request(node, state, voter)
        node.connections.send(node.effects, voter.id, address, request, now_ms)
    state.begin_epoch_deadline_ms = now_ms + max(interval_ms, 1)


def _begin_quorum_epoch_request(node: NodeContext, state: Leader, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequestPartitionData(
        voter_directory_id=voter.directory_id, leader_id=node.local.id, leader_epoch=state.epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=node.cluster_id,
        voter_id=voter.id,
        topics=[BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            LeaderEndpoint(name=name, host=address.host, port=address.port)
            for name, address in state.leader_endpoints.items()
        ],
    )


def on_begin_quorum_epoch_response(
    node: NodeContext,
    voter_id: int,
    request: BeginQuorumEpochRequest,
    response: BeginQuorumEpochResponse,
    now_ms: int,
) -> bool:
    """Handles the response; the leader repeats the request until the voter fetches.

    Source: handleBeginQuorumEpochResponse.
    """
    partition = only_partition(response.topics)
    if response.error_code != Errors.NONE or partition is None:
        return False
    return _handle(node, partition, response, now_ms)


def _handle(
    node: NodeContext,
    partition: QuorumEpochPartitionData,
    response: BeginQuorumEpochResponse | EndQuorumEpochResponse,
    now_ms: int,
) -> bool:
    leader_id, epoch = partition.leader_id, partition.leader_epoch
    endpoints = leader_endpoints(node, leader_id, response.node_endpoints)
    handled = handle_common(node, partition.error_code, leader_id, epoch, endpoints, now_ms)
    return partition.error_code == Errors.NONE if handled is None else handled


# EndQuorumEpoch.


def on_end_quorum_epoch_request(
    node: NodeContext, request: EndQuorumEpochRequest, version: int, reply_to: Hashable, now_ms: int
) -> EndQuorumEpochResponse:
    """Sets an earlier election time-out, depending on this voter's position among the leader's preferred successors.

    Source: handleEndQuorumEpochRequest.
    """
    if not is_this_cluster(node, request.cluster_id):
        return EndQuorumEpochResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
    partition_data = only_partition(request.topics)
    if partition_data is None:
        return EndQuorumEpochResponse(error_code=Errors.INVALID_REQUEST)
    leader_id, epoch = partition_data.leader_id, partition_data.leader_epoch
    error = _adopt_leader(node, leader_id, epoch, request.leader_endpoints, now_ms)
    state = node.quorum.state
    if error is Errors.NONE and type(state) is Follower and state.leader_id == leader_id:
        # The first successor starts an election at once. KAFKA-20895: the other successors deny its pre-vote, as they
        # have fetched from this leader; with `pre_votes_after_resignation` they grant it.
        state.fetch_deadline_ms = now_ms + election_backoff_ms(node, _preferred_candidates(partition_data))
        state.has_leader_resigned = True
    return EndQuorumEpochResponse(topics=_answers(node, error), node_endpoints=node_endpoints(node, version))


def _preferred_candidates(partition_data: EndQuorumEpochRequestPartitionData) -> list[ReplicaKey]:
    """The successors, with directories from version 1 on. Source: EndQuorumEpochRequest.preferredCandidates."""
    if partition_data.preferred_candidates:
        return [
            ReplicaKey(info.candidate_id, info.candidate_directory_id) for info in partition_data.preferred_candidates
        ]
    return [ReplicaKey(voter_id) for voter_id in partition_data.preferred_successors]


def election_backoff_ms(node: NodeContext, preferred: Sequence[ReplicaKey]) -> int:
    """The time until this voter starts an election: 0 for the first of `preferred`, doubled from each to the next.

    Voters that are not listed wait `election_backoff_max_ms`.

    Source: strictExponentialElectionBackoffMs.
    """
    most_ms = node.config.election_backoff_max_ms
    own = (node.local, ReplicaKey(node.local.id))
    position = next((i for i, key in enumerate(preferred) if key in own), len(preferred))
    if position == 0:
        return 0
    if position >= len(preferred):
        return most_ms
    return min(most_ms, most_ms >> (len(preferred) - 1) << (position - 1))


def resign_to_voters(node: NodeContext, state: Resigned, now_ms: int) -> int:
    """Sends EndQuorumEpoch to voters that have not responded; returns when to try again. Source: pollResigned."""
    deadline_ms = NEVER_MS
    voters, connections = node.voter_history.last_voters, node.connections
    for voter_id in state.unacknowledged:
        address = voters.address(voter_id, node.config.listener)
        if address is None:
            continue
        if connections.is_ready(voter_id, now_ms):
            connections.send(node.effects, voter_id, address, _end_quorum_epoch_request(node, state), now_ms)
        deadline_ms = min(deadline_ms, connections.ready_ms(voter_id))
    return deadline_ms


def _end_quorum_epoch_request(node: NodeContext, state: Resigned) -> EndQuorumEpochRequest:
    successors = state.preferred_successors
    partition = EndQuorumEpochRequestPartitionData(
        leader_id=node.local.id,
        leader_epoch=state.epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[
            ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=node.cluster_id,
        topics=[EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def on_end_quorum_epoch_response(
    node: NodeContext, voter_id: int, request: EndQuorumEpochRequest, response: EndQuorumEpochResponse, now_ms: int
) -> bool:
    """Stops sending EndQuorumEpoch to a voter that has acknowledged it. Source: handleEndQuorumEpochResponse."""
    partition = only_partition(response.topics)
    if response.error_code != Errors.NONE or partition is None:
        return False
    before = node.quorum.state
    handled = _handle(node, partition, response, now_ms)
    if handled and partition.error_code == Errors.NONE and type(before) is Resigned and node.quorum.state is before:
        before.unacknowledged.discard(voter_id)
    return handled
