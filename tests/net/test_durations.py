"""Counted times: since the start, by length, and of late."""

import math

from kcore.net.durations import BOUNDS_S, WINDOW_S, Duration, Recent


def test_a_duration_counts_adds_and_keeps_the_longest() -> None:
    duration = Duration()
    for place, seconds in enumerate((0.0001, 0.002, 20.0)):
        duration.add(seconds, float(place))
    assert (duration.count, duration.longest_s) == (3, 20.0)
    assert math.isclose(duration.total_s, 20.0021)
    assert duration.by_length[0] == 1, "a bound belongs to its bucket, as in Prometheus"
    assert duration.by_length[BOUNDS_S.index(0.0025)] == 1
    assert duration.by_length[-1] == 1
    assert sum(duration.by_length) == duration.count


def test_the_longest_of_late_outlives_one_window_and_not_two() -> None:
    recent = Recent()
    recent.add(5.0, 1000.0)
    recent.add(1.0, 1000.0 + WINDOW_S)
    assert recent.longest(1000.0 + WINDOW_S) == 5.0
    recent.add(2.0, 1000.0 + 2 * WINDOW_S)
    assert recent.longest(1000.0 + 2 * WINDOW_S) == 2.0


def test_what_is_long_ago_is_forgotten_without_new_values() -> None:
    recent = Recent()
    recent.add(5.0, 1000.0)
    assert recent.longest(1000.0 + 2 * WINDOW_S) == 0.0
    assert math.isnan(recent.average(1000.0 + 2 * WINDOW_S))
    assert recent.rate(1000.0 + 2 * WINDOW_S) == 0.0


def test_reading_takes_nothing_away() -> None:
    """Two Prometheus servers and `kcore top` may read the same page."""
    recent = Recent()
    recent.add(3.0, 10.0)
    assert [recent.longest(11.0) for _ in range(3)] == [3.0, 3.0, 3.0]


def test_the_mean_and_the_rate_are_of_both_windows() -> None:
    recent = Recent()
    recent.add(2.0, 100.0)
    recent.add(4.0, 100.0 + WINDOW_S)
    assert recent.average(100.0 + WINDOW_S) == 3.0
    assert recent.rate(100.0 + WINDOW_S) == 6.0 / WINDOW_S
