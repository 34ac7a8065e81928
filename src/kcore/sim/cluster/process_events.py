"""The events of one process of a simulated cluster: none of them happens after the process has ended."""

from collections.abc import Callable
from typing import Final

from kcore.sim.kernel.events import Described
from kcore.sim.kernel.simulated_process import NEVER_US
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine

SOON_US: Final = 50  # The delay of an event that the process queues for itself.


class ProcessEvents:
    """The clock of a process, its deadline, and the events that it queues for itself."""

    def __init__(self, world: RunningWorld, machine: Machine) -> None:
        self._world, self._machine, self._incarnation = world, machine, machine.incarnation
        self._due_us = NEVER_US  # When the event of the deadline comes.

    def now_ms(self) -> int:
        """The process's clock."""
        return self._machine.clock.ms(self._world.now_us)

    @property
    def is_running(self) -> bool:
        """Whether the process still runs."""
        return self._machine.is_up and self._machine.incarnation == self._incarnation

    def soon(self, do: Callable[[], None], text: str) -> None:
        """Calls `do` after the events that already wait."""
        self.after_us(SOON_US, do, text)

    def after_us(self, delay_us: int, do: Callable[[], None], text: str) -> None:
        """Calls `do` after the delay, if the process still runs then."""

        def run() -> None:
            if self.is_running:
                do()

        self._world.after_us(delay_us, Described(run, lambda: text), self._machine)

    def set_deadline(self, due_ms: int | None, do: Callable[[], None]) -> None:
        """Calls `do` at `due_ms`, unless an earlier call comes first: `do` sets the next deadline."""
        if due_ms is None:
            return
        due_us = max(self._machine.clock.when_us(due_ms), self._world.now_us + 1)
        if due_us >= self._due_us:
            return
        self._due_us = due_us

        def run() -> None:
            if self._due_us == due_us:
                self._due_us = NEVER_US
                do()

        self.after_us(due_us - self._world.now_us, run, "timer")
