"""The program of `kcore sim raft`: clients append records, and strangers send requests to nodes."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kcore.raft.effects import LeaderChanged
from kcore.sim.raft import clients, foreign_requests
from kcore.sim.raft.log_consumer import Consumer
from kcore.sim.raft.running_world import NewChecker, RunningWorld
from kcore.sim.raft.simulated_machine import Machine


class RaftProgram:
    """Runs a Consumer on each node."""

    checkers: ClassVar[tuple[NewChecker, ...]] = ()
    faults: ClassVar[Mapping[str, Callable[[], None]]] = {}

    def __init__(self, world: RunningWorld) -> None:
        self._world = world

    def begin(self) -> None:
        clients.begin(self._world)
        foreign_requests.begin(self._world)

    def state_machine(self, machine: Machine) -> Consumer:
        machine.consumer = Consumer(machine, self._world.facts)
        return machine.consumer

    def before_calls(self, machine: Machine) -> None:
        """A slow consumer reads its snapshot slice by slice, at events of its node."""
        machine.consumer.read_on()

    def perform(self, machine: Machine, effects: list[Any]) -> None:
        """A Consumer has no effects of its own."""
        assert not effects, f"node {machine.index}: {effects}"

    def on_started(self, machine: Machine) -> None:
        """Nothing else runs on the machine."""

    def on_ended(self, machine: Machine) -> None:
        """Nothing else runs on the machine."""

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        """The state machine learns the leader from its driver."""

    def after_event(self, machine: Machine) -> None:
        """Nothing depends on the node's events."""

    def heal(self) -> None:
        """There are no other faults."""

    def forget(self) -> None:
        """A Consumer refers to no object that refers to it."""
