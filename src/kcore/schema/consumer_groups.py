"""Consumer groups."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class TopicPartitions(Struct):
    """A part of ConsumerGroupHeartbeatRequest."""

    topic_id: Uuid
    partitions: list[int32]


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """ConsumerGroupHeartbeatRequest, as Kafka has it."""

    group_id: str
    member_id: str
    member_epoch: int32
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    subscribed_topic_names: list[str] | None = field(nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(versions="1+", nullable="1+", default=None)
    server_assignor: str | None = field(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+", default=None)


class ConsumerGroupHeartbeatResponseAssignment(Struct, kafka_name="Assignment"):
    """A part of ConsumerGroupHeartbeatResponse."""

    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """ConsumerGroupHeartbeatResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = field(nullable="0+", default=None)


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """ConsumerGroupDescribeRequest, as Kafka has it."""

    group_ids: list[str]
    include_authorized_operations: bool


class ConsumerGroupDescribeResponseTopicPartitions(Struct, kafka_name="TopicPartitions"):
    """A part of ConsumerGroupDescribeResponse."""

    topic_id: Uuid
    topic_name: str
    partitions: list[int32]


class ConsumerGroupDescribeResponseAssignment(Struct, kafka_name="Assignment"):
    """A part of ConsumerGroupDescribeResponse."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions]


class Member(Struct):
    """A part of ConsumerGroupDescribeResponse."""

    member_id: str
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = field(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: int8 = field(versions="1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    """A part of ConsumerGroupDescribeResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: str
    members: list[Member]
    authorized_operations: int32 = field(default=-2147483648)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    """ConsumerGroupDescribeResponse, as Kafka has it."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
