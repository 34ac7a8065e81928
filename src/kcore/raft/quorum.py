"""Holds a node's state and performs the transitions between states. Source: QuorumState."""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from kcore.errors import RaftLogError
from kcore.raft.connections import Connections
from kcore.raft.effects import Effect, StoreElection
from kcore.raft.epoch_limits import LAST_EPOCH, EpochAllowance
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.replicas import ElectionState, Endpoints, ReplicaKey
from kcore.raft.membership.voters import VoterHistory
from kcore.raft.raft_config import RaftConfig
from kcore.raft.states import (
    NEVER_MS,
    NO_LEADER,
    Candidate,
    Election,
    Follower,
    Leader,
    Prospective,
    Resigned,
    State,
    Unattached,
)
from kcore.raft.transitions import START, Event, Step, by_step


class QuorumNode(Protocol):
    """The attributes and methods of a node that a Quorum uses."""

    config: RaftConfig
    connections: Connections
    effects: list[Effect]
    local: ReplicaKey
    log: RaftLog
    noticed: set[str]
    voter_history: VoterHistory

    @property
    def is_voter(self) -> bool: ...

    def notice(self, kind: str, text: str) -> None: ...


class Quorum:
    """Holds the state of `node`. Only this class changes it; it calls `on_exit` with the state that the node leaves.

    `high_watermark` is None while it is unknown; `following.py` and `fetching.py` set it. A new leader starts with
    None, so that its high watermark never decreases. `taken` counts the transitions made.
    """

    __slots__ = ("_allowance", "_on_exit", "_ways", "high_watermark", "node", "pre_vote", "state", "stored", "taken")

    def __init__(self, node: QuorumNode, on_exit: Callable[[State], None]) -> None:
        self.node, self._on_exit = node, on_exit
        self.pre_vote = node.config.level != "3.9"
        self.state: State = Unattached(0, NO_LEADER, None, NEVER_MS)
        self.high_watermark: int | None = None
        self.stored: ElectionState | None = None  # The content of the file quorum-state.
        self.taken: Counter[Step] = Counter()
        self._allowance = EpochAllowance()
        self._ways = by_step(pre_vote=self.pre_vote, endless_elections=node.config.endless_elections)

    def _election_timeout_at(self, epoch: int, now_ms: int) -> int:
        """When a voter starts an election: after one to two time-outs, at random; never in the last epoch."""
        if epoch >= LAST_EPOCH:
            return NEVER_MS
        timeout_ms = self.node.config.election_timeout_ms
        return now_ms + timeout_ms + (self.node.config.jitter_ms(timeout_ms) if timeout_ms else 0)

    def allows(self, epoch: int, now_ms: int) -> bool:
        """Whether the node may adopt this epoch (`epoch_limits.py`); logs a notice if not."""
        if epoch <= min(LAST_EPOCH, self.state.epoch + self._allowance.epochs(now_ms)):
            return True
        self.node.notice("epoch", f"epoch {epoch} is too far above epoch {self.state.epoch}: it is not adopted")
        return False

    # The start.

    def initialize(self, election: ElectionState | None, now_ms: int) -> None:
        """Starts from the content of quorum-state, unless the log has a later epoch. Source: QuorumState.initialize."""
        log_epoch = self.node.log.last_epoch
        if max(log_epoch, -1 if election is None else election.epoch) > LAST_EPOCH:
            raise RaftLogError(
                f"the epoch is above {LAST_EPOCH}, the last one: docs/guides/repair-epochs.md says how to begin anew"
            )
        self.stored = election
        if election is None or election.epoch < log_epoch:
            election = ElectionState(log_epoch)
        self._transition(self._first_state(election, now_ms), Event.INITIALIZE, START)

    def _first_state(self, election: ElectionState, now_ms: int) -> State:
        node, local = self.node, self.node.local
        voters = node.voter_history.last_voters
        deadline_ms = self._election_timeout_at(election.epoch, now_ms)
        if local.id >= 0 and election.leader_id == local.id:
            # This node led the epoch, and its unflushed records may be lost. As leader it could now write other records
            # at their offsets, and as voter it could elect a second leader of the epoch (KAFKA-10527, KAFKA-10661).
            return self._resigned_state(election.epoch, (), deadline_ms)
        # Unlike Kafka's, a node that voted for itself does not continue that election: other voters may have granted
        # their votes to a longer log than the crash has left. The node keeps its vote, and stands in a later epoch.
        if election.leader_id >= 0 and election.leader_id in voters.voters:
            endpoints = voters.voters[election.leader_id].endpoints
            if node.config.listener in endpoints:
                return self._follower_state(election.epoch, election.leader_id, endpoints, election.voted, now_ms)
        # A leader without a known endpoint is found through the bootstrap servers.
        deadline_ms = deadline_ms if voters.is_voter(local) else NEVER_MS
        return Unattached(election.epoch, election.leader_id, election.voted, deadline_ms)

    # Transitions.

    def become_unattached(self, epoch: int, now_ms: int, event: Event = Event.HIGHER_EPOCH) -> None:
        """Enters a higher epoch without a known leader; a Prospective that lost the pre-vote stays in its epoch.

        A running election time-out continues. Otherwise a candidate that cannot win could keep the other voters from
        ever starting an election.
        """
        state = self.state
        assert epoch > state.epoch or event is Event.PRE_VOTE_LOST
        same_epoch = epoch == state.epoch
        leader_id = state.leader_id if same_epoch else NO_LEADER
        voted = state.voted if same_epoch else None
        self._allowance.take(epoch - state.epoch, now_ms)
        self._transition(Unattached(epoch, leader_id, voted, self._election_deadline_ms(epoch, now_ms)), event)

    def _election_deadline_ms(self, epoch: int, now_ms: int) -> int:
        """The election deadline of this node when it becomes Unattached in `epoch`."""
        state = self.state
        if not self.node.is_voter or epoch >= LAST_EPOCH:
            return NEVER_MS
        if type(state) is Unattached and state.election_deadline_ms < NEVER_MS:
            return state.election_deadline_ms
        if type(state) is Candidate or (type(state) is Resigned and self.pre_vote):
            return state.election_deadline_ms
        if type(state) is Prospective and not state.election.is_lost:
            return state.election_deadline_ms
        return self._election_timeout_at(epoch, now_ms)

    def grant_vote(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Votes for `candidate`, as Unattached or Prospective; restarts the election time-out, as it may win."""
        state = self.state
        assert state.voted is None
        deadline_ms = self._election_timeout_at(state.epoch, now_ms)
        if type(state) is Prospective:
            after = self._prospective_state(deadline_ms)
            after.voted = candidate
            self._transition(after, Event.VOTE_GRANTED)
        else:
            self._transition(Unattached(state.epoch, state.leader_id, candidate, deadline_ms), Event.VOTE_GRANTED)

    def become_prospective(self, event: Event, now_ms: int) -> None:
        self._transition(self._prospective_state(self._election_timeout_at(self.state.epoch, now_ms)), event)

    def become_candidate(self, event: Event, now_ms: int) -> None:
        """Starts the next epoch as a candidate that has voted for itself."""
        retries = self.state.retries + 1 if type(self.state) is Candidate else 1
        node = self.node
        election = Election(node.voter_history.last_voters.keys, node.local.id)
        epoch = self.state.epoch + 1
        assert epoch <= LAST_EPOCH
        deadline_ms = self._election_timeout_at(epoch, now_ms)
        self._transition(Candidate(epoch, node.local, election, deadline_ms, retries), event)

    def become_leader(self, now_ms: int) -> None:
        """Becomes leader of the epoch. The high watermark is unknown until a record of this epoch is committed."""
        candidate = self.state
        assert type(candidate) is Candidate and candidate.election.is_won
        node = self.node
        granting = candidate.election.granting_voters
        self._transition(
            Leader(candidate.epoch, node.config, node.voter_history.last_voters, granting, node.log.end_offset, now_ms),
            Event.ELECTION_WON,
        )
        self.high_watermark = None

    def become_follower(
        self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int, event: Event = Event.LEADER_FOUND
    ) -> None:
        """Follows a leader with a known endpoint; keeps a vote of the same epoch: a node votes once per epoch."""
        assert leader_id != self.node.local.id and epoch >= self.state.epoch and self.node.config.listener in endpoints
        voted = self.state.voted if epoch == self.state.epoch else None
        self._allowance.take(epoch - self.state.epoch, now_ms)
        self._transition(self._follower_state(epoch, leader_id, endpoints, voted, now_ms), event)

    def become_resigned(self, event: Event, successors: tuple[ReplicaKey, ...], now_ms: int) -> None:
        """Resigns; the node may not vote in this epoch. Stores nothing: a restarted leader becomes Resigned, too."""
        epoch = self.state.epoch
        self._transition(self._resigned_state(epoch, successors, self._election_timeout_at(epoch, now_ms)), event)

    # The parts that transitions share.

    def _follower_state(
        self, epoch: int, leader_id: int, endpoints: Endpoints, voted: ReplicaKey | None, now_ms: int
    ) -> Follower:
        return Follower(epoch, leader_id, endpoints, voted, now_ms + self.node.config.fetch_timeout_ms)

    def _prospective_state(self, deadline_ms: int) -> Prospective:
        return Prospective(
            self.state, Election(self.node.voter_history.last_voters.keys, self.node.local.id), deadline_ms
        )

    def _resigned_state(self, epoch: int, successors: tuple[ReplicaKey, ...], deadline_ms: int) -> Resigned:
        node = self.node
        others = set(node.voter_history.last_voters.voters) - {node.local.id}
        return Resigned(epoch, node.local, node.config.endpoints, others, successors, deadline_ms)

    def _transition(self, state: State, event: Event, source: str | None = None) -> None:
        """Changes the state, if the table allows it; the new state is stored before any message leaves the node."""
        node, before = self.node, self.state
        step = (source or before.name, event, state.name)
        way = self._ways.get(step)
        assert way is not None, f"{step[0]} does not become {step[2]} when {event.value}: {before}"
        assert node.is_voter or not way.voters_only, f"an observer does not become {step[2]}: {before} (KAFKA-17067)"
        self.taken[step] += 1
        self._on_exit(before)
        self.state = state
        node.noticed.clear()
        if state.epoch >= LAST_EPOCH and node.is_voter:
            text = f"epoch {state.epoch} is the last one: this node starts no election any more"
            node.notice("last epoch", f"{text}; docs/guides/repair-epochs.md says how to begin again")
        self._store()
        if event is not Event.VOTE_GRANTED:
            node.connections.reset_all()

    def _store(self) -> None:
        """Stores a changed epoch, leader or vote in quorum-state; the edge performs later effects after the write."""
        state = self.state
        election = ElectionState(state.epoch, state.leader_id, state.voted)
        if election != self.stored:
            self.stored = election
            self.node.effects.append(StoreElection(election, self.node.voter_history.kraft_version))
