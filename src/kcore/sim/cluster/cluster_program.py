"""The program of a simulated cluster: controllers run on the voters of its quorum, brokers on the observers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kcore.raft.effects import LeaderChanged
from kcore.raft.state_machine import StateMachine
from kcore.sim.cluster import broker_faults
from kcore.sim.cluster.administrator import Administrator
from kcore.sim.cluster.answer_checks import AnswerChecks, epochs_at_arrival
from kcore.sim.cluster.broker_disks import BrokerDisks
from kcore.sim.cluster.broker_process import BrokerProcess
from kcore.sim.cluster.cluster_checker import ClusterChecker
from kcore.sim.cluster.cluster_facts import ClusterFacts
from kcore.sim.cluster.controller_process import ControllerProcess
from kcore.sim.cluster.coverage import STATES, pair, states_of
from kcore.sim.cluster.exchanges import Arrival, Exchanges
from kcore.sim.cluster.image_checks import differences
from kcore.sim.cluster.isr_proposals import IsrProposals
from kcore.sim.cluster.options import ClusterOptions
from kcore.sim.cluster.schedule import Schedule
from kcore.sim.cluster.snapshots import SnapshotWriting
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft import clients, crash_points, faults, processes
from kcore.sim.raft.running_world import NewChecker, RunningWorld
from kcore.sim.raft.simulated_machine import Machine

LONGEST_ANSWER_US: Final = 30_000_000  # I13: a controller that runs answers a request within this time.


class ClusterProgram:
    """The processes of a cluster, its administrator, and its checks."""

    def __init__(self, world: RunningWorld, options: ClusterOptions, schedule: Schedule) -> None:
        """`schedule` performs the faults and the administrator's requests."""
        self._world, self.options, self._schedule = world, options, schedule
        self.facts, self.controllers, self.brokers = (
            ClusterFacts(has_elr=options.elr_in_effect),
            dict[int, ControllerProcess](),
            dict[int, BrokerProcess](),
        )
        self._answers = AnswerChecks(self.facts)
        self.exchanges = Exchanges(world, options.release, self._serve, self._answers.on_answer)
        self.disks: dict[int, BrokerDisks] = {}
        self._administrator = Administrator(world, options, self.facts, self.exchanges, self.active, schedule)
        self._proposals = IsrProposals(world, self.brokers)
        self._audited = 0
        self.checkers: tuple[NewChecker, ...] = (partial(ClusterChecker, facts=self.facts),)
        self.faults: Mapping[str, Callable[[], None]] = self._all_faults()

    def _all_faults(self) -> dict[str, Callable[[], None]]:
        """All faults by name. When a fault happens, it is counted for each state that the cluster is in."""
        own = {name: partial(do, self._world, self) for name, do in broker_faults.FAULTS.items()}
        every = {name: partial(do, self._world) for name, do in faults.FAULTS.items()} | own
        return {name: partial(self._fault, name, do) for name, do in every.items()}

    def _fault(self, name: str, do: Callable[[], None]) -> None:
        self._schedule.take(self._world, lambda: f"fault: {name}", partial(self._perform_fault, name, do))

    def _perform_fault(self, name: str, do: Callable[[], None]) -> None:
        seen = self._world.seen
        before, states = seen[f"fault: {name}"], states_of(self)
        do()
        if seen[f"fault: {name}"] > before:
            for state in STATES:
                if states[state]:
                    seen[pair(name, state)] += 1

    # Processes.

    def begin(self) -> None:
        """Starts the administrator, the leaders' proposals, snapshots and audits."""
        world, options = self._world, self.options
        world.every_us(options.administer_every_us, self._administrator.act)
        world.every_us(options.propose_every_us, self._proposals.propose)
        world.every_us(options.quorum.snapshot_every_us, self._snapshot)
        world.every_us(clients.AUDIT_US, self._audit)

    def state_machine(self, machine: Machine) -> StateMachine[Any]:
        world, options = self._world, self.options
        if machine.index < options.controllers:
            controller = self.controllers[machine.index] = ControllerProcess(world, machine, options, self.exchanges)
            return controller.controller
        disks = self.disks.get(machine.index)
        if disks is None:
            count = world.random.randint(1, options.directories)
            disks = self.disks[machine.index] = BrokerDisks(world.new_directory, count)
        if not disks.online:
            disks.replace_lost()  # No broker starts without a log directory.
        end = partial(self.end_broker, machine, machine.incarnation)
        broker = BrokerProcess(world, machine, options, self.exchanges, disks, end)
        self.brokers[machine.index] = broker
        return broker.loader

    def end_broker(self, machine: Machine, incarnation: int, is_clean: bool) -> None:
        """Ends a broker's process, and restarts it later."""
        world = self._world
        if not machine.is_up or machine.incarnation != incarnation:
            return
        if is_clean:
            processes.stopped(world, machine)
        else:
            processes.kill(world, machine, peers_know=True)
            if not world.is_healing:
                self.disks[machine.index].replace_lost()
        crash_points.restart_later(world, machine, faults.duration_us(world))

    def on_started(self, machine: Machine) -> None:
        if machine.index in self.brokers:
            self.brokers[machine.index].start()

    def on_ended(self, machine: Machine) -> None:
        self.controllers.pop(machine.index, None)
        self.brokers.pop(machine.index, None)
        self.exchanges.on_ended(machine)

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        self._world.notes(lambda: f"node {machine.index}: the leader of epoch {effect.epoch} is {effect.leader_id}")
        if machine.index in self.controllers:
            self.controllers[machine.index].on_leader(effect.leader_id)

    def before_calls(self, machine: Machine) -> None:
        """Snapshots are read by events of their own."""

    def perform(self, machine: Machine, effects: list[Any]) -> None:
        process = self._process(machine)
        for each in effects:
            if process is not None:
                process.perform(each)

    def after_event(self, machine: Machine) -> None:
        self._answers.check()
        controller = self.controllers.get(machine.index)
        if controller is not None:
            controller.after_event()

    def _process(self, machine: Machine) -> ControllerProcess | BrokerProcess | None:
        return self.controllers.get(machine.index) or self.brokers.get(machine.index)

    def _serve(self, machine: Machine, arrival: Arrival) -> None:
        process = self.controllers[machine.index]
        arrival.seen = epochs_at_arrival(arrival, process.controller.image)
        process.on_request(arrival)

    # Clients and checks.

    def active(self) -> Machine | None:
        """The machine of an active controller; of several, the one of the newest epoch."""
        found = [
            (each.controller.epoch or 0, index) for index, each in self.controllers.items() if each.controller.is_active
        ]
        return self._world.machines[max(found)[1]] if found else None

    def _snapshot(self) -> None:
        """Lets one node begin a snapshot."""
        world = self._world
        machine = world.random.choice(world.machines)
        process = self._process(machine)
        if process is None or machine.blocked or len(machine.node.writing) >= clients.MOST_WRITING:
            return
        snapshot = process.begin_snapshot()
        if snapshot is not None:
            SnapshotWriting(world, machine, snapshot).begin()

    def _audit(self) -> None:
        """Runs raft's audits, and compares the image of one machine in turn."""
        clients.audit(self._world)
        machines = self._world.machines
        self._audited = (self._audited + 1) % len(machines)
        self.compare(machines[self._audited])
        self._check_answered()

    def compare(self, machine: Machine) -> None:
        """Compares a node's image with the committed cluster, if both are at the same offset."""
        process, cluster = self._process(machine), self.facts.cluster
        if process is None or machine.blocked or cluster.is_in_transaction:
            return
        image = process.committed_image
        if image is None or process.end_offset != cluster.end or image.in_transaction:
            return
        self._world.seen["image compared"] += 1
        for text in differences(cluster, image):
            raise Violation("I10 PrefixOfLog", f"node {machine.index} at {cluster.end}: {text}")

    def _check_answered(self) -> None:
        world = self._world
        for index, arrivals in self.exchanges.open.items():
            machine = world.machines[index]
            late = [each for each in arrivals if world.now_us - max(each.at_us, machine.resumed_us) > LONGEST_ANSWER_US]
            if late and not machine.blocked and machine.node.high_watermark is not None and world.is_healing:
                raise Violation("I13 AnsweredOnce", f"node {index} does not answer {late[0].exchange.request}")

    def heal(self) -> None:
        """Replaces lost directories; a broker that still runs on a lost one restarts."""
        for index, disks in self.disks.items():
            if disks.lost:
                machine = self._world.machines[index]
                if machine.is_up:
                    processes.kill(self._world, machine, peers_know=True)
                disks.replace_lost()
                if not machine.is_up:
                    processes.boot(self._world, machine)

    def forget(self) -> None:
        vars(self).clear()
