"""Checks the traffic between nodes: each request is answered once and in time, retries back off, memory is bounded."""

from functools import cache
from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.raft.effects import Notice
from kcore.raft.membership.voters import VoterSet
from kcore.raft.states import Leader, State
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from kcore.schema.structure import Message
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker
from kcore.sim.raft.options import MOST_REMEMBERED
from kcore.sim.raft.simulated_machine import Call, Machine, Reply
from kcore.sim.raft.world_state import WorldState

MOST_REFUSALS: Final = 5  # Refusals of one snapshot: several requests, or duplicates, may be in flight.
MOST_OPEN: Final = 20  # Open requests to one node: elections send several rounds before the first round times out.
MOST_IDLE_TIMERS: Final = 3  # Successive timers that leave the node's deadline in the past.
LONGEST_WAIT_US: Final = 1_000_000  # The longest wait for a node's answer; a leader lets a Fetch wait half as long.
MOST_OUTSIDE_US: Final = 4_000_000  # The longest wait of a client: a change of the voters may take its time-out of 2 s.
# A leader resigns unless a majority fetches in each span of 1.5 fetch time-outs (KAFKA-15489). A voter may fetch first
# in one span and last in the next: it is then silent for two spans. 0.4 s are added.
PROGRESS_US: Final = 6_400_000
BURST_US: Final = 100_000  # The time in which repetitions of one request are counted.
OF_REPLICAS: Final = (FetchRequest, FetchSnapshotRequest, UpdateRaftVoterRequest)  # They show that a replica is alive.
LONGEST_BURST: Final = 20  # Repetitions of one request to one node; the back-off permits one request in 20 ms.


class Requests(Checker):
    """AnsweredOnce, AnsweredInTime, RefusalIsTaken, BacksOff, Bounded, TimersMakeProgress, LeaderProgress,
    NoFalseAlarm: the invariants of this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        # By machine.
        self._idle_timers: dict[int, int] = {}
        self._bursts: dict[int, tuple[Any, int, int]] = {}  # The repeated request, its first time, its count.
        self._fetched_us: dict[int, dict[int, int]] = {}  # When each other node fetched last.
        self._led_since_us: dict[int, int] = {}
        self._voters: dict[int, VoterSet] = {}
        self._refused: dict[int, tuple[Any, int]] = {}  # The last refused snapshot, and how often it was refused.
        self._alarmed: dict[int, str] = {}  # The alarm that the current event permits.
        self._given_damage: set[int] = set()  # Machines that got a damaged piece of a snapshot.
        self._outside: list[Call] = []  # Requests from outside the quorum without an answer.

    def on_boot(self, machine: Machine) -> None:
        self._idle_timers[machine.index] = 0
        for known in (self._bursts, self._fetched_us, self._voters, self._refused):
            known.pop(machine.index, None)
        self._given_damage.discard(machine.index)

    # Answers.

    def on_admin_request(self, call: Call) -> None:
        self._outside.append(call)

    def on_answer(self, machine: Machine, call: Call, response: Message) -> None:
        if call.is_answered or call.served_by != machine.incarnation or call.destination is not machine:
            raise Violation("AnsweredOnce", f"node {machine.index} answers {call.request} again with {response}")
        call.is_answered = True
        if not _is_answer(type(response), type(call.request)):
            raise Violation("AnsweredOnce", f"node {machine.index} answers {call.request} with {response}")
        if type(response) is FetchSnapshotResponse and call.source is not None:
            self._on_snapshot_answer(call.source, call.request, response)

    def _on_snapshot_answer(self, source: Machine, request: Any, response: FetchSnapshotResponse) -> None:
        """A deleted snapshot does not come back: a replica that gets this error must ask for another snapshot."""
        error = response.topics[0].partitions[0].error_code if response.topics else Errors.NONE
        if error not in (Errors.SNAPSHOT_NOT_FOUND, Errors.POSITION_OUT_OF_RANGE):
            self._refused.pop(source.index, None)
            return
        wanted = request.topics[0].partitions[0].snapshot_id
        before, count = self._refused.get(source.index, (None, 0))
        self._refused[source.index] = wanted, count + 1 if before == wanted else 1
        if before == wanted and count >= MOST_REFUSALS:
            raise Violation("RefusalIsTaken", f"node {source.index} requests {wanted} again after {count} refusals")

    def on_expired(self, call: Call) -> None:
        """A request has timed out: the server must not be the cause."""
        if not isinstance(call.request, AddRaftVoterRequest | RemoveRaftVoterRequest):
            self._check_waiting(call, LONGEST_WAIT_US)

    def _check_waiting(self, call: Call, longest_us: int) -> None:
        server = call.destination
        was_there = call.served_by == server.incarnation and server.is_up and not server.blocked
        waited_us = self.world.now_us - max(call.arrived_us, server.resumed_us)
        if was_there and not call.is_answered and waited_us > longest_us:
            message = f"node {server.index} has not answered {call.request} for {waited_us} us"
            raise Violation("AnsweredInTime", message)

    # Notices for the operator.

    def before_response(self, machine: Machine, reply: Reply) -> None:
        if reply.is_damaged:
            self._alarm(machine, "a damaged answer")
            if type(reply.response) is FetchSnapshotResponse:
                self._given_damage.add(machine.index)

    def _alarm(self, machine: Machine, why: str) -> None:
        """Permits a notice until the present event is finished, with the election that it stores."""
        self._alarmed[machine.index] = why
        machine.checked = None

    def on_notice(self, machine: Machine, effect: Notice) -> None:
        """Correct nodes give notice only of damage and of impossible epochs in requests of strangers."""
        self.world.seen["notice"] += 1
        if machine.index not in self._alarmed and machine.index not in self._given_damage:
            raise Violation("NoFalseAlarm", f"node {machine.index}: {effect.text}")

    def after_event(self, machine: Machine) -> None:
        if self._alarmed and machine.storing is None:
            self._alarmed.pop(machine.index, None)

    # Rates.

    def on_send(self, machine: Machine, call: Call) -> None:
        """A node waits between repetitions of the same request."""
        request, now_us = call.request, self.world.now_us
        log, quorum = machine.log, machine.node.quorum
        # These values change if the last request had an effect.
        progress: tuple[int | None, ...] = quorum.high_watermark, log.end_offset, log.flushed_end, log.start_offset
        if type(request) is FetchSnapshotRequest:
            progress = (request.topics[0].partitions[0].position,)
        described = type(request), call.destination.index, quorum.state.epoch, progress
        before, since_us, count = self._bursts.get(machine.index, (None, 0, 0))
        if before != described or now_us - since_us > BURST_US:
            self._bursts[machine.index] = described, now_us, 1
            return
        self._bursts[machine.index] = described, since_us, count + 1
        if count >= LONGEST_BURST:
            message = f"node {machine.index} has asked node {call.destination.index} {count + 1} times within"
            raise Violation("BacksOff", f"{message} {now_us - since_us} us: {request}")

    def on_timer(self, machine: Machine, now_ms: int) -> None:
        """A timer does the work that is due: the next deadline is in the future (KAFKA-17751)."""
        deadline_ms, count = machine.node.next_deadline_ms, self._idle_timers[machine.index]
        self._idle_timers[machine.index] = count + 1 if deadline_ms is not None and deadline_ms <= now_ms else 0
        if count >= MOST_IDLE_TIMERS:
            message = f"node {machine.index} keeps its deadline {deadline_ms} after {count} timers, and it is {now_ms}"
            raise Violation("TimersMakeProgress", message)

    # Replicas that fetch from a leader.

    def on_request(self, machine: Machine, call: Call) -> None:
        if call.source is None:
            self._alarm(machine, "a stranger")
        elif type(call.request) in OF_REPLICAS:
            self._fetched_us.setdefault(machine.index, {})[call.source.index] = self.world.now_us

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        if type(state) is Leader:
            self._led_since_us[machine.index] = self.world.now_us
            self._fetched_us.pop(machine.index, None)

    def audit(self) -> None:
        world = self.world
        for machine in world.machines:
            if machine.is_up:
                self._check_bounds(machine)
            if machine.is_up and not machine.blocked and type(machine.node.state) is Leader:
                self._check_progress(machine)
        self._outside = [call for call in self._outside if _may_be_answered(call)]
        for call in self._outside:
            if call.arrived_us >= 0:
                self._check_waiting(call, MOST_OUTSIDE_US)

    def _check_bounds(self, machine: Machine) -> None:
        """Memory is bounded under any requests."""
        size, node = len(self.world.machines), machine.node
        count, most = len(machine.open), MOST_OPEN * size
        if count > most:
            # Timed out requests stay open while the node is paused or stores its election.
            count = sum(call.deadline_us > self.world.now_us for call in machine.open.values())
            _check_bound(machine, "requests that it has sent", count, most)
        begun = machine.log.count_begun()
        if begun:
            _check_bound(machine, "snapshots that it has begun", begun, 1 + len(node.writing))
        if node.leads:
            _check_bound(machine, "observers", len(node.leading.observers), MOST_REMEMBERED + size)
            _check_bound(machine, "fetches that wait", len(node.leading.fetches), MOST_REMEMBERED)

    def _check_progress(self, machine: Machine) -> None:
        """A leader resigns if no majority fetches within the time-out (KAFKA-15489)."""
        now_us, voters = self.world.now_us, machine.node.voters
        if voters != self._voters.get(machine.index):  # Until now the old voters counted.
            self._voters[machine.index], self._led_since_us[machine.index] = voters, now_us
        since_us = now_us - PROGRESS_US
        if max(self._led_since_us[machine.index], machine.resumed_us) > since_us:
            return
        fetched_us = self._fetched_us.get(machine.index, {})
        fetching = sum(fetched_us.get(voter_id, -1) >= since_us or voter_id == machine.index for voter_id in voters.ids)
        if fetching < voters.majority:
            raise Violation("LeaderProgress", f"node {machine.index} leads, but only {fetching} of {voters.ids} fetch")


def _check_bound(machine: Machine, what: str, count: int, most: int) -> None:
    if count > most:
        raise Violation("Bounded", f"node {machine.index} has {count} {what}: more than {most}")


@cache
def _is_answer(response: type[Message], request: type[Message]) -> bool:
    """Whether the response belongs to the request, by their names."""
    return response.__name__ == request.__name__.replace("Request", "Response")


def _may_be_answered(call: Call) -> bool:
    """Whether an answer may still come: there is none, and the server has not ended since the request arrived."""
    server = call.destination
    is_served = call.arrived_us < 0 or call.served_by == server.incarnation
    return is_served and server.is_up and not call.is_answered
