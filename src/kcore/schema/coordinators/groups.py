"""Keys and values of the records of classic and consumer groups in `__consumer_offsets`."""

from kcore.schema.consumer_groups import TopicPartitions
from kcore.schema.kinds import int8, int32, int64
from kcore.schema.structure import Data, Struct, field
from kcore.types import Uuid


class GroupKey(Data, versions="0", flexible="none"):
    """The key of records that a group has only once: its metadata, its target assignment's epoch and others."""

    group_id: str


class MemberKey(Data, versions="0", flexible="none"):
    """The key of records that a group has once per member: metadata, target assignment, current assignment."""

    group_id: str
    member_id: str


class OffsetCommitKey(Data, versions="0", flexible="none"):
    """The key of a committed offset: group, topic and partition."""

    group: str
    topic: str
    partition: int32


class LegacyOffsetCommitValue(Data, versions="0", flexible="none"):
    """A committed offset in the format of old versions."""

    offset: int64
    metadata: str
    commit_timestamp: int64


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: int64
    leader_epoch: int32 = field(versions="3+", default=-1, ignorable=True)
    metadata: str  # Set by the client.
    commit_timestamp: int64
    expire_timestamp: int64 = field(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = field(versions="4+", tag=0, tagged="4+", ignorable=True)


class GroupMetadataKey(Data, versions="0", flexible="none"):
    """The key of a classic group."""

    group: str


class MemberMetadata(Struct):
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: int32 = field(versions="1+", default=-1, ignorable=True)
    session_timeout: int32
    subscription: bytes  # For consumers a ConsumerProtocolSubscription with its version in front.
    assignment: bytes  # For consumers a ConsumerProtocolAssignment with its version in front.


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    """A classic group."""

    protocol_type: str
    generation: int32
    protocol: str | None = field(nullable="0+")
    leader: str | None = field(nullable="0+")
    current_state_timestamp: int64 = field(versions="2+", default=-1, ignorable=True)
    members: list[MemberMetadata]


class ConsumerGroupMetadataValue(Data, versions="0", flexible="0+"):
    """A consumer group (KIP-848)."""

    epoch: int32
    metadata_hash: int64 = field(tag=0, tagged="0+")


class PartitionMetadata(Struct):
    """Where the replicas of a partition are."""

    partition: int32
    racks: list[str]


class TopicMetadata(Struct):
    """A topic of a group's subscription."""

    topic_id: Uuid
    topic_name: str
    num_partitions: int32
    partition_metadata: list[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(Data, versions="0", flexible="0+"):
    """The topics that a group's assignment was made for; newer releases store a hash of them instead."""

    topics: list[TopicMetadata]


class ClassicProtocol(Struct):
    """A protocol that a classic member supports."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(Data, versions="0", flexible="0+"):
    """Fields that only members of the classic protocol have: tag 0 of ConsumerGroupMemberMetadataValue."""

    session_timeout_ms: int32
    supported_protocols: list[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """A member of a consumer group.

    Kafka's field `classic_member_metadata` is an unknown tag here. It is Kafka's only nullable tagged struct: it begins
    with a varint (0 for null), while other nullable structs begin with an int8.
    """

    instance_id: str | None = field(nullable="0+")
    rack_id: str | None = field(nullable="0+")
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = field(nullable="0+")
    rebalance_timeout_ms: int32 = field(default=-1)
    server_assignor: str | None = field(nullable="0+")


class TargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    """The group epoch of the target assignment, for consumer, share and streams groups."""

    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0, tagged="0+")


class TargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    """The target assignment of a member, for consumer and share groups."""

    topic_partitions: list[TopicPartitions]


class AssignedTopicPartitions(Struct, kafka_name="TopicPartitions"):
    """Partitions of one topic, and the epoch in which each was assigned."""

    topic_id: Uuid
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(nullable="0+", tag=0, tagged="0+")


class ConsumerGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """The present assignment of a member of a consumer group."""

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[AssignedTopicPartitions]
    partitions_pending_revocation: list[AssignedTopicPartitions]


class ConsumerGroupRegularExpressionKey(Data, versions="0", flexible="none"):
    """The key of a regular expression of a group."""

    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Data, versions="0", flexible="0+"):
    """The topics that a regular expression matched."""

    topics: list[str]
    version: int64  # The version of the metadata image in which the topics were matched.
    timestamp: int64
