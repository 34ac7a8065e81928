"""The consumer groups of KIP-848: the coordinator makes the assignment; members send and receive all by heartbeats."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[int32]


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """A member joins, reports or leaves. Null and -1 stand for values that did not change since the last heartbeat."""

    group_id: str
    member_id: str  # In version 0 the coordinator assigns the id; since KIP-1082 the member chooses it.
    member_epoch: int32  # 0 joins, -1 leaves, -2 leaves as a static member that will come back.
    instance_id: str | None = field(nullable="0+", default=None)  # Only for a static member.
    rack_id: str | None = field(nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field(default=-1)  # The time that the member has to revoke partitions.
    subscribed_topic_names: list[str] | None = field(nullable="0+", default=None)
    # RE2 syntax; the broker matches it.
    subscribed_topic_regex: str | None = field(versions="1+", nullable="1+", default=None)
    server_assignor: str | None = field(nullable="0+", default=None)  # Null leaves the choice to the coordinator.
    # The partitions that the member owns.
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+", default=None)


class Assignment(Struct):
    """The partitions that the member should own, or in a share group fetch from."""

    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """The member's epoch and, if it changed, its assignment."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    # Null if nothing changed.
    assignment: Assignment | None = field(nullable="0+", default=None)


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """An administrator asks a coordinator for details of consumer groups."""

    group_ids: list[str]
    include_authorized_operations: bool


class NamedTopicPartitions(Struct, kafka_name="TopicPartitions"):
    """Partitions of one topic, with the topic's name."""

    topic_id: Uuid
    topic_name: str
    partitions: list[int32]


class NamedAssignment(Struct, kafka_name="Assignment"):
    """The partitions that a member owns or should own; in a share group, the partitions that it fetches from."""

    topic_partitions: list[NamedTopicPartitions]


class Member(Struct):
    """A member of the group."""

    member_id: str
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = field(nullable="0+", default=None)
    assignment: NamedAssignment
    target_assignment: NamedAssignment  # The assignment after all members have caught up.
    # 0 classic, 1 consumer, -1 unknown; a group that migrates may have members of both types (KIP-1099).
    member_type: int8 = field(versions="1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    """A consumer group with its members."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32  # Rises with every change of members or topics.
    assignment_epoch: int32  # The group epoch of the target assignment.
    assignor_name: str
    members: list[Member]
    # A bit for each operation; the lowest integer if not requested.
    authorized_operations: int32 = field(default=-(2**31))


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    """The requested groups."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
