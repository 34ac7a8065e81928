"""ListOffsets finds an offset by time; OffsetForLeaderEpoch finds where a leader's epoch ended (KIP-101)."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class ListOffsetsPartition(Struct):
    """The time whose offset is requested."""

    partition_index: int32
    # The caller's leader epoch; the leader refuses another (KIP-320).
    current_leader_epoch: int32 = field(versions="4+", default=-1, ignorable=True)
    timestamp: int64  # -1 the log's end, -2 its start, -3 the largest time (KIP-734), -4 the local start (KIP-405).
    max_num_offsets: int32 = field(versions="0", default=1)  # Version 0 lists the starts of segments.


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions="0-11", flexible="6+"):
    """A consumer or a follower asks for the offsets at a time."""

    replica_id: int32  # -1 for a consumer.
    isolation_level: int8 = field(versions="2+")  # IsolationLevel
    topics: list[ListOffsetsTopic]
    # For offsets that must be read from remote storage (KIP-1075).
    timeout_ms: int32 = field(versions="10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The offset that was found."""

    partition_index: int32
    error_code: int16
    old_style_offsets: list[int64] = field(versions="0")
    timestamp: int64 = field(versions="1+", default=-1)  # Timestamp of the record at that offset.
    offset: int64 = field(versions="1+", default=-1)
    leader_epoch: int32 = field(versions="4+", default=-1)  # Leader epoch of the record at that offset (KIP-320).


class ListOffsetsTopicResponse(Struct):
    """The answers for one topic."""

    name: str
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api_key=2, versions="0-11", flexible="6+"):
    """The offsets, partition by partition."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Struct):
    """The epoch whose end is requested."""

    partition: int32
    # The caller's leader epoch; the leader refuses another (KIP-320).
    current_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    leader_epoch: int32


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="0-4", flexible="4+"):
    """A follower, or a consumer since KIP-320, asks the leader where their logs diverge."""

    replica_id: int32 = field(versions="3+", default=-2, ignorable=True)  # -1 for a consumer.
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    """Where the epoch ended in the leader's log."""

    error_code: int16
    partition: int32
    # The largest epoch not above the requested one (KIP-279).
    leader_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    end_offset: int64 = field(default=-1)  # One past its last record; -1 if there is no such epoch.


class OffsetForLeaderTopicResult(Struct):
    """The answers for one topic."""

    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="0-4", flexible="4+"):
    """The leader's answer, partition by partition."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
