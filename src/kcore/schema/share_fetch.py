"""How a share group's member gets records and says what became of them (KIP-932)."""

from kcore.schema.kinds import Records, int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class AcknowledgementBatch(Struct):
    """What became of a range of records."""

    first_offset: int64
    last_offset: int64  # Included.
    acknowledge_types: list[int8]  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all records or one for each.


class FetchPartition(Struct):
    """A partition to read, with acknowledgements of what was read before."""

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
    """A member asks a share-partition leader for records that it may work on."""

    group_id: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+")
    share_session_epoch: int32  # 0 opens a session, -1 ends it; between them it counts up.
    max_wait_ms: int32  # How long to wait for `min_bytes`.
    min_bytes: int32
    max_bytes: int32 = field(default=2**31 - 1)
    # May be exceeded, so that batches stay whole, unless `share_acquire_mode` is 1.
    max_records: int32 = field(versions="1+")
    batch_size: int32 = field(versions="1+")  # The best number of records in an acquired batch.
    # 0 whole batches, 1 never more than `max_records` (KIP-1206).
    share_acquire_mode: int8 = field(versions="2+", ignorable=True)
    is_renew_ack: bool = field(versions="2+")  # Some of the acknowledgements prolong a lock (KIP-1222).
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    """Who leads instead."""

    leader_id: int32
    leader_epoch: int32


class AcquiredRecords(Struct):
    """Records that this member alone may work on until its lock runs out."""

    first_offset: int64
    last_offset: int64
    delivery_count: int16  # How often they have been delivered, this time included.


class ShareFetchResponsePartitionData(Struct, kafka_name="PartitionData"):
    """What was acquired of one partition."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acknowledge_error_code: int16  # Of the acknowledgements in the request.
    acknowledge_error_message: str | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch
    records: Records | None = field(nullable="0")  # May hold more than was acquired; `acquired_records` decides.
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    """What was acquired of one topic."""

    topic_id: Uuid
    partitions: list[ShareFetchResponsePartitionData]


class NodeEndpoint(Struct):
    """Where a new leader is reached."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="0+", default=None)


class ShareFetchResponse(Message, api_key=78, versions="0-2", flexible="0+"):
    """The records that the member holds locks on now."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field(versions="1+")  # How long the locks last.
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]  # Of every leader named in `current_leader`.


class AcknowledgePartition(Struct):
    """What became of the records of one partition."""

    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Message, api_key=79, versions="0-2", flexible="0+"):
    """A member says what became of records, without asking for more."""

    group_id: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+")
    share_session_epoch: int32  # Counts up within a session that ShareFetch opened; -1 ends it.
    is_renew_ack: bool = field(versions="2+")  # Some of the acknowledgements prolong a lock (KIP-1222).
    topics: list[AcknowledgeTopic]


class ShareAcknowledgeResponsePartitionData(Struct, kafka_name="PartitionData"):
    """Whether it was taken."""

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
    acquisition_lock_timeout_ms: int32 = field(versions="2+", ignorable=True)  # How long renewed locks last.
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]  # Of every leader named in `current_leader`.
