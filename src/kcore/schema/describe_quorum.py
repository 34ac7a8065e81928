"""DescribeQuorum: the state of the controllers' quorum, as its leader knows it (KIP-595)."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.raft_voters import Listener as Listener
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class DescribeQuorumRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A partition; only number 0 has a quorum."""

    partition_index: int32


class DescribeQuorumRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic; in practice only `__cluster_metadata`."""

    topic_name: str
    partitions: list[DescribeQuorumRequestPartitionData]


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    """An administrator asks for the state of the quorum."""

    topics: list[DescribeQuorumRequestTopicData]


class ReplicaState(Struct):
    """The log end of one voter or observer."""

    replica_id: int32
    replica_directory_id: Uuid = field(versions="2+")  # KIP-853.
    log_end_offset: int64  # -1 for unknown.
    # The time of the last fetch, by the leader's clock (KIP-836); -1 for unknown.
    last_fetch_timestamp: int64 = field(versions="1+", default=-1, ignorable=True)
    # The last time at which the replica had the leader's whole log (KIP-836); -1 for unknown.
    last_caught_up_timestamp: int64 = field(versions="1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The leader, its epoch and its followers."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(versions="2+", nullable="2+", ignorable=True)
    leader_id: int32
    leader_epoch: int32
    high_watermark: int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]  # Brokers, and controllers that are not voters.


class DescribeQuorumResponseTopicData(Struct, kafka_name="TopicData"):
    """The quorums of one topic."""

    topic_name: str
    partitions: list[DescribeQuorumResponsePartitionData]


class Node(Struct):
    """The endpoints of a voter (KIP-853)."""

    node_id: int32
    listeners: list[Listener]


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    """The state of the quorum, from its leader."""

    error_code: int16
    error_message: str | None = field(versions="2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[Node] = field(versions="2+")
