"""Runs a simulated cluster from its seed: first with faults, then without faults until the cluster works."""

from functools import partial
from typing import Any, Final

from kcore.sim.cluster.cluster_program import ClusterProgram
from kcore.sim.cluster.liveness import heal_and_demand
from kcore.sim.cluster.options import draw
from kcore.sim.raft.run_world import Outcome, run
from kcore.sim.raft.world import World

EVENTS: Final = 10_000
COMMAND: Final = "./kcore sim cluster"


def run_seed(seed: int, events: int = EVENTS, **fixed: Any) -> Outcome:
    """Runs the cluster of the seed; options in `fixed` replace the drawn options: controllers, brokers, release."""
    world = new_world(seed, **fixed)
    cluster = world.program
    assert isinstance(cluster, ClusterProgram)
    return run(world, seed, events, partial(heal_and_demand, world, cluster))


def new_world(seed: int, **fixed: Any) -> World:
    """The world of a seed; nothing runs yet."""
    options = draw(seed, **fixed)
    return World(seed, options.quorum, partial(ClusterProgram, options=options), options)
