"""Share groups."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="0-1", flexible="0+"):
    """ShareGroupHeartbeatRequest, as Kafka has it."""

    group_id: str
    member_id: str
    member_epoch: int32
    rack_id: str | None = field(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(nullable="0+", default=None)


class ShareGroupHeartbeatResponseTopicPartitions(Struct, kafka_name="TopicPartitions"):
    """A part of ShareGroupHeartbeatResponse."""

    topic_id: Uuid
    partitions: list[int32]


class ShareGroupHeartbeatResponseAssignment(Struct, kafka_name="Assignment"):
    """A part of ShareGroupHeartbeatResponse."""

    topic_partitions: list[ShareGroupHeartbeatResponseTopicPartitions]


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="0-1", flexible="0+"):
    """ShareGroupHeartbeatResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: ShareGroupHeartbeatResponseAssignment | None = field(nullable="0+", default=None)


class ShareGroupDescribeRequest(Message, api_key=77, versions="0-1", flexible="0+"):
    """ShareGroupDescribeRequest, as Kafka has it."""

    group_ids: list[str]
    include_authorized_operations: bool


class ShareGroupDescribeResponseTopicPartitions(Struct, kafka_name="TopicPartitions"):
    """A part of ShareGroupDescribeResponse."""

    topic_id: Uuid
    topic_name: str
    partitions: list[int32]


class ShareGroupDescribeResponseAssignment(Struct, kafka_name="Assignment"):
    """A part of ShareGroupDescribeResponse."""

    topic_partitions: list[ShareGroupDescribeResponseTopicPartitions]


class Member(Struct):
    """A part of ShareGroupDescribeResponse."""

    member_id: str
    rack_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: ShareGroupDescribeResponseAssignment


class DescribedGroup(Struct):
    """A part of ShareGroupDescribeResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: str
    members: list[Member]
    authorized_operations: int32 = field(default=-2147483648)


class ShareGroupDescribeResponse(Message, api_key=77, versions="0-1", flexible="0+"):
    """ShareGroupDescribeResponse, as Kafka has it."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
