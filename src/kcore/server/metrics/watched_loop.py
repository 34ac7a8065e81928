"""An event loop that measures the duration of each of its turns."""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from kcore.net.durations import Duration, Recent

T = TypeVar("T")


class _WatchedSelector(selectors.DefaultSelector):
    """Measures turns: between two calls of `select` the loop runs callbacks, within a call it waits for events."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Duration()
        self.idle = Recent()
        self.idle_s = 0.0
        self.turn_begin_s = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begin_s = time.monotonic()
        self.turns.add(begin_s - self.turn_begin_s, begin_s)
        ready = super().select(timeout)
        self.turn_begin_s = end_s = time.monotonic()
        self.idle_s += end_s - begin_s
        self.idle.add(end_s - begin_s, end_s)
        return ready


class WatchedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with measured turns. A heartbeat that arrives during a turn is read after the turn."""

    def __init__(self) -> None:
        self._watched = _WatchedSelector()
        super().__init__(self._watched)

    @property
    def turns(self) -> Duration:
        """The number of turns and their durations; a turn includes all events that the loop handles in it."""
        return self._watched.turns

    @property
    def idle_s(self) -> float:
        """Seconds that the loop has waited for events."""
        return self._watched.idle_s

    @property
    def turn_begin_s(self) -> float:
        """The time when the current turn began."""
        return self._watched.turn_begin_s

    @property
    def idle_ratio(self) -> float:
        """The share of recent time that the loop waited."""
        now_s = time.monotonic()
        idle_s, busy_s = self._watched.idle.total(now_s), self._watched.turns.recent.total(now_s)
        return idle_s / (idle_s + busy_s) if idle_s else 0.0


def run_watched(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on a WatchedLoop."""
    with asyncio.Runner(loop_factory=WatchedLoop) as runner:
        return runner.run(main)


def current_watched_loop() -> WatchedLoop | None:
    """The running loop if it is a WatchedLoop; None otherwise."""
    loop = asyncio.get_running_loop()
    return loop if isinstance(loop, WatchedLoop) else None
