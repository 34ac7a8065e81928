"""A leader and its followers for tests: fetches, flushes and what comes of them."""

from collections.abc import Iterable, Sequence
from typing import Any

from kcore.raft.effects import Committed, Effect, Flush, SendResponse
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import Appended, RaftLog
from kcore.raft.membership.replicas import Voter
from kcore.raft.membership.voters import VoterSet
from kcore.raft.node import RaftNode
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from kcore.types import Uuid
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from raft.batches import snapshot
from raft.nodes import CLUSTER, address, directory, leader, of, sent, voter

TOPIC_ID = Uuid(bytes(15) + b"\x01")
LATEST = 18


def values(*records: bytes, base_offset: int = 0, epoch: int = 1, now_ms: int = 1000) -> bytes:
    """A batch of records."""
    rows = [Record(base_offset + k, now_ms, None, value) for k, value in enumerate(records)]
    return encode_records(rows, partition_leader_epoch=epoch)


def dynamic_log(*voters: Voter) -> MemoryLog:
    """With the snapshot that a quorum of kraft.version 1 begins with."""
    log = MemoryLog()
    records = [kraft_version_record(1), VoterSet.of(voters).to_record()]
    snapshot(log, OffsetAndEpoch(0, 0), control_batch(records, 0, 0, 0))
    return log


def dynamic_voters(*ids: int) -> list[Voter]:
    return [voter(node_id, directory(node_id)) for node_id in ids]


def dynamic_leader(*ids: int, **settings: Any) -> tuple[RaftNode, list[Effect]]:
    """Node 1, of a quorum whose voters the log names."""
    servers = [address(node_id) for node_id in ids]
    log = dynamic_log(*dynamic_voters(*ids))
    return leader(voters=(), log=log, bootstrap_servers=tuple(servers), **settings)


def flush(node: RaftNode, effects: Iterable[Effect], now_ms: int) -> list[Effect]:
    """Does what the flushes among the effects ask for; what comes of that."""
    flushes = of(Flush, effects)
    return node.on_flushed(flushes[-1], now_ms) if flushes else []


def committed(effects: Iterable[Effect]) -> list[int]:
    return [effect.high_watermark for effect in of(Committed, effects)]


# Events.


def fetch_request(
    offset: int,
    last_epoch: int = 1,
    epoch: int = 1,
    replica: int = 2,
    *,
    directory_id: Uuid | None = None,
    cluster_id: str | None = CLUSTER,
    high_watermark: int = 2**63 - 1,
    max_wait_ms: int = 500,
    max_bytes: int = 1 << 23,
    topic_id: Uuid = TOPIC_ID,
    partition: int = 0,
) -> FetchRequest:
    """A Fetch of a replica whose log ends at `offset`; by default the response need not send a high watermark."""
    asked = FetchPartition(
        partition=partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=directory(replica) if directory_id is None else directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=replica),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_id=topic_id, partitions=[asked])],
    )


def fetch_response(
    records: bytes = b"",
    epoch: int = 1,
    leader_id: int = 2,
    *,
    error: int = 0,
    high_watermark: int = -1,
    diverging: tuple[int, int] | None = None,
    snapshot_id: tuple[int, int] | None = None,
    endpoints: bool = True,
) -> FetchResponse:
    """`diverging` and `snapshot_id`: end offset and epoch."""
    data = PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        aborted_transactions=None,
        records=records,
    )
    if diverging:
        data.diverging_epoch = EpochEndOffset(end_offset=diverging[0], epoch=diverging[1])
    if snapshot_id:
        data.snapshot_id = SnapshotId(end_offset=snapshot_id[0], epoch=snapshot_id[1])
    named = [NodeEndpoint(node_id=leader_id, host=f"host{leader_id}", port=9000 + leader_id)]
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])],
        node_endpoints=named if endpoints and leader_id >= 0 else [],
    )


def fetch(node: RaftNode, request: FetchRequest, now_ms: int, version: int = LATEST) -> tuple[Any, list[Effect]]:
    """The response's partition (None if the Fetch waits), and the leader's effects."""
    reply_to = object()
    effects = node.on_request(request, version, reply_to, now_ms)
    return fetched(effects, reply_to), effects


def fetched(effects: Iterable[Effect], reply_to: object) -> Any:
    """The partition in the answer to that request, if it is among the effects."""
    answers = [effect.response for effect in of(SendResponse, effects) if effect.reply_to is reply_to]
    return answers[0].responses[0].partitions[0] if answers else None


def committed_leader(**settings: Any) -> RaftNode:
    """Leader 1 of three in epoch 1; node 2 has fetched LeaderChange at offset 0, so the record is committed."""
    node, effects = leader(**{"append_linger_ms": 0, **settings})
    flush(node, effects, 1000)
    fetch(node, fetch_request(1, max_wait_ms=0), 1000)
    assert node.high_watermark == 1
    return node


def append(node: RaftNode, *records: bytes, now_ms: int = 1000) -> list[Effect]:
    """Written and flushed; all effects."""
    _, effects = take(node, records, now_ms)
    return effects + flush(node, effects, now_ms)


def take(node: RaftNode, records: Sequence[bytes], now_ms: int = 1000) -> tuple[Appended, list[Effect]]:
    """The leader takes records at its next offset; where they are, and what came of it."""
    outcome, effects = node.append(records, node.epoch, node.next_offset, now_ms)
    assert isinstance(outcome, Appended)
    return outcome, effects


def write_snapshot(
    node: RaftNode, snapshot: OffsetAndEpoch, values: Iterable[bytes], timestamp: int = 0, now_ms: int = 0
) -> bool:
    """All of it at once; whether the log has it now."""
    writer = node.begin_snapshot(snapshot, timestamp, now_ms)
    if writer is None:
        return False
    try:
        writer.add_values(values)
        writer.flush()()
        return writer.freeze()
    finally:
        writer.drop()


# A follower's.


def open_fetch(effects: Iterable[Effect]) -> Any:
    """The one Fetch among the effects."""
    (only,) = sent(effects, FetchRequest)
    return only


def whole(log: RaftLog) -> bytes:
    return log.read(log.start_offset, 1 << 30, log.end_offset)
