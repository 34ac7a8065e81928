"""Ends connections whose clients send nothing for too long."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

LONGEST_PAUSE_S: Final = 1.0  # The longest time between two checks for idle connections.
G = TypeVar("G")


class IdleConnections(Generic[G]):
    """Connections of a server that wait for their clients, those that have waited longest first."""

    def __init__(self, idle_s: float, end: Callable[[G], None]) -> None:
        """`end` is called with each connection that has waited for `idle_s`, and must call `leave` for it."""
        self._idle_s, self._end = idle_s, end
        self._loop = asyncio.get_running_loop()
        self._since_s: OrderedDict[G, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since_s)

    def __iter__(self) -> Iterator[G]:
        return iter(self._since_s)

    def wait(self, connection: G) -> None:
        """Adds a connection, or restarts its time: it waits from now on."""
        self._since_s[connection] = self._loop.time()
        self._since_s.move_to_end(connection)
        self._schedule_check()

    def leave(self, connection: G) -> bool:
        """Removes a connection; returns whether it was waiting."""
        return self._since_s.pop(connection, None) is not None

    def close(self) -> None:
        """Stops the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_idle(self) -> None:
        self._timer = None
        since_s = self._loop.time() - self._idle_s
        while self._since_s and self._since_s[first := next(iter(self._since_s))] <= since_s:
            self._end(first)
        if self._since_s:
            self._schedule_check()

    def _schedule_check(self) -> None:
        if self._timer is None:
            pause_s = min(max(self._idle_s / 4, 0.001), LONGEST_PAUSE_S)
            self._timer = self._loop.call_later(pause_s, self._end_idle)
