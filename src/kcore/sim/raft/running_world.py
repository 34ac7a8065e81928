"""A world with its checkers, edge and program, as faults, clients, strangers and upgrades use it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from kcore.raft.effects import Effect, LeaderChanged
from kcore.raft.log.raft_log import Refused
from kcore.raft.state_machine import StateMachine
from kcore.schema.structure import Message
from kcore.sim.kernel.events import REQUEST
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers import Checkers
from kcore.sim.raft.checkers.base import Checker
from kcore.sim.raft.committed import Held
from kcore.sim.raft.simulated_machine import Call, Machine
from kcore.sim.raft.versions import version_between
from kcore.sim.raft.world_state import WorldState

NewChecker: TypeAlias = Callable[[WorldState], Checker]
ELSEWHERE: Final = 0.05  # The share of appends before which an append at a wrong offset or epoch is tried.


class Program(Protocol):
    """The calls that a world makes of its program, and what the program adds to the world."""

    @property
    def checkers(self) -> Sequence[NewChecker]:
        """The checkers of the program's invariants, besides the checkers of raft's."""

    @property
    def faults(self) -> Mapping[str, Callable[[], None]]:
        """The program's own faults by name, besides the faults of every world."""

    def begin(self) -> None:
        """Starts the clients; all machines run."""

    def state_machine(self, machine: Machine) -> StateMachine[Any]:
        """The state machine of a process that starts."""

    def on_started(self, machine: Machine) -> None:
        """The process's node has started."""

    def on_ended(self, machine: Machine) -> None:
        """The process has ended."""

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        """The node reports a leader; its state machine has no call yet."""

    def before_calls(self, machine: Machine) -> None:
        """The driver is about to call the state machine."""

    def perform(self, machine: Machine, effects: list[Any]) -> None:
        """Performs the state machine's own effects."""

    def after_event(self, machine: Machine) -> None:
        """All effects of an event are performed, and the invariants hold."""

    def heal(self) -> None:
        """Ends the program's own faults; the world has ended all others, and all machines run."""

    def forget(self) -> None:
        """Breaks the references between the program's objects."""


class EdgeCalls(Protocol):
    """The calls of a world's `Edge`."""

    def perform(self, machine: Machine, effects: list[Effect]) -> None: ...
    def submit(self, machine: Machine, outputs: Sequence[Any]) -> None: ...
    def arm(self, machine: Machine) -> None: ...


class RunningWorld(WorldState):
    """Sends appends and requests to nodes; `World` creates the checkers and the edge."""

    checkers: Checkers
    edge: EdgeCalls
    program: Program

    def append(self, machine: Machine, *appends: Sequence[bytes]) -> Held | None:
        """Lets a node's state machine append records, each sequence in one batch; returns the last append.

        None if the node does not lead.
        """
        self._append_elsewhere(machine)
        consumer = machine.consumer
        decided = [consumer.decide(*values) for values in appends]
        outputs = [each for each in decided if each is not None]
        if not outputs:
            self.seen["append refused"] += 1
            return None
        self.edge.submit(machine, outputs)
        journal = machine.watched.journal
        return journal[-1] if machine.is_up and journal else None

    def _append_elsewhere(self, machine: Machine) -> None:
        """Sometimes tries an append with a wrong offset or epoch: the node must refuse it and write nothing."""
        if self.dice() >= ELSEWHERE:
            return
        node = machine.node
        offset, epoch = node.next_offset, node.epoch
        shift = self.random.choice((-1, 1, 2))
        wrong = (epoch, offset + shift) if node.leads and shift < 2 else (epoch + shift, offset)
        before = machine.log.end_offset, offset
        outcome, effects = node.append([b"elsewhere"], *wrong, machine.clock.ms(self.now_us))
        if not isinstance(outcome, Refused) or effects or before != (machine.log.end_offset, node.next_offset):
            message = f"node {machine.index} is at {offset} in epoch {epoch} and takes an append for {wrong}"
            raise Violation("AppendsAsExpected", f"{message}: {outcome}")
        self.seen["append elsewhere refused"] += 1

    def ask(self, machine: Machine, request: Message) -> None:
        """Sends a node a request of a client outside the quorum."""
        version = version_between(type(request), machine.level, machine.level)
        call = Call(None, 0, machine, request, version)
        self.checkers.on_admin_request(call)
        self.push(self.now_us, REQUEST, machine, call)

    def tell(self, machine: Machine, effects: list[Effect]) -> None:
        """Performs the effects of a direct call of the node, such as an administrator's."""
        self.edge.perform(machine, effects)
