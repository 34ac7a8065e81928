"""Simulated worlds of raft nodes, all invariants on: what a number of events takes."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.sim.raft.run_world import run_seed

EVENTS = 5_000


@pytest.mark.parametrize(("voters", "observers"), [(1, 0), (3, 0), (5, 5)])
def test_events(benchmark: BenchmarkFixture, voters: int, observers: int) -> None:
    fixed = {"voters": voters, "observers": observers, "level": "4.3", "dynamic": False}
    outcome = benchmark.pedantic(run_seed, (1, EVENTS), fixed, rounds=3, warmup_rounds=1)
    assert outcome.invariant is None
    benchmark.extra_info["million events a minute"] = outcome.events / outcome.seconds * 60 / 1e6
