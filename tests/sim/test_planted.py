"""Each planted bug is found within 200 seeds; the search begins at seed 1 and ends at the first that finds it."""

import pytest

from kcore.raft.quorum import Quorum
from kcore.sim.planted import PLANTED, planted
from kcore.sim.run import run_seed

EVENTS = 2_000
MOST_SEEDS = 200


@pytest.mark.parametrize("name", PLANTED)
def test_it_is_caught(name: str) -> None:
    assert any(run_seed(seed, EVENTS, name).invariant is not None for seed in range(1, MOST_SEEDS + 1))


def test_it_is_gone_again() -> None:
    before = Quorum.__dict__["_store"]
    with planted("vote-not-durable"):
        assert Quorum.__dict__["_store"] is not before
    assert Quorum.__dict__["_store"] is before


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 12
    assert all((plant.__doc__ or "").strip() for plant in PLANTED.values())
