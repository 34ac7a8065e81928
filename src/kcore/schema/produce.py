"""Produce: a producer appends record batches to the partitions that a broker leads."""

from kcore.schema.fetch import LeaderIdAndEpoch
from kcore.schema.kinds import Records, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: int32
    # From version 3 on one batch of magic 2 (KIP-98); in earlier versions message sets of older magic.
    records: Records | None = field(nullable="0+")


class TopicProduceData(Struct):
    """A topic, and the batches for its partitions."""

    name: str = field(versions="0-12", ignorable=True)  # Later versions have the topic's id (KIP-516).
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+"):
    """A producer sends record batches to the leader of their partitions."""

    # Null outside a transaction (KIP-98).
    transactional_id: str | None = field(versions="3+", nullable="3+", default=None)
    acks: int16  # -1 waits for the whole ISR, 1 for the leader; with 0 there is no response.
    timeout_ms: int32  # The longest time that the leader waits for the ISR.
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    """A record for which the leader refused the whole batch (KIP-467)."""

    batch_index: int32  # Index of the record within the batch.
    batch_index_error_message: str | None = field(nullable="8+", default=None)


class PartitionProduceResponse(Struct):
    """The base offset of the batches appended to one partition, or an error."""

    index: int32
    error_code: int16
    base_offset: int64  # The offset of the first record.
    # -1 if the topic keeps the producer's timestamp.
    log_append_time_ms: int64 = field(versions="2+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)  # -1 if unknown.
    record_errors: list[BatchIndexAndErrorMessage] = field(versions="8+", ignorable=True)  # KIP-467.
    error_message: str | None = field(versions="8+", nullable="8+", default=None, ignorable=True)
    # Sent with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH only.
    current_leader: LeaderIdAndEpoch = field(versions="10+", tag=0, tagged="10+")


class TopicProduceResponse(Struct):
    """The answers for the partitions of one topic."""

    name: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    """The endpoint of a new leader (KIP-951)."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="10+", default=None)


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    """The leader's answer, partition by partition."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    # The endpoints of every leader named in `current_leader`.
    node_endpoints: list[NodeEndpoint] = field(versions="10+", tag=0, tagged="10+")
