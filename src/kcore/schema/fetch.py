"""Fetch: consumers, followers, and voters and observers of the KRaft quorum (KIP-595) read records."""

from enum import IntEnum
from typing import Final

from kcore.schema.kinds import Records, int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid

REPLICA_STATE_SINCE: Final = 15  # The version from which a request has a ReplicaState.


class IsolationLevel(IntEnum):
    """IsolationLevel: which records a consumer reads (KIP-98)."""

    READ_UNCOMMITTED = 0  # All records below the high watermark.
    READ_COMMITTED = 1  # Records below the last stable offset, without those of aborted transactions.


class ReplicaState(Struct):
    """The replica that fetches, and the epoch of its broker's incarnation (KIP-903)."""

    replica_id: int32 = field(default=-1)  # -1 for a consumer.
    replica_epoch: int64 = field(default=-1)


class FetchPartition(Struct):
    """One partition, the offset to read from, and the most bytes to return."""

    partition: int32
    # The leader epoch that the reader knows; the leader refuses any other (KIP-320).
    current_leader_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    fetch_offset: int64
    # The epoch of the follower's last record: with it the leader detects a divergence of the logs (KIP-595).
    last_fetched_epoch: int32 = field(versions="12+", default=-1)
    # The start of the follower's log; -1 from a consumer (KIP-107).
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int32
    # The fetching replica's directory, by which a voter with a replaced disk is recognized (KIP-853).
    replica_directory_id: Uuid = field(versions="17+", tag=0, tagged="17+", ignorable=True)
    # The follower's own high watermark: the leader answers at once if its own is newer (KIP-1166).
    high_watermark: int64 = field(versions="18+", tag=1, tagged="18+", default=2**63 - 1, ignorable=True)


class FetchTopic(Struct):
    """The partitions of one topic to read."""

    topic: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    """Partitions that leave the fetch session (KIP-227)."""

    topic: str = field(versions="7-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: list[int32]


class FetchRequest(Message, api_key=1, versions="0-18", flexible="12+"):
    """A consumer or a follower asks a leader for records; a KRaft follower asks the active controller."""

    # KRaft replicas send it, and the leader refuses those of another cluster (KIP-595).
    cluster_id: str | None = field(versions="12+", nullable="12+", tag=0, tagged="12+", default=None, ignorable=True)
    replica_id: int32 = field(versions="0-14", default=-1)  # -1 for a consumer; in `replica_state` from version 15 on.
    replica_state: ReplicaState = field(versions="15+", tag=1, tagged="15+")
    max_wait_ms: int32  # The longest time to wait for `min_bytes`.
    min_bytes: int32
    # Limit of the whole response; a first batch that is larger is still sent (KIP-74).
    max_bytes: int32 = field(versions="3+", default=2**31 - 1, ignorable=True)
    isolation_level: int8 = field(versions="4+", ignorable=True)  # IsolationLevel
    session_id: int32 = field(versions="7+", ignorable=True)  # The incremental fetch session (KIP-227).
    session_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic]  # Partitions that changed since the last fetch of the session.
    forgotten_topics_data: list[ForgottenTopic] = field(versions="7+")
    # The consumer's rack: the broker may redirect the consumer to a replica in this rack (KIP-392).
    rack_id: str = field(versions="11+", ignorable=True)


class EpochEndOffset(Struct):
    """The largest epoch that both logs may have in common, and its end offset, at which the follower truncates."""

    epoch: int32 = field(default=-1)
    end_offset: int64 = field(default=-1)


class LeaderIdAndEpoch(Struct):
    """The present leader, if the answering replica knows it."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)


class SnapshotId(Struct):
    """The snapshot that a KRaft follower must fetch, because its fetch offset is no longer in the log (KIP-630)."""

    end_offset: int64 = field(default=-1)
    epoch: int32 = field(default=-1)


class AbortedTransaction(Struct):
    """An aborted transaction, whose records a READ_COMMITTED consumer must skip."""

    producer_id: int64
    first_offset: int64


class PartitionData(Struct):
    """The records of one partition."""

    partition_index: int32
    error_code: int16
    high_watermark: int64
    # Every transaction below this offset has ended; -1 if not requested.
    last_stable_offset: int64 = field(versions="4+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    # Set if the follower's log diverges from the leader's (KIP-595).
    diverging_epoch: EpochEndOffset = field(versions="12+", tag=0, tagged="12+")
    current_leader: LeaderIdAndEpoch = field(versions="12+", tag=1, tagged="12+")
    snapshot_id: SnapshotId = field(versions="12+", tag=2, tagged="12+")
    # Null for READ_UNCOMMITTED.
    aborted_transactions: list[AbortedTransaction] | None = field(versions="4+", nullable="4+", ignorable=True)
    # The consumer should fetch from this replica instead; -1 for none (KIP-392).
    preferred_read_replica: int32 = field(versions="11+", default=-1)
    records: Records | None = field(nullable="0+")


class FetchableTopicResponse(Struct):
    """The records of one topic."""

    topic: str = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    """The endpoint of a new leader (KIP-951)."""

    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="16+", default=None)


class FetchResponse(Message, api_key=1, versions="0-18", flexible="12+"):
    """Records and offsets, partition by partition."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16 = field(versions="7+", ignorable=True)
    session_id: int32 = field(versions="7+")  # 0 if the broker keeps no session.
    responses: list[FetchableTopicResponse]
    # The endpoints of every leader named in `current_leader`.
    node_endpoints: list[NodeEndpoint] = field(versions="16+", tag=0, tagged="16+")
