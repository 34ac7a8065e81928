"""A share group's member fetches records and acknowledges them (KIP-932)."""

from kcore.schema.kinds import Records, int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class AcknowledgementBatch(Struct):
    """The acknowledgement of a range of records."""

    first_offset: int64
    last_offset: int64  # Included.
    acknowledge_types: list[int8]  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all records or one for each.


class FetchPartition(Struct):
    """A partition to read, with acknowledgements of earlier records."""

    partition_index: int32
    partition_max_bytes: int32 = field(versions="0")  # The broker decides since version 1.
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    """The partitions of one topic to read."""

    topic_id: Uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """Partitions that leave the share session."""

    topic_id: Uuid
    partitions: list[int32]


class ShareFetchRequest(Message, api_key=78, versions="0-2", flexible="0+"):
    """A member asks the leader of share partitions for records, which it then holds exclusively for a while."""

    group_id: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+")
    share_session_epoch: int32  # 0 opens a session, -1 ends it; between them it rises by one per request.
    max_wait_ms: int32  # The longest time to wait for `min_bytes`.
    min_bytes: int32
    max_bytes: int32 = field(default=2**31 - 1)
    # The leader may return more, so that batches stay whole, unless `share_acquire_mode` is 1.
    max_records: int32 = field(versions="1+")
    batch_size: int32 = field(versions="1+")  # The preferred number of records in an acquired batch.
    # 0 whole batches, 1 never more than `max_records` (KIP-1206).
    share_acquire_mode: int8 = field(versions="2+", ignorable=True)
    is_renew_ack: bool = field(versions="2+")  # Some of the acknowledgements renew a lock (KIP-1222).
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    """The present leader."""

    leader_id: int32
    leader_epoch: int32


class AcquiredRecords(Struct):
    """Records that only this member may process until its lock expires."""

    first_offset: int64
    last_offset: int64
    delivery_count: int16  # Number of deliveries, this one included.


class ShareFetchResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The acquired records of one partition."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acknowledge_error_code: int16  # Error of the acknowledgements in the request.
    acknowledge_error_message: str | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch
    records: Records | None = field(nullable="0")  # May hold more records than `acquired_records` lists.
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    """The acquired records of one topic."""

    topic_id: Uuid
    partitions: list[ShareFetchResponsePartitionData]


class NodeEndpoint(Struct):
    """The endpoint of a new leader."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="0+", default=None)


class ShareFetchResponse(Message, api_key=78, versions="0-2", flexible="0+"):
    """The records that the member has acquired."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field(versions="1+")  # Duration of the locks.
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]  # The endpoints of every leader named in `current_leader`.


class AcknowledgePartition(Struct):
    """Acknowledgements for one partition."""

    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Message, api_key=79, versions="0-2", flexible="0+"):
    """A member acknowledges records without fetching more."""

    group_id: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+")
    share_session_epoch: int32  # Rises within a session that ShareFetch opened; -1 ends it.
    is_renew_ack: bool = field(versions="2+")  # Some of the acknowledgements renew a lock (KIP-1222).
    topics: list[AcknowledgeTopic]


class ShareAcknowledgeResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The result for one partition."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    """The answers for one topic."""

    topic_id: Uuid
    partitions: list[ShareAcknowledgeResponsePartitionData]


class ShareAcknowledgeResponse(Message, api_key=79, versions="0-2", flexible="0+"):
    """The share-partition leader's answer, partition by partition."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field(versions="2+", ignorable=True)  # Duration of renewed locks.
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]  # The endpoints of every leader named in `current_leader`.
