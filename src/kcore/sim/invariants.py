"""What must hold after every event: of the node that the event was for, since nothing else can have changed.

Sources: Kafka's RaftEventSimulationTest (monotone epochs and high watermarks, a majority behind the high watermark, one
leader an epoch, a snapshot at the log's start, no leader loads one, the same committed data everywhere); KIP-595.
"""

from typing import TYPE_CHECKING, Any, Final

from kcore.raft.control_records import replay_log
from kcore.raft.effects import Committed, LeaderChanged, SnapshotLoaded
from kcore.raft.replicas import NO_DIRECTORY, ElectionState, ReplicaKey
from kcore.raft.states import Candidate, Leader, Prospective, State
from kcore.raft.voters import VoterHistory
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest, FetchResponse
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.structure import Message
from kcore.sim.committed import CommittedLog
from kcore.sim.disk import SimLog
from kcore.sim.machine import Call, Machine
from kcore.sim.violation import Violation

if TYPE_CHECKING:
    from kcore.sim.world import World

MOST_IDLE_TIMERS: Final = 3
LONGEST_WAIT_US: Final = 1_000_000  # Of a request that a node keeps: a Fetch waits for half of that.
# A majority fetches within one and a half fetch time-outs, again and again (KAFKA-15489): who was the first of one such
# span and will be the last of the next is silent for two of them; and a little.
PROGRESS_US: Final = 6_400_000


class Invariants:
    """All that the world remembers in order to judge."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.committed = CommittedLog()
        self.written: dict[tuple[int, int], bytes] = {}  # Of SimLog.
        self.leaders: dict[int, tuple[ReplicaKey, int]] = {}  # By epoch: the leader, and which incarnation of it.
        self.votes: dict[tuple[ReplicaKey, int], int] = {}  # By voter and epoch: for whom.
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        self.acknowledged = 0

    def on_boot(self, machine: Machine) -> None:
        """Nothing is known of the new process."""
        machine.seen_state = None
        machine.checked_to = machine.log.start_offset

    def inspect(self, machine: Machine) -> None:
        """After every event of the machine's."""
        node = machine.node
        state, high_watermark = node.quorum.state, node.quorum.high_watermark
        if high_watermark is not None and high_watermark != machine.seen_high_watermark:
            self._on_high_watermark(machine, high_watermark)
        if state is not machine.seen_state:
            self._on_state(machine, state)
        if machine.log.start_offset != machine.seen_start:
            self.check_start(machine)
        if machine.storing is None:
            stored = machine.election.epoch if machine.election is not None else 0
            if state.epoch != stored:
                raise Violation("MonotonicEpoch", f"node {machine.index} is in {state}, its disk in epoch {stored}")

    # States.

    def _on_state(self, machine: Machine, state: State) -> None:
        before = machine.seen_state
        machine.seen_state = state
        if before is not None and state.epoch < before.epoch:
            raise Violation("MonotonicEpoch", f"node {machine.index} went from {before} to {state}")
        if isinstance(state, Candidate | Prospective) and not machine.node.is_voter:
            raise Violation("OnlyVotersStand", f"node {machine.index}, no voter, is {state} (KAFKA-17067)")
        if self._world.options.upgraded:
            self._check_voters(machine)
        if type(state) is Leader:
            self._on_leader(machine, state)

    def _check_voters(self, machine: Machine) -> None:
        """Who votes is what the node's own log says, a truncated one too; and the log knows their directories."""
        known = machine.node.voter_history
        said = VoterHistory(known.static_voters)
        replay_log(said, machine.log)
        if (known.kraft_version, known.last_voters) != (said.kraft_version, said.last_voters):
            told = f"node {machine.index}: {known.kraft_version}, {known.last_voters}; its log: {said.last_voters}"
            raise Violation("VotersAsInLog", told)
        named = all(key.directory_id != NO_DIRECTORY for key in known.last_voters.keys)
        if known.kraft_version > 0 and not (named and known.last_voters.supports(known.kraft_version)):
            raise Violation("VotersAreKnown", f"node {machine.index}: {known.kraft_version}, {known.last_voters}")

    def _on_leader(self, machine: Machine, state: Leader) -> None:
        machine.led_since_us = self._world.now_us
        machine.heard_us.clear()
        self._leads(machine, state.epoch)
        self.committed.check_leader(machine.log, state.epoch)

    def _leads(self, machine: Machine, epoch: int) -> None:
        this = machine.key, machine.incarnation
        known = self.leaders.setdefault(epoch, this)
        if known != this:
            again = " after a restart (KAFKA-10527)" if known[0] == this[0] else ""
            raise Violation("SingleLeader", f"nodes {known[0].id} and {machine.index} lead epoch {epoch}{again}")

    def check_progress(self) -> None:
        """A leader that no majority fetches from resigns within the time-out (KAFKA-15489)."""
        world = self._world
        for machine in world.machines:
            if not machine.is_up or machine.gate or type(machine.node.state) is not Leader:
                continue
            if machine.node.voters != machine.seen_voters:  # Who counted before, counted then.
                machine.seen_voters, machine.led_since_us = machine.node.voters, world.now_us
            since_us = world.now_us - PROGRESS_US
            if max(machine.led_since_us, machine.resumed_us) > since_us:
                continue
            voters = machine.node.voters
            heard = sum(
                machine.heard_us.get(voter_id, -1) >= since_us or voter_id == machine.index for voter_id in voters.ids
            )
            if heard < voters.majority:
                raise Violation("LeaderProgress", f"node {machine.index} leads on, but {heard} of {voters.ids} fetch")

    def on_stored(self, machine: Machine, election: ElectionState) -> None:
        """The disk of the machine has it."""
        before = machine.election
        if before is not None and election.epoch < before.epoch:
            raise Violation("MonotonicEpoch", f"node {machine.index} stores {election} over {before}")
        if before is not None and election.epoch == before.epoch:
            keeps_leader = -1 < before.leader_id == election.leader_id
            keeps_vote = before.voted is not None and before.voted == election.voted  # Also of a candidate restarted.
            finds_leader = before.leader_id < 0 <= election.leader_id
            knew_nothing = before.leader_id < 0 and before.voted is None
            if not (keeps_leader or keeps_vote or finds_leader or knew_nothing):
                raise Violation("NothingForgotten", f"node {machine.index} stores {election} over {before}")
        if election.voted is not None:
            self._on_vote(machine, election.epoch, election.voted.id)
        if election.leader_id == machine.index:  # One that stops resigns at once, and then led all the same.
            self._leads(machine, election.epoch)

    def _on_vote(self, machine: Machine, epoch: int, candidate_id: int) -> None:
        before = self.votes.setdefault((machine.key, epoch), candidate_id)
        if before != candidate_id:
            told = f"node {machine.index} votes for {before} and for {candidate_id} in epoch {epoch}"
            raise Violation("OneVoteAnEpoch", told)

    def on_never_stored(self, machine: Machine, log: SimLog) -> None:
        """A crash before the barrier: nobody ever saw the leader of that epoch, nor what is gone of its `log`."""
        epoch, stored = machine.node.epoch, machine.election
        is_known = stored is not None and (stored.epoch, stored.leader_id) == (epoch, machine.index)
        if not is_known and self.leaders.get(epoch) == (machine.key, machine.incarnation):
            del self.leaders[epoch]
            for batch in log.batches:
                if batch.epoch == epoch and batch.base_offset >= machine.log.end_offset:
                    del self.written[batch.base_offset, batch.epoch]

    def forget_votes(self, machine: Machine) -> None:
        """Its disk is gone."""
        self.votes = {key: vote for key, vote in self.votes.items() if key[0].id != machine.index}

    # Logs.

    def _on_high_watermark(self, machine: Machine, high_watermark: int) -> None:
        if high_watermark < machine.seen_high_watermark:
            told = f"node {machine.index}: from {machine.seen_high_watermark} to {high_watermark}"
            raise Violation("MonotonicHighWatermark", told)
        if high_watermark > machine.log.end_offset:
            told = f"node {machine.index}: {high_watermark}, but the log ends at {machine.log.end_offset}"
            raise Violation("HighWatermarkInLog", told)
        machine.seen_high_watermark = high_watermark
        led = next((state for state in (machine.seen_state, machine.node.state) if type(state) is Leader), None)
        if led is not None:
            self._check_majority(machine, led.epoch, high_watermark)
        self.committed.compare(machine, high_watermark, led.epoch if led is not None else None)
        if led is not None:
            self._acknowledge(machine, led.epoch, high_watermark)

    def _check_majority(self, machine: Machine, epoch: int, high_watermark: int) -> None:
        start = machine.log.epochs.entry(epoch)
        if start is None or high_watermark <= start.start_offset:
            told = f"node {machine.index}: {high_watermark} with nothing of epoch {epoch} below it (KAFKA-12619)"
            raise Violation("OwnEpochCommitted", told)
        voters = machine.node.voters
        ends = {voter.key.id: self._flushed_end(voter.key) for voter in voters.voters.values()}
        if sum(end >= high_watermark for end in ends.values()) < voters.majority:
            told = f"node {machine.index} says {high_watermark}; durable at its voters: {ends}"
            raise Violation("MajorityReachedHighWatermark", told)

    def _flushed_end(self, key: ReplicaKey) -> int:
        machine = self._world.machines[key.id]
        return machine.log.flushed_end if key.directory_id in (NO_DIRECTORY, machine.key.directory_id) else -1

    def _acknowledge(self, machine: Machine, epoch: int, high_watermark: int) -> None:
        while machine.appends and machine.appends[0].offset < high_watermark:
            append = machine.appends.popleft()
            if append.epoch == epoch:
                self.committed.check_append(append)
                self.acknowledged += 1

    def check_start(self, machine: Machine) -> None:
        """The log begins at 0 or at its earliest snapshot."""
        log = machine.log
        machine.seen_start = log.start_offset
        earliest = log.earliest_snapshot
        if log.start_offset > 0 and (earliest is None or earliest.offset != log.start_offset):
            told = f"node {machine.index}: the log begins at {log.start_offset}, the earliest snapshot is {earliest}"
            raise Violation("SnapshotAtLogStart", told)
        if earliest is not None and log.validate_offset_and_epoch(*earliest).kind != "VALID":
            raise Violation("SnapshotAtLogStart", f"node {machine.index}: {earliest} is no valid end of its own log")

    def on_snapshot(self, machine: Machine, snapshot: OffsetAndEpoch) -> None:
        """It has this one: whoever has it, has the same."""
        piece = machine.log.snapshot_piece(snapshot, 0, 1 << 30)
        if piece is None or self.snapshots.setdefault(snapshot, piece.data) != piece.data:
            raise Violation("SameSnapshots", f"node {machine.index} has another {snapshot}")
        self.check_start(machine)

    # Effects.

    def on_committed(self, machine: Machine, effect: Committed) -> None:
        """What the state machine may read."""
        known = machine.node.high_watermark
        if known is None or effect.high_watermark > known:
            raise Violation("ReadsBelowHighWatermark", f"node {machine.index} says {effect}, and knows {known}")

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        """Who leads is the same for all; a leader's state machine waits for the epoch's first record (KAFKA-12619)."""
        if effect.leader_id < 0:
            return
        node = machine.node
        if effect.leader_id == machine.index and (node.high_watermark or 0) <= effect.epoch_start_offset:
            raise Violation("OwnEpochCommitted", f"node {machine.index} says {effect} at {node.high_watermark}")
        known = self.leaders.get(effect.epoch)
        if known is None or known[0].id != effect.leader_id:
            raise Violation("SingleLeader", f"node {machine.index} says {effect}, and it was {known}")

    def on_snapshot_loaded(self, machine: Machine, effect: SnapshotLoaded) -> None:
        """Only a follower does that, and what it loads is what was made."""
        if type(machine.node.state) is Leader:
            raise Violation("LeaderNeverLoadsSnapshot", f"node {machine.index} says {effect}")
        self.on_snapshot(machine, effect.snapshot)
        machine.checked_to = max(machine.checked_to, effect.snapshot.offset)

    def on_vote_asked(self, machine: Machine, request: VoteRequest) -> None:
        """A candidate that asks for votes has given its own."""
        data = request.topics[0].partitions[0]
        if not data.pre_vote:
            self._on_vote(machine, data.replica_epoch, machine.index)

    def on_answer(self, machine: Machine, call: Call, response: Message) -> None:
        """Each request once, by an answer of its kind; a vote and a high watermark only as far as they go."""
        if call.is_answered or call.served_by != machine.incarnation or call.destination is not machine:
            raise Violation("AnsweredOnce", f"node {machine.index} answers {call.request} again with {response}")
        call.is_answered = True
        if type(response).__name__ != type(call.request).__name__.replace("Request", "Response"):
            raise Violation("AnsweredOnce", f"node {machine.index} answers {call.request} with {response}")
        if type(response) is FetchResponse:
            for topic in response.responses:
                known = machine.node.high_watermark
                if topic.partitions[0].high_watermark > (-1 if known is None else known):
                    told = f"node {machine.index} answers {topic.partitions[0].high_watermark}, and knows {known}"
                    raise Violation("ReadsBelowHighWatermark", told)
        elif type(response) is VoteResponse:
            self._on_vote_answer(machine, call, response)

    def _on_vote_answer(self, machine: Machine, call: Call, response: VoteResponse) -> None:
        request: Any = call.request
        for topic in response.topics:
            asked = request.topics[0].partitions[0]
            if not topic.partitions[0].vote_granted or asked.pre_vote:
                continue
            self._on_vote(machine, asked.replica_epoch, asked.replica_id)
            stored = machine.election
            if (
                stored is None
                or stored.epoch != asked.replica_epoch
                or stored.voted is None
                or stored.voted.id != asked.replica_id
            ):
                raise Violation("VoteIsDurable", f"node {machine.index} grants {asked}, its disk has {stored}")

    # Time.

    def on_request(self, machine: Machine, call: Call) -> None:
        """Whom a leader hears of."""
        if call.source is not None and type(call.request) is FetchRequest:
            machine.heard_us[call.source.index] = self._world.now_us

    def on_timer(self, machine: Machine, now_ms: int) -> None:
        """What was due is done: the next time is not now (KAFKA-17751)."""
        deadline_ms = machine.node.next_deadline_ms
        machine.idle_timers = machine.idle_timers + 1 if deadline_ms is not None and deadline_ms <= now_ms else 0
        if machine.idle_timers > MOST_IDLE_TIMERS:
            told = f"node {machine.index} wants its timer at {deadline_ms} again and again, and it is {now_ms}"
            raise Violation("TimersMakeProgress", told)

    def on_expired(self, call: Call) -> None:
        """Nobody has answered in time: not because the node forgot the request."""
        server = call.destination
        was_there = call.served_by == server.incarnation and server.is_up and not server.gate
        waited_us = self._world.now_us - max(call.arrived_us, server.resumed_us)
        may_wait = isinstance(call.request, AddRaftVoterRequest | RemoveRaftVoterRequest)
        if was_there and not call.is_answered and not may_wait and waited_us > LONGEST_WAIT_US:
            raise Violation("AnsweredOnce", f"node {server.index} has not answered {call.request} for {waited_us} us")

    def at_end(self) -> None:
        """The whole of every log that is there."""
        for machine in self._world.machines:
            if machine.is_up:
                machine.checked_to = machine.log.start_offset
                self.committed.compare(machine, machine.seen_high_watermark, None)
                if self._world.options.upgraded or self._world.options.dynamic:
                    self._check_voters(machine)
