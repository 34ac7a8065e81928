"""Brokers store the state of share partitions with the share coordinator (KIP-932)."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class InitializeShareGroupStateRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The initial state of a share partition."""

    partition: int32
    state_epoch: int32  # Rises with each initialization; the coordinator refuses writes of an older epoch.
    start_offset: int64  # -1: not initialized; the group's share.auto.offset.reset then decides.


class InitializeStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[InitializeShareGroupStateRequestPartitionData]


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    """The group coordinator initializes the state of share partitions that the group did not have before."""

    group_id: str
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    """The result for one share partition."""

    partition: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class InitializeStateResult(Struct):
    """The answers for one topic."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    """The share coordinator's answer, partition by partition."""

    results: list[InitializeStateResult]


class PartitionData(Struct):
    """A share partition, and the epoch of the leader that reads its state."""

    partition: int32
    leader_epoch: int32


class ReadStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateRequest(Message, api_key=84, versions="0", flexible="0+"):
    """A new share-partition leader reads the state that its predecessor stored."""

    group_id: str
    topics: list[ReadStateData]


class StateBatch(Struct):
    """A range of records in one state."""

    first_offset: int64
    last_offset: int64  # Included.
    delivery_state: int8  # 0 available, 2 acknowledged, 4 archived.
    delivery_count: int16


class ReadShareGroupStateResponsePartitionResult(Struct, kafka_name="PartitionResult"):
    """The state of one share partition."""

    partition: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    state_epoch: int32
    start_offset: int64  # All records below this offset are processed; -1 for unknown.
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    """The states for one topic."""

    topic_id: Uuid
    partitions: list[ReadShareGroupStateResponsePartitionResult]


class ReadShareGroupStateResponse(Message, api_key=84, versions="0", flexible="0+"):
    """The states, partition by partition."""

    results: list[ReadStateResult]


class WriteShareGroupStateRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The changes of one share partition."""

    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64  # -1 if only batches changed.
    # The number of processed records from the start on (KIP-1226); -1 for unknown.
    delivery_complete_count: int32 = field(versions="1+", default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[WriteShareGroupStateRequestPartitionData]


class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    """A share-partition leader stores the delivery states of records."""

    group_id: str
    topics: list[WriteStateData]


class WriteStateResult(Struct):
    """The answers for one topic."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    """The share coordinator's answer, partition by partition."""

    results: list[WriteStateResult]


class DeleteShareGroupStateRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A share partition whose state is to be deleted."""

    partition: int32


class DeleteStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[DeleteShareGroupStateRequestPartitionData]


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    """The group coordinator deletes the state of a group or of deleted topics."""

    group_id: str
    topics: list[DeleteStateData]


class DeleteStateResult(Struct):
    """The answers for one topic."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    """The share coordinator's answer, partition by partition."""

    results: list[DeleteStateResult]


class ReadStateSummaryData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    """The group coordinator reads the start offsets of share partitions, without their batches."""

    group_id: str
    topics: list[ReadStateSummaryData]


class ReadShareGroupStateSummaryResponsePartitionResult(Struct, kafka_name="PartitionResult"):
    """The start offset of one share partition."""

    partition: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    state_epoch: int32
    leader_epoch: int32  # Version 0 as in 4.x; 3.9 had an unstable version 0 without this field.
    start_offset: int64
    # The number of processed records from the start on (KIP-1226); -1 for unknown.
    delivery_complete_count: int32 = field(versions="1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    """The start offsets for one topic."""

    topic_id: Uuid
    partitions: list[ReadShareGroupStateSummaryResponsePartitionResult]


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    """The start offsets, partition by partition."""

    results: list[ReadStateSummaryResult]
