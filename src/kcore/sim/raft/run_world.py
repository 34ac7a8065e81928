"""Runs a world from its seed: first with faults, then without faults until the quorum has made progress."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import process_time
from typing import Any, Final

from kcore.sim.kernel.violation import RAISES, Violation
from kcore.sim.raft.coverage import coverage_of
from kcore.sim.raft.liveness import heal_and_demand
from kcore.sim.raft.options import draw
from kcore.sim.raft.story import story
from kcore.sim.raft.world import World

EVENTS: Final = 20_000
COMMAND: Final = "./kcore sim raft"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed; `invariant` is None if all held."""

    seed: int
    events: int
    simulated_ms: int
    seconds: float  # CPU time.
    hash: str  # A hash of all events: the same for the same seed on any machine.
    committed: int  # The number of committed records.
    acknowledged: int  # The number of appends that leaders saw committed.
    epochs: int  # The number of epochs that had a leader.
    healed_ms: int  # From the end of all faults until progress; -1 if the world ended before.
    invariant: str | None = None
    text: str = ""
    story: tuple[str, ...] = ()
    coverage: Mapping[str, int] = field(default_factory=dict)


def run_seed(seed: int, events: int = EVENTS, **fixed: Any) -> Outcome:
    """Runs the world of the seed; options in `fixed` replace the drawn options."""
    world = World(seed, draw(seed, **fixed))
    return run(world, seed, events, partial(heal_and_demand, world))


def run(world: World, seed: int, events: int, demand: Callable[[], int]) -> Outcome:
    """Runs a world up to `events`, then `demand`, which ends all faults and returns the us until progress."""
    began = process_time()
    broken, healed_us = _live(world, events, demand)
    facts = world.facts
    outcome = Outcome(
        seed,
        world.count,
        world.now_us // 1000,
        process_time() - began,
        f"{world.hash:016x}",
        facts.committed.end,
        facts.acknowledged,
        len(facts.leaders),
        healed_us // 1000,
        broken.invariant if broken else None,
        broken.text if broken else "",
        tuple(story(world)) if broken else (),
        coverage_of(world),
    )
    world.forget()
    return outcome


def _live(world: World, events: int, demand: Callable[[], int]) -> tuple[Violation | None, int]:
    try:
        world.begin()
        world.take(events - world.count)
        healed_us = demand()
        world.checkers.at_end()
    except Violation as violation:
        return violation, -1
    except Exception as error:  # A node must not raise any exception.
        return Violation(f"{RAISES}{type(error).__name__}", f"{error}\n{traceback.format_exc(limit=-4)}"), -1
    return None, healed_us


def replay_command(seed: int, events: int, command: str = COMMAND, **fixed: Any) -> str:
    """The command that runs the same world again."""
    options = {"seed": seed, "events": events} | fixed
    given = (f"--{name.replace('_', '-')} {value}" for name, value in options.items() if value is not None)
    return " ".join([command, *given])
