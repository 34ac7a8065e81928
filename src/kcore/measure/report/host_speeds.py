"""Compares the hosts of a run by one calibration cell that runs on each of them: names slow and noisy hosts.

The cell sorts the same numbers several times. A cluster's hosts may differ in clock rate, in neighbours, and in
throttling; a cell of the plan that ran on a slow host is then no regression.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from kcore.measure.report.noise import quantile
from kcore.measure.report.units import duration

SLOW: Final = 1.2  # A host is slow above this multiple of the median of all hosts.
NOISY: Final = 1.3  # A host is noisy if its 90th percentile is above this multiple of its median.
_NUMBERS: Final = 200_000  # Some milliseconds of one core a sort.
_RUNS: Final = 11


def calibration_ns() -> list[int]:
    """Runs the calibration cell in this process; returns the time of each sort, without a first one that warms up."""
    numbers = np.random.default_rng(1).integers(0, 1 << 40, _NUMBERS)
    np.sort(numbers)
    times = []
    for _ in range(_RUNS):
        start = perf_counter_ns()
        np.sort(numbers)
        times.append(perf_counter_ns() - start)
    return times


@dataclass(frozen=True, slots=True)
class HostSpeed:
    """The times of the calibration cell on one host, from all its processes."""

    host: str
    times_ns: Sequence[int]

    @property
    def median_ns(self) -> float:
        return median(self.times_ns)

    @property
    def spread(self) -> float:
        """The 90th percentile as a multiple of the median."""
        return quantile(sorted(self.times_ns), 0.9) / self.median_ns


def as_fact(found: Iterable[tuple[str, Sequence[int]]]) -> list[dict[str, Any]]:
    """The times of several processes by host, for the facts of a run."""
    by_host: dict[str, list[int]] = {}
    for host, times_ns in found:
        by_host.setdefault(host, []).extend(times_ns)
    return [{"host": host, "calibration_ns": times_ns} for host, times_ns in sorted(by_host.items())]


def about_the_hosts(facts: Mapping[str, Any]) -> list[str]:
    """A sentence for each slow host and each noisy host; empty if the facts have no calibration."""
    speeds = [HostSpeed(each["host"], each["calibration_ns"]) for each in facts.get("hosts") or ()]
    if not speeds:
        return []
    usual_ns = median(speed.median_ns for speed in speeds)
    lines = [
        f"Host {each.host} is slow: the calibration cell takes {duration(each.median_ns)} there, "
        f"{each.median_ns / usual_ns:.2f} times the median of {len(speeds)} hosts."
        for each in speeds
        if each.median_ns > SLOW * usual_ns
    ]
    lines += [
        f"Host {each.host} is noisy: a tenth of the calibration cell's runs take {each.spread:.2f} times their median "
        "or more."
        for each in speeds
        if each.spread > NOISY
    ]
    return lines
