"""Describe quorum."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class DescribeQuorumRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of DescribeQuorumRequest."""

    partition_index: int32


class DescribeQuorumRequestTopicData(Struct, kafka_name="TopicData"):
    """A part of DescribeQuorumRequest."""

    topic_name: str
    partitions: list[DescribeQuorumRequestPartitionData]


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    """DescribeQuorumRequest, as Kafka has it."""

    topics: list[DescribeQuorumRequestTopicData]


class ReplicaState(Struct):
    """A part of DescribeQuorumResponse."""

    replica_id: int32
    replica_directory_id: Uuid = field(versions="2+")
    log_end_offset: int64
    last_fetch_timestamp: int64 = field(versions="1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = field(versions="1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct, kafka_name="PartitionData"):
    """A part of DescribeQuorumResponse."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(versions="2+", nullable="2+", ignorable=True)
    leader_id: int32
    leader_epoch: int32
    high_watermark: int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class DescribeQuorumResponseTopicData(Struct, kafka_name="TopicData"):
    """A part of DescribeQuorumResponse."""

    topic_name: str
    partitions: list[DescribeQuorumResponsePartitionData]


class Listener(Struct):
    """A part of DescribeQuorumResponse."""

    name: str
    host: str
    port: uint16


class Node(Struct):
    """A part of DescribeQuorumResponse."""

    node_id: int32
    listeners: list[Listener]


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    """DescribeQuorumResponse, as Kafka has it."""

    error_code: int16
    error_message: str | None = field(versions="2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[Node] = field(versions="2+")
