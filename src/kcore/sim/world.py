"""One simulated world: machines, what passes between them, and time, which is the next event's."""

import zlib
from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from kcore.errors import RaftLogError
from kcore.raft.config import RaftConfig
from kcore.raft.effects import (
    Answer,
    Committed,
    Effect,
    Flush,
    LeaderChanged,
    Notice,
    Send,
    SnapshotLoaded,
    Stopped,
    StoreElection,
)
from kcore.raft.node import RaftNode
from kcore.raft.replicas import ReplicaKey
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.raft_votes import VoteRequest
from kcore.schema.structure import Message
from kcore.sim import clients, faults, upgrades
from kcore.sim.answers import kind_of_answer
from kcore.sim.clock import Clock
from kcore.sim.disk import SimLog, after_crash
from kcore.sim.invariants import Invariants
from kcore.sim.machine import FIRST_PORT, NEVER_US, PAUSED, STORING, Append, Call, Machine, PendingStore
from kcore.sim.network import Network
from kcore.sim.options import Options
from kcore.sim.snapshots import first_snapshot
from kcore.sim.versions import VERSIONS, WHAT_A_VOTER_CAN, through_codec
from kcore.types import Uuid

EVENTS_TOLD: Final = 30
REFUSED_US: Final = 50  # How long it takes a machine without a process to say so.
HASH_FACTOR: Final = 0x100000001B3
HASH_MASK: Final = (1 << 64) - 1

REQUEST, RESPONSE, TIMER, EXPIRY, FLUSHED, STORED, DO = range(7)
KINDS: Final = ("request", "response", "timer", "requests expire", "flushed", "stored", "do")
Event = tuple[int, int, int, Machine | None, Any]  # When (us), a number of its own, its kind, where, and what.


class World:
    """A queue of events and all that they touch; `take` ends with a Violation where an invariant does not hold."""

    cluster_id: Final = "simulated-cluster-id00"

    def __init__(self, seed: int, options: Options) -> None:
        self.options = options
        self.random = Random(f"world {seed}")
        self.dice = self.random.random
        self.now_us = 0
        self.count = 0
        self.sequence = 0
        self.is_healing = False
        self.hash = zlib.crc32(repr(options).encode())
        self.heap: list[Event] = []
        self.recent: deque[Event] = deque(maxlen=EVENTS_TOLD)
        self.seen: Counter[Any] = Counter()  # What happened, for the coverage.
        self.taken: Counter[tuple[str, Any, str]] = Counter()  # Transitions of nodes that are gone.
        self.versions = VERSIONS[options.level]
        self.invariants = Invariants(self)
        size = options.voters + options.observers
        self.network = Network(options, size, self.random)
        self.machines = [self._new_machine(index) for index in range(size)]
        if options.dynamic:
            voters = [machine.as_voter(directory_known=True) for machine in self.machines[: options.voters]]
            for machine in self.machines[: options.voters]:
                first_snapshot(machine.log, voters)
        self._handlers: tuple[Callable[[Any, Any], None], ...] = (
            *(self._on_request, self._on_response, self._on_timer, self._on_expiry),
            *(self._on_flushed, self._on_stored, self._on_do),
        )
        self._performers: dict[type[Effect], Callable[[Machine, Any], None]] = {
            Send: self._send,
            Answer: self._answer,
            Flush: self._flush,
            Committed: self.invariants.on_committed,
            LeaderChanged: self.invariants.on_leader_changed,
            SnapshotLoaded: self.invariants.on_snapshot_loaded,
            Stopped: self._stopped,
            Notice: self._noticed,
        }

    def begin(self) -> None:
        """All machines start."""
        for machine in self.machines:
            self.boot(machine)
        clients.begin(self)
        faults.begin(self)
        upgrades.begin(self)

    # Time.

    def push(self, time_us: int, kind: int, machine: Machine | None, what: Any) -> None:
        self.sequence += 1
        heappush(self.heap, (time_us, self.sequence, kind, machine, what))

    def after_us(self, delay_us: float, do: Callable[[], None]) -> None:
        """Calls that then."""
        self.push(self.now_us + int(delay_us), DO, None, do)

    def every_us(self, mean_us: int, do: Callable[[], None]) -> None:
        """Calls that again and again, at random times."""

        def again() -> None:
            self.after_us(self.random.expovariate(1 / mean_us), again)
            do()

        self.after_us(self.random.expovariate(1 / mean_us), again)

    def take(self, events: int, until_us: int = NEVER_US) -> None:
        """So many more events, or fewer if that time comes first."""
        heap, handlers = self.heap, self._handlers
        last = self.count + events
        while self.count < last and heap[0][0] <= until_us:
            event = heappop(heap)
            self.now_us, _, kind, machine, what = event
            if machine is not None and machine.gate and (kind != STORED or machine.gate != STORING):
                machine.inbox.append(event)
                continue
            self.count += 1
            self.recent.append(event)
            place = machine.index if machine is not None else 63
            self.hash = (self.hash * HASH_FACTOR ^ (self.now_us << 10) ^ (place << 3) ^ kind) & HASH_MASK
            handlers[kind](machine, what)

    def open_gate(self, machine: Machine, bit: int) -> None:
        """What waited comes now, in its order; behind another gate it waits again, but for what opens that one."""
        machine.gate &= ~bit
        if not machine.gate & PAUSED:
            waiting, machine.inbox = machine.inbox, type(machine.inbox)()
            for _, _, kind, _, what in waiting:
                self.push(self.now_us, kind, machine, what)

    # Processes.

    def _new_machine(self, index: int) -> Machine:
        drift = self.random.uniform(-self.options.drift, self.options.drift)
        clock = Clock(self.random.randrange(1 << 30), drift)
        return Machine(index, self.new_directory(), clock, self.new_log())

    def new_directory(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    def new_log(self) -> SimLog:
        log = SimLog(self.options.level)
        log.written = self.invariants.written
        return log

    def _config(self, machine: Machine) -> RaftConfig:
        options, dice = self.options, self.dice
        named = () if options.dynamic or not machine.is_configured else self.machines[: options.voters]
        return RaftConfig(
            self.cluster_id,
            node_id=machine.key.id,
            directory_id=machine.key.directory_id,
            endpoints=machine.endpoints,
            jitter_ms=lambda below: int(dice() * below),
            voters=tuple(voter.as_voter(directory_known=False) for voter in named),
            # With an upgrade, too: the voters may be others some day than the configuration says.
            bootstrap_servers=tuple(each.address for each in self.machines)
            if options.dynamic or options.upgraded
            else (),
            level=options.level,
            append_linger_ms=options.append_linger_ms,
            early_high_watermark=options.early_high_watermark,
            pipelined_fetch=options.pipelined_fetch,
            endless_elections=options.endless_elections,
        )

    def boot(self, machine: Machine) -> None:
        """A process starts, from what its disk has."""
        machine.forget()
        machine.incarnation += 1
        machine.is_up = True
        machine.node = RaftNode(self._config(machine), machine.log)
        self.invariants.on_boot(machine)
        self._after(machine, machine.node.start(machine.election, machine.clock.ms(self.now_us)))

    def crash(self, machine: Machine, *, peers_know: bool) -> None:
        """The process is gone, and of its disk what no fsync had covered is in doubt."""
        before = machine.log
        machine.log, fate = after_crash(before, self.random)
        self.seen[f"crash: {fate}"] += 1
        if machine.storing is not None:
            if self.dice() < 0.5:
                self.seen["crash: election stored, not yet reported"] += 1
                self._stored(machine, machine.storing)
            self.invariants.on_never_stored(machine, before)
        self.end(machine)
        if peers_know:
            self._reset_connections(machine)

    def end(self, machine: Machine) -> None:
        """No process is left."""
        machine.is_up = False
        self.taken.update(machine.node.quorum.taken)
        machine.forget()

    def _reset_connections(self, machine: Machine) -> None:
        for peer in self.machines:
            for call in peer.open.values():
                if call.destination is machine:
                    self.push(self.now_us + REFUSED_US, RESPONSE, peer, (call, None))

    def pause(self, machine: Machine, duration_us: int) -> None:
        """It does nothing, and then goes on as if nothing had been."""
        incarnation = machine.incarnation

        def resume() -> None:
            if machine.incarnation == incarnation and machine.is_up:
                self.resume(machine)

        machine.gate |= PAUSED
        self.after_us(duration_us, resume)

    def resume(self, machine: Machine) -> None:
        machine.resumed_us = self.now_us
        self.open_gate(machine, PAUSED)

    def replace_disk(self, machine: Machine) -> None:
        """An empty one: another directory, and no memory of a vote."""
        machine.key = ReplicaKey(machine.index, self.new_directory())
        machine.log = self.new_log()
        machine.election = None
        if machine.node.voter_history.kraft_version > 0:
            machine.is_configured = False  # Or with nothing on its disk it would vote as one of the configured voters.
        else:  # Who is known by an id alone is the same voter, and forgot what it said.
            self.invariants.forget_votes(machine)

    def heal(self) -> None:
        """No more faults, and all that is broken works again."""
        self.is_healing = True
        self.network.be_reliable()
        for machine in self.machines:
            machine.fsync_factor = 1
            if not machine.is_up:
                self.boot(machine)
            elif machine.gate & PAUSED:
                self.resume(machine)

    # What is asked of nodes from outside.

    def append(self, machine: Machine, value: bytes) -> Append | None:
        """Records for a node that may lead; None if it does not, or no more than that."""
        node = machine.node
        try:
            appended, effects = node.append([value], node.epoch, machine.clock.ms(self.now_us))
        except RaftLogError:
            self.seen["append refused"] += 1
            return None
        taken = Append(appended.last_offset, node.epoch, value)
        machine.appends.append(taken)
        self._after(machine, effects)
        return taken

    def ask(self, machine: Machine, request: Message, version: int) -> None:
        """A request of somebody who is no node of the quorum."""
        self.push(self.now_us, REQUEST, machine, Call(None, 0, machine, request, version))

    def tell(self, machine: Machine, effects: list[Effect]) -> None:
        """What came of a call of the node that was no event of a peer's."""
        self._after(machine, effects)

    # Events of machines.

    def _on_do(self, _: None, do: Callable[[], None]) -> None:
        do()

    def _on_request(self, machine: Machine, call: Call) -> None:
        if not machine.is_up:
            if call.source is not None:
                self.push(self.now_us + REFUSED_US, RESPONSE, call.source, (call, None))
            return
        call.arrived_us, call.served_by = self.now_us, machine.incarnation
        self.invariants.on_request(machine, call)
        if type(call.request) is ApiVersionsRequest:
            self._answer(machine, Answer(call, WHAT_A_VOTER_CAN))
            return
        effects = machine.node.on_request(call.request, call.version, call, machine.clock.ms(self.now_us))
        self._after(machine, effects)

    def _on_response(self, machine: Machine, what: tuple[Call, Message | None]) -> None:
        call, response = what
        if call.incarnation != machine.incarnation or machine.open.pop(call.correlation_id, None) is None:
            return
        effects = machine.node.on_response(call.correlation_id, response, machine.clock.ms(self.now_us))
        self._after(machine, effects)

    def _on_timer(self, machine: Machine, due_us: int) -> None:
        if machine.timer_us != due_us:
            return
        machine.timer_us = NEVER_US
        now_ms = machine.clock.ms(self.now_us)
        deadline_ms = machine.node.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= now_ms:
            effects = machine.node.on_timer(now_ms)
            self.invariants.on_timer(machine, now_ms)
            self._after(machine, effects)
        else:  # It was put off.
            self.count -= 1
            self.arm(machine)

    def arm(self, machine: Machine) -> None:
        """A later deadline leaves the timer as it is: it then sets the next one."""
        deadline_ms = machine.node.next_deadline_ms
        if deadline_ms is None:
            return
        due_us = max(machine.clock.when_us(deadline_ms), self.now_us + 1)
        if due_us < machine.timer_us:
            machine.timer_us = due_us
            self.push(due_us, TIMER, machine, due_us)

    def _on_expiry(self, machine: Machine, due_us: int) -> None:
        if machine.expiry_us != due_us:
            return
        machine.expiry_us = NEVER_US
        call = min(machine.open.values(), key=lambda call: call.deadline_us, default=None)
        if call is None:
            return
        is_due = call.deadline_us <= self.now_us
        if is_due:
            del machine.open[call.correlation_id]
        # One an event: it may close the gate for the next.
        for other in machine.open.values():
            self._expire_at(machine, max(other.deadline_us, self.now_us))
        if is_due:
            self.seen["request timed out"] += 1
            self.invariants.on_expired(call)
            effects = machine.node.on_response(call.correlation_id, None, machine.clock.ms(self.now_us))
            self._after(machine, effects)

    def _expire_at(self, machine: Machine, due_us: int) -> None:
        if due_us < machine.expiry_us:
            machine.expiry_us = due_us
            self.push(due_us, EXPIRY, machine, due_us)

    def _on_flushed(self, machine: Machine, fsync: Flush) -> None:
        if machine.fsync is not fsync:
            return
        machine.fsync = None
        machine.log.end_fsync()
        if machine.wants_fsync is not None:
            self._begin_fsync(machine, machine.wants_fsync)
        self._after(machine, machine.node.on_flushed(fsync, machine.clock.ms(self.now_us)))

    def _begin_fsync(self, machine: Machine, asked: Flush) -> None:
        machine.log.begin_fsync()
        machine.wants_fsync = None
        machine.fsync = asked
        self.push(self.now_us + self._fsync_us(machine), FLUSHED, machine, machine.fsync)

    def _fsync_us(self, machine: Machine) -> int:
        return int(self.options.fsync_us * machine.fsync_factor * (0.5 + self.dice()))

    def _on_stored(self, machine: Machine, pending: PendingStore) -> None:
        if machine.storing is not pending:
            return
        machine.storing = None
        self._stored(machine, pending)
        self._after(machine, pending.rest)
        if machine.is_up and machine.storing is None:
            self.open_gate(machine, STORING)

    def _stored(self, machine: Machine, pending: PendingStore) -> None:
        self.invariants.on_stored(machine, pending.election)
        machine.election = pending.election

    # Effects.

    def _after(self, machine: Machine, effects: list[Effect]) -> None:
        """Performs what came of an event; then what the event can have changed is checked."""
        if effects:
            self._perform(machine, effects)
            if not machine.is_up:
                return
        self.invariants.inspect(machine)
        self.arm(machine)

    def _perform(self, machine: Machine, effects: list[Effect]) -> None:
        for k, effect in enumerate(effects):
            if type(effect) is StoreElection:
                machine.gate |= STORING
                machine.storing = PendingStore(effect.election, effects[k + 1 :])
                self.push(self.now_us + self._fsync_us(machine), STORED, machine, machine.storing)
                return
            self._performers[type(effect)](machine, effect)

    def _send(self, machine: Machine, effect: Send) -> None:
        destination = self.machines[effect.address.port - FIRST_PORT]
        request, version = effect.request, self.versions[type(effect.request)]
        if type(request) is VoteRequest:
            self.invariants.on_vote_asked(machine, request)
        if self.dice() < self.options.codec_sample:
            request = through_codec(request, version)
        deadline_us = self.now_us + effect.timeout_ms * 1000
        delays_us = self.network.delays_us(machine.index, destination.index)
        call = Call(machine, effect.correlation_id, destination, request, version, deadline_us)
        machine.open[effect.correlation_id] = call
        self._expire_at(machine, deadline_us)
        if not delays_us:
            self.seen["request lost"] += 1
        for k, delay_us in enumerate(delays_us):
            if k:
                self.seen["request duplicated"] += 1
                call = Call(machine, effect.correlation_id, destination, request, version, deadline_us)
            self.push(self.now_us + delay_us, REQUEST, destination, call)

    def _answer(self, machine: Machine, effect: Answer) -> None:
        call, response = effect.reply_to, effect.response
        assert isinstance(call, Call)
        self.invariants.on_answer(machine, call, response)
        self.seen[kind_of_answer(response)] += 1
        if call.source is None:
            return
        if self.dice() < self.options.codec_sample:
            response = through_codec(response, call.version)
        delays_us = self.network.delays_us(machine.index, call.source.index)
        if not delays_us:
            self.seen["answer lost"] += 1
        for delay_us in delays_us:
            self.push(self.now_us + delay_us, RESPONSE, call.source, (call, response))

    def _flush(self, machine: Machine, effect: Flush) -> None:
        """One fsync at a time; one that is asked for meanwhile covers all that was asked for meanwhile."""
        if machine.fsync is None:
            self._begin_fsync(machine, effect)
        else:
            machine.wants_fsync = effect

    def _noticed(self, machine: Machine, effect: Notice) -> None:
        """A line for an operator; there is none."""
        self.seen["notice"] += 1

    def _stopped(self, machine: Machine, effect: Stopped) -> None:
        """A process that ends by itself leaves all that it wrote to the kernel."""
        self.seen["stopped gracefully"] += 1
        machine.log.flush()
        self.end(machine)
        faults.restart_later(self, machine)
