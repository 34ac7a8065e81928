"""Records of share groups in the group coordinator's topic (KIP-932)."""

from kcore.schema.consumer_groups import TopicPartitions
from kcore.schema.kinds import int8, int32, int64
from kcore.schema.structure import Data, Struct, field
from kcore.types import Uuid


class ShareGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """A member of a share group."""

    rack_id: str | None = field(nullable="0+")
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


class ShareGroupMetadataValue(Data, versions="0", flexible="0+"):
    """A share group."""

    epoch: int32
    metadata_hash: int64


class ShareGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """The present assignment of a share group's member."""

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]


class TopicPartitionsInfo(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: str
    partitions: list[int32]


class TopicInfo(Struct):
    """A topic."""

    topic_id: Uuid
    topic_name: str


class ShareGroupStatePartitionMetadataValue(Data, versions="0", flexible="0+"):
    """The partitions whose state the share coordinator stores or is about to store."""

    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]
