"""Transactions (KIP-98): producer ids, partitions and offsets of a transaction, its end, and its markers."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """A producer asks for its id and epoch; the coordinator aborts an open transaction of its predecessor."""

    transactional_id: str | None = field(nullable="0+")  # Null for an idempotent producer without transactions.
    transaction_timeout_ms: int32  # The coordinator aborts the transaction after this time.
    # The producer's present id, if the producer recovers from an error (KIP-360); -1 for none.
    producer_id: int64 = field(versions="3+", default=-1)
    producer_epoch: int16 = field(versions="3+", default=-1)
    enable2_pc: bool = field(versions="6+")  # Two-phase commit: the coordinator never aborts on its own (KIP-939).
    keep_prepared_txn: bool = field(versions="6+")  # Keeps the predecessor's prepared transaction open (KIP-939).


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """The producer's id and epoch."""

    throttle_time_ms: int32 = field(ignorable=True)
    error_code: int16
    producer_id: int64 = field(default=-1)
    producer_epoch: int16
    # The producer id of the transaction that was kept open; -1 for none (KIP-939).
    ongoing_txn_producer_id: int64 = field(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field(versions="6+", default=-1)


class AddPartitionsToTxnTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[int32]


class AddPartitionsToTxnTransaction(Struct):
    """A transaction to which partitions are added, or whose partitions are verified."""

    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    verify_only: bool  # Before it appends, a broker verifies that the partitions were added (KIP-890).
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    """A producer, or since version 4 a broker, adds partitions to a transaction."""

    # Brokers send several transactions in this field (KIP-890). A producer fills the fields below instead.
    transactions: list[AddPartitionsToTxnTransaction] = field(versions="4+")
    v3_and_below_transactional_id: str = field(versions="0-3")
    v3_and_below_producer_id: int64 = field(versions="0-3")
    v3_and_below_producer_epoch: int16 = field(versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(versions="0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """The result for one partition."""

    partition_index: int32
    partition_error_code: int16


class AddPartitionsToTxnTopicResult(Struct):
    """The answers for one topic."""

    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    """The answers for one transaction."""

    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    """The transaction coordinator's answer, partition by partition."""

    throttle_time_ms: int32
    error_code: int16 = field(versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(versions="4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(versions="0-3")


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """A producer announces that it will commit a group's offsets in its transaction."""

    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    group_id: str


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """The transaction coordinator's answer to the announcement."""

    throttle_time_ms: int32
    error_code: int16


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """A producer commits or aborts its transaction."""

    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    committed: bool  # False aborts.


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """The coordinator's answer after it has stored the decision; it writes the transaction's markers later."""

    throttle_time_ms: int32
    error_code: int16
    # Id and epoch for the next transaction: each transaction raises the epoch (KIP-890).
    producer_id: int64 = field(versions="5+", default=-1, ignorable=True)
    producer_epoch: int16 = field(versions="5+", default=-1, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    """The partitions of one topic."""

    name: str
    partition_indexes: list[int32]


class WritableTxnMarker(Struct):
    """The decision about one transaction, and the transaction's partitions."""

    producer_id: int64
    producer_epoch: int16
    transaction_result: bool  # True for commit.
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32  # The leader refuses a marker of an older epoch.
    # With 2 the leader checks the producer epoch more strictly (KIP-1228).
    transaction_version: int8 = field(versions="2+", ignorable=True)


class WriteTxnMarkersRequest(Message, api_key=27, versions="0-2", flexible="1+"):
    """The transaction coordinator sends its decisions to partition leaders, which write them into their logs."""

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    """The result for one partition."""

    partition_index: int32
    error_code: int16


class WritableTxnMarkerTopicResult(Struct):
    """The answers for one topic."""

    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    """The answers for one producer."""

    producer_id: int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Message, api_key=27, versions="0-2", flexible="1+"):
    """The leader's answer, marker by marker."""

    markers: list[WritableTxnMarkerResult]


class TxnOffsetCommitRequestPartition(Struct):
    """The offset to commit for one partition."""

    partition_index: int32
    committed_offset: int64  # The next offset to read.
    # The epoch of the last record read; -1 for unknown (KIP-320).
    committed_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    committed_metadata: str | None = field(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = field(versions="0-5", ignorable=True)
    topic_id: Uuid = field(versions="6+", ignorable=True)  # KIP-1319.
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-6", flexible="3+"):
    """A producer commits a group's offsets, which take effect with its transaction."""

    transactional_id: str
    group_id: str
    producer_id: int64
    producer_epoch: int16
    # The coordinator refuses a member by its generation, epoch and id if the group has fenced the member (KIP-447).
    generation_id_or_member_epoch: int32 = field(versions="3+", default=-1, json_aliases=("generationId",))
    member_id: str = field(versions="3+")
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int32
    error_code: int16


class TxnOffsetCommitResponseTopic(Struct):
    """The answers for one topic."""

    name: str = field(versions="0-5", ignorable=True)
    topic_id: Uuid = field(versions="6+", ignorable=True)  # KIP-1319.
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-6", flexible="3+"):
    """The group coordinator's answer, partition by partition."""

    throttle_time_ms: int32
    topics: list[TxnOffsetCommitResponseTopic]
