"""What passes between nodes, as traffic: every request is answered once and in time, and nothing grows or spins."""

from typing import TYPE_CHECKING, Any, Final

from kcore.raft.config import MOST_OBSERVERS, MOST_WAITING
from kcore.raft.states import Leader, State
from kcore.raft.voters import VoterSet
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from kcore.schema.structure import Message
from kcore.sim.checkers.base import Checker
from kcore.sim.machine import Call, Machine
from kcore.sim.violation import Violation

if TYPE_CHECKING:
    from kcore.sim.world import World

MOST_OPEN: Final = 20  # To one node: rounds of an election, one behind the other, until the first answer is overdue.
MOST_IDLE_TIMERS: Final = 3
LONGEST_WAIT_US: Final = 1_000_000  # Of a request that a node keeps: a Fetch waits for half of that.
MOST_OUTSIDE_US: Final = 4_000_000  # Of one from outside: a change of the voters takes up to its time-out of 2 s.
# A majority fetches within one and a half fetch time-outs, again and again (KAFKA-15489): who was the first of one such
# span and will be the last of the next is silent for two of them; and a little.
PROGRESS_US: Final = 6_400_000
BURST_US: Final = 100_000
LONGEST_BURST: Final = 20  # Requests of one kind to one node that ask for the same: one in 20 ms is the back-off.


class Requests(Checker):
    """AnsweredOnce, AnsweredInTime, BacksOff, Bounded, TimersMakeProgress, LeaderProgress."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        # By machine.
        self._idle_timers: dict[int, int] = {}
        self._bursts: dict[int, tuple[Any, int, int]] = {}  # What is asked for, since when, how often.
        self._heard_us: dict[int, dict[int, int]] = {}  # When each other one fetched last.
        self._led_since_us: dict[int, int] = {}
        self._voters: dict[int, VoterSet] = {}
        self._outside: list[Call] = []  # Not answered yet.

    def on_boot(self, machine: Machine) -> None:
        self._idle_timers[machine.index] = 0
        for known in (self._bursts, self._heard_us, self._voters):
            known.pop(machine.index, None)

    # Answers.

    def on_asked(self, call: Call) -> None:
        self._outside.append(call)

    def on_answer(self, machine: Machine, call: Call, response: Message) -> None:
        if call.is_answered or call.served_by != machine.incarnation or call.destination is not machine:
            raise Violation("AnsweredOnce", f"node {machine.index} answers {call.request} again with {response}")
        call.is_answered = True
        if type(response).__name__ != type(call.request).__name__.replace("Request", "Response"):
            raise Violation("AnsweredOnce", f"node {machine.index} answers {call.request} with {response}")

    def on_expired(self, call: Call) -> None:
        """Nobody has answered in time: not because the node forgot the request."""
        if not isinstance(call.request, AddRaftVoterRequest | RemoveRaftVoterRequest):
            self._check_waiting(call, LONGEST_WAIT_US)

    def _check_waiting(self, call: Call, longest_us: int) -> None:
        server = call.destination
        was_there = call.served_by == server.incarnation and server.is_up and not server.gate
        waited_us = self.world.now_us - max(call.arrived_us, server.resumed_us)
        if was_there and not call.is_answered and waited_us > longest_us:
            told = f"node {server.index} has not answered {call.request} for {waited_us} us"
            raise Violation("AnsweredInTime", told)

    # Rates.

    def on_send(self, machine: Machine, call: Call) -> None:
        """Who asks for the same again and again waits in between."""
        request, now_us = call.request, self.world.now_us
        asked = type(request), call.destination.index, machine.node.epoch, _progress(machine, request)
        before, since_us, count = self._bursts.get(machine.index, (None, 0, 0))
        if before != asked or now_us - since_us > BURST_US:
            self._bursts[machine.index] = asked, now_us, 1
            return
        self._bursts[machine.index] = asked, since_us, count + 1
        if count >= LONGEST_BURST:
            told = f"node {machine.index} has asked node {call.destination.index} {count + 1} times within"
            raise Violation("BacksOff", f"{told} {now_us - since_us} us: {request}")

    def on_timer(self, machine: Machine, now_ms: int) -> None:
        """What was due is done: the next time is not now (KAFKA-17751)."""
        deadline_ms, count = machine.node.next_deadline_ms, self._idle_timers[machine.index]
        self._idle_timers[machine.index] = count + 1 if deadline_ms is not None and deadline_ms <= now_ms else 0
        if count >= MOST_IDLE_TIMERS:
            told = f"node {machine.index} wants its timer at {deadline_ms} again and again, and it is {now_ms}"
            raise Violation("TimersMakeProgress", told)

    # Who fetches from a leader.

    def on_request(self, machine: Machine, call: Call) -> None:
        if call.source is not None and type(call.request) is FetchRequest:
            self._heard_us.setdefault(machine.index, {})[call.source.index] = self.world.now_us

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        if type(state) is Leader:
            self._led_since_us[machine.index] = self.world.now_us
            self._heard_us.pop(machine.index, None)

    def audit(self) -> None:
        world = self.world
        for machine in world.machines:
            if machine.is_up:
                self._check_bounds(machine)
            if machine.is_up and not machine.gate and type(machine.node.state) is Leader:
                self._check_progress(machine)
        self._outside = [call for call in self._outside if not call.is_answered and call.destination.is_up]
        for call in self._outside:
            if call.arrived_us >= 0:
                self._check_waiting(call, MOST_OUTSIDE_US)

    def _check_bounds(self, machine: Machine) -> None:
        """Whatever others ask for, and however often."""
        size, leading, log = len(self.world.machines), machine.node.leading, machine.log
        known = {
            "requests that it has sent": (len(machine.open), MOST_OPEN * size),
            "snapshots that it has begun": (log.count_begun(), 1),
        }
        if leading is not None:
            known["observers"] = len(leading.observers), MOST_OBSERVERS + size
            known["fetches that wait"] = len(leading.fetches), MOST_WAITING
            known["upgrades that wait"] = len(leading.upgrades), MOST_WAITING
        for what, (count, most) in known.items():
            if count > most:
                raise Violation("Bounded", f"node {machine.index} has {count} {what}: more than {most}")

    def _check_progress(self, machine: Machine) -> None:
        """A leader that no majority fetches from resigns within the time-out (KAFKA-15489)."""
        now_us, voters = self.world.now_us, machine.node.voters
        if voters != self._voters.get(machine.index):  # Who counted before, counted then.
            self._voters[machine.index], self._led_since_us[machine.index] = voters, now_us
        since_us = now_us - PROGRESS_US
        if max(self._led_since_us[machine.index], machine.resumed_us) > since_us:
            return
        heard_us = self._heard_us.get(machine.index, {})
        heard = sum(heard_us.get(voter_id, -1) >= since_us or voter_id == machine.index for voter_id in voters.ids)
        if heard < voters.majority:
            raise Violation("LeaderProgress", f"node {machine.index} leads on, but {heard} of {voters.ids} fetch")


def _progress(machine: Machine, request: Any) -> tuple[int | None, ...]:
    """What differs where something has come of the last request."""
    log = machine.log
    if type(request) is FetchSnapshotRequest:
        return (request.topics[0].partitions[0].position,)
    return machine.node.high_watermark, log.end_offset, log.flushed_end, log.start_offset
