"""Serves snapshots to followers and loads them from a leader (KIP-630). `snapshot_writing.py` writes them.

Source: KafkaRaftClient.handleFetchSnapshotRequest and handleFetchSnapshotResponse.
"""

from collections.abc import Hashable
from typing import Final

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError
from kcore.protocol_errors import Errors
from kcore.raft.effects import Committed, SnapshotLoaded
from kcore.raft.fetching import BOOTSTRAP_SNAPSHOT
from kcore.raft.log.raft_log import RaftLog, gives_way_to
from kcore.raft.log.snapshot_loading import LoadingSnapshot
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.node_context import NodeContext
from kcore.raft.raft_config import FETCH_SNAPSHOT_MAX_BYTES
from kcore.raft.responses import (
    PARTITION,
    handle_common,
    is_this_cluster,
    leader_endpoints,
    leader_only_error,
)
from kcore.raft.states import Follower
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    NodeEndpoint,
    SnapshotId,
)

MOST_OFFSET: Final = 1 << 62  # The highest end of a snapshot, above any real log; at 2^63 - 1 no append is possible.
ENDPOINTS_VERSION: Final = 1  # FetchSnapshot names the leader's endpoint from this version on (KIP-853).


def ends_within_a_batch(log: RaftLog, snapshot: OffsetAndEpoch) -> bool:
    """Whether the snapshot ends inside a batch of the log: releases up to 4.0 write such snapshots."""
    if not log.start_offset <= snapshot.offset < log.end_offset:
        return False
    return int.from_bytes(log.read(snapshot.offset, 1, log.end_offset)[:8]) < snapshot.offset


def delete_before(node: NodeContext, snapshot: OffsetAndEpoch) -> bool:
    """Deletes the log and the history of voter sets below `snapshot`; False if there is nothing to delete."""
    if not node.log.delete_before(snapshot):
        return False
    node.voter_history.truncate_old_entries(snapshot.offset)
    return True


# The leader's side.


def on_fetch_snapshot_request(
    node: NodeContext, request: FetchSnapshotRequest, version: int, reply_to: Hashable, now_ms: int
) -> FetchSnapshotResponse:
    """Answers with a piece of the snapshot, or an error."""
    if not is_this_cluster(node, request.cluster_id):
        return FetchSnapshotResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=Errors.INVALID_REQUEST)
    topic, partition = request.topics[0], request.topics[0].partitions[0]
    answer = FetchSnapshotResponsePartitionSnapshot(index=partition.partition, unaligned_records=b"")
    if topic.name != METADATA_TOPIC or partition.partition != PARTITION:
        answer.error_code = Errors.UNKNOWN_TOPIC_OR_PARTITION
    else:
        state = node.quorum.state
        answer.current_leader = LeaderIdAndEpoch(leader_id=state.leader_id, leader_epoch=state.epoch)
        key = ReplicaKey(request.replica_id, partition.replica_directory_id)
        answer.error_code = _fill(node, answer, partition, request.max_bytes, key)
        if answer.error_code == Errors.NONE:
            node.leading.count_fetch(key, now_ms)
    topics = [FetchSnapshotResponseTopicSnapshot(name=topic.name, partitions=[answer])]
    return FetchSnapshotResponse(topics=topics, node_endpoints=_leader_endpoints(node, version))


def _leader_endpoints(node: NodeContext, version: int) -> list[NodeEndpoint]:
    state = node.quorum.state
    address = state.leader_endpoints.get(node.config.listener)
    if version < ENDPOINTS_VERSION or state.leader_id < 0 or address is None:
        return []
    return [NodeEndpoint(node_id=state.leader_id, host=address.host, port=address.port)]


def _fill(
    node: NodeContext,
    answer: FetchSnapshotResponsePartitionSnapshot,
    partition: FetchSnapshotRequestPartitionSnapshot,
    max_bytes: int,
    key: ReplicaKey,
) -> Errors:
    error = leader_only_error(node, partition.current_leader_epoch)
    if error is not Errors.NONE:
        return error
    if key.id == node.local.id or max_bytes <= 0:
        return Errors.INVALID_REQUEST
    snapshot, position = (
        OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.position,
    )
    piece = node.log.snapshot_piece(snapshot, max(position, 0), min(max_bytes, FETCH_SNAPSHOT_MAX_BYTES))
    if piece is None or snapshot == BOOTSTRAP_SNAPSHOT:
        return Errors.SNAPSHOT_NOT_FOUND
    if not 0 <= position < piece.size:
        return Errors.POSITION_OUT_OF_RANGE
    answer.snapshot_id = SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch)
    answer.size, answer.position, answer.unaligned_records = piece.size, position, piece.data
    return Errors.NONE


# The follower's side.


def begin(node: NodeContext, state: Follower, snapshot: OffsetAndEpoch) -> bool:
    """Starts to load the snapshot that the leader offers; False if this node refuses the snapshot."""
    why = _why_not(node, snapshot)
    if why is not None:
        text = f"the snapshot of end offset {snapshot.offset} and epoch {snapshot.epoch}"
        node.notice("snapshot", f"{text}, offered by the leader, node {state.leader_id}, is not loaded: {why}")
        return False
    drop(node, state)
    node.log.begin_snapshot(snapshot)
    state.fetching_snapshot = LoadingSnapshot(snapshot, node.voter_history.static_voters, node.config.check_data)
    return True


def _why_not(node: NodeContext, snapshot: OffsetAndEpoch) -> str | None:
    """The reason why this node must not replace its log by the snapshot, or None.

    A leader of a sound quorum never offers a snapshot that is refused here. Kafka's follower loads any snapshot, even
    if the snapshot replaces committed records.
    """
    committed = node.committed_end
    if snapshot.epoch < 0 or not 0 <= snapshot.offset <= MOST_OFFSET:
        return "no log can end there"
    if snapshot.epoch > node.epoch:
        return f"this node is in epoch {node.epoch}"
    if snapshot.offset <= committed.offset or snapshot.epoch < committed.epoch:
        return f"this node has committed records up to offset {committed.offset}, of epoch {committed.epoch}"
    if node.log.snapshot_piece(snapshot, 0, 0) is not None:
        return "this node has the snapshot already"
    return None if gives_way_to(node.log, snapshot) else "the log of this node has all records of it"


def drop(node: NodeContext, state: Follower) -> None:
    """Removes the loaded part of a snapshot, because the node loads another snapshot or leaves its leader."""
    if state.fetching_snapshot is not None:
        node.log.drop_snapshot(state.fetching_snapshot.id)
        state.fetching_snapshot = None


def fetch_snapshot_request(node: NodeContext, loading: LoadingSnapshot) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=node.epoch,
        snapshot_id=SnapshotId(end_offset=loading.id.offset, epoch=loading.id.epoch),
        position=loading.size,
        replica_directory_id=node.local.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=node.cluster_id,
        replica_id=node.local.id,
        max_bytes=node.config.fetch_snapshot_max_bytes,
        topics=[FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def on_fetch_snapshot_response(
    node: NodeContext, destination: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse, now_ms: int
) -> bool:
    """Appends the next piece of a snapshot, and installs a complete one; False if the node should back off."""
    piece = _metadata_partition(response)
    if response.error_code != Errors.NONE or piece is None:
        # Kafka 4.3.1 answers all errors about the snapshot with UNKNOWN_SERVER_ERROR: the node starts over.
        return _start_over(node)
    leader = piece.current_leader
    endpoints = leader_endpoints(node, leader.leader_id, response.node_endpoints)
    handled = handle_common(node, piece.error_code, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
    if handled is not None:
        return handled
    state = node.quorum.state
    if type(state) is not Follower or state.fetching_snapshot is None:
        return True  # The response belongs to an obsolete request.
    if piece.error_code != Errors.NONE or not _take(node, state.fetching_snapshot, piece):
        return _start_over(node)  # SNAPSHOT_NOT_FOUND: the leader has a newer snapshot by now.
    state.fetch_deadline_ms = now_ms + node.config.fetch_timeout_ms
    state.has_fetched_from_leader = True
    loading = state.fetching_snapshot
    return loading.size < piece.size or _install(node, state, loading)


def _metadata_partition(response: FetchSnapshotResponse) -> FetchSnapshotResponsePartitionSnapshot | None:
    topics = response.topics
    if len(topics) != 1 or topics[0].name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    piece = topics[0].partitions[0]
    return piece if piece.index == PARTITION else None


def _start_over(node: NodeContext) -> bool:
    """Drops the loaded part; the response to the next Fetch, after the back-off, names the snapshot to load."""
    state = node.quorum.state
    if type(state) is Follower:
        drop(node, state)
    return False


def _take(node: NodeContext, loading: LoadingSnapshot, piece: FetchSnapshotResponsePartitionSnapshot) -> bool:
    """Appends the piece to the loaded part; False if it is not the next piece, or is damaged."""
    data = bytes(piece.unaligned_records)
    if (piece.snapshot_id.end_offset, piece.snapshot_id.epoch) != loading.id or piece.position != loading.size:
        return False
    loading.total = piece.size if loading.total is None else loading.total
    if not data or piece.size != loading.total or loading.size + len(data) > piece.size:
        return False
    try:
        loading.read(data)
    except DecodeError as error:
        node.notice("damage", f"the leader's snapshot of end offset {loading.id.offset} is not loaded: {error}")
        return False
    loading.size = node.log.append_snapshot(loading.id, data)
    return loading.is_whole or loading.size < piece.size


def _install(node: NodeContext, state: Follower, loading: LoadingSnapshot) -> bool:
    """Replaces the log by the complete snapshot; False if this node has committed later records in the meantime."""
    if _why_not(node, loading.id) is not None:
        return _start_over(node)
    state.fetching_snapshot = None
    node.log.freeze_snapshot(loading.id)
    was_replaced = node.log.truncate_to_latest_snapshot()
    assert was_replaced, f"{loading.id} is not the latest snapshot: {node.log.latest_snapshot}"
    node.voter_history.replace(loading.history)
    node.flushed_end_offset = node.log.end_offset
    node.was_cut(node.log.end_offset)
    node.quorum.high_watermark = node.log.high_watermark
    node.effects += [SnapshotLoaded(loading.id), Committed(node.log.high_watermark)]
    return True
