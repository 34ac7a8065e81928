"""The clocks of a server's process."""

import time


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
