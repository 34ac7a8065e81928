"""Committed offsets."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class OffsetCommitRequestPartition(Struct):
    """A part of OffsetCommitRequest."""

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field(versions="1", default=-1)
    committed_metadata: str | None = field(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """A part of OffsetCommitRequest."""

    name: str = field(versions="0-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, api_key=8, versions="0-10", flexible="8+"):
    """OffsetCommitRequest, as Kafka has it."""

    group_id: str
    generation_id_or_member_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: str = field(versions="1+", ignorable=True)
    group_instance_id: str | None = field(versions="7+", nullable="7+", default=None)
    retention_time_ms: int64 = field(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    """A part of OffsetCommitResponse."""

    partition_index: int32
    error_code: int16


class OffsetCommitResponseTopic(Struct):
    """A part of OffsetCommitResponse."""

    name: str = field(versions="0-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, api_key=8, versions="0-10", flexible="8+"):
    """OffsetCommitResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Struct):
    """A part of OffsetFetchRequest."""

    name: str
    partition_indexes: list[int32]


class OffsetFetchRequestTopics(Struct):
    """A part of OffsetFetchRequest."""

    name: str = field(versions="8-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partition_indexes: list[int32]


class OffsetFetchRequestGroup(Struct):
    """A part of OffsetFetchRequest."""

    group_id: str
    member_id: str | None = field(versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(nullable="8+")


class OffsetFetchRequest(Message, api_key=9, versions="0-10", flexible="6+"):
    """OffsetFetchRequest, as Kafka has it."""

    group_id: str = field(versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(versions="8+")
    require_stable: bool = field(versions="7+")


class OffsetFetchResponsePartition(Struct):
    """A part of OffsetFetchResponse."""

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="5-7", default=-1, ignorable=True)
    metadata: str | None = field(nullable="0-7")
    error_code: int16


class OffsetFetchResponseTopic(Struct):
    """A part of OffsetFetchResponse."""

    name: str
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    """A part of OffsetFetchResponse."""

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(default=-1, ignorable=True)
    metadata: str | None = field(nullable="8+")
    error_code: int16


class OffsetFetchResponseTopics(Struct):
    """A part of OffsetFetchResponse."""

    name: str = field(versions="8-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    """A part of OffsetFetchResponse."""

    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: int16


class OffsetFetchResponse(Message, api_key=9, versions="0-10", flexible="6+"):
    """OffsetFetchResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(versions="0-7")
    error_code: int16 = field(versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(versions="8+")


class OffsetDeleteRequestPartition(Struct):
    """A part of OffsetDeleteRequest."""

    partition_index: int32


class OffsetDeleteRequestTopic(Struct):
    """A part of OffsetDeleteRequest."""

    name: str
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, api_key=47, versions="0", flexible="none"):
    """OffsetDeleteRequest, as Kafka has it."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    """A part of OffsetDeleteResponse."""

    partition_index: int32
    error_code: int16


class OffsetDeleteResponseTopic(Struct):
    """A part of OffsetDeleteResponse."""

    name: str
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, api_key=47, versions="0", flexible="none"):
    """OffsetDeleteResponse, as Kafka has it."""

    error_code: int16
    throttle_time_ms: int32 = field(ignorable=True)
    topics: list[OffsetDeleteResponseTopic]
