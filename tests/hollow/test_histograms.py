"""Percentiles of the loop's histograms."""

import numpy as np
import pytest

from kcore.measure.hollow.histograms import NOT_KNOWN, percentile_ms

STEPS = 32
BUCKETS = 36 * STEPS


def bucket_of(duration_ns: int) -> int:
    """As the loop's histogram has it: a bucket a nanosecond below 32, then 32 buckets a power of two."""
    if duration_ns < STEPS:
        return duration_ns
    octave = duration_ns.bit_length() - 6
    return (octave + 1) * STEPS + (duration_ns >> octave) - STEPS


def counts(*durations_ns: int) -> np.ndarray:
    found = np.zeros(BUCKETS, np.int64)
    for duration in durations_ns:
        found[bucket_of(duration)] += 1
    return found


def test_of_nothing_it_is_not_known() -> None:
    assert percentile_ms(counts(), 0.5) == NOT_KNOWN


@pytest.mark.parametrize("duration_ns", [0, 1, 31, 32, 33, 63, 64, 1_000, 999_999, 7_654_321, 3_000_000_000])
def test_of_one_duration_it_is_the_bound_of_its_bucket(duration_ns: int) -> None:
    for share in (0.01, 0.5, 1):
        found_ns = percentile_ms(counts(duration_ns), share) * 1e6
        assert duration_ns <= found_ns + 1e-6
        assert found_ns <= duration_ns * (1 + 1 / STEPS) + 1


def test_a_share_of_many_ends_in_the_bucket_where_so_many_have_been() -> None:
    many = counts(*[1_000_000] * 98, 50_000_000, 90_000_000)
    assert percentile_ms(many, 0.5) == pytest.approx(1, rel=0.04)
    assert percentile_ms(many, 0.98) == pytest.approx(1, rel=0.04)
    assert percentile_ms(many, 0.99) == pytest.approx(50, rel=0.04)
    assert percentile_ms(many, 1) == pytest.approx(90, rel=0.04)
