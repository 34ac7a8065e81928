"""The states of a quorum's node: each class holds the values that a node has only while it is in that state.

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
        self.retries = retries  # Elections in a row; 3.9 backs off longer after each.
        self.backoff_deadline_ms: int | None = None  # Without pre-votes: when it starts the next election after a loss.


class Leader(EpochState):
    """It was elected; its view of its followers is in `NodeContext.leading`."""

    __slots__ = ("begin_epoch_deadline_ms", "granting_voters", "resign_requested")
    name = "Leader"

    def __init__(
        self, epoch: int, local: ReplicaKey, endpoints: Endpoints, granting: tuple[ReplicaKey, ...], now_ms: int
    ) -> None:
        super().__init__(epoch, local.id, endpoints)
        self.granting_voters = granting  # Including this node.
        self.begin_epoch_deadline_ms = now_ms  # When BeginQuorumEpoch is sent again to voters that do not fetch.
        self.resign_requested = False


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
        self.leader_high_watermark = -1  # The leader's last one; the node's own may be lower.
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
