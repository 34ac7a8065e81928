"""Start offsets of share groups, for administrators (KIP-932)."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """The partitions of one topic."""

    topic_name: str
    partitions: list[int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group whose start offsets are requested."""

    group_id: str
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(nullable="0+")  # Null asks for all.


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    """An administrator asks a group coordinator for start offsets."""

    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """The start offset of one share partition."""

    partition_index: int32
    start_offset: int64
    leader_epoch: int32
    # Number of unprocessed records; -1 for unknown (KIP-1226).
    lag: int64 = field(versions="1+", default=-1, ignorable=True)
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """The start offsets of one topic."""

    topic_name: str
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """The start offsets of one group."""

    group_id: str
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    """The requested start offsets."""

    throttle_time_ms: int32
    groups: list[DescribeShareGroupOffsetsResponseGroup]


class AlterShareGroupOffsetsRequestPartition(Struct):
    """The new start offset of one share partition."""

    partition_index: int32
    start_offset: int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    """The partitions of one topic."""

    topic_name: str
    partitions: list[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    """An administrator changes start offsets of a group that has no members."""

    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """The answers for one topic."""

    topic_name: str
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    """The group coordinator's answer, partition by partition."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic]


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic whose start offsets are to be deleted."""

    topic_name: str


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    """An administrator deletes the start offsets of topics, for a group that has no members."""

    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """The result for one topic."""

    topic_name: str
    topic_id: Uuid
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    """The group coordinator's answer, topic by topic."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic]
