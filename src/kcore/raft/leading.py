"""The leader's part: it appends, tracks its followers' progress, and advances the high watermark (KIP-595).

The high watermark counts flushed records only. Followers fetch from their flushed end, or send their flushed offset
(`following.pipelines`). The leader's own log counts up to the last `on_flushed`.

Source: LeaderState, KafkaRaftClient.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from operator import is_
from typing import Final

from kcore.errors import RaftLogError
from kcore.protocol_errors import Errors
from kcore.raft import fetching
from kcore.raft.effects import Committed, LeaderChanged
from kcore.raft.fetching import WaitingFetch
from kcore.raft.log.accumulator import Accumulator
from kcore.raft.log.batches import SplitBatches, size_of, split_batches, stamped_again
from kcore.raft.log.control_records import control_batch, kraft_version_record, leader_change, replay_batches
from kcore.raft.log.raft_log import Appended
from kcore.raft.membership import voter_changes
from kcore.raft.membership.replicas import NO_DIRECTORY, ReplicaKey
from kcore.raft.membership.voter_changes import PendingChange
from kcore.raft.membership.voters import VoterSet
from kcore.raft.node_context import NodeContext
from kcore.raft.progress import UNKNOWN, ReplicaProgress
from kcore.raft.raft_config import LONGEST_LINGER_MS, MAX_BATCH_BYTES
from kcore.raft.states import NEVER_MS, Leader
from kcore.schema.structure import Data

OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000


class LeaderState:
    """The leader's view of the other replicas in its epoch, and the requests that wait for it."""

    __slots__ = (
        "accumulator",
        "change",
        "check_quorum_deadline_ms",
        "epoch",
        "epoch_start_offset",
        "fetch_deadline_ms",
        "fetched_voters",
        "fetches",
        "first_batch_end",
        "flushing",
        "has_changes",
        "known_voters",
        "local",
        "most_observers",
        "observers",
        "voters",
        "wake_ms",
    )

    def __init__(self, node: NodeContext, now_ms: int) -> None:
        self.epoch = node.epoch
        self.epoch_start_offset = node.log.end_offset
        self.first_batch_end = node.log.end_offset  # The end of the batch with the LeaderChangeMessage.
        self.local, self.most_observers = node.local, node.config.most_observers
        self.voters: dict[int, ReplicaProgress] = {}
        # The observer that has been silent longest comes first. In a dict, finding the first entry takes longer with
        # each entry that was removed before it.
        self.observers: OrderedDict[ReplicaKey, ReplicaProgress] = OrderedDict()
        self.fetched_voters: set[int] = set()  # Voters that have fetched since the deadline below was set.
        self.check_quorum_deadline_ms = NEVER_MS  # When the leader resigns, unless a majority fetches before.
        self.accumulator = Accumulator(node.log.end_offset)
        self.flushing = 0  # The end offset of the flush that is under way; 0 if there is none.
        self.fetches: OrderedDict[Hashable, WaitingFetch] = OrderedDict()  # By `reply_to`, oldest first.
        self.fetch_deadline_ms = NEVER_MS  # A lower bound of all fetches' deadlines and of the observers' interval.
        self.wake_ms = -NEVER_MS  # When the interval ends in which waiting observers are not answered.
        self.has_changes = False  # Waiting observers have something to get at `wake_ms`.
        self.change: PendingChange | None = None  # The change of the voters that is under way; one at a time.
        self.known_voters: VoterSet | None = None  # At kraft.version 0: the voters as they described themselves.
        self.set_voters(node.voter_history.last_voters)
        self.restart_check_quorum(node, now_ms)

    # The replicas.

    def set_voters(self, voters: VoterSet) -> None:
        """Replaces the voters; a new voter keeps its progress as an observer, a removed voter becomes an observer."""
        before = self.voters
        self.voters = {}
        for key in voters.keys:
            progress = _find(before, key) or self.observers.get(key) or ReplicaProgress(key)
            progress.key = key
            self.voters[key.id] = progress
            self.observers.pop(key, None)
        for voter_id, progress in before.items():
            if voter_id not in self.voters:
                self.observers.setdefault(progress.key, progress)

    def known(self, key: ReplicaKey) -> ReplicaProgress | None:
        """The progress of a voter or an observer; None for an unknown replica."""
        return _find(self.voters, key) or self.observers.get(key)

    def progress_of(self, key: ReplicaKey) -> ReplicaProgress:
        """The progress of a replica, which becomes an observer if it is unknown.

        If there are too many observers, the one that has been silent longest is dropped. Its next fetch adds it again.
        Voters are never dropped.
        """
        known = self.known(key)
        if known is None:
            if len(self.observers) >= self.most_observers:
                del self.observers[next(each for each in self.observers if each != self.local)]
            known = self.observers[key] = ReplicaProgress(key)
        return known

    def observed(self, key: ReplicaKey, end_offset: int, fetch_ms: int, leader_end: int, caught_up_ms: int) -> None:
        """Records the progress of an observer whose fetches the compiled request loop has answered.

        Ignored for voters: their fetches count for the high watermark, and only the node answers them.
        """
        if key.id < 0 or self.is_voter(key):
            return
        self.progress_of(key).caught_up_with(end_offset, fetch_ms, leader_end, caught_up_ms)
        self.observers.move_to_end(key)

    def is_voter(self, key: ReplicaKey) -> bool:
        return _find(self.voters, key) is not None

    def last_fetch_ms(self, key: ReplicaKey) -> int:
        """The time of the replica's last fetch; -NEVER_MS if it has not fetched."""
        progress = self.known(key)
        return -NEVER_MS if progress is None or progress.last_fetch_ms == UNKNOWN else progress.last_fetch_ms

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, longest logs first."""
        others = [progress for progress in self.voters.values() if progress.key.id != self.local.id]
        return tuple(progress.key for progress in sorted(others, key=lambda progress: -progress.end_offset))

    def forget_silent_observers(self, now_ms: int) -> None:
        for key, progress in list(self.observers.items()):
            if key != self.local and now_ms - progress.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS:
                del self.observers[key]

    # The leader progress time-out.

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return len(self.voters) == 1 and self.is_voter(self.local)

    def restart_check_quorum(self, node: NodeContext, now_ms: int) -> None:
        """Sets the deadline to one and a half fetch time-outs, since responses take time; none for an only voter."""
        self.fetched_voters.clear()
        timeout_ms = node.config.fetch_timeout_ms * 3 // 2
        self.check_quorum_deadline_ms = NEVER_MS if self.is_alone else now_ms + timeout_ms

    def count_fetch(self, node: NodeContext, key: ReplicaKey, now_ms: int) -> None:
        """Counts a voter's fetch: fetches of a majority, this voter included, prove the leadership (KAFKA-15489)."""
        if key.id == self.local.id or not _find(self.voters, key):
            return
        self.fetched_voters.add(key.id)
        itself = 1 if _find(self.voters, self.local) else 0
        if len(self.fetched_voters) + itself >= len(self.voters) // 2 + 1:
            self.restart_check_quorum(node, now_ms)

    # The high watermark.

    @property
    def replicated_to_majority(self) -> int:
        """The offset below which a majority of the voters has all records; the leader counts if it is a voter."""
        ends = sorted([progress.end_offset for progress in self.voters.values()], reverse=True)
        return ends[len(ends) // 2]

    def on_fetch(self, node: NodeContext, key: ReplicaKey, offset: int, now_ms: int) -> None:
        """Records that a replica has all below `offset` on its disk. Only voters advance the high watermark."""
        if key.id < 0:
            return  # An anonymous replica.
        voter = _find(self.voters, key)
        progress = voter or self.progress_of(key)
        progress.fetched(offset, node.log.end_offset, now_ms)
        self.count_fetch(node, key, now_ms)
        if voter is None:
            self.observers.move_to_end(key)
        elif offset > (node.quorum.high_watermark or 0):  # Below the high watermark it cannot complete a majority.
            self._advance(node, now_ms)

    def on_flushed(self, node: NodeContext, now_ms: int) -> None:
        """Counts the leader's own flushed offset, and writes records that waited for the flush."""
        self.progress_of(self.local).end_offset = node.flushed_end_offset
        if node.flushed_end_offset >= self.flushing:
            self.flushing = 0
            if node.config.append_linger_ms is None:
                self.drain(node, now_ms)
        self._advance(node, now_ms)

    def _advance(self, node: NodeContext, now_ms: int) -> None:
        """Raises the high watermark to the majority's offset, once that includes a record of the leader's own epoch.

        Otherwise it could count a record of an earlier epoch that a later leader does not have. The high watermark
        never decreases, though a new voter may have fewer records than the voters before.
        """
        offset, known = self.replicated_to_majority, node.quorum.high_watermark
        if offset <= self.epoch_start_offset or (known is not None and offset <= known):
            return
        node.quorum.high_watermark = offset
        node.log.update_high_watermark(offset)
        node.effects.append(Committed(offset))
        if known is None:  # A state machine must not lead before it has all earlier records (KAFKA-12619).
            node.effects.append(LeaderChanged(self.local.id, self.epoch, self.epoch_start_offset))
        voter_changes.on_high_watermark(node, offset)
        fetching.complete(node, now_ms)

    # Appends.

    def append(self, node: NodeContext, records: Sequence[bytes], now_ms: int) -> Appended:
        """Accumulates records (value bytes) for a batch that is written after the flush under way or the linger.

        Raises RaftLogError if they do not fit into a batch.
        """
        if not self.accumulator.has_room(records):
            self.drain(node, now_ms)
        linger_ms = node.config.append_linger_ms
        appended = self.accumulator.add(records, now_ms, LONGEST_LINGER_MS if linger_ms is None else linger_ms)
        if linger_ms is None and not self.flushing:
            self.drain(node, now_ms)  # No flush is under way to wait for.
        return appended

    def append_batches(self, node: NodeContext, batches: bytes, now_ms: int) -> Appended:
        """Writes whole batches of data, with offsets and this epoch put into their headers.

        Batches that have the right offsets and epoch are not copied: a copy of a large append takes time. Raises
        RaftLogError for control batches and cut-off batches, DecodeError for damaged ones.
        """
        found, problem = split_batches(batches)
        if problem is not None:
            raise problem
        if not found or size_of(found) < len(batches):
            raise RaftLogError("a leader appends whole batches: the last one is cut off")
        if any(each.is_control or len(each.data) > MAX_BATCH_BYTES for each in found):
            raise RaftLogError(f"a state machine appends batches of data, of at most {MAX_BATCH_BYTES} bytes each")
        self.drain(node, now_ms)
        first = next_offset = self.accumulator.next_offset
        stamped = []
        for each in found:
            stamped.append(stamped_again(each, next_offset, self.epoch))
            next_offset += each.last_offset - each.base_offset + 1
        self.accumulator.next_offset = next_offset
        as_they_are = all(map(is_, stamped, found))
        self._write(node, batches if as_they_are else b"".join(each.data for each in stamped), (stamped, None))
        self._advance(node, now_ms)
        fetching.complete(node, now_ms, below=node.log.end_offset)
        return Appended(first, self.accumulator.next_offset - 1)

    def append_control(self, node: NodeContext, messages: Sequence[Data], now_ms: int) -> int:
        """Writes control records at once, in a batch of their own; returns the offset of the last one."""
        self.drain(node, now_ms)
        batch = control_batch(messages, self.accumulator.next_offset, self.epoch, now_ms)
        self.accumulator.next_offset += len(messages)
        split = split_batches(batch, check_crc=False)
        self._write(node, batch, split)
        replay_batches(node.voter_history, split[0])
        self.set_voters(node.voter_history.last_voters)
        if self.is_alone != (self.check_quorum_deadline_ms == NEVER_MS):
            self.restart_check_quorum(node, now_ms)
        self._advance(node, now_ms)
        fetching.complete(node, now_ms, below=node.log.end_offset)
        return self.accumulator.next_offset - 1

    def drain(self, node: NodeContext, now_ms: int) -> None:
        """Writes the accumulated records."""
        if self.accumulator.records:
            batch = self.accumulator.drain(self.epoch)
            self._write(node, batch.data, ([batch], None))
            fetching.complete(node, now_ms, below=node.log.end_offset)

    def _write(self, node: NodeContext, batches: bytes, split: SplitBatches | None = None) -> None:
        """Appends to the log and requests a flush. Without `split` the log checks the batches' checksums."""
        node.log.append_as_leader(batches, self.epoch, split)
        self.flushing = node.log.end_offset
        node.flush()


def _find(voters: dict[int, ReplicaProgress], key: ReplicaKey) -> ReplicaProgress | None:
    """The progress of a voter; a voter without a known directory is matched by its id alone."""
    progress = voters.get(key.id)
    return progress if progress and progress.key.directory_id in (NO_DIRECTORY, key.directory_id) else None


def begin(node: NodeContext, now_ms: int) -> None:
    """Starts the leadership: writes the LeaderChangeMessage as the first record of the epoch."""
    state = node.quorum.state
    assert type(state) is Leader
    leading = node.leading = LeaderState(node, now_ms)
    voters = node.voter_history.last_voters
    messages: list[Data] = [leader_change(node.local.id, voters, [key.id for key in state.granting_voters])]
    if node.voter_history.kraft_version > 0:
        messages += _own_voters(node)
    else:
        leading.known_voters = voters.with_updated(voter_changes.local_voter(node), any_directory=True)
    leading.append_control(node, messages, now_ms)
    leading.first_batch_end = node.log.end_offset


def _own_voters(node: NodeContext) -> list[Data]:
    """The kraft.version and voters records that the leader must write; none if the log has them.

    The leader writes them if only the bootstrap snapshot has them. 4.x also writes them if the leader's listeners
    differ from those in the log.
    """
    history = node.voter_history
    voters = history.last_voters.with_updated(voter_changes.local_voter(node)) or history.last_voters
    is_new = node.config.level != "3.9" and voters != history.last_voters
    if history.last_voters_offset != -1 and not is_new:
        return []
    return [kraft_version_record(history.kraft_version), voters.to_record()]


def end(node: NodeContext) -> None:
    """Ends the leadership: answers waiting requests with an error and drops unwritten records."""
    voter_changes.fail(node, Errors.NOT_LEADER_OR_FOLLOWER)
    fetching.fail(node, Errors.NOT_LEADER_OR_FOLLOWER)
    node.leading = None  # type: ignore[assignment]  # As `NodeContext` has it.


def poll(node: NodeContext, now_ms: int) -> int:
    """Writes records whose linger is over and answers requests whose wait is over; returns the next deadline."""
    leading = node.leading
    deadline_ms = NEVER_MS
    if leading.change is not None:
        deadline_ms = voter_changes.poll(node, now_ms)
    if leading.fetches:  # `fetch_deadline_ms` avoids looking at thousands of waiting fetches.
        is_due = leading.fetch_deadline_ms <= now_ms
        deadline_ms = min(deadline_ms, fetching.poll(node, now_ms) if is_due else leading.fetch_deadline_ms)
    linger_ms = leading.accumulator.deadline_ms
    if linger_ms is not None and linger_ms <= now_ms:
        leading.drain(node, now_ms)
        return deadline_ms
    return deadline_ms if linger_ms is None else min(deadline_ms, linger_ms)


def on_flushed(node: NodeContext, now_ms: int) -> None:
    node.leading.on_flushed(node, now_ms)
