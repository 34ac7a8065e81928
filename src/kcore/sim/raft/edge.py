"""The edge of each simulated node: hands the node its events, and performs the effects in their order."""

from collections.abc import Callable, Sequence
from typing import Any

from kcore.protocol_errors import Errors
from kcore.raft.driver import MachineEffect
from kcore.raft.effects import (
    Committed,
    Effect,
    Flush,
    LeaderChanged,
    Notice,
    Send,
    SendResponse,
    SnapshotLoaded,
    Stopped,
    StoreElection,
)
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.structure import Message
from kcore.sim.kernel.events import EXPIRY, FLUSHED, REQUEST, RESPONSE, STORED, TIMER, Handler
from kcore.sim.kernel.simulated_process import NEVER_US, STORING
from kcore.sim.raft import crash_points, faults, processes
from kcore.sim.raft.answers import Kind, kind_of_answer
from kcore.sim.raft.damage import damaged, mistaken
from kcore.sim.raft.processes import REFUSED_US
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import FIRST_PORT, Call, Machine, PendingStore, Reply
from kcore.sim.raft.versions import WHAT_A_VOTER_CAN, can_say, through_codec, version_between


class Edge:
    """One edge serves all machines of a world."""

    def __init__(self, world: RunningWorld) -> None:
        self._world = world
        self._checkers = world.checkers
        self._on_send, self._on_answer = world.checkers.on_send, world.checkers.on_answer
        self._after_event = world.checkers.after_event
        self._program = world.program
        self._codec_sample = world.options.codec_sample
        self._answered: Message | None = None  # The last answer.
        self._kind: Kind = "", 0, ""  # The kind of the last answer.
        self._performers: dict[type[Effect], Callable[[Machine, Any], None]] = {
            Send: self._send,
            SendResponse: self._answer,
            Flush: self._flush,
            Committed: self._committed,
            LeaderChanged: self._leader_changed,
            SnapshotLoaded: self._snapshot_loaded,
            Stopped: self._stopped,
            Notice: self._checkers.on_notice,
        }

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The handlers of all kinds of events but DO, in the kernel's order."""
        return (
            *(self._on_request, self._on_response, self._on_timer, self._on_expiry),
            *(self._on_flushed, self._on_stored),
        )

    # Events.

    def _on_request(self, machine: Machine, call: Call) -> None:
        world = self._world
        if not machine.is_up:
            if call.source is not None:
                world.push(world.now_us + REFUSED_US, RESPONSE, call.source, Reply(call, None, is_refused=True))
            return
        call.arrived_us, call.served_by = world.now_us, machine.incarnation
        for check in self._checkers.on_request[type(call.request)]:
            check(machine, call)
        if type(call.request) is ApiVersionsRequest:
            self._answer(machine, SendResponse(call, WHAT_A_VOTER_CAN))
            return
        effects = machine.node.on_request(call.request, call.version, call, machine.clock.ms(world.now_us))
        self.perform(machine, effects)

    def _on_response(self, machine: Machine, reply: Reply) -> None:
        """An answer may arrive twice: the node itself must ignore the copy."""
        call, world = reply.call, self._world
        if not machine.is_up or call.incarnation != machine.incarnation or world.now_us > call.deadline_us:
            return
        if machine.open.pop(call.correlation_id, None) is None:
            world.seen["answer again"] += 1
        if world.dice() < world.network.mistaken:
            reply = self._mistake(machine, reply)
        for check in self._checkers.before_response[type(call.request)]:
            check(machine, reply)
        now_ms = machine.clock.ms(world.now_us)
        if reply.is_refused:
            self.perform(machine, machine.node.on_refused(call.correlation_id, now_ms))
        effects = machine.node.on_response(call.correlation_id, reply.response, now_ms)
        self.perform(machine, effects)

    def _on_timer(self, machine: Machine, due_us: int) -> None:
        world = self._world
        if machine.timer_us != due_us:
            return
        machine.forget_timer()
        now_ms = machine.clock.ms(world.now_us)
        deadline_ms = machine.node.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= now_ms:
            effects = machine.node.on_timer(now_ms)
            self._checkers.on_timer(machine, now_ms)
            self.perform(machine, effects)
        else:  # The node has moved its deadline.
            world.count -= 1
            self.arm(machine)

    def arm(self, machine: Machine) -> None:
        """Sets the timer to the node's deadline. An earlier timer stays, and its event sets the next one."""
        deadline_ms = machine.node.next_deadline_ms
        if deadline_ms is None or deadline_ms >= machine.timer_ms:
            return
        due_us = max(machine.clock.when_us(deadline_ms), self._world.now_us + 1)
        machine.timer_us, machine.timer_ms = due_us, deadline_ms
        self._world.push(due_us, TIMER, machine, due_us)

    def _on_expiry(self, machine: Machine, due_us: int) -> None:
        if machine.expiry_us != due_us:
            return
        world = self._world
        machine.expiry_us = NEVER_US
        call = min(machine.open.values(), key=lambda call: call.deadline_us, default=None)
        if call is None:
            return
        is_due = call.deadline_us <= world.now_us
        if is_due:
            del machine.open[call.correlation_id]
        # Each event expires only one request, because the event may block the machine.
        if machine.open:
            first_us = min([other.deadline_us for other in machine.open.values()])
            self._expire_at(machine, max(first_us, world.now_us))
        if is_due:
            world.seen["request timed out"] += 1
            self._checkers.on_expired(call)
            self.perform(machine, machine.node.on_response(call.correlation_id, None, machine.clock.ms(world.now_us)))

    def _expire_at(self, machine: Machine, due_us: int) -> None:
        machine.expiry_us = due_us
        self._world.push(due_us, EXPIRY, machine, due_us)

    def _on_flushed(self, machine: Machine, fsync: Flush) -> None:
        if machine.fsync is not fsync:
            return
        machine.fsync = None
        flush, machine.flush = machine.flush, None
        assert flush is not None
        flush()
        if machine.wants_fsync is not None:
            self._begin_fsync(machine, machine.wants_fsync)
        self.perform(machine, machine.node.on_flushed(fsync, machine.clock.ms(self._world.now_us)))

    def _on_stored(self, machine: Machine, pending: PendingStore) -> None:
        if machine.storing is not pending:
            return
        machine.directory.store_election(pending.election, pending.kraft_version)
        machine.storing = None
        self._checkers.on_stored(machine, pending.election)
        machine.stored = pending.election
        self.perform(machine, pending.rest)
        if machine.is_up and machine.storing is None:
            self._world.unblock(machine, STORING)
        self._spring_trap(machine, "election stored")

    # Effects.

    def perform(self, machine: Machine, effects: list[Effect]) -> None:
        """Performs the effects of an event and of the state machine's outputs; then runs the checkers."""
        node, performers = machine.node, self._performers
        while True:
            state = node.quorum.state
            if state is not machine.state:
                self._checkers.on_state(machine, state)
            for effect in effects:
                if type(effect) is StoreElection:
                    self._store(machine, effect, effects[effects.index(effect) + 1 :])
                    break
                performers[type(effect)](machine, effect)
            if not machine.is_up:
                return
            if not machine.has_calls or machine.storing is not None:
                break
            effects = self._run_state_machine(machine)
            if not effects:
                break
        self._after_event(machine)
        self._program.after_event(machine)
        deadline_ms = node.next_deadline_ms
        if deadline_ms is not None and deadline_ms < machine.timer_ms:
            self.arm(machine)

    def submit(self, machine: Machine, outputs: Sequence[Any]) -> None:
        """Submits outputs that the state machine makes without a call of its driver."""
        machine.outputs += machine.watched.watch(outputs)
        machine.has_calls = True
        self.perform(machine, [])

    def _run_state_machine(self, machine: Machine) -> list[Effect]:
        """Makes all due calls of the state machine, submits its outputs to the node, and returns the node's effects."""
        driver = machine.driver
        machine.checked = None
        self._program.before_calls(machine)
        while driver.has_more:
            machine.outputs += driver.catch_up()
        machine.has_calls = machine.watched.is_reading
        if not machine.outputs:
            return []
        outputs, machine.outputs = machine.outputs, []
        effects, own = driver.submit(outputs, machine.clock.ms(self._world.now_us))
        if own:
            self._program.perform(machine, own)
        return effects

    def _committed(self, machine: Machine, effect: Committed) -> None:
        self._checkers.on_committed(machine, effect)
        self._note(machine, effect)

    def _leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        self._checkers.on_leader_changed(machine, effect)
        self._program.on_leader_changed(machine, effect)
        self._note(machine, effect)

    def _snapshot_loaded(self, machine: Machine, effect: SnapshotLoaded) -> None:
        self._checkers.on_snapshot_loaded(machine, effect)
        self._note(machine, effect)

    def _note(self, machine: Machine, effect: MachineEffect) -> None:
        machine.outputs += machine.driver.note(effect)
        machine.has_calls = True

    def _store(self, machine: Machine, effect: StoreElection, rest: list[Effect]) -> None:
        """A barrier: the remaining effects and all further events wait until the file is durable."""
        world, times = self._world, machine.fsync_times
        machine.blocked |= STORING
        machine.storing = PendingStore(effect.election, effect.kraft_version, rest)
        takes_us = world.options.election_fsync_us * times.election_factor + times.election_fault_us
        world.push(world.now_us + int(takes_us * (0.5 + world.dice())), STORED, machine, machine.storing)
        self._spring_trap(machine, "election written")

    def _send(self, machine: Machine, effect: Send) -> None:
        world = self._world
        destination = world.machines[effect.address.port - FIRST_PORT]
        request, level, other, now_us = effect.request, machine.level, destination.level, world.now_us
        kind = type(request)
        version = version_between(kind, level, other)
        deadline_us = now_us + effect.timeout_ms * 1000
        delays_us = world.network.delays_us(machine.index, destination.index)
        if type(request) is VoteRequest and not can_say(request, version):
            self._refuse_version(machine, effect, destination, delays_us)
            return
        if level != other or world.dice() < self._codec_sample:
            request = through_codec(request, version)
        sent_ms = machine.clock.ms(now_us)
        call = Call(machine, effect.correlation_id, destination, request, version, deadline_us, sent_ms)
        for check in self._on_send[kind]:
            check(machine, call)
        machine.open[effect.correlation_id] = call
        if deadline_us < machine.expiry_us:
            self._expire_at(machine, deadline_us)
        if len(delays_us) == 1:  # The usual case.
            world.push(now_us + delays_us[0], REQUEST, destination, call)
        elif delays_us:
            world.seen["request duplicated"] += 1
            world.push(now_us + delays_us[0], REQUEST, destination, call)
            world.push(now_us + delays_us[1], REQUEST, destination, call.again())
        else:
            world.seen["request lost"] += 1
        if machine.trap is not None:
            machine.trap(kind.__name__)

    def _refuse_version(self, machine: Machine, effect: Send, destination: Machine, delays_us: tuple[int, ...]) -> None:
        """Answers UNSUPPORTED_VERSION in place of the destination, whose versions cannot express the request."""
        world = self._world
        deadline_us = world.now_us + effect.timeout_ms * 1000
        call = Call(machine, effect.correlation_id, destination, effect.request, 0, deadline_us)
        machine.open[effect.correlation_id] = call
        if deadline_us < machine.expiry_us:
            self._expire_at(machine, deadline_us)
        error = VoteResponse(error_code=Errors.UNSUPPORTED_VERSION)
        for delay_us in delays_us[:1]:
            reply = Reply(call, error if destination.is_up else None)
            world.push(world.now_us + 2 * delay_us, RESPONSE, machine, reply)

    def _answer(self, machine: Machine, effect: SendResponse) -> None:
        call, response = effect.reply_to, effect.response
        assert type(call) is Call
        world = self._world
        for check in self._on_answer[type(response)]:
            check(machine, call, response)
        if response is not self._answered:  # Many successive answers are the same object.
            self._answered, self._kind = response, kind_of_answer(response)
        kind = self._kind
        world.seen[kind] += 1
        if machine.trap is not None:
            machine.trap(f"{kind[0]} {kind[2]}".rstrip())
        source = call.source
        if source is None:
            return
        if machine.level != source.level or world.dice() < self._codec_sample:
            response = through_codec(response, call.version)
        reply, network = Reply(call, response), world.network
        if network.is_noisy(machine.index, source.index):
            reply = self._damage(machine, reply)
        delays_us = network.delays_us(machine.index, source.index)
        if not delays_us:
            world.seen["answer lost"] += 1
        elif len(delays_us) > 1:
            world.seen["answer duplicated"] += 1
        for delay_us in delays_us:
            world.push(world.now_us + delay_us, RESPONSE, source, reply)

    def _damage(self, machine: Machine, reply: Reply) -> Reply:
        assert reply.response is not None
        response: Message | None = damaged(reply.response, machine.log, self._world.random)
        if response is None:
            return reply
        self._world.seen["answer damaged"] += 1
        return Reply(reply.call, response, is_damaged=True)

    def _mistake(self, machine: Machine, reply: Reply) -> Reply:
        response = mistaken(reply.response, machine, self._world.random)
        if response is None:
            return reply
        self._world.seen["leader mistaken"] += 1
        return Reply(reply.call, response, is_damaged=True)

    def _flush(self, machine: Machine, effect: Flush) -> None:
        """Begins an fsync. While one runs, no other begins; the next fsync covers all flushes requested meanwhile."""
        if machine.fsync is None:
            self._begin_fsync(machine, effect)
        else:
            machine.wants_fsync = effect
        if machine.trap is not None:
            machine.trap("log written")

    def _begin_fsync(self, machine: Machine, flushing: Flush) -> None:
        world, times = self._world, machine.fsync_times
        machine.flush = machine.log.begin_flush()
        machine.wants_fsync = None
        machine.fsync = flushing
        takes_us = world.options.log_fsync_us * times.log_factor + times.log_fault_us
        world.push(world.now_us + int(takes_us * (0.5 + world.dice())), FLUSHED, machine, flushing)

    def _stopped(self, machine: Machine, effect: Stopped) -> None:
        world = self._world
        processes.stopped(world, machine)
        crash_points.restart_later(world, machine, faults.duration_us(world))

    def _spring_trap(self, machine: Machine, moment: str) -> None:
        if machine.trap is not None:
            machine.trap(moment)
