"""Worlds as their seeds make them: clean, and the same each time."""

from itertools import product

import pytest

from kcore.sim.raft.options import FAULTS, LEVELS, draw
from kcore.sim.raft.run_world import replay_command, run_seed
from sim.other_processes import hash_elsewhere

EVENTS = 1_200


@pytest.mark.parametrize("seed", range(1, 13))
def test_all_invariants_hold(seed: int) -> None:
    outcome = run_seed(seed, EVENTS)
    assert outcome.invariant is None, "\n".join([*outcome.story, outcome.text])
    assert outcome.events >= EVENTS and outcome.healed_ms >= 0
    assert outcome.committed > 0 and outcome.epochs > 0


def test_a_seed_is_the_same_world_each_time() -> None:
    once, again = run_seed(7, EVENTS), run_seed(7, EVENTS)
    assert (once.hash, once.events, once.coverage) == (again.hash, again.events, again.coverage)
    assert once.hash != run_seed(8, EVENTS).hash


def test_the_hashing_of_strings_changes_nothing() -> None:
    assert hash_elsewhere("kcore.sim.raft.run_world", 7, EVENTS) == run_seed(7, EVENTS).hash


def test_how_to_see_it_again() -> None:
    assert replay_command(5, 100) == "./kcore sim raft --seed 5 --events 100"
    command = replay_command(5, 100, "ci/sim", planted="some-bug", fetch_max_bytes=3, level=None)
    assert command == "ci/sim --seed 5 --events 100 --planted some-bug --fetch-max-bytes 3"


def test_seeds_draw_every_kind_of_world() -> None:
    worlds = [draw(seed) for seed in range(1_000)]
    assert {world.voters for world in worlds} == {1, 2, 3, 4, 5}
    assert {world.observers for world in worlds} == {0, 1, 2, 3, 5}
    assert {world.level for world in worlds} == set(LEVELS)
    assert {fault for world in worlds for fault in world.faults} == set(FAULTS)
    assert {(world.level, world.dynamic) for world in worlds} == set(product(LEVELS, (True, False)))
    assert {world.upgraded for world in worlds if world.level == "4.3" and not world.dynamic} == {True, False}
    assert not any(world.upgraded for world in worlds if world.level != "4.3" or world.dynamic)
    slow = {(world.log_fsync_us >= 5_000, world.election_fsync_us >= 5_000) for world in worlds}
    assert slow == set(product((True, False), repeat=2))
    shaken = [world for world in worlds if world.dynamic and world.voters == 4 and world.change_every_us == 100_000]
    assert any(world.fault_every_us == 300_000 for world in shaken)


@pytest.mark.long
def test_kraft_version_goes_up_while_a_world_runs() -> None:
    """And then its voters change."""
    worlds = {"level": "4.3", "dynamic": False, "upgraded": True, "voters": 3, "change_every_us": 500_000}
    outcomes = [run_seed(seed, 4_000, **worlds) for seed in range(1, 9)]
    assert [(outcome.invariant, outcome.text) for outcome in outcomes if outcome.invariant is not None] == []
    assert sum(outcome.coverage.get("upgrade written", 0) for outcome in outcomes) > 0
    assert sum(outcome.coverage.get("upgrade refused", 0) for outcome in outcomes) > 0
    assert sum(outcome.coverage.get("answer: AddRaftVoterResponse", 0) for outcome in outcomes) > 0


def test_what_is_fixed_leaves_the_rest_as_it_was() -> None:
    assert draw(3, voters=5).faults == draw(3).faults
    assert (draw(3, voters=5).voters, draw(3, voters=None).voters) == (5, draw(3).voters)
