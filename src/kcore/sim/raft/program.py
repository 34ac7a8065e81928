"""The interface of the program that a world runs on its raft nodes: their state machines and clients."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from kcore.raft.effects import LeaderChanged
from kcore.raft.state_machine import StateMachine
from kcore.sim.raft.checkers.base import Checker
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.world_state import WorldState

NewChecker: TypeAlias = Callable[[WorldState], Checker]


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
