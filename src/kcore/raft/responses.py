"""Checks of fields that several requests and responses of the quorum have: the partition, the cluster, the leader."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from kcore.constants import METADATA_TOPIC
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import NO_DIRECTORY, Address, Endpoints
from kcore.raft.node_context import NodeContext
from kcore.raft.states import NO_ENDPOINTS, NO_LEADER, Leader
from kcore.schema.raft_votes import NodeEndpoint
from kcore.types import Uuid

PARTITION = 0

Partition = TypeVar("Partition", covariant=True)


class Named(Protocol[Partition]):
    """A topic of a request or response, with its name and partitions."""

    topic_name: str

    @property
    def partitions(self) -> Sequence[Partition]: ...


def only_partition(topics: Sequence[Named[Partition]]) -> Partition | None:
    """The metadata partition if the message has no other partition. Source: RaftUtil.hasValidTopicPartition."""
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == PARTITION else None  # type: ignore[attr-defined]


class NamedEndpoint(Protocol):
    """A node's endpoint in a response; each kind of response has its own class with these fields."""

    node_id: int
    host: str
    port: int


def is_this_cluster(node: NodeContext, cluster_id: str | None) -> bool:
    """True unless both sides know a cluster id and the ids differ."""
    return cluster_id is None or node.cluster_id in (None, cluster_id)


def is_this_voter(node: NodeContext, voter_id: int, directory_id: Uuid) -> bool:
    """Whether this node is the voter that a request names, if it names one; ignores a zero directory id (KIP-853)."""
    if voter_id < 0:
        return True
    return voter_id == node.local.id and directory_id in (NO_DIRECTORY, node.local.directory_id)


def voter_only_error(node: NodeContext, remote_id: int, epoch: int) -> Errors:
    """The error of a Vote, BeginQuorumEpoch or EndQuorumEpoch request, or NONE. Source: validateVoterOnlyRequest."""
    if epoch < node.quorum.state.epoch:
        return Errors.FENCED_LEADER_EPOCH
    return Errors.INVALID_REQUEST if remote_id < 0 else Errors.NONE


def leader_only_error(node: NodeContext, epoch: int) -> Errors:
    """The error of a Fetch, FetchSnapshot or other request to a leader, or NONE. Source: validateLeaderOnlyRequest."""
    state = node.quorum.state
    if epoch < state.epoch:
        return Errors.FENCED_LEADER_EPOCH
    if epoch > state.epoch:
        return Errors.UNKNOWN_LEADER_EPOCH
    if type(state) is not Leader:
        return Errors.NOT_LEADER_OR_FOLLOWER  # Observers find the leader by fetching from any node.
    return Errors.NONE if node.shutdown_deadline_ms is None else Errors.BROKER_NOT_AVAILABLE


def node_endpoints(node: NodeContext, version: int) -> list[NodeEndpoint]:
    """The leader's endpoint for a response; empty before version 1 of the quorum's messages."""
    state = node.quorum.state
    address = state.leader_endpoints.get(node.config.listener)
    if version < 1 or state.leader_id < 0 or address is None:
        return []
    return [NodeEndpoint(node_id=state.leader_id, host=address.host, port=address.port)]


def leader_endpoints(node: NodeContext, leader_id: int, named: Sequence[NamedEndpoint]) -> Endpoints:
    """The leader's endpoint in a response, else its endpoints in the voter set; empty if neither has an endpoint."""
    if leader_id < 0:
        return NO_ENDPOINTS
    for endpoint in named:
        if endpoint.node_id == leader_id:
            return {node.config.listener: Address(endpoint.host, endpoint.port)}
    return voter_endpoints(node, leader_id)


def voter_endpoints(node: NodeContext, voter_id: int) -> Endpoints:
    voter = node.voter_history.last_voters.voters.get(voter_id)
    return NO_ENDPOINTS if voter is None else voter.endpoints


def handle_common(
    node: NodeContext, error: int, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int
) -> bool | None:
    """Handles the epoch and the leader of any response.

    Returns True if the response is handled and the destination is ready, False if the node must back off, None if the
    response's own handler must continue. Source: maybeHandleCommonResponse. Kafka does not back off if the response
    has nothing new, and repeats the request as fast as the network allows.
    """
    state = node.quorum.state
    if epoch < state.epoch or error == Errors.UNKNOWN_LEADER_EPOCH:
        return False  # The other node has an older epoch than this node.
    if epoch > state.epoch or error in (Errors.FENCED_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER):
        return maybe_transition(node, leader_id, epoch, endpoints, now_ms) and node.quorum.state is not state
    if leader_id >= 0 and state.leader_id < 0:
        # A bootstrap server that is the leader also returns records: the response's handler appends them.
        followed = maybe_transition(node, leader_id, epoch, endpoints, now_ms)
        return None if error == Errors.NONE and followed else followed
    is_refusal = error in (Errors.BROKER_NOT_AVAILABLE, Errors.INVALID_REQUEST, Errors.INVALID_VOTER_KEY)
    return False if is_refusal else None


def maybe_transition(node: NodeContext, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int) -> bool:
    """Adopts the epoch of a message, and the leader if the message names one that can be reached.

    `epoch` is not older than the node's own. Returns False, and adopts nothing, if the epoch is too far ahead or the
    named leader is impossible. A leader is impossible if the node's epoch has another leader, or if it is this node and
    this node does not lead in `epoch`. Kafka's process exits for an impossible leader (maybeTransition,
    hasConsistentLeader).
    """
    quorum = node.quorum
    state = quorum.state
    if not _is_consistent(node, leader_id, epoch) or (epoch > state.epoch and not quorum.allows(epoch, now_ms)):
        return False
    can_be_reached = node.config.listener in endpoints
    if epoch > state.epoch:
        if leader_id >= 0 and can_be_reached:
            quorum.become_follower(epoch, leader_id, endpoints, now_ms)
        else:
            quorum.become_unattached(epoch, now_ms)
        return True
    is_change = state.leader_id < 0 or len(endpoints) > len(state.leader_endpoints)
    if is_change and can_be_reached and leader_id not in (NO_LEADER, node.local.id):
        quorum.become_follower(epoch, leader_id, endpoints, now_ms)
    return True


def _is_consistent(node: NodeContext, leader_id: int, epoch: int) -> bool:
    state = node.quorum.state
    if leader_id >= 0 and leader_id == node.local.id:
        return type(state) is Leader and epoch == state.epoch
    return epoch != state.epoch or leader_id < 0 or state.leader_id < 0 or leader_id == state.leader_id
