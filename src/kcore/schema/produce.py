"""Produce."""

from kcore.schema.kinds import Records, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class PartitionProduceData(Struct):
    """A part of ProduceRequest."""

    index: int32
    records: Records | None = field(nullable="0+")


class TopicProduceData(Struct):
    """A part of ProduceRequest."""

    name: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+"):
    """ProduceRequest, as Kafka has it."""

    transactional_id: str | None = field(versions="3+", nullable="3+", default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    """A part of ProduceResponse."""

    batch_index: int32
    batch_index_error_message: str | None = field(nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    """A part of ProduceResponse."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)


class PartitionProduceResponse(Struct):
    """A part of ProduceResponse."""

    index: int32
    error_code: int16
    base_offset: int64
    log_append_time_ms: int64 = field(versions="2+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(versions="8+", ignorable=True)
    error_message: str | None = field(versions="8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(versions="10+", tag=0, tagged="10+")


class TopicProduceResponse(Struct):
    """A part of ProduceResponse."""

    name: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    """A part of ProduceResponse."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="10+", default=None)


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    """ProduceResponse, as Kafka has it."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(versions="10+", tag=0, tagged="10+")
