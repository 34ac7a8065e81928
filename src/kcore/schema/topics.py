"""Topics."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class CreatableReplicaAssignment(Struct):
    """A part of CreateTopicsRequest."""

    partition_index: int32
    broker_ids: list[int32]


class CreatableTopicConfig(Struct):
    """A part of CreateTopicsRequest."""

    name: str
    value: str | None = field(nullable="0+")


class CreatableTopic(Struct):
    """A part of CreateTopicsRequest."""

    name: str
    num_partitions: int32
    replication_factor: int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Message, api_key=19, versions="0-7", flexible="5+"):
    """CreateTopicsRequest, as Kafka has it."""

    topics: list[CreatableTopic]
    timeout_ms: int32 = field(default=60000)
    validate_only: bool = field(versions="1+")


class CreatableTopicConfigs(Struct):
    """A part of CreateTopicsResponse."""

    name: str
    value: str | None = field(nullable="5+")
    read_only: bool
    config_source: int8 = field(default=-1, ignorable=True)
    is_sensitive: bool


class CreatableTopicResult(Struct):
    """A part of CreateTopicsResponse."""

    name: str
    topic_id: Uuid = field(versions="7+", ignorable=True)
    error_code: int16
    error_message: str | None = field(versions="1+", nullable="0+", ignorable=True)
    topic_config_error_code: int16 = field(versions="5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: int32 = field(versions="5+", default=-1, ignorable=True)
    replication_factor: int16 = field(versions="5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(versions="5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Message, api_key=19, versions="0-7", flexible="5+"):
    """CreateTopicsResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[CreatableTopicResult]


class DeleteTopicState(Struct):
    """A part of DeleteTopicsRequest."""

    name: str | None = field(nullable="6+", default=None)
    topic_id: Uuid


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    """DeleteTopicsRequest, as Kafka has it."""

    topics: list[DeleteTopicState] = field(versions="6+")
    topic_names: list[str] = field(versions="0-5", ignorable=True)
    timeout_ms: int32


class DeletableTopicResult(Struct):
    """A part of DeleteTopicsResponse."""

    name: str | None = field(nullable="6+")
    topic_id: Uuid = field(versions="6+", ignorable=True)
    error_code: int16
    error_message: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    """DeleteTopicsResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    responses: list[DeletableTopicResult]


class DeleteRecordsPartition(Struct):
    """A part of DeleteRecordsRequest."""

    partition_index: int32
    offset: int64


class DeleteRecordsTopic(Struct):
    """A part of DeleteRecordsRequest."""

    name: str
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """DeleteRecordsRequest, as Kafka has it."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: int32


class DeleteRecordsPartitionResult(Struct):
    """A part of DeleteRecordsResponse."""

    partition_index: int32
    low_watermark: int64
    error_code: int16


class DeleteRecordsTopicResult(Struct):
    """A part of DeleteRecordsResponse."""

    name: str
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    """DeleteRecordsResponse, as Kafka has it."""

    throttle_time_ms: int32
    topics: list[DeleteRecordsTopicResult]
