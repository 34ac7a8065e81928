"""The states of a quorum's node: each class holds the values that a node has only while it is in that state.

Source: UnattachedState, ProspectiveState, CandidateState, LeaderState, FollowerState, ResignedState.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias

from kcore.raft.intervals import Intervals
from kcore.raft.log.accumulator import Accumulator
from kcore.raft.log.snapshot_loading import LoadingSnapshot
from kcore.raft.membership.replicas import NO_DIRECTORY, Endpoints, ReplicaKey
from kcore.raft.membership.voters import VoterSet
from kcore.raft.raft_config import RaftConfig
from kcore.schema.fetch import FetchPartition, FetchRequest
from kcore.schema.raft_voters import AddRaftVoterResponse, RemoveRaftVoterResponse

UNKNOWN: Final = -1  # A replica's offset or time before its first fetch.


class ReplicaProgress:
    """The offset that a replica has flushed, and when the replica last fetched and was last caught up."""

    __slots__ = (
        "end_offset",
        "key",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "sent_high_watermark",
    )

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset = UNKNOWN  # The end of the records that the replica has flushed.
        self.last_fetch_ms = UNKNOWN
        self.last_fetch_leader_end = UNKNOWN  # The leader's log end at the last fetch.
        self.last_caught_up_ms = UNKNOWN  # When the replica last had all records of the leader.
        self.sent_high_watermark = UNKNOWN  # The last high watermark sent to it, with `early_high_watermark`.

    def caught_up_with(self, end_offset: int, fetch_ms: int, leader_end: int, caught_up_ms: int) -> None:
        """Merges progress that the compiled answer loop has seen; drops values that are older than the known ones."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, caught_up_ms)
        if fetch_ms >= self.last_fetch_ms:
            self.end_offset, self.last_fetch_ms, self.last_fetch_leader_end = end_offset, fetch_ms, leader_end

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Records a fetch from `offset`.

        A replica whose fetch offset reaches the leader's end at its last fetch was caught up at that time (KIP-836).
        """
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.last_fetch_leader_end <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset


class Election:
    """The voters that have granted or rejected a vote or a pre-vote; a voter always grants its own."""

    __slots__ = ("granted", "majority", "rejected", "voters")

    def __init__(self, voters: Iterable[ReplicaKey], local_id: int) -> None:
        self.voters = {voter.id: voter for voter in voters}
        self.majority = len(self.voters) // 2 + 1
        self.granted: set[int] = {local_id} & self.voters.keys()
        self.rejected: set[int] = set()

    def record(self, voter_id: int, granted: bool) -> None:
        """Counts a voter's last response; ignores nodes that are not voters."""
        if voter_id in self.voters:
            (self.granted if granted else self.rejected).add(voter_id)
            (self.rejected if granted else self.granted).discard(voter_id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority is impossible, even if all remaining voters grant their votes."""
        return len(self.voters) - len(self.rejected) < self.majority

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        """The voters that have not responded."""
        recorded = self.granted | self.rejected
        return [key for voter_id, key in self.voters.items() if voter_id not in recorded]

    @property
    def granting_voters(self) -> tuple[ReplicaKey, ...]:
        """The voters that have granted their votes, for the LeaderChangeMessage."""
        return tuple(self.voters[voter_id] for voter_id in sorted(self.granted))


NEVER_MS = 1 << 62  # A deadline that is never reached.
NO_LEADER = -1
NO_ENDPOINTS: Endpoints = {}
OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000  # A leader forgets an observer that has not fetched for so long.


class EpochState:
    """The fields of every state: the epoch, its leader (-1: unknown), and this node's vote in the epoch."""

    __slots__ = ("epoch", "leader_endpoints", "leader_id", "voted")
    name: ClassVar[str]

    def __init__(
        self,
        epoch: int,
        leader_id: int = NO_LEADER,
        leader_endpoints: Endpoints = NO_ENDPOINTS,
        voted: ReplicaKey | None = None,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted = voted

    def __repr__(self) -> str:
        return f"{self.name}(epoch={self.epoch}, leader_id={self.leader_id}, voted={self.voted})"


class Unattached(EpochState):
    """The node has no leader, or no endpoint of its leader; a voter starts an election at the deadline."""

    __slots__ = ("election_deadline_ms",)
    name = "Unattached"

    def __init__(self, epoch: int, leader_id: int, voted: ReplicaKey | None, election_deadline_ms: int) -> None:
        super().__init__(epoch, leader_id, NO_ENDPOINTS, voted)
        self.election_deadline_ms = election_deadline_ms


class Prospective(EpochState):
    """The node asks for pre-votes before it starts a new epoch (KIP-996)."""

    __slots__ = ("election", "election_deadline_ms")
    name = "Prospective"

    def __init__(self, before: EpochState, election: Election, election_deadline_ms: int) -> None:
        super().__init__(before.epoch, before.leader_id, before.leader_endpoints, before.voted)
        self.election = election
        self.election_deadline_ms = election_deadline_ms


class Candidate(EpochState):
    """The node has voted for itself and asks the other voters for their votes."""

    __slots__ = ("backoff_deadline_ms", "election", "election_deadline_ms", "retries")
    name = "Candidate"

    def __init__(
        self, epoch: int, local: ReplicaKey, election: Election, election_deadline_ms: int, retries: int = 1
    ) -> None:
        super().__init__(epoch, voted=local)
        self.election = election
        self.election_deadline_ms = election_deadline_ms
        # The number of elections that this node has begun in a row, with this one. 3.9 backs off longer after each.
        self.retries = retries
        self.backoff_deadline_ms: int | None = None  # In 3.9: when the node starts the next election after a lost one.


class WaitingFetch(NamedTuple):
    """A fetch that found nothing new, and the time until which it waits."""

    request: FetchRequest
    partition: FetchPartition
    replica: ReplicaKey
    version: int
    deadline_ms: int


@dataclass(slots=True)
class PendingChange:
    """A change of the voters that is under way: a voter is being added or removed."""

    response: type[AddRaftVoterResponse] | type[RemoveRaftVoterResponse]
    reply_to: Hashable
    key: ReplicaKey
    endpoints: Endpoints  # The endpoints of a voter that is being added.
    deadline_ms: int
    ack_when_committed: bool = True
    last_offset: int | None = None  # The offset of the VotersRecord, once it is written.
    answered: bool = False


class Leader(EpochState):
    """The node was elected. Holds the progress of all replicas, and requests that wait at this leader (LeaderState)."""

    __slots__ = (
        "_check_quorum_ms",
        "accumulator",
        "begin_epoch_deadline_ms",
        "change",
        "check_quorum_deadline_ms",
        "epoch_start_offset",
        "fetch_deadline_ms",
        "fetched_voters",
        "fetches",
        "first_batch_end",
        "flushing",
        "granting_voters",
        "intervals",
        "known_voters",
        "local",
        "most_observers",
        "observers",
        "resign_requested",
        "voters",
    )
    name = "Leader"

    def __init__(
        self,
        epoch: int,
        config: RaftConfig,
        voters: VoterSet,
        granting: tuple[ReplicaKey, ...],
        end_offset: int,
        now_ms: int,
    ) -> None:
        """`end_offset` is the log's end, where the epoch begins."""
        local = ReplicaKey(config.node_id, config.directory_id)
        super().__init__(epoch, local.id, config.endpoints)
        self.granting_voters = granting  # Including this node.
        self.begin_epoch_deadline_ms = now_ms  # When voters that do not fetch are sent BeginQuorumEpoch next.
        self.resign_requested = False
        self.epoch_start_offset = end_offset
        self.first_batch_end = end_offset  # The end of the batch with the LeaderChangeMessage.
        self.local, self.most_observers = local, config.most_observers
        self._check_quorum_ms = config.fetch_timeout_ms * 3 // 2
        self.voters: dict[int, ReplicaProgress] = {}
        # The observer that has been silent longest comes first. In a dict, finding the first entry would become slower
        # with each entry that was removed from the front.
        self.observers: OrderedDict[ReplicaKey, ReplicaProgress] = OrderedDict()
        self.fetched_voters: set[int] = set()  # Voters that have fetched since `check_quorum_deadline_ms` was set.
        self.check_quorum_deadline_ms = NEVER_MS  # When the leader resigns, unless a majority fetches before.
        self.accumulator = Accumulator(end_offset)
        self.flushing = 0  # The end offset of the flush that is under way; 0 if there is none.
        self.fetches: OrderedDict[Hashable, WaitingFetch] = OrderedDict()  # By `reply_to`, oldest first.
        self.fetch_deadline_ms = NEVER_MS  # A lower bound of all fetches' deadlines and of the observers' interval.
        self.intervals = Intervals()  # Between answers to observers (`fetching.complete`).
        self.change: PendingChange | None = None  # The change of the voters that is under way; one at a time.
        self.known_voters: VoterSet | None = None  # At kraft.version 0: the voters as they described themselves.
        self.set_voters(voters)
        self.restart_check_quorum(now_ms)

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

    def voter(self, key: ReplicaKey) -> ReplicaProgress | None:
        """A voter's progress; None for an observer."""
        return _find(self.voters, key)

    def known(self, key: ReplicaKey) -> ReplicaProgress | None:
        """The progress of a voter or an observer; None for an unknown replica."""
        return self.voter(key) or self.observers.get(key)

    def progress_of(self, key: ReplicaKey) -> ReplicaProgress:
        """The progress of a replica, which becomes an observer if it is unknown.

        If there are too many observers, the leader forgets the observer that has been silent longest, until its next
        fetch. It never forgets voters.
        """
        known = self.known(key)
        if known is None:
            if len(self.observers) >= self.most_observers:
                del self.observers[next(each for each in self.observers if each != self.local)]
            known = self.observers[key] = ReplicaProgress(key)
        return known

    def observed(self, key: ReplicaKey, end_offset: int, fetch_ms: int, leader_end: int, caught_up_ms: int) -> None:
        """Records the progress of an observer whose fetches the compiled answer loop has answered.

        Ignored for voters: their fetches count for the high watermark, and only the node answers them.
        """
        if key.id < 0 or self.is_voter(key):
            return
        self.progress_of(key).caught_up_with(end_offset, fetch_ms, leader_end, caught_up_ms)
        self.observers.move_to_end(key)

    def is_voter(self, key: ReplicaKey) -> bool:
        return self.voter(key) is not None

    def last_fetch_ms(self, key: ReplicaKey) -> int:
        """The time of the replica's last fetch; -NEVER_MS if it has not fetched."""
        progress = self.known(key)
        return -NEVER_MS if progress is None or progress.last_fetch_ms == UNKNOWN else progress.last_fetch_ms

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, those with the longest logs first."""
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

    def restart_check_quorum(self, now_ms: int) -> None:
        """Sets the deadline one and a half fetch time-outs from now, since responses take time; NEVER_MS if alone."""
        self.fetched_voters.clear()
        self.check_quorum_deadline_ms = NEVER_MS if self.is_alone else now_ms + self._check_quorum_ms

    def count_fetch(self, key: ReplicaKey, now_ms: int) -> None:
        """Counts a voter's fetch. Once a majority has fetched, extends the deadline of check quorum (KAFKA-15489).

        The node itself counts as a voter that has fetched, if it is a voter.
        """
        if key.id == self.local.id or not self.voter(key):
            return
        self.fetched_voters.add(key.id)
        itself = 1 if self.voter(self.local) else 0
        if len(self.fetched_voters) + itself >= len(self.voters) // 2 + 1:
            self.restart_check_quorum(now_ms)

    # The high watermark.

    @property
    def replicated_to_majority(self) -> int:
        """The offset below which a majority of the voters has flushed all records; counts the leader if a voter."""
        ends = sorted([progress.end_offset for progress in self.voters.values()], reverse=True)
        return ends[len(ends) // 2]


def _find(voters: dict[int, ReplicaProgress], key: ReplicaKey) -> ReplicaProgress | None:
    """The progress of a voter; for a voter without a known directory only the ids are compared."""
    progress = voters.get(key.id)
    return progress if progress and progress.key.directory_id in (NO_DIRECTORY, key.directory_id) else None


class Follower(EpochState):
    """The node, a voter or an observer, fetches from a leader. A voter starts an election at the deadline."""

    __slots__ = (
        "counts_flushed",
        "fetch_deadline_ms",
        "fetching_snapshot",
        "has_fetched_from_leader",
        "has_leader_resigned",
        "has_updated_leader",
        "is_leader_gone",
        "leader_high_watermark",
        "update_voter_deadline_ms",
    )
    name = "Follower"

    def __init__(
        self, epoch: int, leader_id: int, endpoints: Endpoints, voted: ReplicaKey | None, deadline_ms: int
    ) -> None:
        super().__init__(epoch, leader_id, endpoints, voted)
        self.fetch_deadline_ms = deadline_ms
        self.update_voter_deadline_ms = deadline_ms  # When a voter may send UpdateRaftVoter to the leader (KIP-853).
        self.has_fetched_from_leader = False  # Once true, the node denies pre-votes (KIP-996).
        self.has_leader_resigned = False  # The leader has sent EndQuorumEpoch.
        self.is_leader_gone = False  # The leader's address refuses connections (`following.on_refused`).
        self.has_updated_leader = False  # kraft.version 0: the leader has acknowledged this node's UpdateRaftVoter.
        self.leader_high_watermark = -1  # The last high watermark from the leader; this node's own may be lower.
        self.counts_flushed = False  # The leader counts this node's flushed offset (`following.pipelines`).
        self.fetching_snapshot: LoadingSnapshot | None = None


class Resigned(EpochState):
    """The node led this epoch and has resigned; it may not vote in this epoch again (KAFKA-10527, KAFKA-10661)."""

    __slots__ = ("election_deadline_ms", "preferred_successors", "unacknowledged")
    name = "Resigned"

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        endpoints: Endpoints,
        unacknowledged: set[int],
        preferred_successors: tuple[ReplicaKey, ...],
        election_deadline_ms: int,
    ) -> None:
        super().__init__(epoch, local.id, endpoints)
        self.unacknowledged = unacknowledged  # Voters that have not answered EndQuorumEpoch.
        self.preferred_successors = preferred_successors
        self.election_deadline_ms = election_deadline_ms


State: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
