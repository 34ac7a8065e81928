"""Fetch: consumers and followers read records; so do the voters and observers of the KRaft quorum (KIP-595)."""

from enum import IntEnum
from typing import Final

from kcore.schema.kinds import Records, int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid

REPLICA_STATE_SINCE: Final = 15  # The version from which a request has a ReplicaState.


class IsolationLevel(IntEnum):
    """IsolationLevel: which records a consumer reads (KIP-98)."""

    READ_UNCOMMITTED = 0  # All records below the high watermark.
    READ_COMMITTED = 1  # Only committed transactions, below the last stable offset.


class ReplicaState(Struct):
    """The replica that fetches, and the epoch of its broker's incarnation (KIP-903)."""

    replica_id: int32 = field(default=-1)  # -1 for a consumer.
    replica_epoch: int64 = field(default=-1)


class FetchPartition(Struct):
    """The fetch offset of one partition, and the most bytes."""

    partition: int32
    # The reader's leader epoch; the leader refuses another (KIP-320).
    current_leader_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    fetch_offset: int64
    # Lets the leader find a divergence without another request (KIP-595).
    last_fetched_epoch: int32 = field(versions="12+", default=-1)
    # A follower's; -1 from a consumer (KIP-107).
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int32
    # Distinguishes a voter from a replaced disk (KIP-853).
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

    # Sent by KRaft replicas, which check that they belong to one cluster (KIP-595).
    cluster_id: str | None = field(versions="12+", nullable="12+", tag=0, tagged="12+", default=None, ignorable=True)
    replica_id: int32 = field(versions="0-14", default=-1)  # -1 for a consumer; in `replica_state` from version 15 on.
    replica_state: ReplicaState = field(versions="15+", tag=1, tagged="15+")
    max_wait_ms: int32  # How long to wait for `min_bytes`.
    min_bytes: int32
    # Limit of the whole response; a larger first batch is sent all the same (KIP-74).
    max_bytes: int32 = field(versions="3+", default=2**31 - 1, ignorable=True)
    isolation_level: int8 = field(versions="4+", ignorable=True)  # IsolationLevel
    session_id: int32 = field(versions="7+", ignorable=True)  # Incremental fetch sessions (KIP-227).
    session_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic]  # Partitions that changed since the last fetch of the session.
    forgotten_topics_data: list[ForgottenTopic] = field(versions="7+")
    # The broker may then redirect a consumer to a near replica (KIP-392).
    rack_id: str = field(versions="11+", ignorable=True)


class EpochEndOffset(Struct):
    """The largest epoch that both logs may share, and its end: the follower truncates there."""

    epoch: int32 = field(default=-1)
    end_offset: int64 = field(default=-1)


class LeaderIdAndEpoch(Struct):
    """The present leader, as far as the answering replica has it."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)


class SnapshotId(Struct):
    """The snapshot that a KRaft follower must fetch first: its offset is no longer in the log (KIP-630)."""

    end_offset: int64 = field(default=-1)
    epoch: int32 = field(default=-1)


class AbortedTransaction(Struct):
    """A transaction in the range that a reader of committed records must skip."""

    producer_id: int64
    first_offset: int64


class PartitionData(Struct):
    """The records of one partition."""

    partition_index: int32
    error_code: int16
    high_watermark: int64
    # Below it every transaction is decided; -1 if not requested.
    last_stable_offset: int64 = field(versions="4+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    # Set if the reader's log diverges (KIP-595).
    diverging_epoch: EpochEndOffset = field(versions="12+", tag=0, tagged="12+")
    current_leader: LeaderIdAndEpoch = field(versions="12+", tag=1, tagged="12+")
    snapshot_id: SnapshotId = field(versions="12+", tag=2, tagged="12+")
    # Null if all records are read.
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
