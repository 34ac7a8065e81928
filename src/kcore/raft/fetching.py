"""The leader's side of Fetch (KIP-595): checks in the KIP's order, responses, and fetches that wait for new records.

It serves the metadata log; `broker/replicas/fetching.py` serves the partitions of a broker.

Source: KafkaRaftClient.handleFetchRequest, tryCompleteFetchRequest.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

from kcore.protocol_errors import Errors
from kcore.raft.effects import Committed, LeaderChanged
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership import pending_change
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.node_context import NodeContext
from kcore.raft.raft_config import MAX_BATCH_BYTES
from kcore.raft.responses import PARTITION, is_this_cluster, leader_only_error
from kcore.raft.states import NEVER_MS, WaitingFetch
from kcore.replication.raft_log import OffsetAndEpoch, ValidOffsetAndEpoch
from kcore.schema.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kcore.types import METADATA_TOPIC_ID

ENDPOINTS_VERSION: Final = 17  # The response names the leader's endpoint from this version on (KIP-853).
HIGH_WATERMARK_VERSION: Final = 18  # The request has the replica's high watermark from this version on (KIP-1166).
FEW_BYTES: Final = 1 << 16  # If a response has more bytes of records, the observer does not wait for the interval.
OBSERVERS_AT_ONCE: Final = 500  # Waiting observers that one event answers: each takes some 30 us.
NOT_DIVERGING: Final = EpochEndOffset()
NO_SNAPSHOT: Final = SnapshotId()
BOOTSTRAP_SNAPSHOT: Final = OffsetAndEpoch(0, 0)  # Has a dynamic quorum's first voters, which the leader logs again.


class Found(NamedTuple):
    """The result of a fetch: an error, records from the fetch offset on, or in `valid` a diverging epoch or snapshot.

    `valid` is None if there is an error.
    """

    error: Errors
    records: bytes = b""
    valid: ValidOffsetAndEpoch | None = None


def on_fetch_request(
    node: NodeContext, request: FetchRequest, version: int, reply_to: Hashable, now_ms: int
) -> FetchResponse | None:
    """Answers a Fetch; None if it waits for records, a new high watermark, a resignation or its time-out."""
    if not is_this_cluster(node, request.cluster_id):
        return FetchResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
    partition = metadata_partition(request)
    if partition is None:
        return FetchResponse(error_code=Errors.INVALID_REQUEST)
    # After the fetch time-out a follower starts an election.
    wait_ms = min(request.max_wait_ms, node.config.fetch_timeout_ms)
    fetch = WaitingFetch(request, partition, replica_key(request, partition), version, now_ms + wait_ms)
    if request.max_wait_ms < 0 or not is_sane(partition):
        return error_response(node, version, Errors.INVALID_REQUEST)
    found = find(node, fetch, now_ms)
    is_due = has_changes(node, partition, found) or has_early_answer(node, fetch)
    if request.max_wait_ms == 0 or (is_due and not waits_for_interval(node, fetch, found, now_ms)):
        return response_of(node, fetch, found)
    leading = node.leading
    _make_room(node)
    leading.fetches[reply_to] = fetch
    leading.fetch_deadline_ms = min(leading.fetch_deadline_ms, fetch.deadline_ms)
    return None


def metadata_partition(request: FetchRequest) -> FetchPartition | None:
    """The metadata partition if the request has no other; otherwise None, as below Fetch 13, which has no topic ids."""
    topics = request.topics
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition == PARTITION else None


def is_sane(partition: FetchPartition) -> bool:
    """Whether a replica can have these offsets and epochs: its last record's epoch is at most its leader's epoch."""
    if partition.fetch_offset < 0 or partition.last_fetched_epoch < 0:
        return False
    return partition.last_fetched_epoch <= partition.current_leader_epoch


def has_changes(node: NodeContext, partition: FetchPartition, found: Found) -> bool:
    """Whether the fetch finds an error, records, a divergence, a snapshot or a new high watermark (KIP-1166)."""
    if found.error or found.records or (found.valid is not None and found.valid.kind != "VALID"):
        return True
    return known_high_watermark(node) > partition.high_watermark


def has_early_answer(node: NodeContext, fetch: WaitingFetch) -> bool:
    """Whether to send a new high watermark at once to versions before KIP-1166 (option `early_high_watermark`)."""
    if not node.config.early_high_watermark or fetch.version >= HIGH_WATERMARK_VERSION:
        return False
    progress = node.leading.known(fetch.replica)
    return progress is not None and known_high_watermark(node) > progress.sent_high_watermark


def waits_for_interval(node: NodeContext, fetch: WaitingFetch, found: Found, now_ms: int) -> bool:
    """Whether an observer that is a few records behind waits for the end of the interval (`complete`)."""
    if found.error or found.valid is None or found.valid.kind != "VALID" or len(found.records) > FEW_BYTES:
        return False
    leading = node.leading
    if leading.is_voter(fetch.replica):
        return False
    intervals = leading.intervals
    if not intervals.is_running(now_ms):
        intervals.count(now_ms)
        return False
    intervals.has_changes = True
    leading.fetch_deadline_ms = min(leading.fetch_deadline_ms, intervals.end_ms)
    return True


def known_high_watermark(node: NodeContext) -> int:
    """The high watermark as a response has it: -1 if unknown."""
    known = node.quorum.high_watermark
    return -1 if known is None else known


def find(node: NodeContext, fetch: WaitingFetch, now_ms: int, *, is_new: bool = True) -> Found:
    """The current result of a fetch; counts the replica's flushed offset for the high watermark.

    Checks the leader's epoch first, then whether the logs diverge. If a fetch has waited (not `is_new`), its flushed
    offset is not counted again: a later fetch of the same replica may have sent a newer one.
    """
    partition = fetch.partition
    error = leader_only_error(node, partition.current_leader_epoch)
    if error is Errors.NONE and fetch.replica.id == node.local.id:
        error = Errors.UNKNOWN_SERVER_ERROR  # A fetch from this node's own id: answered as Kafka does.
    if error is not Errors.NONE:
        return Found(error)
    valid = validate(node.log, partition.fetch_offset, partition.last_fetched_epoch)
    records = b""
    if valid.kind == "VALID":
        if partition.fetch_offset < node.log.end_offset:
            max_bytes = min(fetch.request.max_bytes, MAX_BATCH_BYTES)
            records = node.log.read(partition.fetch_offset, max_bytes, _read_end(node, fetch))
        if is_new or partition.log_start_offset < 0:
            _count_fetch(node, fetch.replica, flushed_end_offset(partition), now_ms)
    return Found(Errors.NONE, records, valid)


def _read_end(node: NodeContext, fetch: WaitingFetch) -> int:
    """The offset at which a response ends.

    An observer gets the records up to the leader's first batch in separate responses. Its later fetches need only
    records of this epoch, so the compiled answer loop can answer them.
    """
    leading = node.leading
    if fetch.partition.fetch_offset < leading.first_batch_end and not leading.is_voter(fetch.replica):
        return leading.first_batch_end
    return node.log.end_offset


def flushed_end_offset(partition: FetchPartition) -> int:
    """The fetch offset, or the lower flushed offset that a kcore follower sends (`following.pipelines`)."""
    if partition.log_start_offset < 0:
        return partition.fetch_offset
    return min(partition.log_start_offset, partition.fetch_offset)


def validate(log: RaftLog, offset: int, epoch: int) -> ValidOffsetAndEpoch:
    """Whether a follower with this end can continue (VALID), must truncate its log, or must load a snapshot.

    A follower at offset 0 gets the snapshot: loading it is faster than replaying the log (KIP-630).
    """
    if offset == 0 and (snapshot := log.latest_snapshot) is not None and snapshot != BOOTSTRAP_SNAPSHOT:
        return ValidOffsetAndEpoch("SNAPSHOT", snapshot)
    return log.validate_offset_and_epoch(offset, epoch)


def replica_key(request: FetchRequest, partition: FetchPartition) -> ReplicaKey:
    """The fetching replica; from version 15 on its id is in `replica_state` (KIP-903)."""
    replica_id = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    return ReplicaKey(replica_id, partition.replica_directory_id)


def is_of_observer(node: NodeContext, request: FetchRequest) -> bool:
    """Whether an observer sends the request to this leader. Fetches of voters commit records, and must not wait."""
    partition = metadata_partition(request)
    return partition is not None and node.leads and not node.leading.is_voter(replica_key(request, partition))


# The response.


def response_of(node: NodeContext, fetch: WaitingFetch, found: Found) -> FetchResponse:
    """The response to a fetch; it returns the replica's flushed offset if the request has one (`following.pipelines`).

    With `early_high_watermark` the leader records which high watermark it sends to the replica.
    """
    counts = found.error is Errors.NONE and fetch.partition.log_start_offset >= 0
    counted = flushed_end_offset(fetch.partition) if counts else -1
    response = fetch_response(node, fetch.version, found.error, found.records, found.valid, counted)
    if node.config.early_high_watermark and node.leads:
        progress = node.leading.known(fetch.replica)
        if progress is not None:
            progress.sent_high_watermark = response.responses[0].partitions[0].high_watermark
    return response


def fetch_response(
    node: NodeContext,
    version: int,
    error: Errors,
    records: bytes,
    valid: ValidOffsetAndEpoch | None,
    counted: int = -1,
) -> FetchResponse:
    """Builds a response with the leader's id and, from version 17 on, the leader's endpoint, even with an error.

    If the content equals that of the last response, as for all waiting followers, returns the last response again. So
    callers must not change it.
    """
    with_endpoint, state = version >= ENDPOINTS_VERSION, node.quorum.state
    high_watermark = -1 if error else known_high_watermark(node)
    kind, end = valid or (None, None)
    redirection = None if kind == "VALID" else valid
    content = state, with_endpoint, error, high_watermark, node.log.start_offset, records, redirection, counted
    if node.last_fetched is not None and content == node.last_fetched[0]:
        return node.last_fetched[1]
    data = PartitionData(
        partition_index=PARTITION,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=counted,
        log_start_offset=node.log.start_offset,
        diverging_epoch=NOT_DIVERGING,
        snapshot_id=NO_SNAPSHOT,
        current_leader=LeaderIdAndEpoch(leader_id=state.leader_id, leader_epoch=state.epoch),
        aborted_transactions=None,
        records=records,
    )
    if end and kind == "DIVERGING":
        data.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
    elif end and kind == "SNAPSHOT":
        data.snapshot_id = SnapshotId(epoch=end.epoch, end_offset=end.offset)
    address = state.leader_endpoints.get(node.config.listener)
    endpoints = []
    if with_endpoint and address and state.leader_id >= 0:
        endpoints = [NodeEndpoint(node_id=state.leader_id, host=address.host, port=address.port)]
    topic = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    response = FetchResponse(responses=[topic], node_endpoints=endpoints)
    node.last_fetched = content, response
    return response


def error_response(node: NodeContext, version: int, error: Errors) -> FetchResponse:
    return fetch_response(node, version, error, b"", None)


# The high watermark.


def _count_fetch(node: NodeContext, key: ReplicaKey, offset: int, now_ms: int) -> None:
    """Records that a replica has all records below `offset` on its disk. Only voters advance the high watermark."""
    if key.id < 0:
        return  # An anonymous replica.
    leader = node.leading
    voter = leader.voter(key)
    progress = voter or leader.progress_of(key)
    progress.fetched(offset, node.log.end_offset, now_ms)
    leader.count_fetch(key, now_ms)
    if voter is None:
        leader.observers.move_to_end(key)
    elif offset > (node.quorum.high_watermark or 0):  # Below the high watermark it cannot complete a majority.
        advance_high_watermark(node, now_ms)


def advance_high_watermark(node: NodeContext, now_ms: int) -> None:
    """Raises the high watermark to the offset that a majority has, if this is above the start of the leader's epoch.

    Without a record of its own epoch, the leader could commit a record of an earlier epoch that a later leader does
    not have. The high watermark never decreases, though a new voter may have fewer records than the other voters.
    """
    leader = node.leading
    offset, known = leader.replicated_to_majority, node.quorum.high_watermark
    if offset <= leader.epoch_start_offset or (known is not None and offset <= known):
        return
    node.quorum.high_watermark = offset
    node.log.update_high_watermark(offset)
    node.effects.append(Committed(offset))
    if known is None:  # A state machine must not lead before it has all earlier records (KAFKA-12619).
        node.effects.append(LeaderChanged(leader.local.id, leader.epoch, leader.epoch_start_offset))
    pending_change.on_high_watermark(node, offset)
    complete(node, now_ms)


# Fetches that wait.


def complete(node: NodeContext, now_ms: int, *, below: int | None = None) -> None:
    """Answers waiting fetches; with `below`, only voters' fetches from an offset below `below`.

    An observer applies only committed records, so it gets records and high watermark in one response instead of two.
    Observers are answered at intervals: each gets all records of an interval in one response. An interval is twice as
    long if records were committed in the interval before it. One event answers OBSERVERS_AT_ONCE, `poll` the next ones.
    """
    leading = node.leading
    was_awaited = leading.intervals.has_changes
    with_observers = below is None and _may_wake_observers(node, now_ms)
    if leading.is_alone and not with_observers:
        return
    woken = 0
    for reply_to, fetch in list(leading.fetches.items()):
        if leading.is_voter(fetch.replica):
            is_meant = fetch.partition.fetch_offset < below if below is not None else _may_have_answer(node, fetch)
        else:
            is_meant = with_observers and woken < OBSERVERS_AT_ONCE and _may_have_answer(node, fetch)
            woken += is_meant
        if is_meant and leading.fetches.pop(reply_to, None) is not None:
            node.answer(reply_to, response_of(node, fetch, find(node, fetch, now_ms, is_new=False)))
    if with_observers:
        has_more = woken == OBSERVERS_AT_ONCE and bool(leading.fetches)
        leading.intervals.answered(now_ms, woken, has_more=has_more, doubles=was_awaited)
        leading.fetch_deadline_ms = now_ms + 1 if has_more else leading.fetch_deadline_ms


def _may_wake_observers(node: NodeContext, now_ms: int) -> bool:
    """Whether the observers' interval is over; otherwise `poll` answers the observers at its end."""
    leading = node.leading
    intervals = leading.intervals
    intervals.has_changes = intervals.is_running(now_ms)
    if intervals.has_changes:
        leading.fetch_deadline_ms = min(leading.fetch_deadline_ms, intervals.end_ms)
    return not intervals.has_changes


def _may_have_answer(node: NodeContext, fetch: WaitingFetch) -> bool:
    """Whether the leader may have records for the fetch, or a high watermark that the replica may not have."""
    if fetch.version < HIGH_WATERMARK_VERSION or fetch.partition.fetch_offset < node.log.end_offset:
        return True
    return fetch.partition.high_watermark < known_high_watermark(node)


def fail(node: NodeContext, error: Errors) -> None:
    """Answers all waiting fetches with an error."""
    fetches = node.leading.fetches
    while fetches:
        reply_to = next(iter(fetches))
        node.answer(reply_to, error_response(node, fetches.pop(reply_to).version, error))


def poll(node: NodeContext, now_ms: int) -> int:
    """Answers fetches whose wait is over, without records; returns the time at which `poll` is due next."""
    leading = node.leading
    intervals = leading.intervals
    if intervals.has_changes and not intervals.is_running(now_ms):
        complete(node, now_ms)
    for reply_to, fetch in list(leading.fetches.items()):
        if fetch.deadline_ms <= now_ms:
            _end_wait(node, reply_to)
    leading.fetch_deadline_ms = min((fetch.deadline_ms for fetch in leading.fetches.values()), default=NEVER_MS)
    if intervals.has_changes:
        leading.fetch_deadline_ms = min(leading.fetch_deadline_ms, max(intervals.end_ms, now_ms + 1))
    return leading.fetch_deadline_ms


def _make_room(node: NodeContext) -> None:
    """If `most_waiting` fetches wait already, answers the oldest one without records, as at its time-out."""
    if len(node.leading.fetches) >= node.config.most_waiting:
        _end_wait(node, next(iter(node.leading.fetches)))


def _end_wait(node: NodeContext, reply_to: Hashable) -> None:
    fetch = node.leading.fetches.pop(reply_to)
    node.answer(reply_to, error_response(node, fetch.version, Errors.NONE))
