"""Producers."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """AllocateProducerIdsRequest, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """AllocateProducerIdsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    producer_id_start: int64
    producer_id_len: int32


class TopicRequest(Struct):
    """A part of DescribeProducersRequest."""

    name: str
    partition_indexes: list[int32]


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    """DescribeProducersRequest, as Kafka has it."""

    topics: list[TopicRequest]


class ProducerState(Struct):
    """A part of DescribeProducersResponse."""

    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = field(default=-1)
    last_timestamp: int64 = field(default=-1)
    coordinator_epoch: int32
    current_txn_start_offset: int64 = field(default=-1)


class PartitionResponse(Struct):
    """A part of DescribeProducersResponse."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    """A part of DescribeProducersResponse."""

    name: str
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    """DescribeProducersResponse, as Kafka has it."""

    throttle_time_ms: int32
    topics: list[TopicResponse]


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """DescribeTransactionsRequest, as Kafka has it."""

    transactional_ids: list[str]


class TopicData(Struct):
    """A part of DescribeTransactionsResponse."""

    topic: str
    partitions: list[int32]


class DescribeTransactionsResponseTransactionState(Struct, kafka_name="TransactionState"):
    """A part of DescribeTransactionsResponse."""

    error_code: int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64
    producer_id: int64
    producer_epoch: int16
    topics: list[TopicData]


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    """DescribeTransactionsResponse, as Kafka has it."""

    throttle_time_ms: int32
    transaction_states: list[DescribeTransactionsResponseTransactionState]


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """ListTransactionsRequest, as Kafka has it."""

    state_filters: list[str]
    producer_id_filters: list[int64]
    duration_filter: int64 = field(versions="1+", default=-1)
    transactional_id_pattern: str | None = field(versions="2+", nullable="2+", default=None)


class ListTransactionsResponseTransactionState(Struct, kafka_name="TransactionState"):
    """A part of ListTransactionsResponse."""

    transactional_id: str
    producer_id: int64
    transaction_state: str


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """ListTransactionsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponseTransactionState]
