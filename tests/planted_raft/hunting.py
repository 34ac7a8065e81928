"""Runs worlds with a planted bug, one after another, until the invariant that the bug names fails."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kcore.sim.kernel.violation import RAISES
from kcore.sim.raft.campaign import worker_processes
from kcore.sim.raft.run_world import EVENTS, Outcome, run_seed
from planted_raft import PLANTED, PlantedBug, PlantingError, planting

CAUGHT, NOT_CAUGHT, BROKEN = "caught", "not caught", "broken"


@dataclass(frozen=True, slots=True)
class Hunt:
    """The result of the search for one planted bug."""

    name: str
    invariant: str  # The invariant that the bug names.
    verdict: str  # CAUGHT by that invariant; NOT_CAUGHT; BROKEN: cannot be planted, or raised another exception.
    seed: int | None  # The last seed that ran.
    seconds: float  # CPU seconds of one core.
    text: str  # The text of the Violation or of the other exception.
    others: dict[str, int] = field(default_factory=dict)  # Other invariants that failed, with counts of worlds.


def run_planted(seed: int, events: int = EVENTS, *, planted: str, **fixed: Any) -> Outcome:
    """As `run_seed`, with the bug named `planted` in the nodes' code."""
    with planting(planted):
        return run_seed(seed, events, **fixed)


def is_caught(name: str, invariant: str | None, bugs: Mapping[str, PlantedBug] = PLANTED) -> bool:
    """Whether `invariant`, which failed in a world, is the one that the bug names."""
    return invariant == bugs[name].invariant


def is_broken(invariant: str | None) -> bool:
    """Whether a world ended with an exception other than a Violation."""
    return invariant is not None and invariant.startswith(RAISES)


def hunt(
    seeds: range,
    events: int,
    name: str,
    bugs: Mapping[str, PlantedBug] = PLANTED,
    run: Callable[..., Outcome] = run_planted,
) -> Hunt:
    """Searches for one of `bugs` in the worlds of `run`.

    If another invariant fails, the search continues; another exception ends it.
    """
    invariant, seconds = bugs[name].invariant, 0.0
    others: Counter[str] = Counter()
    seed = None
    for seed in seeds:
        try:
            outcome = run(seed, events, planted=name)
        except PlantingError as error:
            return Hunt(name, invariant, BROKEN, seed, seconds, str(error))
        seconds += outcome.seconds
        found = outcome.invariant
        if is_broken(found):
            return Hunt(name, invariant, BROKEN, seed, seconds, f"{found}: {outcome.text}", dict(others))
        if is_caught(name, found, bugs):
            return Hunt(name, invariant, CAUGHT, seed, seconds, outcome.text, dict(others))
        if found is not None:
            others[found] += 1
    return Hunt(name, invariant, NOT_CAUGHT, seed, seconds, "", dict(others))


def hunt_all(seeds: range, events: int, processes: int, names: Sequence[str] = ()) -> Generator[Hunt, None, None]:
    """Searches for all bugs or for those in `names`; yields each result as soon as its search ends."""
    wanted = names or tuple(PLANTED)
    search = partial(hunt, seeds, events)
    if processes == 1 or len(wanted) == 1:
        yield from map(search, wanted)
        return
    with worker_processes(processes) as pool:
        for found in as_completed([pool.submit(search, name) for name in wanted]):
            yield found.result()
