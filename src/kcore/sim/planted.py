"""Bugs to be found: each takes one rule out of the node, and the invariants must notice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.raft import fetching, following, kraft_version, leading, votes
from kcore.raft.control_records import kraft_version_record
from kcore.raft.effects import LeaderChanged, StoreElection
from kcore.raft.elections import Election
from kcore.raft.leading import LeaderState
from kcore.raft.memory_log import MemoryLog
from kcore.raft.node import RaftNode
from kcore.raft.quorum import Quorum
from kcore.raft.states import NEVER_MS, Prospective, Resigned, Unattached
from kcore.replication.raft_log import ValidOffsetAndEpoch


class Patches:
    """Attributes that were replaced, to be put back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """`make` is given what is there, and gives what comes in its place."""
        before = owner.__dict__[name]
        self._before.append((owner, name, before))
        setattr(owner, name, make(before))

    def undo(self) -> None:
        for owner, name, before in reversed(self._before):
            setattr(owner, name, before)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """With that bug, or none."""
    patches = Patches()
    if name is not None:
        PLANTED[name](patches)
    try:
        yield
    finally:
        patches.undo()


def vote_not_durable(patches: Patches) -> None:
    """A vote is given, and quorum-state does not know of it."""

    def make(store: Any) -> Any:
        def broken(self: Any) -> None:
            if not isinstance(self.state, Unattached | Prospective) or self.state.voted is None:
                store(self)

        return broken

    patches.put(Quorum, "_store", make)


def answer_before_vote_is_stored(patches: Patches) -> None:
    """What must be durable first comes last."""

    def make(finish: Any) -> Any:
        def broken(self: Any, now_ms: int) -> Any:
            return sorted(finish(self, now_ms), key=lambda effect: isinstance(effect, StoreElection))

        return broken

    patches.put(RaftNode, "_finish", make)


def vote_without_looking_at_the_log(patches: Patches) -> None:
    """A candidate whose log is behind gets the vote."""

    def make(can_grant: Any) -> Any:
        def broken(node: Any, candidate: Any, asked: Any) -> Any:
            longest = SimpleNamespace(pre_vote=asked.pre_vote, last_offset_epoch=1 << 30, last_offset=1 << 60)
            return can_grant(node, candidate, longest)

        return broken

    patches.put(votes, "can_grant_vote", make)


def two_votes_in_an_epoch(patches: Patches) -> None:
    """Whoever asks gets the vote, whoever has it already."""

    def make(can_grant: Any) -> Any:
        def broken(node: Any, candidate: Any, asked: Any) -> Any:
            return can_grant(node, candidate, asked) or isinstance(node.state, Unattached)

        return broken

    patches.put(votes, "can_grant_vote", make)


def vote_for_an_old_epoch(patches: Patches) -> None:
    """A request of an epoch that is over is not fenced."""
    patches.put(votes, "voter_only_error", lambda _: lambda node, remote_id, epoch: Errors.NONE)


def half_is_a_majority(patches: Patches) -> None:
    """Two of four voters elect a leader."""
    patches.put(Election, "is_won", lambda _: property(lambda self: 2 * len(self.granted) >= len(self.voters)))


def restarted_leader_is_unattached(patches: Patches) -> None:
    """It forgets that it led this epoch (KAFKA-10527, KAFKA-10661)."""

    def make(first_state: Any) -> Any:
        def broken(self: Any, election: Any, now_ms: int) -> Any:
            state = first_state(self, election, now_ms)
            if type(state) is not Resigned:
                return state
            return Unattached(state.epoch, -1, None, state.election_deadline_ms)

        return broken

    patches.put(Quorum, "_first_state", make)


def no_progress_timeout(patches: Patches) -> None:
    """A leader that nobody fetches from leads for ever (KAFKA-15489)."""

    def make(_: Any) -> Any:
        def broken(self: Any, node: Any, now_ms: int) -> None:
            self.check_quorum_deadline_ms = NEVER_MS

        return broken

    patches.put(LeaderState, "restart_check_quorum", make)


def high_watermark_without_own_epoch(patches: Patches) -> None:
    """Records of earlier epochs are counted before one of this epoch is (KAFKA-12619)."""

    def make(advance: Any) -> Any:
        def broken(self: Any, node: Any, now_ms: int) -> None:
            start, self.epoch_start_offset = self.epoch_start_offset, -1
            advance(self, node, now_ms)
            self.epoch_start_offset = start

        return broken

    patches.put(LeaderState, "_advance", make)


def leads_before_it_is_committed(patches: Patches) -> None:
    """The state machine is told at once that it leads."""

    def make(begin: Any) -> Any:
        def broken(node: Any, now_ms: int) -> None:
            begin(node, now_ms)
            node.effects.append(LeaderChanged(node.local.id, node.epoch, node.leading.epoch_start_offset))

        return broken

    patches.put(leading, "begin", make)


def leader_counts_what_is_not_flushed(patches: Patches) -> None:
    """Its own log's end goes into the high watermark as soon as it is written."""

    def make(write: Any) -> Any:
        def broken(self: Any, node: Any, batch: bytes) -> None:
            write(self, node, batch)
            self.progress_of(self.local).end_offset = node.log.end_offset

        return broken

    patches.put(LeaderState, "_write", make)


def observers_are_counted(patches: Patches) -> None:
    """The high watermark goes up by those who do not vote."""

    def ends(self: Any) -> int:
        every = [*self.voters.values(), *self.observers.values()]
        return int(sorted((progress.end_offset for progress in every), reverse=True)[len(self.voters) // 2])

    patches.put(LeaderState, "replicated_to_majority", lambda _: property(ends))


def follower_fetches_before_it_flushed(patches: Patches) -> None:
    """Its fetch offset claims what a crash may take."""

    def make(fetch_request: Any) -> Any:
        def broken(node: Any) -> Any:
            flushed, node.flushed_end_offset = node.flushed_end_offset, node.log.end_offset
            request = fetch_request(node)
            node.flushed_end_offset = flushed
            return request

        return broken

    patches.put(following, "fetch_request", make)


def divergence_is_ignored(patches: Patches) -> None:
    """The leader does not compare epochs: an offset that it has will do."""

    def make(validate: Any) -> Any:
        def broken(log: Any, offset: int, epoch: int) -> Any:
            found = validate(log, offset, epoch)
            if found.kind == "DIVERGING" and log.start_offset <= offset <= log.end_offset:
                return ValidOffsetAndEpoch("VALID", found.offset_and_epoch)
            return found

        return broken

    patches.put(fetching, "validate", make)


def truncation_keeps_one_batch(patches: Patches) -> None:
    """The log is cut one batch too late."""

    def make(cut: Any) -> Any:
        def broken(self: Any, offset: int) -> None:
            kept = next((batch for batch in self.batches if batch.base_offset >= offset), None)
            cut(self, offset if kept is None else kept.last_offset + 1)

        return broken

    patches.put(MemoryLog, "_cut", make)


def snapshot_off_by_one(patches: Patches) -> None:
    """The log behind a loaded snapshot begins one record late (as in KAFKA-14618)."""

    def make(truncate: Any) -> Any:
        def broken(self: Any) -> Any:
            if not truncate(self):
                return False
            self.start_offset = self.end_offset = self.flushed_end = self.high_watermark = self.end_offset + 1
            return True

        return broken

    patches.put(MemoryLog, "truncate_to_latest_snapshot", make)


def log_starts_behind_its_snapshot(patches: Patches) -> None:
    """A batch more goes than the snapshot holds (KAFKA-14238)."""

    def make(delete_before: Any) -> Any:
        def broken(self: Any, snapshot: Any) -> Any:
            if not delete_before(self, snapshot):
                return False
            if self.batches:
                self.start_offset = self.batches[0].last_offset + 1
                del self._batches[0], self._base_offsets[0]
            return True

        return broken

    patches.put(MemoryLog, "delete_before", make)


def upgrade_without_hearing_the_voters(patches: Patches) -> None:
    """kraft.version goes up while the leader knows some voters by their ids alone."""

    def make(upgrade: Any) -> Any:
        def broken(node: Any, version: int, now_ms: int, *, validate_only: bool) -> Any:
            if node.voter_history.kraft_version == 0:
                messages = [kraft_version_record(version), node.leading.known_voters.to_record()]
                node.leading.append_control(node, messages, now_ms)
            return upgrade(node, version, now_ms, validate_only=validate_only)

        return broken

    patches.put(kraft_version, "upgrade", make)


def fetch_is_never_answered(patches: Patches) -> None:
    """One that waits for news waits for ever where there are none."""
    patches.put(fetching, "poll", lambda _: lambda node, now_ms: NEVER_MS)


def timer_does_nothing(patches: Patches) -> None:
    """What is due stays due (KAFKA-17751)."""
    patches.put(RaftNode, "on_timer", lambda _: lambda self, now_ms: [])


PLANTED: Final[dict[str, Callable[[Patches], None]]] = {
    plant.__name__.replace("_", "-"): plant
    for plant in (
        *(vote_not_durable, answer_before_vote_is_stored, vote_without_looking_at_the_log, two_votes_in_an_epoch),
        *(vote_for_an_old_epoch, half_is_a_majority, restarted_leader_is_unattached, no_progress_timeout),
        *(high_watermark_without_own_epoch, leads_before_it_is_committed, leader_counts_what_is_not_flushed),
        *(observers_are_counted, follower_fetches_before_it_flushed, divergence_is_ignored),
        *(truncation_keeps_one_batch, snapshot_off_by_one, log_starts_behind_its_snapshot),
        *(upgrade_without_hearing_the_voters, fetch_is_never_answered, timer_does_nothing),
    )
}
