"""Raft votes."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class VoteRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of VoteRequest."""

    partition_index: int32
    replica_epoch: int32 = field(json_aliases=("candidateEpoch",))
    replica_id: int32 = field(json_aliases=("candidateId",))
    replica_directory_id: Uuid = field(versions="1+", ignorable=True, json_aliases=("candidateDirectoryId",))
    voter_directory_id: Uuid = field(versions="1+", ignorable=True)
    last_offset_epoch: int32
    last_offset: int64
    pre_vote: bool = field(versions="2+")


class VoteRequestTopicData(Struct, kafka_name="TopicData"):
    """A part of VoteRequest."""

    topic_name: str
    partitions: list[VoteRequestPartitionData]


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    """VoteRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+", default=None)
    voter_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData]


class VoteResponsePartitionData(Struct, kafka_name="PartitionData"):
    """A part of VoteResponse."""

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    vote_granted: bool


class VoteResponseTopicData(Struct, kafka_name="TopicData"):
    """A part of VoteResponse."""

    topic_name: str
    partitions: list[VoteResponsePartitionData]


class NodeEndpoint(Struct):
    """A part of VoteResponse."""

    node_id: int32
    host: str
    port: uint16


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    """VoteResponse, as Kafka has it."""

    error_code: int16
    topics: list[VoteResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")


class BeginQuorumEpochRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of BeginQuorumEpochRequest."""

    partition_index: int32
    voter_directory_id: Uuid = field(versions="1+", ignorable=True)
    leader_id: int32
    leader_epoch: int32


class BeginQuorumEpochRequestTopicData(Struct, kafka_name="TopicData"):
    """A part of BeginQuorumEpochRequest."""

    topic_name: str
    partitions: list[BeginQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    """A part of BeginQuorumEpochRequest."""

    name: str
    host: str
    port: uint16


class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    """BeginQuorumEpochRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+", default=None)
    voter_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(versions="1+", ignorable=True)


class QuorumEpochPartitionData(Struct, kafka_name="PartitionData"):
    """A part of BeginQuorumEpochResponse."""

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


class QuorumEpochTopicData(Struct, kafka_name="TopicData"):
    """A part of BeginQuorumEpochResponse."""

    topic_name: str
    partitions: list[QuorumEpochPartitionData]


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    """BeginQuorumEpochResponse, as Kafka has it."""

    error_code: int16
    topics: list[QuorumEpochTopicData]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")


class ReplicaInfo(Struct):
    """A part of EndQuorumEpochRequest."""

    candidate_id: int32
    candidate_directory_id: Uuid


class EndQuorumEpochRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of EndQuorumEpochRequest."""

    partition_index: int32
    leader_id: int32
    leader_epoch: int32
    preferred_successors: list[int32] = field(versions="0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(versions="1+", ignorable=True)


class EndQuorumEpochRequestTopicData(Struct, kafka_name="TopicData"):
    """A part of EndQuorumEpochRequest."""

    topic_name: str
    partitions: list[EndQuorumEpochRequestPartitionData]


class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    """EndQuorumEpochRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+", default=None)
    topics: list[EndQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(versions="1+", ignorable=True)


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    """EndQuorumEpochResponse, as Kafka has it."""

    error_code: int16
    topics: list[QuorumEpochTopicData]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")
