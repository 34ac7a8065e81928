"""The follower's side of Fetch (KIP-595): builds the request and applies the response.

The leader counts records below the fetch offset as durable, so a follower fetches only from its flushed end. With the
option `pipelined_fetch` it also fetches from an unflushed end (`pipelines`).
Source: KafkaRaftClient.handleFetchResponse, buildFetchRequest.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError, RaftLogError
from kcore.protocol_errors import Errors
from kcore.raft import snapshots
from kcore.raft.effects import Committed
from kcore.raft.log.batches import StoredBatch, begins_inside, split_batches
from kcore.raft.log.control_records import control_messages, replay_batches
from kcore.raft.membership.replicas import Address
from kcore.raft.node_context import NodeContext
from kcore.raft.raft_config import FETCH_MAX_WAIT_MS
from kcore.raft.responses import PARTITION, handle_common, leader_endpoints
from kcore.raft.states import Follower
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.types import METADATA_TOPIC_ID

TURN_MS: Final = 100  # Time between the elections of two voters whose leader refuses connections (`on_refused`).


def fetch_request(node: NodeContext) -> FetchRequest | FetchSnapshotRequest | None:
    """The next Fetch or FetchSnapshot; None while the last records are not flushed yet."""
    state = node.quorum.state
    if type(state) is Follower and state.fetching_snapshot is not None:
        return snapshots.fetch_snapshot_request(node, state.fetching_snapshot)
    if node.flushed_end_offset < node.log.end_offset and not pipelines(node):
        return None
    return _fetch_request(node, FETCH_MAX_WAIT_MS)


def pipelines(node: NodeContext) -> bool:
    """Whether this follower fetches from the end of its log while its disk still flushes (option `pipelined_fetch`).

    The follower sends its flushed offset in `log_start_offset`; Kafka's raft nodes send -1, and Kafka's leaders ignore
    the field. A kcore leader counts the flushed offset and returns it in `last_stable_offset`, where Kafka's raft
    leaders return -1. The follower pipelines once a response of its leader has such an offset; before that it fetches
    from its flushed end. Source: KIP-595, "On Performance": a fetch that "indicates the last acked offset".
    """
    state = node.quorum.state
    return node.config.pipelined_fetch and type(state) is Follower and state.counts_flushed


def _fetch_request(node: NodeContext, max_wait_ms: int) -> FetchRequest:
    """Builds a Fetch; returns the last request again if it has the same content, so callers must not change it."""
    state = node.quorum.state
    known = -1 if node.quorum.high_watermark is None else node.quorum.high_watermark
    if node.config.pipelined_fetch and type(state) is Follower and pipelines(node):
        # This node's flushed offset may be below the leader's high watermark. If the request named the lower value, the
        # leader would answer it at once (KIP-1166), again and again until the flush is done.
        known = max(known, state.leader_high_watermark)
    log, flushed = node.log, node.flushed_end_offset if node.config.pipelined_fetch else -1
    requested = state.epoch, log.end_offset, log.last_epoch, flushed, known, max_wait_ms, node.cluster_id
    if node.last_fetch is None or requested != node.last_fetch[0]:
        partition = FetchPartition(
            partition=PARTITION,
            current_leader_epoch=state.epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=flushed,
            partition_max_bytes=0,
            replica_directory_id=node.local.directory_id,
            high_watermark=known,
        )
        request = FetchRequest(
            cluster_id=node.cluster_id,
            replica_state=ReplicaState(replica_id=node.local.id),
            max_wait_ms=max_wait_ms,
            max_bytes=node.config.fetch_max_bytes,
            topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )
        node.last_fetch = requested, request
    return node.last_fetch[1]


def on_fetch_response(
    node: NodeContext, destination: int, request: FetchRequest, response: FetchResponse, now_ms: int
) -> bool:
    """Applies a Fetch response; False if the node should back off before the next request."""
    data = metadata_partition(response)
    if response.error_code != Errors.NONE or data is None:
        return False
    leader, state = data.current_leader, node.quorum.state
    if data.error_code != Errors.NONE or leader.leader_id != state.leader_id or leader.leader_epoch != state.epoch:
        endpoints = leader_endpoints(node, leader.leader_id, response.node_endpoints)
        handled = handle_common(node, data.error_code, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
        if handled is not None:
            return handled
        state = node.quorum.state
    if data.error_code != Errors.NONE or type(state) is not Follower:
        return False
    requested, log = request.topics[0].partitions[0], node.log
    is_current = requested.fetch_offset == log.end_offset and requested.last_fetched_epoch == log.last_epoch
    if not is_current or state.fetching_snapshot is not None:
        # This node's log is a prefix of this leader's log, so the leader's high watermark is valid for it.
        if state.counts_flushed:
            _on_leader_high_watermark(node, state, data.high_watermark)
        return True  # The response belongs to an obsolete request.
    if not _take(node, state, data):
        return False
    succeeded(node, state, now_ms)
    return True


def metadata_partition(response: FetchResponse) -> PartitionData | None:
    """The response's partition if it is the metadata partition and the only one."""
    topics = response.responses
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        return None
    data = topics[0].partitions[0]
    return data if data.partition_index == PARTITION else None


def succeeded(node: NodeContext, state: Follower, now_ms: int) -> None:
    """Records that the leader responded: no election for another fetch time-out."""
    state.fetch_deadline_ms = now_ms + node.config.fetch_timeout_ms
    state.has_fetched_from_leader = True
    state.is_leader_gone = False


def on_refused(node: NodeContext, address: Address, now_ms: int) -> None:
    """Sets an early election, as no process listens at the leader's address (option `elects_when_refused`).

    The voter grants pre-votes from now on. The voters start their elections TURN_MS apart, in the order of their ids,
    since simultaneous candidates split the vote. Each voter grants pre-votes only once its own connection is refused.
    """
    state = node.quorum.state
    if not node.config.elects_when_refused or not node.quorum.pre_vote or type(state) is not Follower:
        return
    if state.is_leader_gone or address != state.leader_endpoints.get(node.config.listener) or not node.may_stand:
        return
    state.is_leader_gone = True
    others = sorted(node.voters.ids - {state.leader_id})
    turn_ms = now_ms + TURN_MS * others.index(node.local.id)
    state.fetch_deadline_ms = min(state.fetch_deadline_ms, turn_ms)


def _take(node: NodeContext, state: Follower, data: PartitionData) -> bool:
    """Truncates the log, starts to load a snapshot, or appends, as the response requires; False if that failed."""
    if data.diverging_epoch.epoch >= 0:
        return truncate(node, OffsetAndEpoch(data.diverging_epoch.end_offset, data.diverging_epoch.epoch))
    if data.snapshot_id.epoch >= 0 or data.snapshot_id.end_offset >= 0:
        return snapshots.begin(node, state, OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch))
    if data.records and not append(node, bytes(data.records)):
        return False
    state.counts_flushed = state.counts_flushed or data.last_stable_offset >= 0
    _on_leader_high_watermark(node, state, data.high_watermark)
    return True


def _on_leader_high_watermark(node: NodeContext, state: Follower, high_watermark: int) -> None:
    """Records the leader's high watermark, which never decreases; responses may arrive out of order."""
    if high_watermark > state.leader_high_watermark:
        state.leader_high_watermark = high_watermark
    update_high_watermark(node, state)


def truncate(node: NodeContext, end: OffsetAndEpoch) -> bool:
    """Truncates records that the leader does not have, and the voter sets in them; never below the high watermark.

    False if nothing was truncated, so that the node backs off.
    """
    before = node.log.end_offset
    try:
        offset = node.log.truncate_to_end_offset(end)
    except RaftLogError as error:
        node.notice("divergence", f"the leader, node {node.leader_id}, requests a truncation to {end}: {error}")
        return False
    node.voter_history.truncate_new_entries(offset)
    node.was_cut(offset)
    return offset < before  # A leader that requests a truncation without effect would repeat it at once.


def append(node: NodeContext, records: bytes) -> bool:
    """Appends the fetched batches up to the first damaged one; voter sets in these batches are valid at once.

    False if a batch was left out. The node then backs off before it fetches that batch again, since a leader with a
    damaged disk sends the same bytes. Raises NewerReleaseError, and writes nothing, for records that only a newer
    release can load.
    """
    before = node.log.end_offset
    split = split_batches(records)
    batches, _ = split
    is_inside = begins_inside(batches, node.log.start_offset, before)
    size, problem = _loadable(node, records, batches)
    try:
        node.log.append_as_follower(records[:size], node.epoch, split if problem is None else None)
    except (DecodeError, RaftLogError) as error:
        problem = error
    end_offset = node.log.end_offset
    if end_offset > before:
        node.flush()
        first = batches[0].base_offset if is_inside else before
        replay_batches(node.voter_history, _between(batches, first, end_offset), begin=before)
    if problem is not None:
        text = f"batches that the leader, node {node.leader_id}, sends from offset {end_offset} on are not appended"
        node.notice("damage", f"{text}: {problem}")
    return problem is None and end_offset > before


def _between(batches: Iterable[StoredBatch], offset: int, end_offset: int) -> Iterator[StoredBatch]:
    """The first of `batches` that continue each other from `offset` on, up to `end_offset`."""
    for batch in batches:
        if batch.base_offset != offset or offset >= end_offset:
            return
        yield batch
        offset = batch.last_offset + 1


def _loadable(
    node: NodeContext, records: bytes, batches: Sequence[StoredBatch]
) -> tuple[int, DecodeError | RaftLogError | None]:
    """How many bytes precede the first control batch that this node cannot load, and the problem with that batch.

    `batches` are those before the first damaged one. The log itself checks for gaps and later epochs. Raises
    NewerReleaseError if only a newer release can read a batch of data.
    """
    size, end_offset, data, problem = 0, node.log.end_offset, list[bytes](), None
    if begins_inside(batches, node.log.start_offset, end_offset):
        end_offset = batches[0].base_offset
    try:
        for batch in batches:
            if batch.base_offset != end_offset or batch.epoch > node.epoch:
                break
            if batch.is_control:
                control_messages(batch)
            else:
                data.append(batch.data)
            size, end_offset = size + len(batch.data), batch.last_offset + 1
    except DecodeError as error:
        problem = error
    if node.config.check_data is not None:
        node.config.check_data(data, "the log")
    return (len(records), None) if problem is None else (size, problem)


def on_flushed(node: NodeContext, now_ms: int) -> None:
    """Advances the high watermark after a flush; with `pipelines`, reports the flushed offset to the leader."""
    state = node.quorum.state
    if type(state) is not Follower:
        return
    update_high_watermark(node, state)
    if not pipelines(node) or state.fetching_snapshot is not None:
        return
    connections, leader_id = node.connections, state.leader_id
    if not connections.is_ready(leader_id, now_ms) and not connections.is_backing_off(leader_id, now_ms):
        # The fetch that waits at the leader has an older flushed offset: send another fetch, which does not wait.
        address = state.leader_endpoints[node.config.listener]
        connections.send(node.effects, leader_id, address, _fetch_request(node, 0), now_ms, beside=True)


def update_high_watermark(node: NodeContext, state: Follower) -> None:
    """Raises the high watermark to the smaller of the leader's and this node's flushed offset."""
    offset, known = min(state.leader_high_watermark, node.flushed_end_offset), node.quorum.high_watermark
    if (known is not None and offset <= known) or offset < max(node.log.high_watermark, 1):
        return
    node.quorum.high_watermark = offset
    node.log.update_high_watermark(offset)
    node.effects.append(Committed(offset))
