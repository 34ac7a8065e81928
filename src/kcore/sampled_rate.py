"""Kafka's Rate: the recorded amount per second over the last windows, and the wait until the rate is lower.

Source: Rate, SimpleRate, SampledStat, WindowedSum and QuotaUtils of 4.3.1.
"""

import math
from typing import Final

WINDOWS: Final = 11  # quota.window.num
WINDOW_MS: Final = 1_000  # quota.window.size.seconds
MOST_MS: Final = (1 << 31) - 1


class _Sample:
    """The sum of the values in one window; the window begins with its first value."""

    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """The rate of one quantity."""

    __slots__ = ("_allows_burst", "_current", "_samples", "_window_ms", "_windows")

    def __init__(self, windows: int = WINDOWS, window_ms: int = WINDOW_MS, *, allows_burst: bool = True) -> None:
        """`allows_burst`: the time before the first value counts as empty windows (Rate); otherwise the measured time
        is at least one window (SimpleRate).
        """
        self._windows, self._window_ms, self._allows_burst = windows, window_ms, allows_burst
        self._samples: list[_Sample] = []  # One more than `windows`: the oldest may overlap the measured time.
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Adds `value` to the rate; a negative value takes back an earlier one."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """The rate per second."""
        return self._over(self._elapsed_ms(now_ms))

    def throttle_time_ms(self, limit: float, now_ms: int, most_ms: int = MOST_MS) -> int:
        """Milliseconds without values until the rate is down to `limit` per second; 0 if it is not above, at most
        `most_ms`."""
        elapsed_ms = self._elapsed_ms(now_ms)
        seen = self._over(elapsed_ms)
        if seen <= limit or math.isnan(limit):
            return 0
        wait_ms = (seen - limit) / limit * elapsed_ms + 0.5 if limit else math.inf
        return math.floor(wait_ms) if wait_ms < most_ms else most_ms

    def _over(self, elapsed_ms: int) -> float:
        return sum(sample.total for sample in self._samples) / (elapsed_ms / 1000)

    def _next(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _elapsed_ms(self, now_ms: int) -> int:
        """Milliseconds that the samples cover. The first call begins the first sample; old samples are reset."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._windows * self._window_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        if not self._allows_burst:
            return max(elapsed_ms, self._window_ms, 1)
        missing = max(self._windows - 1 - elapsed_ms // self._window_ms, 0)
        return max(elapsed_ms + missing * self._window_ms, 1)
