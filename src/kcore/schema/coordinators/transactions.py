"""Records of the transaction coordinator in `__transaction_state`."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Data, Struct, field


class TransactionLogKey(Data, versions="0", flexible="none"):
    """The key of a transaction's record: the transactional id."""

    transactional_id: str


class PartitionsSchema(Struct):
    """Partitions of one topic."""

    topic: str
    partition_ids: list[int32]


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    """The state of the transaction of a transactional id."""

    producer_id: int64
    # The producer's previous and next id, if the producer has used up its epochs (KIP-890).
    previous_producer_id: int64 = field(versions="1+", tag=0, tagged="1+", default=-1)
    next_producer_id: int64 = field(versions="1+", tag=1, tagged="1+", default=-1)
    producer_epoch: int16
    next_producer_epoch: int16 = field(versions="1+", tag=3, tagged="1+", default=-1)
    transaction_timeout_ms: int32
    transaction_status: int8  # TransactionState: 0 empty, 1 ongoing, 2 and 3 prepared, 4 and 5 complete, 6 dead.
    transaction_partitions: list[PartitionsSchema] | None = field(nullable="0+")
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field(versions="1+", tag=2, tagged="1+")
