"""Runs a simulated cluster from its seed: first with faults, then without faults until the cluster works."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kcore.sim.cluster.cluster_program import ClusterProgram
from kcore.sim.cluster.liveness import heal_and_demand
from kcore.sim.cluster.options import draw
from kcore.sim.cluster.schedule import Schedule, Step, steps_of, text_of
from kcore.sim.cluster.shrinking import shrunk
from kcore.sim.raft.run_world import Outcome, run
from kcore.sim.raft.world import World

EVENTS: Final = 10_000
COMMAND: Final = "./kcore sim cluster"


class Shrunk(NamedTuple):
    """A failing seed with few steps. `steps` are those that lead to the failure."""

    outcome: Outcome
    steps: list[Step]


def run_seed(seed: int, events: int = EVENTS, **fixed: Any) -> Outcome:
    """Runs the cluster of the seed; options in `fixed` replace the drawn options: controllers, brokers, release.

    `steps` in `fixed`: the numbers of the faults and requests to perform, such as `3,17`; without it, all.
    """
    return run_steps(seed, events, **fixed).outcome


def run_steps(seed: int, events: int = EVENTS, **fixed: Any) -> Shrunk:
    """As `run_seed`; also returns the steps that were performed."""
    given = fixed.pop("steps", None)
    schedule = Schedule(None if given is None else steps_of(given))
    world = new_world(seed, schedule, **fixed)
    cluster = world.program
    assert isinstance(cluster, ClusterProgram)
    outcome = run(world, seed, events, partial(heal_and_demand, world, cluster))
    return Shrunk(outcome, schedule.taken)


def shrink(seed: int, events: int = EVENTS, run_them: Callable[..., Shrunk] = run_steps, **fixed: Any) -> Shrunk | None:
    """Finds few faults and requests after which the cluster of the seed breaks the same invariant; None if all hold.

    `run_them` runs a world, as `run_steps` does.
    """
    found = run_them(seed, events, **fixed)
    invariant = found.outcome.invariant
    if invariant is None:
        return None

    def fails(steps: Sequence[int]) -> list[int] | None:
        nonlocal found
        tried = run_them(seed, events, **fixed | {"steps": text_of(steps)})
        if tried.outcome.invariant != invariant:
            return None
        if len(tried.steps) < len(found.steps):
            found = tried
        return [each.number for each in tried.steps]

    shrunk([each.number for each in found.steps], fails)
    return found


def new_world(seed: int, schedule: Schedule | None = None, **fixed: Any) -> World:
    """The world of a seed; nothing runs yet."""
    options = draw(seed, **fixed)
    program = partial(ClusterProgram, options=options, schedule=schedule or Schedule())
    return World(seed, options.quorum, program, options)
