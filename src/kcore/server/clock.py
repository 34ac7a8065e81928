"""The clocks of a server's process."""

import time


def now_ms() -> int:
    """Monotonic milliseconds, for deadlines."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, for time stamps."""
    return time.time_ns() // 1_000_000


class Clock:
    """Milliseconds since 1970 as they were at the start, and from there on by a clock that only goes forward."""

    def __init__(self) -> None:
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return self.ms_of(time.monotonic_ns())

    def ms_of(self, monotonic_ns: int) -> int:
        """A time of `time.monotonic_ns()`."""
        return (monotonic_ns + self._ahead_ns) // 1_000_000

    def ns_of(self, at_ms: int) -> int:
        """A time of this clock, as `time.monotonic_ns()` has it."""
        return at_ms * 1_000_000 - self._ahead_ns

    def seconds_of(self, at_ms: int) -> float:
        """A time of this clock, in seconds of the event loop's clock."""
        return self.ns_of(at_ms) / 1e9
