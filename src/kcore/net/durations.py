"""Counts events and their durations, for an operator's metrics of a server.

The caller passes the time in seconds. All calls must use the same monotonic clock.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

WINDOW_S: Final = 30.0  # Kafka's metrics.sample.window.ms.
BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


@dataclass(slots=True)
class Recent:
    """The values of two windows of `WINDOW_S`: the current one and the one before, as Kafka's Max, Avg and Rate have.

    The statistics cover the last 30 to 60 seconds; reading does not reset them.
    """

    _begin_s: float = float("-inf")
    _count: int = 0
    _total: float = 0.0
    _longest: float = 0.0
    _before: tuple[int, float, float] = (0, 0.0, 0.0)  # Count, total and longest of the window before.

    def add(self, value: float, at_s: float) -> None:
        """One more value."""
        if at_s - self._begin_s >= WINDOW_S:
            self._pass(at_s)
        self._count += 1
        self._total += value
        if value > self._longest:
            self._longest = value

    def _keep_up(self, at_s: float) -> None:
        if at_s - self._begin_s >= WINDOW_S:
            self._pass(at_s)

    def _pass(self, at_s: float) -> None:
        """A window begins; the one before it counts only if it has not ended long ago."""
        is_next = at_s - self._begin_s < 2 * WINDOW_S
        self._before = (self._count, self._total, self._longest) if is_next else (0, 0.0, 0.0)
        self._begin_s = self._begin_s + WINDOW_S if is_next else at_s
        self._count, self._total, self._longest = 0, 0.0, 0.0

    def longest(self, at_s: float) -> float:
        """The largest value; 0 without any."""
        self._keep_up(at_s)
        return max(self._longest, self._before[2])

    def average(self, at_s: float) -> float:
        """The mean value; NaN without any, as in Kafka."""
        total = self.total(at_s)
        count = self._count + self._before[0]
        return total / count if count else float("nan")

    def total(self, at_s: float) -> float:
        """The sum of the values."""
        self._keep_up(at_s)
        return self._total + self._before[1]

    def rate(self, at_s: float) -> float:
        """The sum of the values a second; at first over one whole window, as Kafka's Rate does it."""
        total = self.total(at_s)
        return total / (at_s - self._begin_s + WINDOW_S)


@dataclass(slots=True)
class Duration:
    """How often something was done, and how long it took: since the start, by length, and of late."""

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0
    by_length: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))  # Up to each of BOUNDS_S, and more.
    recent: Recent = field(default_factory=Recent)

    def add(self, seconds: float, at_s: float) -> None:
        """Once more; it ended at `at_s`."""
        self.count += 1
        self.total_s += seconds
        if seconds > self.longest_s:
            self.longest_s = seconds
        self.by_length[bisect_left(BOUNDS_S, seconds)] += 1
        self.recent.add(seconds, at_s)
