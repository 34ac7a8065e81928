"""FetchSnapshot: a KRaft follower copies the leader's snapshot if the leader's log begins too late for it (KIP-630)."""

from kcore.schema.kinds import Records, int16, int32, int64
from kcore.schema.raft_votes import NodeEndpoint as NodeEndpoint
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class SnapshotId(Struct):
    """A snapshot's id: the offset and epoch at which the log that it contains ends."""

    end_offset: int64
    epoch: int32


class FetchSnapshotRequestPartitionSnapshot(Struct, kafka_name="PartitionSnapshot"):
    """The snapshot, and the first byte to read."""

    partition: int32
    current_leader_epoch: int32
    snapshot_id: SnapshotId
    position: int64  # In bytes.
    # The fetching replica's directory, by which a voter with a replaced disk is recognized (KIP-853).
    replica_directory_id: Uuid = field(versions="1+", tag=0, tagged="1+", ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct, kafka_name="TopicSnapshot"):
    """The partitions of one topic; in practice only the metadata partition."""

    name: str
    partitions: list[FetchSnapshotRequestPartitionSnapshot]


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    """A follower or observer asks the active controller for a piece of a snapshot."""

    # Null if the caller does not know it yet.
    cluster_id: str | None = field(nullable="0+", tag=0, tagged="0+", default=None)
    replica_id: int32 = field(default=-1)  # -1 for a caller that is not a replica.
    max_bytes: int32 = field(default=2**31 - 1)
    topics: list[FetchSnapshotRequestTopicSnapshot]


class LeaderIdAndEpoch(Struct):
    """The present leader of the quorum."""

    leader_id: int32
    leader_epoch: int32


class FetchSnapshotResponsePartitionSnapshot(Struct, kafka_name="PartitionSnapshot"):
    """A piece of the snapshot."""

    index: int32
    error_code: int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = field(tag=0, tagged="0+")
    size: int64  # Size of the whole snapshot, in bytes.
    position: int64  # Offset of the first byte of this piece.
    unaligned_records: Records  # The piece may begin and end inside a batch.


class FetchSnapshotResponseTopicSnapshot(Struct, kafka_name="TopicSnapshot"):
    """The pieces for one topic."""

    name: str
    partitions: list[FetchSnapshotResponsePartitionSnapshot]


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    """A piece of the snapshot from the leader; from another node, the present leader."""

    throttle_time_ms: int32 = field(ignorable=True)
    error_code: int16
    topics: list[FetchSnapshotResponseTopicSnapshot]
    # The endpoints of every leader named in `current_leader` (KIP-853).
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")
