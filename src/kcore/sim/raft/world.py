"""One simulated world: machines, messages between them, and requests of clients."""

from collections.abc import Callable

from kcore.errors import StorageError
from kcore.sim.kernel.clock import Clock
from kcore.sim.kernel.file_system import NEVER, CrashError
from kcore.sim.kernel.simulated_process import NEVER_US, PAUSED
from kcore.sim.raft import crash_points, faults, processes, upgrades
from kcore.sim.raft.checkers import Checkers
from kcore.sim.raft.edge import Edge
from kcore.sim.raft.options import DISK_FACTORS, MIXED, RELEASES, Options
from kcore.sim.raft.raft_program import RaftProgram
from kcore.sim.raft.running_world import Program, RunningWorld
from kcore.sim.raft.simulated_machine import FsyncTimes, Machine


class World(RunningWorld):
    """The world of a seed; `take` raises Violation if an invariant does not hold."""

    def __init__(
        self,
        seed: int,
        options: Options,
        new_program: Callable[[RunningWorld], Program] = RaftProgram,
        more_options: object = "",
    ) -> None:
        """`more_options`: the program's options, which enter the hash of the events."""
        super().__init__(seed, options, more_options)
        self.program = new_program(self)
        self.checkers = Checkers(self, self.program.checkers)
        for index in range(options.voters + options.observers):
            self.machines.append(self._new_machine(index))
        voters = [machine.as_voter(directory_known=True) for machine in self.machines[: options.voters]]
        for machine in self.machines:
            is_named = options.dynamic and machine.index < options.voters
            processes.empty_disk(self, machine, voters if is_named else ())
        edge = Edge(self)
        self.edge = edge
        self.handlers = (*edge.handlers, lambda _, do: do())

    def begin(self) -> None:
        """Starts all machines."""
        for machine in self.machines:
            processes.boot(self, machine)
        self.program.begin()
        faults.begin(self, self.program.faults)
        upgrades.begin(self)

    def forget(self) -> None:
        """Breaks the references between the world's objects, so that no garbage collection is needed."""
        for machine in self.machines:
            if "node" in vars(machine):
                del machine.node.quorum
            vars(machine).clear()
        self.program.forget()
        vars(self).clear()

    def take(self, events: int, until_us: int = NEVER_US) -> None:
        """As `Kernel.take`. An event ends early if a file operation crashes the machine or finds its disk full."""
        last = self.count + events
        while True:
            try:
                return super().take(last - self.count, until_us)
            except CrashError as crash:
                [machine] = [machine for machine in self.machines if machine.disk is crash.files]
                crash_points.crash_in_event(self, machine)
            except StorageError:
                refused = [machine for machine in self.machines if machine.disk.has_refused]
                if not refused:
                    raise
                processes.fail(self, refused[0])
                crash_points.restart_later(self, refused[0], faults.duration_us(self))

    # Machines.

    def _new_machine(self, index: int) -> Machine:
        drift = self.random.uniform(-self.options.drift, self.options.drift)
        clock = Clock(self.random.randrange(1 << 30), drift)
        fsync_times = FsyncTimes(self.random.choice(DISK_FACTORS), self.random.choice(DISK_FACTORS))
        level = self.random.choice(RELEASES) if self.options.level == MIXED else self.options.level
        return Machine(index, self.new_directory(), clock, fsync_times, level)

    def heal(self) -> None:
        """Ends all faults and repairs everything."""
        self.is_healing = True
        self.network.be_reliable()
        for machine in self.machines:
            machine.trap = None
            machine.fsync_times, machine.disk.is_full = FsyncTimes(1, 1), False
            machine.disk.crash_after(NEVER)
            if not machine.is_up:
                processes.boot(self, machine)
            elif machine.blocked & PAUSED:
                processes.resume(self, machine)
        self.program.heal()
