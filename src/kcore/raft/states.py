"""What a node of a quorum is at the moment, and what it remembers only as long as it is that.

Source: UnattachedState, ProspectiveState, CandidateState, LeaderState, FollowerState, ResignedState.
"""

from typing import ClassVar, TypeAlias

from kcore.raft.log.snapshot_loading import LoadingSnapshot
from kcore.raft.membership.replicas import Endpoints, ReplicaKey
from kcore.raft.vote_count import Election

NEVER_MS = 1 << 62  # A deadline that does not come.
NO_LEADER = -1
NO_ENDPOINTS: Endpoints = {}


class EpochState:
    """What every state has: the epoch, its leader as far as known (-1: not), and this node's vote in it."""

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
    """It knows no leader, or no endpoint of the leader; a voter starts an election at the deadline."""

    __slots__ = ("election_deadline_ms",)
    name = "Unattached"

    def __init__(self, epoch: int, leader_id: int, voted: ReplicaKey | None, election_deadline_ms: int) -> None:
        super().__init__(epoch, leader_id, NO_ENDPOINTS, voted)
        self.election_deadline_ms = election_deadline_ms


class Prospective(EpochState):
    """It asks the voters whether they would vote for it, before it takes a new epoch (KIP-996)."""

    __slots__ = ("election", "election_deadline_ms")
    name = "Prospective"

    def __init__(self, before: EpochState, election: Election, election_deadline_ms: int) -> None:
        super().__init__(before.epoch, before.leader_id, before.leader_endpoints, before.voted)
        self.election = election
        self.election_deadline_ms = election_deadline_ms


class Candidate(EpochState):
    """It has voted for itself and asks the others."""

    __slots__ = ("backoff_deadline_ms", "election", "election_deadline_ms", "retries")
    name = "Candidate"

    def __init__(
        self, epoch: int, local: ReplicaKey, election: Election, election_deadline_ms: int, retries: int = 1
    ) -> None:
        super().__init__(epoch, voted=local)
        self.election = election
        self.election_deadline_ms = election_deadline_ms
        self.retries = retries  # Elections in a row; 3.9 waits the longer.
        self.backoff_deadline_ms: int | None = None  # Without pre-votes alone: it has lost, and waits for the next.


class Leader(EpochState):
    """It was elected; its view of its followers is in `NodeContext.leading`."""

    __slots__ = ("begin_epoch_deadline_ms", "granting_voters", "resign_requested")
    name = "Leader"

    def __init__(
        self, epoch: int, local: ReplicaKey, endpoints: Endpoints, granting: tuple[ReplicaKey, ...], now_ms: int
    ) -> None:
        super().__init__(epoch, local.id, endpoints)
        self.granting_voters = granting  # This node among them.
        self.begin_epoch_deadline_ms = now_ms  # When BeginQuorumEpoch is sent (again) to voters that do not fetch.
        self.resign_requested = False


class Follower(EpochState):
    """It fetches from a leader; as an observer, too. A voter stands for election at the deadline."""

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
        self.has_fetched_from_leader = False  # From then on it denies pre-votes (KIP-996).
        self.has_leader_resigned = False  # It resigned (EndQuorumEpoch).
        self.is_leader_gone = False  # Its address refuses connections (`following.on_refused`).
        self.has_updated_leader = False  # kraft.version 0: this leader knows the listeners.
        self.leader_high_watermark = -1  # As it sent last; the own one may be lower.
        # This leader has confirmed it, for a log that is a prefix of its own: `following.pipelines`.
        self.counts_flushed = False
        self.fetching_snapshot: LoadingSnapshot | None = None


class Resigned(EpochState):
    """It led this epoch and has resigned; it may not vote for another node in it (KAFKA-10527, KAFKA-10661)."""

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
