"""Committed offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete, sent to the group's coordinator."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class OffsetCommitRequestPartition(Struct):
    """The offset to commit for one partition."""

    partition_index: int32
    committed_offset: int64  # The next offset to read.
    # The epoch of the last record read; -1 for unknown (KIP-320).
    committed_leader_epoch: int32 = field(versions="6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field(versions="1", default=-1)  # -1 for the broker's own time.
    committed_metadata: str | None = field(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = field(versions="0-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, api_key=8, versions="0-10", flexible="8+"):
    """A member of a group commits its offsets."""

    group_id: str
    # The generation, or in the groups of KIP-848 the member epoch; -1 from a consumer that is not a member.
    generation_id_or_member_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: str = field(versions="1+", ignorable=True)
    # Only for a static member (KIP-345).
    group_instance_id: str | None = field(versions="7+", nullable="7+", default=None)
    # -1 for the broker's setting; since KIP-211 offsets are kept as long as the group has members.
    retention_time_ms: int64 = field(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int32
    error_code: int16


class OffsetCommitResponseTopic(Struct):
    """The answers for one topic."""

    name: str = field(versions="0-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, api_key=8, versions="0-10", flexible="8+"):
    """The coordinator's answer, partition by partition."""

    throttle_time_ms: int32 = field(versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Struct):
    """The partitions of one topic, in versions up to 7."""

    name: str
    partition_indexes: list[int32]


class OffsetFetchRequestTopics(Struct):
    """The partitions of one topic, for one of several groups."""

    name: str = field(versions="8-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partition_indexes: list[int32]


class OffsetFetchRequestGroup(Struct):
    """A group whose offsets are requested (KIP-709)."""

    group_id: str
    # The member and its epoch: the coordinator refuses a fenced member (KIP-848).
    member_id: str | None = field(versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(nullable="8+")  # Null asks for all.


class OffsetFetchRequest(Message, api_key=9, versions="0-10", flexible="6+"):
    """A member or an administrator asks for the committed offsets of groups; before version 8 of one group."""

    group_id: str = field(versions="0-7")
    # Null asks for all topics (since version 2).
    topics: list[OffsetFetchRequestTopic] | None = field(versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(versions="8+")  # Several groups in one request (KIP-709).
    # The coordinator refuses to return an offset that an open transaction may still change (KIP-447).
    require_stable: bool = field(versions="7+")


class OffsetFetchResponsePartition(Struct):
    """The committed offset of one partition, in versions up to 7."""

    partition_index: int32
    committed_offset: int64  # -1 for none.
    committed_leader_epoch: int32 = field(versions="5-7", default=-1, ignorable=True)
    metadata: str | None = field(nullable="0-7")
    error_code: int16


class OffsetFetchResponseTopic(Struct):
    """The offsets of one topic, in versions up to 7."""

    name: str
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    """The committed offset of one partition."""

    partition_index: int32
    committed_offset: int64  # -1 for none.
    committed_leader_epoch: int32 = field(default=-1, ignorable=True)
    metadata: str | None = field(nullable="8+")
    error_code: int16


class OffsetFetchResponseTopics(Struct):
    """The offsets of one topic."""

    name: str = field(versions="8-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: int16


class OffsetFetchResponse(Message, api_key=9, versions="0-10", flexible="6+"):
    """The committed offsets."""

    throttle_time_ms: int32 = field(versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(versions="0-7")
    error_code: int16 = field(versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(versions="8+")


class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset is to be deleted."""

    partition_index: int32


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, api_key=47, versions="0", flexible="none"):
    """An administrator deletes offsets of topics that the group no longer reads (KIP-496)."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int32
    error_code: int16


class OffsetDeleteResponseTopic(Struct):
    """The answers for one topic."""

    name: str
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, api_key=47, versions="0", flexible="none"):
    """The coordinator's answer, partition by partition."""

    error_code: int16
    throttle_time_ms: int32 = field(ignorable=True)
    topics: list[OffsetDeleteResponseTopic]
