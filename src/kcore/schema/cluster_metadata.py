"""Metadata of the cluster for clients: Metadata, DescribeCluster (KIP-700), DescribeTopicPartitions (KIP-966)."""

from enum import IntEnum

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class MetadataRequestTopic(Struct):
    """A topic by name or, from version 12 on, by id (KIP-516)."""

    topic_id: Uuid = field(versions="10+", ignorable=True)
    name: str | None = field(nullable="10+")  # Null if the topic is given by id.


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """A client asks for brokers, topics and partition leaders."""

    # Null asks for all topics; in version 0 an empty list asks for all.
    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: bool = field(versions="4+", default=True)
    # KIP-430; later versions leave this to DescribeCluster (KIP-700).
    include_cluster_authorized_operations: bool = field(versions="8-10")
    include_topic_authorized_operations: bool = field(versions="8+")  # KIP-430.


class MetadataResponseBroker(Struct):
    """A live broker, and its endpoint of the listener that the client uses."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(versions="1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """The leader and the replicas of one partition."""

    error_code: int16
    partition_index: int32
    leader_id: int32  # -1 for none.
    leader_epoch: int32 = field(versions="7+", default=-1, ignorable=True)  # KIP-320.
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field(versions="5+", ignorable=True)  # On dead brokers or failed disks (KIP-112).


class MetadataResponseTopic(Struct):
    """A topic and all its partitions."""

    error_code: int16
    name: str | None = field(nullable="12+")  # Null for an id that the broker does not know.
    topic_id: Uuid = field(versions="10+", ignorable=True)
    is_internal: bool = field(versions="1+", ignorable=True)
    partitions: list[MetadataResponsePartition]
    # A bit for each operation; the lowest integer if not requested.
    topic_authorized_operations: int32 = field(versions="8+", default=-(2**31))


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """The cluster's state, as the answering broker knows it."""

    throttle_time_ms: int32 = field(versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field(versions="2+", nullable="2+", default=None, ignorable=True)  # KIP-78.
    # In KRaft mode a random live broker, because clients cannot reach the controller.
    controller_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field(versions="8-10", default=-(2**31))
    error_code: int16 = field(versions="13+", ignorable=True)  # Set if a client must bootstrap again (KIP-1102).


class EndpointType(IntEnum):
    """EndpointType: the kind of nodes that DescribeCluster lists (KIP-919)."""

    BROKER = 1
    CONTROLLER = 2


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    """An administrator asks for the brokers, or asks a controller for the controllers."""

    include_cluster_authorized_operations: bool
    endpoint_type: int8 = field(versions="1+", default=1)  # EndpointType
    include_fenced_brokers: bool = field(versions="2+")  # KIP-1073.


class DescribeClusterBroker(Struct):
    """The endpoint of a broker or controller."""

    broker_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="0+", default=None)
    is_fenced: bool = field(versions="2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    """The nodes of the requested kind."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    endpoint_type: int8 = field(versions="1+", default=1)  # EndpointType
    cluster_id: str
    controller_id: int32 = field(default=-1)
    brokers: list[DescribeClusterBroker]
    # A bit for each operation; the lowest integer if not requested.
    cluster_authorized_operations: int32 = field(default=-(2**31))


class TopicRequest(Struct):
    """A topic by name."""

    name: str


class Cursor(Struct):
    """The topic and partition with which the next page begins."""

    topic_name: str
    partition_index: int32


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """An administrator asks for topics page by page, with the partitions' ELRs."""

    topics: list[TopicRequest]  # Empty for all.
    response_partition_limit: int32 = field(default=2000)  # The size of a page; the broker's own limit may be lower.
    cursor: Cursor | None = field(nullable="0+", default=None)  # Null for the first page.


class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition with the full state of its replicas."""

    error_code: int16
    partition_index: int32
    leader_id: int32  # -1 for none.
    leader_epoch: int32 = field(default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    # Replicas that left the ISR with all committed records: a clean election may choose them.
    eligible_leader_replicas: list[int32] | None = field(nullable="0+", default=None)
    # Candidates for an unclean election if ISR and ELR are both empty.
    last_known_elr: list[int32] | None = field(nullable="0+", default=None)
    offline_replicas: list[int32] = field(ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, and its partitions on this page."""

    error_code: int16
    name: str | None = field(nullable="0+")
    topic_id: Uuid = field(ignorable=True)
    is_internal: bool = field(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = field(default=-(2**31))  # A bit for each operation.


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    """A page of topics."""

    throttle_time_ms: int32 = field(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(nullable="0+", default=None)  # Null on the last page.
