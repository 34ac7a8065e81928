"""Simulated clusters: clean, the same each time, of every kind; the command; bugs that their invariants find."""

import json
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.cli.measure import sim_cluster_command
from kcore.controller.kraft.admin.features import DEPENDENCIES
from kcore.releases.known import RELEASES
from kcore.sim.cluster.coverage import CANNOT_BE, STATES, never_seen, pair
from kcore.sim.cluster.options import CONTROLLERS, OWN_FAULTS, draw
from kcore.sim.cluster.run_world import COMMAND, run_seed
from kcore.sim.raft.options import FAULTS
from kcore.sim.raft.run_world import Outcome, replay_command
from planted_cluster import PLANTED, run_planted
from planted_raft.hunting import CAUGHT, hunt
from sim.other_processes import hash_elsewhere

EVENTS = 2_500
SEEDS = range(1, 501)


def kcore(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sim", "cluster", *arguments])


@pytest.mark.parametrize("seed", (2, 3, 7))
def test_all_invariants_hold(seed: int) -> None:
    outcome = run_seed(seed, EVENTS)
    assert outcome.invariant is None, "\n".join([*outcome.story, outcome.text])
    assert outcome.events >= EVENTS and outcome.healed_ms >= 0
    assert outcome.coverage["record: RegisterBrokerRecord"] >= draw(seed).brokers
    assert outcome.coverage["image compared"] > 0


def test_a_seed_is_the_same_cluster_each_time() -> None:
    once, again = run_seed(7, EVENTS), run_seed(7, EVENTS)
    assert (once.hash, once.events, once.coverage) == (again.hash, again.events, again.coverage)


@pytest.mark.long
def test_the_hashing_of_strings_changes_nothing() -> None:
    assert hash_elsewhere("kcore.sim.cluster.run_world", 7, EVENTS) == run_seed(7, EVENTS).hash


def test_how_to_see_it_again() -> None:
    command = replay_command(5, 100, COMMAND, controllers=3, brokers=None)
    assert command == "./kcore sim cluster --seed 5 --events 100 --controllers 3"


def test_seeds_draw_every_kind_of_cluster() -> None:
    worlds = [draw(seed) for seed in range(400)]
    assert {(each.controllers, each.release) for each in worlds} == set(product(CONTROLLERS, RELEASES))
    assert {each.brokers for each in worlds} == {*range(3, 10)}
    assert {each.directories for each in worlds} == {1, 2, 3}
    assert {each.has_elr for each in worlds} == {each.unclean for each in worlds} == {True, False}
    assert {fault for each in worlds for fault in each.quorum.faults} == {*FAULTS, *OWN_FAULTS}
    fixed = draw(7, controllers=1, brokers=4, release="3.9.1")
    assert (fixed.controllers, fixed.brokers, fixed.release, fixed.quorum.level) == (1, 4, "3.9.1", "3.9")


def test_drawn_features_have_the_levels_that_they_depend_on() -> None:
    """Kafka finalizes no feature without its dependencies, so no cluster begins with such levels."""
    for features in (draw(seed).features for seed in range(400)):
        for (name, level), least in DEPENDENCIES.items():
            if features.get(name, 0) >= level:
                assert all(features[other] >= each for other, each in least.items()), features


def test_what_was_never_seen_is_listed() -> None:
    every = never_seen(())
    name = pair("bounce", "a reassignment")
    assert name in every and "administrator: reassign" in every
    assert [*set(every) - {*never_seen({name})}] == [name]


def test_all_faults_must_meet_all_states() -> None:
    pairs = [name for name in never_seen(()) if ", in state: " in name]
    assert pairs == [pair(fault, state) for fault in (*FAULTS, *OWN_FAULTS) for state in STATES]


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_excludes_the_records_that_it_does_not_write(release: str) -> None:
    """Without a fixed release a campaign must see them all."""
    excluded = {*never_seen(())} - {*never_seen((), release)}
    assert excluded == {"record: ClearElrRecord" if release == "3.9.1" else "record: ZkMigrationStateRecord"}
    assert excluded <= {*CANNOT_BE}


def test_missing_coverage_fails_a_campaign_that_requires_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a missing name; without the option the report has the names, and the exit code is 0."""
    options = ("--seed", "1", "--events", "50", "--brokers", "3", "--controllers", "1", "--release", "4.3.1")
    name = pair("bounce", "a reassignment")

    def outcome(seed: int, events: int, **fixed: object) -> Outcome:
        seen = dict.fromkeys(set(never_seen((), "4.3.1")) - {name}, 1)
        return Outcome(seed, events, 1, 1.0, "", 1, 0, 1, 1, coverage=seen)

    monkeypatch.setattr(sim_cluster_command, "run_seed", outcome)
    assert kcore(*options).exit_code == 0
    failed = kcore(*options, "--require-coverage")
    assert failed.exit_code == 1
    assert [line for line in failed.output.splitlines() if "never seen" in line] == [f"never seen: {name}"]
    monkeypatch.setattr(sim_cluster_command, "never_seen", lambda seen, release: [])
    assert kcore(*options, "--require-coverage").exit_code == 0


def test_the_command(tmp_path: Path) -> None:
    options = ("--brokers", "3", "--controllers", "1", "--release", "4.3.1")
    done = kcore(
        "--seeds", "2", "--events", "300", "--processes", "1", "--out", str(tmp_path), "--overwrite", "--json", *options
    )
    assert done.exit_code == 0, done.output
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["seed"] for row in printed] == [1, 2]
    assert printed[0]["replay"] == (
        "./kcore sim cluster --seed 1 --events 300 --controllers 1 --brokers 3 --release 4.3.1"
    )
    assert "2 seeds, 0 failed" in done.stderr and "in state: quiet" in done.stderr
    assert "<h1>kcore sim cluster</h1>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--controllers", "2"), "--controllers: 2 is none of 1, 3, 5"),
        (("--release", "4.3"), "'4.3' is none of 3.9.1"),
        (("--brokers", "2"), "greater than or equal to 3"),
    ],
)
def test_usage(arguments: tuple[str, ...], text: str) -> None:
    done = kcore(*arguments)
    assert done.exit_code == 2 and text in done.output


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught_by_its_invariant(name: str) -> None:
    found = hunt(SEEDS, EVENTS, name, PLANTED, run_planted)
    assert found.verdict == CAUGHT, found


def test_a_failure_tells_its_story() -> None:
    found = hunt(SEEDS, EVENTS, "standbys-answer-twice", PLANTED, run_planted)
    assert found.seed is not None
    story = run_planted(found.seed, EVENTS, planted="standbys-answer-twice").story
    assert "the last events:" in story and any("administrator: create" in line for line in story)
