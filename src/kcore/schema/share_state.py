"""Share state."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class InitializeShareGroupStateRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of InitializeShareGroupStateRequest."""

    partition: int32
    state_epoch: int32
    start_offset: int64


class InitializeStateData(Struct):
    """A part of InitializeShareGroupStateRequest."""

    topic_id: Uuid
    partitions: list[InitializeShareGroupStateRequestPartitionData]


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    """InitializeShareGroupStateRequest, as Kafka has it."""

    group_id: str
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    """A part of InitializeShareGroupStateResponse."""

    partition: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class InitializeStateResult(Struct):
    """A part of InitializeShareGroupStateResponse."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    """InitializeShareGroupStateResponse, as Kafka has it."""

    results: list[InitializeStateResult]


class PartitionData(Struct):
    """A part of ReadShareGroupStateRequest."""

    partition: int32
    leader_epoch: int32


class ReadStateData(Struct):
    """A part of ReadShareGroupStateRequest."""

    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateRequest(Message, api_key=84, versions="0", flexible="0+"):
    """ReadShareGroupStateRequest, as Kafka has it."""

    group_id: str
    topics: list[ReadStateData]


class StateBatch(Struct):
    """A part of ReadShareGroupStateResponse."""

    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class ReadShareGroupStateResponsePartitionResult(Struct, kafka_name="PartitionResult"):
    """A part of ReadShareGroupStateResponse."""

    partition: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    state_epoch: int32
    start_offset: int64
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    """A part of ReadShareGroupStateResponse."""

    topic_id: Uuid
    partitions: list[ReadShareGroupStateResponsePartitionResult]


class ReadShareGroupStateResponse(Message, api_key=84, versions="0", flexible="0+"):
    """ReadShareGroupStateResponse, as Kafka has it."""

    results: list[ReadStateResult]


class WriteShareGroupStateRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of WriteShareGroupStateRequest."""

    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(versions="1+", default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    """A part of WriteShareGroupStateRequest."""

    topic_id: Uuid
    partitions: list[WriteShareGroupStateRequestPartitionData]


class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    """WriteShareGroupStateRequest, as Kafka has it."""

    group_id: str
    topics: list[WriteStateData]


class WriteStateResult(Struct):
    """A part of WriteShareGroupStateResponse."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    """WriteShareGroupStateResponse, as Kafka has it."""

    results: list[WriteStateResult]


class DeleteShareGroupStateRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of DeleteShareGroupStateRequest."""

    partition: int32


class DeleteStateData(Struct):
    """A part of DeleteShareGroupStateRequest."""

    topic_id: Uuid
    partitions: list[DeleteShareGroupStateRequestPartitionData]


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    """DeleteShareGroupStateRequest, as Kafka has it."""

    group_id: str
    topics: list[DeleteStateData]


class DeleteStateResult(Struct):
    """A part of DeleteShareGroupStateResponse."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    """DeleteShareGroupStateResponse, as Kafka has it."""

    results: list[DeleteStateResult]


class ReadStateSummaryData(Struct):
    """A part of ReadShareGroupStateSummaryRequest."""

    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    """ReadShareGroupStateSummaryRequest, as Kafka has it."""

    group_id: str
    topics: list[ReadStateSummaryData]


class ReadShareGroupStateSummaryResponsePartitionResult(Struct, kafka_name="PartitionResult"):
    """A part of ReadShareGroupStateSummaryResponse."""

    partition: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(versions="1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    """A part of ReadShareGroupStateSummaryResponse."""

    topic_id: Uuid
    partitions: list[ReadShareGroupStateSummaryResponsePartitionResult]


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    """ReadShareGroupStateSummaryResponse, as Kafka has it."""

    results: list[ReadStateSummaryResult]
