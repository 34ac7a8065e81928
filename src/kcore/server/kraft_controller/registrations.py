"""Broker registrations, a few in an iteration of the event loop: all brokers register at once after a failover."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

REGISTERED_AT_ONCE: Final = 4  # Registrations begun together, before registered brokers may connect.


class Registrations:
    """The registrations that wait to begin."""

    def __init__(self, look: Callable[[], None]) -> None:
        """`look` begins urgent requests that have arrived; called after each registration."""
        self._look = look
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, begin: Callable[[], None]) -> None:
        """Begins a registration soon, after those that wait already."""
        self._waiting.append(begin)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._begin_some)

    def clear(self) -> None:
        """Begins none of the waiting registrations."""
        self._waiting.clear()

    def _begin_some(self) -> None:
        """Begins some waiting registrations. Before the next ones, registered brokers can fetch and send heartbeats.

        With thousands of registrations, the last one does not end later than it would if all began at once.
        """
        for _ in range(REGISTERED_AT_ONCE):
            if self._waiting:
                self._waiting.popleft()()
                self._look()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_some)
