"""The garbage collector is lent to a program and given back."""

import gc

import pytest

from kcore.collector import rare_collections
from kcore.sim.raft.campaign import Campaign, rows


def state() -> tuple[bool, tuple[int, int, int], bool]:
    return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0


def test_it_looks_seldom_inside_and_is_as_before_afterwards() -> None:
    before = state()
    with rare_collections():
        assert gc.get_threshold()[0] > before[1][0]
        assert gc.get_freeze_count() > 0
    assert state() == before


def test_a_collection_of_new_objects_is_short() -> None:
    """The event loop of a server waits for it, and one of the second generation has the objects of two."""
    with rare_collections():
        young, second, third = gc.get_threshold()
    assert young * (second + 1) <= 2_000 <= young * second * third / 1_000


def test_an_error_gives_it_back() -> None:
    before = state()
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert state() == before


@pytest.mark.parametrize("seeds", [range(1), range(2)])
def test_a_campaign_in_another_program_gives_it_back(seeds: range) -> None:
    """Programs that run worlds in their own process keep collecting garbage: reference cycles hold open files."""
    before = state()
    assert len(list(rows(Campaign(seeds, 50), 1))) == len(seeds)
    assert state() == before
