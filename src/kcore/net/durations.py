"""Counts events and their durations, for a server's metrics.

The caller passes the time in seconds. All calls must use the same monotonic clock.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

WINDOW_S: Final = 30.0  # The length of a window of `Recent`: Kafka's metrics.sample.window.ms.
BOUNDS_S: Final = (  # The upper bounds of the durations that `Duration.by_length` counts.
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


@dataclass(slots=True)
class Recent:
    """Statistics of recent values, as Kafka's Max, Avg and Rate: of the current window and the window before it.

    So the statistics cover the last 30 to 60 seconds. Reading does not reset them.
    """

    _begin_s: float = float("-inf")
    _count: int = 0
    _total: float = 0.0
    _longest: float = 0.0
    _before: tuple[int, float, float] = (0, 0.0, 0.0)  # Count, total and longest of the previous window.

    def add(self, value: float, at_s: float) -> None:
        """Adds a value at the time `at_s`."""
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
        """Begins a new window. Keeps the previous window only if it ended less than a window ago."""
        is_next = at_s - self._begin_s < 2 * WINDOW_S
        self._before = (self._count, self._total, self._longest) if is_next else (0, 0.0, 0.0)
        self._begin_s = self._begin_s + WINDOW_S if is_next else at_s
        self._count, self._total, self._longest = 0, 0.0, 0.0

    def longest(self, at_s: float) -> float:
        """The largest recent value; 0 without values."""
        self._keep_up(at_s)
        return max(self._longest, self._before[2])

    def average(self, at_s: float) -> float:
        """The mean of the recent values; NaN without values, as in Kafka."""
        total = self.total(at_s)
        count = self._count + self._before[0]
        return total / count if count else float("nan")

    def total(self, at_s: float) -> float:
        """The sum of the recent values."""
        self._keep_up(at_s)
        return self._total + self._before[1]

    def rate(self, at_s: float) -> float:
        """The sum of the recent values per second; at the start divided by a whole window, as Kafka's Rate does."""
        total = self.total(at_s)
        return total / (at_s - self._begin_s + WINDOW_S)


@dataclass(slots=True)
class Duration:
    """How often an event happened, and how long it took: since the start, by length, and recently."""

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0
    # Counts: durations up to each of BOUNDS_S and above the bound before it; last, durations above all bounds.
    by_length: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    recent: Recent = field(default_factory=Recent)

    def add(self, seconds: float, at_s: float) -> None:
        """Counts an event that took `seconds` and ended at `at_s`."""
        self.count += 1
        self.total_s += seconds
        if seconds > self.longest_s:
            self.longest_s = seconds
        self.by_length[bisect_left(BOUNDS_S, seconds)] += 1
        self.recent.add(seconds, at_s)
