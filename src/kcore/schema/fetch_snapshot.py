"""Fetch snapshot."""

from kcore.schema.kinds import Records, int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class SnapshotId(Struct):
    """A part of FetchSnapshotRequest."""

    end_offset: int64
    epoch: int32


class FetchSnapshotRequestPartitionSnapshot(Struct, kafka_name="PartitionSnapshot"):
    """A part of FetchSnapshotRequest."""

    partition: int32
    current_leader_epoch: int32
    snapshot_id: SnapshotId
    position: int64
    replica_directory_id: Uuid = field(versions="1+", tag=0, tagged="1+", ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct, kafka_name="TopicSnapshot"):
    """A part of FetchSnapshotRequest."""

    name: str
    partitions: list[FetchSnapshotRequestPartitionSnapshot]


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    """FetchSnapshotRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+", tag=0, tagged="0+", default=None)
    replica_id: int32 = field(default=-1)
    max_bytes: int32 = field(default=2**31 - 1)
    topics: list[FetchSnapshotRequestTopicSnapshot]


class LeaderIdAndEpoch(Struct):
    """A part of FetchSnapshotResponse."""

    leader_id: int32
    leader_epoch: int32


class FetchSnapshotResponsePartitionSnapshot(Struct, kafka_name="PartitionSnapshot"):
    """A part of FetchSnapshotResponse."""

    index: int32
    error_code: int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = field(tag=0, tagged="0+")
    size: int64
    position: int64
    unaligned_records: Records


class FetchSnapshotResponseTopicSnapshot(Struct, kafka_name="TopicSnapshot"):
    """A part of FetchSnapshotResponse."""

    name: str
    partitions: list[FetchSnapshotResponsePartitionSnapshot]


class NodeEndpoint(Struct):
    """A part of FetchSnapshotResponse."""

    node_id: int32
    host: str
    port: uint16


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    """FetchSnapshotResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(ignorable=True)
    error_code: int16
    topics: list[FetchSnapshotResponseTopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")
