"""Small simulated clusters whose steps a `Trace` checks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.sim.cluster import administrator
from kcore.sim.cluster.cluster_checker import ClusterChecker
from kcore.sim.cluster.cluster_program import ClusterProgram
from kcore.sim.cluster.liveness import heal_and_demand
from kcore.sim.cluster.options import ClusterOptions, draw
from kcore.sim.cluster.schedule import Schedule
from kcore.sim.raft.run_world import Outcome, run
from kcore.sim.raft.world import World
from planted_raft.patches import Patches
from specifications import directories as actions
from specifications.traces import Trace, name_of

SMALL: Final = {"controllers": 1, "brokers": 3}
FAULTS: Final = ("lose_directory", "bounce", "kill", "lose_broker", "slow_link", "controlled_shutdown")
# Faults come soon in a small world.
INTERVALS_US: Final = {"fault_every_us": 200_000, "fault_lasts_us": 300_000, "calm_us": 1_000_000}


def options_of(seed: int, **fixed: Any) -> ClusterOptions:
    """The options of a small cluster with directories, whose elections are clean."""
    drawn = draw(seed, **{**SMALL, "faults": FAULTS, **fixed})
    quorum = replace(drawn.quorum, **INTERVALS_US)
    return replace(drawn, quorum=quorum, directories=3, unclean=False, has_elr=False, administer_every_us=50_000)


def run_traced(seed: int, events: int, **fixed: Any) -> tuple[Outcome, Trace]:
    """Runs the cluster of a seed, and checks each of its steps."""
    options = options_of(seed, **fixed)
    with traced() as trace:
        world = World(seed, options.quorum, partial(ClusterProgram, options=options, schedule=Schedule()), options)
        assert isinstance(world.program, ClusterProgram)
        return run(world, seed, events, partial(heal_and_demand, world, world.program)), trace


@contextmanager
def traced() -> Iterator[Trace]:
    """Worlds that run meanwhile pass their steps to the trace. The administrator unregisters no broker."""
    trace, patches = Trace(), Patches()
    try:
        patches.put_in(administrator.WEIGHTS, "unregister", lambda weight: 0)
        _trace_cluster(trace, patches)
        _trace_directories(trace, patches)
        yield trace
    finally:
        patches.undo()


def _trace_cluster(trace: Trace, patches: Patches) -> None:
    def check(before: Any, self: ClusterChecker, happened: Any) -> None:
        trace.on_batch(self._cluster)
        before(self, happened)

    def on_started(before: Any, self: ClusterProgram, machine: Any) -> None:
        if machine.index in self.brokers:
            trace.on_started(machine.index, self.brokers[machine.index], self.disks[machine.index])
        before(self, machine)

    def on_ended(before: Any, self: ClusterProgram, machine: Any) -> None:
        if machine.index in self.brokers and trace.of(machine.index).is_up:
            trace.on_ended(machine.index)
        before(self, machine)

    patches.around(ClusterChecker, "_check", check)
    patches.around(ClusterProgram, "on_started", on_started)
    patches.around(ClusterProgram, "on_ended", on_ended)


def _trace_directories(trace: Trace, patches: Patches) -> None:
    def id_of(machine: BrokerDirectories) -> int:
        return machine.queue.broker_id

    def catch_up(before: Any, self: BrokerDirectories, partitions: Any, now_ms: int) -> None:
        trace.on_published(self, id_of(self), self._placements._image.end_offset, partitions)
        before(self, partitions, now_ms)
        trace.compare(self, id_of(self))

    def on_created(before: Any, self: BrokerDirectories, key: Any, directory: Any, now_ms: int) -> None:
        trace.step(id_of(self), key, "Create", lambda s: actions.create(s, name_of(directory)))
        before(self, key, directory, now_ms)
        trace.compare(self, id_of(self))

    def on_not_created(before: Any, self: BrokerDirectories, key: Any) -> None:
        trace.step(id_of(self), key, "CreateFails", actions.create_fails)
        before(self, key)

    def on_directory_failed(before: Any, self: BrokerDirectories, directory: Any, now_ms: int) -> None:
        if directory in self.failures.online:
            trace.on_directory_failed(id_of(self), directory)
        before(self, directory, now_ms)
        trace.compare(self, id_of(self))

    def next_request(before: Any, self: BrokerDirectories, now_ms: int) -> Any:
        request = before(self, now_ms)
        trace.on_request(self, id_of(self))
        trace.compare(self, id_of(self))
        return request

    def on_response(before: Any, self: BrokerDirectories, response: Any, now_ms: int) -> None:
        trace.on_response(id_of(self), response)
        before(self, response, now_ms)
        trace.compare(self, id_of(self))

    for each in (catch_up, on_created, on_not_created, on_directory_failed, next_request, on_response):
        patches.around(BrokerDirectories, each.__name__, each)
