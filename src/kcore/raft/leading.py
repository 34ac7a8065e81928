"""The leader's part: it appends, tracks its followers' progress, and advances the high watermark (KIP-595).

Only flushed records count for the high watermark. Followers fetch from their flushed end, or send their flushed offset
(`following.pipelines`). The leader's own records count once `on_flushed` reports them as flushed.

Source: LeaderState, KafkaRaftClient.
"""

from collections.abc import Sequence
from operator import is_

from kcore.errors import RaftLogError
from kcore.protocol_errors import Errors
from kcore.raft import fetching
from kcore.raft.log.batches import SplitBatches, size_of, split_batches, stamped_again
from kcore.raft.log.control_records import control_batch, kraft_version_record, leader_change, replay_batches
from kcore.raft.log.raft_log import Appended
from kcore.raft.membership import pending_change
from kcore.raft.node_context import NodeContext
from kcore.raft.raft_config import LONGEST_LINGER_MS, MAX_BATCH_BYTES
from kcore.raft.states import NEVER_MS
from kcore.schema.structure import Data


def on_flushed(node: NodeContext, now_ms: int) -> None:
    """Counts the leader's own flushed offset, and writes records that waited for the flush."""
    leader = node.leading
    leader.progress_of(leader.local).end_offset = node.flushed_end_offset
    if node.flushed_end_offset >= leader.flushing:
        leader.flushing = 0
        if node.config.append_linger_ms is None:
            drain(node, now_ms)
    fetching.advance_high_watermark(node, now_ms)


def append(node: NodeContext, records: Sequence[bytes], now_ms: int) -> Appended:
    """Adds records (value bytes) to the next batch, which is written after the running flush or the linger time.

    Raises RaftLogError if the records do not fit into one batch.
    """
    leader = node.leading
    if not leader.accumulator.has_room(records):
        drain(node, now_ms)
    linger_ms = node.config.append_linger_ms
    appended = leader.accumulator.add(records, now_ms, LONGEST_LINGER_MS if linger_ms is None else linger_ms)
    if linger_ms is None and not leader.flushing:
        drain(node, now_ms)  # No flush is running, so the records need not wait.
    return appended


def append_batches(node: NodeContext, batches: bytes, now_ms: int) -> Appended:
    """Writes whole batches of data, and sets the offsets and the epoch in their headers.

    Batches that already have the right offsets and epoch are not copied: copying a large append takes time. Raises
    RaftLogError for control batches and cut-off batches, DecodeError for damaged ones.
    """
    leader = node.leading
    found, problem = split_batches(batches)
    if problem is not None:
        raise problem
    if not found or size_of(found) < len(batches):
        raise RaftLogError("a leader appends whole batches: the last one is cut off")
    if any(each.is_control or len(each.data) > MAX_BATCH_BYTES for each in found):
        raise RaftLogError(f"a state machine appends batches of data, of at most {MAX_BATCH_BYTES} bytes each")
    drain(node, now_ms)
    first = next_offset = leader.accumulator.next_offset
    stamped = []
    for each in found:
        stamped.append(stamped_again(each, next_offset, leader.epoch))
        next_offset += each.last_offset - each.base_offset + 1
    leader.accumulator.next_offset = next_offset
    as_they_are = all(map(is_, stamped, found))
    _write(node, batches if as_they_are else b"".join(each.data for each in stamped), (stamped, None))
    fetching.advance_high_watermark(node, now_ms)
    fetching.complete(node, now_ms, below=node.log.end_offset)
    return Appended(first, leader.accumulator.next_offset - 1)


def append_control(node: NodeContext, messages: Sequence[Data], now_ms: int) -> int:
    """Writes control records at once, in a batch of their own; returns the offset of the last one."""
    leader = node.leading
    drain(node, now_ms)
    batch = control_batch(messages, leader.accumulator.next_offset, leader.epoch, now_ms)
    leader.accumulator.next_offset += len(messages)
    split = split_batches(batch, check_crc=False)
    _write(node, batch, split)
    replay_batches(node.voter_history, split[0])
    leader.set_voters(node.voter_history.last_voters)
    if leader.is_alone != (leader.check_quorum_deadline_ms == NEVER_MS):
        leader.restart_check_quorum(now_ms)
    fetching.advance_high_watermark(node, now_ms)
    fetching.complete(node, now_ms, below=node.log.end_offset)
    return leader.accumulator.next_offset - 1


def drain(node: NodeContext, now_ms: int) -> None:
    """Writes the accumulated records."""
    leader = node.leading
    if leader.accumulator.records:
        batch = leader.accumulator.drain(leader.epoch)
        _write(node, batch.data, ([batch], None))
        fetching.complete(node, now_ms, below=node.log.end_offset)


def _write(node: NodeContext, batches: bytes, split: SplitBatches | None = None) -> None:
    """Appends to the log and requests a flush. Without `split` the log checks the batches' checksums."""
    leader = node.leading
    node.log.append_as_leader(batches, leader.epoch, split)
    leader.flushing = node.log.end_offset
    node.flush()


def begin(node: NodeContext, now_ms: int) -> None:
    """Starts the leadership: writes the LeaderChangeMessage as the first record of the epoch."""
    leader = node.leading
    voters = node.voter_history.last_voters
    messages: list[Data] = [leader_change(node.local.id, voters, [key.id for key in leader.granting_voters])]
    if node.voter_history.kraft_version > 0:
        messages += _own_voters(node)
    else:
        leader.known_voters = voters.with_updated(node.local_voter, any_directory=True)
    append_control(node, messages, now_ms)
    leader.first_batch_end = node.log.end_offset


def _own_voters(node: NodeContext) -> list[Data]:
    """The kraft.version and voters records that a new leader must write; none if the log has them.

    The leader writes these records if only the bootstrap snapshot has them. 4.x also writes them if the leader's own
    listeners differ from its listeners in the log.
    """
    history = node.voter_history
    voters = history.last_voters.with_updated(node.local_voter) or history.last_voters
    is_new = node.config.level != "3.9" and voters != history.last_voters
    if history.last_voters_offset != -1 and not is_new:
        return []
    return [kraft_version_record(history.kraft_version), voters.to_record()]


def end(node: NodeContext) -> None:
    """Ends the leadership: answers waiting requests with an error and drops unwritten records."""
    pending_change.fail(node, Errors.NOT_LEADER_OR_FOLLOWER)
    fetching.fail(node, Errors.NOT_LEADER_OR_FOLLOWER)


def poll(node: NodeContext, now_ms: int) -> int:
    """Writes records whose linger is over and answers requests whose wait is over; returns the next deadline."""
    leader = node.leading
    deadline_ms = NEVER_MS
    if leader.change is not None:
        deadline_ms = pending_change.poll(node, now_ms)
    if leader.fetches:  # `fetch_deadline_ms` avoids a loop over thousands of waiting fetches at each call.
        is_due = leader.fetch_deadline_ms <= now_ms
        deadline_ms = min(deadline_ms, fetching.poll(node, now_ms) if is_due else leader.fetch_deadline_ms)
    linger_ms = leader.accumulator.deadline_ms
    if linger_ms is not None and linger_ms <= now_ms:
        drain(node, now_ms)
        return deadline_ms
    return deadline_ms if linger_ms is None else min(deadline_ms, linger_ms)
