"""A world with its checkers and its edge, as faults, clients, strangers and upgrades use it."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from kcore.raft.effects import Effect
from kcore.raft.log.raft_log import Refused
from kcore.schema.structure import Message
from kcore.sim.kernel.events import REQUEST
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers import Checkers
from kcore.sim.raft.committed import Held
from kcore.sim.raft.program import Program
from kcore.sim.raft.simulated_machine import Call, Machine
from kcore.sim.raft.versions import version_between
from kcore.sim.raft.world_state import WorldState

ELSEWHERE: Final = 0.05  # The share of appends before which an append at a wrong offset or epoch is tried.


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
