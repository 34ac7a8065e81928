"""One simulated world: machines, what passes between them, and what is asked of them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kcore.errors import StorageError
from kcore.raft.effects import Effect
from kcore.raft.log.raft_log import Refused
from kcore.raft.membership.replicas import Voter
from kcore.raft.state_machine import AnyAppend, Resign
from kcore.schema.structure import Message
from kcore.sim.kernel.clock import Clock
from kcore.sim.kernel.events import REQUEST, Kernel
from kcore.sim.kernel.file_system import NEVER, CrashError
from kcore.sim.kernel.network import Network
from kcore.sim.kernel.simulated_process import NEVER_US, PAUSED
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft import clients, faults, processes, upgrades
from kcore.sim.raft import foreign_requests as strangers
from kcore.sim.raft import timed_crashes as traps
from kcore.sim.raft.checkers import Checkers
from kcore.sim.raft.disk import formatted
from kcore.sim.raft.edge import Edge
from kcore.sim.raft.facts import Facts
from kcore.sim.raft.log_consumer import Held
from kcore.sim.raft.options import DISK_FACTORS, MIXED, RELEASES, Options
from kcore.sim.raft.simulated_machine import Call, FsyncTimes, Machine
from kcore.sim.raft.versions import version_between
from kcore.types import Uuid

ELSEWHERE: Final = 0.05  # So often, beside an append.


class World(Kernel):
    """All that a seed makes; `take` ends with a Violation where an invariant does not hold."""

    cluster_id: Final = "simulated-cluster-id00"

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, repr(options))
        self.options = options
        self.is_healing = False
        self.seen: Counter[Any] = Counter()  # What happened, for the coverage.
        self.taken: Counter[tuple[str, Any, str]] = Counter()  # Transitions of nodes that are gone.
        self.facts = Facts()
        size = options.voters + options.observers
        self.network = Network(options, size, self.random)
        self.machines: list[Machine] = []
        self.checkers = Checkers(self)
        for index in range(size):
            self.machines.append(self._new_machine(index))
        voters = [machine.as_voter(directory_known=True) for machine in self.machines[: options.voters]]
        for machine in self.machines:
            is_named = options.dynamic and machine.index < options.voters
            self.empty_disk(machine, voters if is_named else ())
        self.edge = Edge(self)
        self.handlers = (*self.edge.handlers, self._on_do)

    def begin(self) -> None:
        """All machines start."""
        for machine in self.machines:
            processes.boot(self, machine)
        clients.begin(self)
        strangers.begin(self)
        faults.begin(self)
        upgrades.begin(self)

    def forget(self) -> None:
        """All of it is over: what knows each other lets go, so that the garbage collector need not find it."""
        for machine in self.machines:
            if "node" in vars(machine):
                del machine.node.quorum
            vars(machine).clear()
        vars(self).clear()

    def take(self, events: int, until_us: int = NEVER_US) -> None:
        """As a kernel does; where a machine crashes in the middle of an event, the event ends there."""
        last = self.count + events
        while True:
            try:
                return super().take(last - self.count, until_us)
            except CrashError as crash:
                [machine] = [machine for machine in self.machines if machine.disk is crash.files]
                traps.crash_in_event(self, machine)
            except StorageError:
                refused = [machine for machine in self.machines if machine.disk.has_refused]
                if not refused:
                    raise
                processes.fail(self, refused[0])
                traps.restart_later(self, refused[0], faults.duration_us(self))

    def _on_do(self, _: None, do: Any) -> None:
        do()

    # Machines.

    def _new_machine(self, index: int) -> Machine:
        drift = self.random.uniform(-self.options.drift, self.options.drift)
        clock = Clock(self.random.randrange(1 << 30), drift)
        fsync_times = FsyncTimes(self.random.choice(DISK_FACTORS), self.random.choice(DISK_FACTORS))
        level = self.random.choice(RELEASES) if self.options.level == MIXED else self.options.level
        return Machine(index, self.new_directory(), clock, fsync_times, level)

    def empty_disk(self, machine: Machine, voters: Sequence[Voter] = ()) -> None:
        """It is formatted, and no process was ever there; `voters` are the first ones of a dynamic quorum."""
        machine.disk = formatted(machine.key, self.cluster_id, voters)
        processes.open_directory(self, machine)
        machine.log.end_process()
        machine.disk.end_process()

    def new_directory(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    def heal(self) -> None:
        """No more faults, and all that is broken works again."""
        self.is_healing = True
        self.network.be_reliable()
        for machine in self.machines:
            machine.trap = None
            machine.fsync_times, machine.disk.is_full = FsyncTimes(1, 1), False
            machine.disk.crash_after(NEVER)
            if not machine.is_up:
                processes.boot(self, machine)
            elif machine.gate & PAUSED:
                processes.resume(self, machine)

    # What is asked of nodes from outside.

    def append(self, machine: Machine, *appends: Sequence[bytes]) -> Held | None:
        """Records, each sequence in one batch, of the state machine of a node that may lead: the last, as it holds it.

        None if it does not lead, or no more than that.
        """
        self._append_elsewhere(machine)
        consumer = machine.consumer
        decided = [consumer.decide(*values) for values in appends]
        outputs: list[AnyAppend | Resign] = [each for each in decided if each is not None]
        if not outputs:
            self.seen["append refused"] += 1
            return None
        self.edge.submit(machine, outputs)
        return consumer.journal[-1] if machine.is_up and consumer.journal else None

    def _append_elsewhere(self, machine: Machine) -> None:
        """Now and then an append comes that expects what is not so: nothing of it may be written."""
        if self.dice() >= ELSEWHERE:
            return
        node = machine.node
        offset, epoch = node.next_offset, node.epoch
        shift = self.random.choice((-1, 1, 2))
        wrong = (epoch, offset + shift) if node.leads and shift < 2 else (epoch + shift, offset)
        before = machine.log.end_offset, offset
        outcome, effects = node.append([b"elsewhere"], *wrong, machine.clock.ms(self.now_us))
        if not isinstance(outcome, Refused) or effects or before != (machine.log.end_offset, node.next_offset):
            told = f"node {machine.index} is at {offset} in epoch {epoch} and takes an append for {wrong}"
            raise Violation("AppendsAsExpected", f"{told}: {outcome}")
        self.seen["append elsewhere refused"] += 1

    def ask(self, machine: Machine, request: Message) -> None:
        """A request of somebody who is no node of the quorum."""
        version = version_between(type(request), machine.level, machine.level)
        call = Call(None, 0, machine, request, version)
        self.checkers.on_asked(call)
        self.push(self.now_us, REQUEST, machine, call)

    def tell(self, machine: Machine, effects: list[Effect]) -> None:
        """What came of a call of the node that was no event of a peer's."""
        self.edge.perform(machine, effects)
