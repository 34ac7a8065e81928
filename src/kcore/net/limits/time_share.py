"""Gives work that may wait a share of the event loop's time, so that thousands of such requests delay no other work."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

PART: Final = 4  # A turn of the work lasts for this part (a quarter) of the time since the turn before it.
LEAST_NS: Final = 500_000  # The time that the work has in each turn at least.
MOST_NS: Final = 5_000_000  # The time that the work has in a turn at most, also if the event loop was idle before.


class TimeShare:
    """Runs work in the order of its addition. A turn of the work begins in each iteration of the event loop."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`clock` returns a monotonic time in ns."""
        self._loop, self._clock = asyncio.get_running_loop(), clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._ended_ns = clock()  # When the last turn ended.
        self._is_scheduled = False

    def __len__(self) -> int:
        """The number of pieces of work that wait."""
        return len(self._waiting)

    def add(self, work: Callable[[], None]) -> None:
        """Calls `work` soon. It must not raise."""
        self._waiting.append(work)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def clear(self) -> None:
        """Drops all work that waits."""
        self._waiting.clear()

    def _run(self) -> None:
        begin_ns = now_ns = self._clock()
        end_ns = begin_ns + min(max(LEAST_NS, (begin_ns - self._ended_ns) // PART), MOST_NS)
        while self._waiting and now_ns < end_ns:
            self._waiting.popleft()()
            now_ns = self._clock()
        self._ended_ns = now_ns
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._loop.call_soon(self._run)
