"""ListOffsets finds an offset by timestamp; OffsetForLeaderEpoch finds the end offset of a leader epoch (KIP-101)."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class ListOffsetsPartition(Struct):
    """One partition, and the timestamp whose offset is requested."""

    partition_index: int32
    # The leader epoch that the caller knows; the leader refuses any other (KIP-320).
    current_leader_epoch: int32 = field(versions="4+", default=-1, ignorable=True)
    # Or -1 the log's end, -2 its start, -3 the record of the largest timestamp (KIP-734), -4 the local start (KIP-405).
    timestamp: int64
    max_num_offsets: int32 = field(versions="0", default=1)  # Version 0 lists the starts of segments.


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions="0-11", flexible="6+"):
    """A consumer or a follower asks for the first offset at or after a timestamp, or for the log's start or end."""

    replica_id: int32  # -1 for a consumer.
    isolation_level: int8 = field(versions="2+")  # IsolationLevel
    topics: list[ListOffsetsTopic]
    # For offsets that must be read from remote storage (KIP-1075).
    timeout_ms: int32 = field(versions="10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The offset that the leader found for one partition."""

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
    """One partition, and the leader epoch whose end offset is requested."""

    partition: int32
    # The leader epoch that the caller knows; the leader refuses any other (KIP-320).
    current_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    leader_epoch: int32


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="0-4", flexible="4+"):
    """A follower, or since KIP-320 a consumer, asks the leader for an epoch's end, to find where the logs diverge."""

    replica_id: int32 = field(versions="3+", default=-2, ignorable=True)  # -1 for a consumer.
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    """The end offset of the epoch in the leader's log."""

    error_code: int16
    partition: int32
    # The largest epoch in the leader's log that is at most the requested epoch (KIP-279).
    leader_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    end_offset: int64 = field(default=-1)  # One above the offset of its last record; -1 if there is no such epoch.


class OffsetForLeaderTopicResult(Struct):
    """The answers for one topic."""

    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="0-4", flexible="4+"):
    """The leader's answer, partition by partition."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
