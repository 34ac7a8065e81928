"""Fetch."""

from kcore.schema.kinds import Records, int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class ReplicaState(Struct):
    """A part of FetchRequest."""

    replica_id: int32 = field(default=-1)
    replica_epoch: int64 = field(default=-1)


class FetchPartition(Struct):
    """A part of FetchRequest."""

    partition: int32
    current_leader_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    fetch_offset: int64
    last_fetched_epoch: int32 = field(versions="12+", default=-1)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int32
    replica_directory_id: Uuid = field(versions="17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: int64 = field(versions="18+", tag=1, tagged="18+", default=2**63 - 1, ignorable=True)


class FetchTopic(Struct):
    """A part of FetchRequest."""

    topic: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """A part of FetchRequest."""

    topic: str = field(versions="7-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: list[int32]


class FetchRequest(Message, api_key=1, versions="0-18", flexible="12+"):
    """FetchRequest, as Kafka has it."""

    cluster_id: str | None = field(versions="12+", nullable="12+", tag=0, tagged="12+", default=None, ignorable=True)
    replica_id: int32 = field(versions="0-14", default=-1)
    replica_state: ReplicaState = field(versions="15+", tag=1, tagged="15+")
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(versions="3+", default=2**31 - 1, ignorable=True)
    isolation_level: int8 = field(versions="4+", ignorable=True)
    session_id: int32 = field(versions="7+", ignorable=True)
    session_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(versions="7+")
    rack_id: str = field(versions="11+", ignorable=True)


class EpochEndOffset(Struct):
    """A part of FetchResponse."""

    epoch: int32 = field(default=-1)
    end_offset: int64 = field(default=-1)


class LeaderIdAndEpoch(Struct):
    """A part of FetchResponse."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)


class SnapshotId(Struct):
    """A part of FetchResponse."""

    end_offset: int64 = field(default=-1)
    epoch: int32 = field(default=-1)


class AbortedTransaction(Struct):
    """A part of FetchResponse."""

    producer_id: int64
    first_offset: int64


class PartitionData(Struct):
    """A part of FetchResponse."""

    partition_index: int32
    error_code: int16
    high_watermark: int64
    last_stable_offset: int64 = field(versions="4+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(versions="12+", tag=0, tagged="12+")
    current_leader: LeaderIdAndEpoch = field(versions="12+", tag=1, tagged="12+")
    snapshot_id: SnapshotId = field(versions="12+", tag=2, tagged="12+")
    aborted_transactions: list[AbortedTransaction] | None = field(versions="4+", nullable="4+", ignorable=True)
    preferred_read_replica: int32 = field(versions="11+", default=-1)
    records: Records | None = field(nullable="0+")


class FetchableTopicResponse(Struct):
    """A part of FetchResponse."""

    topic: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    """A part of FetchResponse."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="16+", default=None)


class FetchResponse(Message, api_key=1, versions="0-18", flexible="12+"):
    """FetchResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16 = field(versions="7+", ignorable=True)
    session_id: int32 = field(versions="7+")
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(versions="16+", tag=0, tagged="16+")
