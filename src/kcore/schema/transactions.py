"""Transactions."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """InitProducerIdRequest, as Kafka has it."""

    transactional_id: str | None = field(nullable="0+")
    transaction_timeout_ms: int32
    producer_id: int64 = field(versions="3+", default=-1)
    producer_epoch: int16 = field(versions="3+", default=-1)
    enable2_pc: bool = field(versions="6+")
    keep_prepared_txn: bool = field(versions="6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """InitProducerIdResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(ignorable=True)
    error_code: int16
    producer_id: int64 = field(default=-1)
    producer_epoch: int16
    ongoing_txn_producer_id: int64 = field(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field(versions="6+", default=-1)


class AddPartitionsToTxnTopic(Struct):
    """A part of AddPartitionsToTxnRequest."""

    name: str
    partitions: list[int32]


class AddPartitionsToTxnTransaction(Struct):
    """A part of AddPartitionsToTxnRequest."""

    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    verify_only: bool
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    """AddPartitionsToTxnRequest, as Kafka has it."""

    transactions: list[AddPartitionsToTxnTransaction] = field(versions="4+")
    v3_and_below_transactional_id: str = field(versions="0-3")
    v3_and_below_producer_id: int64 = field(versions="0-3")
    v3_and_below_producer_epoch: int16 = field(versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(versions="0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """A part of AddPartitionsToTxnResponse."""

    partition_index: int32
    partition_error_code: int16


class AddPartitionsToTxnTopicResult(Struct):
    """A part of AddPartitionsToTxnResponse."""

    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    """A part of AddPartitionsToTxnResponse."""

    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    """AddPartitionsToTxnResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16 = field(versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(versions="4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(versions="0-3")


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """AddOffsetsToTxnRequest, as Kafka has it."""

    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    group_id: str


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """AddOffsetsToTxnResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """EndTxnRequest, as Kafka has it."""

    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    committed: bool


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """EndTxnResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    producer_id: int64 = field(versions="5+", default=-1, ignorable=True)
    producer_epoch: int16 = field(versions="5+", default=-1, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    """A part of WriteTxnMarkersRequest."""

    name: str
    partition_indexes: list[int32]


class WritableTxnMarker(Struct):
    """A part of WriteTxnMarkersRequest."""

    producer_id: int64
    producer_epoch: int16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32
    transaction_version: int8 = field(versions="2+", ignorable=True)


class WriteTxnMarkersRequest(Message, api_key=27, versions="0-2", flexible="1+"):
    """WriteTxnMarkersRequest, as Kafka has it."""

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    """A part of WriteTxnMarkersResponse."""

    partition_index: int32
    error_code: int16


class WritableTxnMarkerTopicResult(Struct):
    """A part of WriteTxnMarkersResponse."""

    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    """A part of WriteTxnMarkersResponse."""

    producer_id: int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Message, api_key=27, versions="0-2", flexible="1+"):
    """WriteTxnMarkersResponse, as Kafka has it."""

    markers: list[WritableTxnMarkerResult]


class TxnOffsetCommitRequestPartition(Struct):
    """A part of TxnOffsetCommitRequest."""

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    committed_metadata: str | None = field(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """A part of TxnOffsetCommitRequest."""

    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    """TxnOffsetCommitRequest, as Kafka has it."""

    transactional_id: str
    group_id: str
    producer_id: int64
    producer_epoch: int16
    generation_id: int32 = field(versions="3+", default=-1)
    member_id: str = field(versions="3+")
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    """A part of TxnOffsetCommitResponse."""

    partition_index: int32
    error_code: int16


class TxnOffsetCommitResponseTopic(Struct):
    """A part of TxnOffsetCommitResponse."""

    name: str
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    """TxnOffsetCommitResponse, as Kafka has it."""

    throttle_time_ms: int32
    topics: list[TxnOffsetCommitResponseTopic]
