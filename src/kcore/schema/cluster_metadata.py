"""Cluster metadata."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class MetadataRequestTopic(Struct):
    """A part of MetadataRequest."""

    topic_id: Uuid = field(versions="10+", ignorable=True)
    name: str | None = field(nullable="10+")


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """MetadataRequest, as Kafka has it."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: bool = field(versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(versions="8-10")
    include_topic_authorized_operations: bool = field(versions="8+")


class MetadataResponseBroker(Struct):
    """A part of MetadataResponse."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(versions="1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """A part of MetadataResponse."""

    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field(versions="5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """A part of MetadataResponse."""

    error_code: int16
    name: str | None = field(nullable="12+")
    topic_id: Uuid = field(versions="10+", ignorable=True)
    is_internal: bool = field(versions="1+", ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field(versions="8+", default=-2147483648)


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """MetadataResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field(versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field(versions="8-10", default=-2147483648)
    error_code: int16 = field(versions="13+", ignorable=True)


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    """DescribeClusterRequest, as Kafka has it."""

    include_cluster_authorized_operations: bool
    endpoint_type: int8 = field(versions="1+", default=1)
    include_fenced_brokers: bool = field(versions="2+")


class DescribeClusterBroker(Struct):
    """A part of DescribeClusterResponse."""

    broker_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="0+", default=None)
    is_fenced: bool = field(versions="2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    """DescribeClusterResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    endpoint_type: int8 = field(versions="1+", default=1)
    cluster_id: str
    controller_id: int32 = field(default=-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int32 = field(default=-2147483648)


class TopicRequest(Struct):
    """A part of DescribeTopicPartitionsRequest."""

    name: str


class Cursor(Struct):
    """A part of DescribeTopicPartitionsRequest."""

    topic_name: str
    partition_index: int32


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """DescribeTopicPartitionsRequest, as Kafka has it."""

    topics: list[TopicRequest]
    response_partition_limit: int32 = field(default=2000)
    cursor: Cursor | None = field(nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """A part of DescribeTopicPartitionsResponse."""

    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    eligible_leader_replicas: list[int32] | None = field(nullable="0+", default=None)
    last_known_elr: list[int32] | None = field(nullable="0+", default=None)
    offline_replicas: list[int32] = field(ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """A part of DescribeTopicPartitionsResponse."""

    error_code: int16
    name: str | None = field(nullable="0+")
    topic_id: Uuid = field(ignorable=True)
    is_internal: bool = field(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = field(default=-2147483648)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    """DescribeTopicPartitionsResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(nullable="0+", default=None)
