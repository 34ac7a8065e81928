"""A failing seed of a simulated cluster shrinks to few faults and requests, and these replay it."""

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.sim.cluster import shrinking
from kcore.sim.cluster.run_world import run_steps, shrink
from kcore.sim.cluster.schedule import Schedule, Step, steps_of, text_of
from kcore.sim.cluster.shrinking import shrunk
from kcore.sim.kernel.events import Kernel
from planted_cluster import PLANTED, run_planted_steps

EVENTS = 2_500
BUG = "fenced-broker-stays-in-isrs"
SMALL = {"controllers": 1, "brokers": 3}


def kcore(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sim", "cluster", *arguments])


def fails_with(needed: set[int], steps: Sequence[int]) -> Sequence[int] | None:
    return steps if needed <= {*steps} else None


@pytest.mark.parametrize("seed", range(20))
def test_only_the_needed_steps_are_left(seed: int) -> None:
    random = Random(seed)
    size = random.randint(1, 80)
    needed = {*random.sample(range(size), random.randint(0, min(6, size)))}
    assert shrunk(range(size), partial(fails_with, needed)) == sorted(needed)


def test_steps_after_the_failure_are_dropped_at_once() -> None:
    """A run ends at its failure, so it performs no later step."""
    tried: list[Sequence[int]] = []

    def fails(steps: Sequence[int]) -> Sequence[int] | None:
        tried.append(steps)
        return [each for each in steps if each <= 3] if 3 in steps else None

    assert shrunk(range(100), fails) == [3]
    assert len(tried) < 15


def test_the_runs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "MOST_RUNS", 7)
    runs = 0

    def fails(steps: Sequence[int]) -> Sequence[int] | None:
        nonlocal runs
        runs += 1
        return None

    assert shrunk(range(100), fails) == [*range(100)]
    assert runs == 7


def test_a_schedule_performs_only_its_steps() -> None:
    done: list[str] = []
    schedule, kernel = Schedule([1, 3]), Kernel(1, "")
    for name in "abcde":
        schedule.take(kernel, lambda name=name: name, lambda name=name: done.append(name))  # type: ignore[misc]
    assert done == ["b", "d"]
    assert schedule.taken == [Step(1, 0, "b"), Step(3, 0, "d")]


@pytest.mark.parametrize("steps", ([], [0], [3, 17, 20]))
def test_steps_have_a_text(steps: list[int]) -> None:
    assert steps_of(text_of(reversed(steps))) == steps


def test_all_steps_replay_the_whole_world() -> None:
    whole = run_steps(3, 1_500, **SMALL)
    again = run_steps(3, 1_500, steps=text_of(each.number for each in whole.steps), **SMALL)
    assert whole.steps and again.steps == whole.steps
    assert again.outcome.hash == whole.outcome.hash
    assert run_steps(3, 1_500, steps="none", **SMALL).steps == []


@pytest.mark.long
def test_a_failing_seed_shrinks_and_its_steps_replay_it() -> None:
    whole = run_planted_steps(1, EVENTS, planted=BUG)
    found = shrink(1, EVENTS, run_planted_steps, planted=BUG)
    assert found is not None and len(found.steps) < len(whole.steps)
    assert found.outcome.invariant == whole.outcome.invariant == PLANTED[BUG].invariant
    again = run_planted_steps(1, EVENTS, planted=BUG, steps=text_of(each.number for each in found.steps))
    assert (again.outcome.hash, again.steps) == (found.outcome.hash, found.steps)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "seed"),
    [("elections-are-unclean", 1), ("images-miss-controlled-shutdowns", 1), ("leaders-stay-on-lost-directories", 4)],
)
def test_bugs_of_other_kinds_shrink_to_less_than_half(name: str, seed: int) -> None:
    whole = run_planted_steps(seed, EVENTS, planted=name)
    found = shrink(seed, EVENTS, run_planted_steps, planted=name)
    assert found is not None and found.outcome.invariant == whole.outcome.invariant == PLANTED[name].invariant
    assert len(found.steps) * 2 <= len(whole.steps)


def test_a_seed_that_holds_has_nothing_to_shrink() -> None:
    done = kcore("--shrink", "3", "--events", "300", "--controllers", "1", "--brokers", "3")
    assert done.exit_code == 0 and "all invariants hold in 300 events" in done.output


def test_the_command_prints_the_steps_and_how_to_replay_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_planted_steps(1, EVENTS, planted=BUG)
    short = found._replace(steps=found.steps[:2])
    monkeypatch.setattr("kcore.sim.cluster.run_world.shrink", lambda seed, events, **fixed: short)
    done = kcore("--shrink", "1", "--events", "2500", "--brokers", "3")
    numbers = text_of(each.number for each in short.steps)
    assert done.exit_code == 1 and PLANTED[BUG].invariant in done.output
    assert (
        f"after 2 faults and requests; again: ./kcore sim cluster --seed 1 --events 2500 --brokers 3 --steps {numbers}"
        in (done.output)
    )
    assert all(f"step {each.number}: {each.text}" in done.output for each in short.steps)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--steps", "1,2"), "--steps needs --seed"),
        (("--seed", "1", "--steps", "1,x"), "'1,x' is no list of numbers"),
        (("--shrink", "1", "--seed", "2"), "leave out --seed and --steps"),
        (("--shrink", "1", "--steps", "2"), "leave out --seed and --steps"),
    ],
)
def test_usage(arguments: tuple[str, ...], text: str) -> None:
    done = kcore(*arguments)
    assert done.exit_code == 2 and text in done.output
