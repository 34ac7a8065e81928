"""Share offsets."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """A part of DescribeShareGroupOffsetsRequest."""

    topic_name: str
    partitions: list[int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A part of DescribeShareGroupOffsetsRequest."""

    group_id: str
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(nullable="0+")


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    """DescribeShareGroupOffsetsRequest, as Kafka has it."""

    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """A part of DescribeShareGroupOffsetsResponse."""

    partition_index: int32
    start_offset: int64
    leader_epoch: int32
    lag: int64 = field(versions="1+", default=-1, ignorable=True)
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """A part of DescribeShareGroupOffsetsResponse."""

    topic_name: str
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """A part of DescribeShareGroupOffsetsResponse."""

    group_id: str
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    """DescribeShareGroupOffsetsResponse, as Kafka has it."""

    throttle_time_ms: int32
    groups: list[DescribeShareGroupOffsetsResponseGroup]


class AlterShareGroupOffsetsRequestPartition(Struct):
    """A part of AlterShareGroupOffsetsRequest."""

    partition_index: int32
    start_offset: int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    """A part of AlterShareGroupOffsetsRequest."""

    topic_name: str
    partitions: list[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    """AlterShareGroupOffsetsRequest, as Kafka has it."""

    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    """A part of AlterShareGroupOffsetsResponse."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """A part of AlterShareGroupOffsetsResponse."""

    topic_name: str
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    """AlterShareGroupOffsetsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic]


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A part of DeleteShareGroupOffsetsRequest."""

    topic_name: str


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    """DeleteShareGroupOffsetsRequest, as Kafka has it."""

    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """A part of DeleteShareGroupOffsetsResponse."""

    topic_name: str
    topic_id: Uuid
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    """DeleteShareGroupOffsetsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic]
