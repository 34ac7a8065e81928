"""Producer ids in blocks (KIP-730), and administrators' requests about producers and transactions (KIP-664)."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """A broker asks the controller for a block of producer ids."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """A block of producer ids that no other broker gets."""

    throttle_time_ms: int32
    error_code: int16
    producer_id_start: int64
    producer_id_len: int32  # Number of ids.


class TopicRequest(Struct):
    """The partitions of one topic."""

    name: str
    partition_indexes: list[int32]


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    """An administrator asks leaders for the active producers of their partitions."""

    topics: list[TopicRequest]


class ProducerState(Struct):
    """The state of a producer in the partition's log."""

    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = field(default=-1)
    last_timestamp: int64 = field(default=-1)  # -1 for unknown.
    coordinator_epoch: int32
    current_txn_start_offset: int64 = field(default=-1)  # -1 outside a transaction.


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    """The answers for one topic."""

    name: str
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    """The producers, partition by partition."""

    throttle_time_ms: int32
    topics: list[TopicResponse]


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """An administrator asks a transaction coordinator for details of transactions."""

    transactional_ids: list[str]


class TopicData(Struct):
    """Partitions in the transaction."""

    topic: str
    partitions: list[int32]


class DescribeTransactionsResponseTransactionState(Struct, kafka_name="TransactionState"):
    """A transaction with its partitions."""

    error_code: int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64  # -1 while none is open.
    producer_id: int64
    producer_epoch: int16
    topics: list[TopicData]


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    """The requested transactions."""

    throttle_time_ms: int32
    transaction_states: list[DescribeTransactionsResponseTransactionState]


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """An administrator asks a transaction coordinator for its transactions that match filters."""

    state_filters: list[str]  # Empty for all states.
    producer_id_filters: list[int64]
    # Selects transactions that have run longer than this, in ms (KIP-994); -1 for all.
    duration_filter: int64 = field(versions="1+", default=-1)
    # A regular expression (KIP-1152); null or empty for all.
    transactional_id_pattern: str | None = field(versions="2+", nullable="2+", default=None)


class ListTransactionsResponseTransactionState(Struct, kafka_name="TransactionState"):
    """A transaction by name and state."""

    transactional_id: str
    producer_id: int64
    transaction_state: str


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """The coordinator's transactions."""

    throttle_time_ms: int32
    error_code: int16
    unknown_state_filters: list[str]  # States in the request that this broker does not support.
    transaction_states: list[ListTransactionsResponseTransactionState]
