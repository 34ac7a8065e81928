"""List offsets."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class ListOffsetsPartition(Struct):
    """A part of ListOffsetsRequest."""

    partition_index: int32
    current_leader_epoch: int32 = field(versions="4+", default=-1, ignorable=True)
    timestamp: int64
    max_num_offsets: int32 = field(versions="0", default=1)


class ListOffsetsTopic(Struct):
    """A part of ListOffsetsRequest."""

    name: str
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions="0-11", flexible="6+"):
    """ListOffsetsRequest, as Kafka has it."""

    replica_id: int32
    isolation_level: int8 = field(versions="2+")
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field(versions="10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """A part of ListOffsetsResponse."""

    partition_index: int32
    error_code: int16
    old_style_offsets: list[int64] = field(versions="0")
    timestamp: int64 = field(versions="1+", default=-1)
    offset: int64 = field(versions="1+", default=-1)
    leader_epoch: int32 = field(versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """A part of ListOffsetsResponse."""

    name: str
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api_key=2, versions="0-11", flexible="6+"):
    """ListOffsetsResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Struct):
    """A part of OffsetForLeaderEpochRequest."""

    partition: int32
    current_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    leader_epoch: int32


class OffsetForLeaderTopic(Struct):
    """A part of OffsetForLeaderEpochRequest."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="0-4", flexible="4+"):
    """OffsetForLeaderEpochRequest, as Kafka has it."""

    replica_id: int32 = field(versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    """A part of OffsetForLeaderEpochResponse."""

    error_code: int16
    partition: int32
    leader_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    end_offset: int64 = field(default=-1)


class OffsetForLeaderTopicResult(Struct):
    """A part of OffsetForLeaderEpochResponse."""

    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="0-4", flexible="4+"):
    """OffsetForLeaderEpochResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
