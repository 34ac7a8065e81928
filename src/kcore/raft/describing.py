"""Answers DescribeQuorum (KIP-595, KIP-836, KIP-853) with the leader's view of its replicas.

Source: KafkaRaftClient.handleDescribeQuorumRequest, RaftUtil.
"""

from collections.abc import Hashable
from typing import Final

from kcore.constants import METADATA_TOPIC
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import NO_DIRECTORY
from kcore.raft.node_context import NodeContext
from kcore.raft.responses import PARTITION
from kcore.raft.states import ReplicaProgress
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

NODES_VERSION = 2  # This version adds the voters' endpoints, their directories and error messages.
MESSAGES: Final = {  # Errors.message
    Errors.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Errors.NOT_LEADER_OR_FOLLOWER: (
        "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
        "For requests intended for any replica, this error indicates that the broker is not a replica of the topic "
        "partition."
    ),
}


def on_describe_quorum_request(
    node: NodeContext, request: DescribeQuorumRequest, version: int, reply_to: Hashable, now_ms: int
) -> DescribeQuorumResponse:
    """The leader describes the quorum; other nodes return an error, with the leader if they know it."""
    requested = [(topic.topic_name, row.partition_index) for topic in request.topics for row in topic.partitions]
    if requested != [(METADATA_TOPIC, PARTITION)]:
        return _unknown(request, version)
    if not node.leads:
        partition = _refusal(PARTITION, Errors.NOT_LEADER_OR_FOLLOWER, version)
        partition.leader_id, partition.leader_epoch = node.leader_id, node.epoch
        return _response([partition], [])
    return _response([_description(node, version, now_ms)], _nodes(node) if version >= NODES_VERSION else [])


def _unknown(request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
    """A response with an error for every requested partition, since none of them is the metadata partition."""
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[_refusal(partition.partition_index, error, version) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _response(partitions: list[DescribeQuorumResponsePartitionData], nodes: list[Node]) -> DescribeQuorumResponse:
    topics = [DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=partitions)]
    return DescribeQuorumResponse(topics=topics, nodes=nodes)


def _refusal(index: int, error: Errors, version: int) -> DescribeQuorumResponsePartitionData:
    refusal = DescribeQuorumResponsePartitionData(partition_index=index, error_code=error)
    if version >= NODES_VERSION:
        refusal.error_message = MESSAGES[error]
    return refusal


def _description(node: NodeContext, version: int, now_ms: int) -> DescribeQuorumResponsePartitionData:
    leading, known = node.leading, node.quorum.high_watermark
    leading.forget_silent_observers(now_ms)
    return DescribeQuorumResponsePartitionData(
        partition_index=PARTITION,
        leader_id=node.local.id,
        leader_epoch=leading.epoch,
        high_watermark=-1 if known is None else known,
        current_voters=[_replica(node, progress, version, now_ms) for progress in leading.voters.values()],
        observers=[_replica(node, progress, version, now_ms) for progress in leading.observers.values()],
    )


def _replica(node: NodeContext, progress: ReplicaProgress, version: int, now_ms: int) -> ReplicaState:
    """One replica's progress, as the response describes it; the leader itself has fetched and caught up now."""
    is_leader = progress.key.id == node.local.id
    return ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id if version >= NODES_VERSION else NO_DIRECTORY,
        log_end_offset=node.log.end_offset if is_leader else progress.end_offset,
        last_fetch_timestamp=now_ms if is_leader else progress.last_fetch_ms,
        last_caught_up_timestamp=now_ms if is_leader else progress.last_caught_up_ms,
    )


def _nodes(node: NodeContext) -> list[Node]:
    """The voters with their endpoints."""
    return [
        Node(
            node_id=voter.key.id,
            listeners=[
                Listener(name=name, host=address.host, port=address.port) for name, address in voter.endpoints.items()
            ],
        )
        for voter in node.voters.voters.values()
    ]
