"""Share fetch."""

from kcore.schema.kinds import Records, int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class AcknowledgementBatch(Struct):
    """A part of ShareFetchRequest."""

    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]


class FetchPartition(Struct):
    """A part of ShareFetchRequest."""

    partition_index: int32
    partition_max_bytes: int32 = field(versions="0")
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    """A part of ShareFetchRequest."""

    topic_id: Uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """A part of ShareFetchRequest."""

    topic_id: Uuid
    partitions: list[int32]


class ShareFetchRequest(Message, api_key=78, versions="0-2", flexible="0+"):
    """ShareFetchRequest, as Kafka has it."""

    group_id: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+")
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(default=2**31 - 1)
    max_records: int32 = field(versions="1+")
    batch_size: int32 = field(versions="1+")
    share_acquire_mode: int8 = field(versions="2+", ignorable=True)
    is_renew_ack: bool = field(versions="2+")
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    """A part of ShareFetchResponse."""

    leader_id: int32
    leader_epoch: int32


class AcquiredRecords(Struct):
    """A part of ShareFetchResponse."""

    first_offset: int64
    last_offset: int64
    delivery_count: int16


class ShareFetchResponsePartitionData(Struct, kafka_name="PartitionData"):
    """A part of ShareFetchResponse."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acknowledge_error_code: int16
    acknowledge_error_message: str | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch
    records: Records | None = field(nullable="0")
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    """A part of ShareFetchResponse."""

    topic_id: Uuid
    partitions: list[ShareFetchResponsePartitionData]


class NodeEndpoint(Struct):
    """A part of ShareFetchResponse."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="0+", default=None)


class ShareFetchResponse(Message, api_key=78, versions="0-2", flexible="0+"):
    """ShareFetchResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field(versions="1+")
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]


class AcknowledgePartition(Struct):
    """A part of ShareAcknowledgeRequest."""

    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    """A part of ShareAcknowledgeRequest."""

    topic_id: Uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Message, api_key=79, versions="0-2", flexible="0+"):
    """ShareAcknowledgeRequest, as Kafka has it."""

    group_id: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+")
    share_session_epoch: int32
    is_renew_ack: bool = field(versions="2+")
    topics: list[AcknowledgeTopic]


class ShareAcknowledgeResponsePartitionData(Struct, kafka_name="PartitionData"):
    """A part of ShareAcknowledgeResponse."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    """A part of ShareAcknowledgeResponse."""

    topic_id: Uuid
    partitions: list[ShareAcknowledgeResponsePartitionData]


class ShareAcknowledgeResponse(Message, api_key=79, versions="0-2", flexible="0+"):
    """ShareAcknowledgeResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field(versions="2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
