"""The clocks of a server's process, and a timer."""

import asyncio
import time
from collections.abc import Callable


def now_ms() -> int:
    """Monotonic milliseconds, for deadlines."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, for time stamps."""
    return time.time_ns() // 1_000_000


class Clock:
    """Milliseconds since 1970 that never go back: the wall clock at the start, advanced by the monotonic clock."""

    def __init__(self) -> None:
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return self.ms_of(time.monotonic_ns())

    def ms_of(self, monotonic_ns: int) -> int:
        """Converts a time of `time.monotonic_ns()` to milliseconds of this clock."""
        return (monotonic_ns + self._ahead_ns) // 1_000_000

    def ns_of(self, at_ms: int) -> int:
        """Converts a time of this clock to a time of `time.monotonic_ns()`."""
        return at_ms * 1_000_000 - self._ahead_ns

    def seconds_of(self, at_ms: int) -> float:
        """Converts a time of this clock to seconds of the event loop's clock."""
        return self.ns_of(at_ms) / 1e9


class DeadlineTimer:
    """Calls `on_due` once, when the deadline that was set last has come."""

    def __init__(self, clock: Clock, on_due: Callable[[], None]) -> None:
        self._clock, self._on_due = clock, on_due
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ms: int | None) -> None:
        """Replaces the deadline, a time of the clock; None: there is no deadline."""
        when_s = None if at_ms is None else self._clock.seconds_of(at_ms)
        if self._timer is not None and self._timer.when() == when_s:
            return
        self.cancel()
        if when_s is not None:
            self._timer = asyncio.get_running_loop().call_at(when_s, self._due)

    def cancel(self) -> None:
        """Removes the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._on_due()
