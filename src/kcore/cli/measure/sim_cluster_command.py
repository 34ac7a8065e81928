"""`kcore sim cluster`: reads the options, simulates clusters, and returns an exit code."""

from functools import partial
from typing import Any

import typer

from kcore.cli.console import fail, say
from kcore.cli.measure.results_folder import Overwrite
from kcore.cli.measure.sim_command import chosen_seeds, exit_of, print_missing, run
from kcore.cli.options.release_option import check_release
from kcore.cli.options.sim_options import (
    Brokers,
    Controllers,
    Events,
    FirstSeed,
    Json,
    Master,
    Out,
    Processes,
    Release,
    RequireCoverage,
    Seed,
    Seeds,
    Shrink,
    Steps,
)
from kcore.cli.options.spark_options import Archives, Conf, spark_of
from kcore.measure.report.exits import Exit
from kcore.sim.cluster import run_world
from kcore.sim.cluster.coverage import never_seen
from kcore.sim.cluster.options import CONTROLLERS
from kcore.sim.cluster.run_world import COMMAND, EVENTS, run_seed
from kcore.sim.cluster.schedule import steps_of, text_of
from kcore.sim.raft.campaign import Campaign
from kcore.sim.raft.run_world import replay_command


def command(
    seeds: Seeds = 100,
    first_seed: FirstSeed = 1,
    seed: Seed = None,
    events: Events = EVENTS,
    controllers: Controllers = None,
    brokers: Brokers = None,
    release: Release = None,
    master: Master = None,
    processes: Processes = None,
    out: Out = None,
    overwrite: Overwrite = False,
    conf: Conf = None,
    archives: Archives = None,
    json: Json = False,
    require_coverage: RequireCoverage = False,
    shrink: Shrink = None,
    steps: Steps = None,
) -> None:
    """Simulate controllers, brokers and their directories under faults; check the invariants of the cluster.

    An administrator creates, moves and deletes partitions meanwhile. At the end of a world all faults end, and the
    cluster must then work within a bound of simulated time. A broken invariant is printed with what happened before,
    and with the command that replays it.

    With --shrink the command searches for the fewest faults and requests after which a seed breaks the same invariant.
    It prints them, and the command that replays them.

    Ctrl-C ends the command early; it prints and writes the finished seeds.

    Exit code: 0 all invariants held, 1 one was broken or required coverage is missing, 2 usage, 3 seeds are missing.
    """
    fixed = checked_options(controllers, brokers, release)
    if shrink is not None:
        raise typer.Exit(_shrink(shrink, events, seed, steps, fixed))
    if steps is not None:
        fixed["steps"] = _checked_steps(seed, steps)
    chosen, wanted = chosen_seeds(seeds, first_seed, seed), partial(never_seen, release=release)
    campaign = Campaign(chosen, events, fixed, run_seed, COMMAND, wanted)
    spark = spark_of(master, conf, archives)
    found = run(campaign, spark, processes, out, json, overwrite=overwrite)
    missing = print_missing(campaign, found, json) if require_coverage else ()
    raise typer.Exit(exit_of(found, missing))


def checked_options(controllers: int | None, brokers: int | None, release: str | None) -> dict[str, Any]:
    """The options that are the same in all worlds; ends the command with exit code 2 for a value without rules."""
    if controllers is not None and controllers not in CONTROLLERS:
        fail(f"--controllers: {controllers} is none of {', '.join(map(str, CONTROLLERS))}")
    if release is not None:
        check_release(release)
    return {"controllers": controllers, "brokers": brokers, "release": release}


def _checked_steps(seed: int | None, steps: str) -> str:
    if seed is None:
        fail("--steps needs --seed: the numbers are of the faults and requests of one seed")
    try:
        return text_of(steps_of(steps))
    except ValueError:
        fail(f"--steps: {steps!r} is no list of numbers such as 3,17, and not 'none'")


def _shrink(seed: int, events: int, other_seed: int | None, steps: str | None, fixed: dict[str, Any]) -> Exit:
    """Shrinks a seed, and prints its story."""
    if other_seed is not None or steps is not None:
        fail("--shrink names the seed, and finds the steps: leave out --seed and --steps")
    chosen_seeds(1, 0, seed)  # Refuses a seed that is too large.
    found = run_world.shrink(seed, events, **fixed)
    if found is None:
        say(f"seed {seed}: all invariants hold in {events:,} events, so there is nothing to shrink")
        return Exit.GOOD
    outcome = found.outcome
    for step in found.steps:
        say(f"{step.time_us / 1e6:12.6f} s  step {step.number}: {step.text}")
    say(f"{outcome.invariant} {outcome.text}")
    again = replay_command(seed, events, COMMAND, **fixed, steps=text_of(step.number for step in found.steps))
    say(f"seed {seed}, event {outcome.events:,}, after {len(found.steps)} faults and requests; again: {again}")
    return Exit.FAILED
