from itertools import pairwise
from math import comb

import pytest

from kcore.measure.report import noise


def coverage(count: int, low: int, high: int) -> float:
    """By enumeration: the chance that the median is between the samples at these places of so many."""
    return sum(comb(count, below) for below in range(low + 1, high + 1)) / 2**count


@pytest.mark.parametrize("count", [*range(6, 60), 100, 333, 1000])
def test_the_interval_has_the_least_width_with_the_confidence(count: int):
    low, high = noise.interval(count)
    assert high == count - 1 - low
    assert coverage(count, low, high) >= noise.CONFIDENCE
    assert coverage(count, low + 1, high - 1) < noise.CONFIDENCE


def test_few_samples_have_their_whole_range():
    assert [noise.interval(count) for count in range(1, 6)] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]


def test_many_samples_go_on_where_few_end():
    assert noise.interval(1000) == (468, 531)
    assert all(a <= b for a, b in pairwise([noise.interval(count)[0] for count in range(990, 1020)]))


def test_noise_is_described_in_words():
    steady = noise.spread([100.0] * 50 + [101.0] * 50)
    assert steady.noise == []
    tailed = noise.spread([100.0] * 90 + [350.0] * 10)
    assert tailed.noise == ["p99 is 3.50 x median", "p99 is 3.50 x min"]
    assert noise.spread([100.0, 120.0]).noise == ["median is uncertain by 18%"]
    assert noise.spread([0.0, 5.0]).noise == []  # Below the clock's tick nothing can be said.


def test_a_spread_has_the_quantiles_of_numpy():
    its = noise.spread([4.0, 1.0, 3.0, 2.0])
    assert (its.least, its.quarter, its.median, its.three_quarters, its.count) == (1.0, 1.75, 2.5, 3.25, 4)
    assert its.p99 == pytest.approx(3.97)


def test_the_load_is_named_only_above_the_limits():
    def remarks(**load: float) -> list[str]:
        return noise.about_the_machine({"machine": {"cores": 4}, "load": load})

    assert remarks(load_before=1.0, stolen_share=0.02) == [] and remarks() == [] and noise.about_the_machine({}) == []
    assert "1.01 on 4 cores" in remarks(load_before=1.01)[0]
    assert "3% of the cores" in remarks(stolen_share=0.03)[0]
