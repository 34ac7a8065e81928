"""Connections that were accepted and have said nothing yet: without a transport or a task each.

In Kafka's protocol, as in TLS, the client speaks first. What thousands of silent connections cost is then a socket and
an entry each, and their end costs no more: a protocol is made for who has sent something.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

LONGEST_PAUSE_S: Final = 1.0  # Between two looks at who has been silent for too long.


class Silent(Protocol):
    """One connection."""

    socket: socket.socket


S = TypeVar("S", bound=Silent)


class Lobby(Generic[S]):
    """Those of one server."""

    def __init__(self, idle_s: float, speaks: Callable[[S], None], ends: Callable[[S, str], None]) -> None:
        """`speaks` has the connection from then on; `ends` has one that is over, and why, its socket closed.

        `idle_s`: how long one may be silent.
        """
        self._idle_s, self._speaks, self._ends = idle_s, speaks, ends
        self._loop = asyncio.get_running_loop()
        self._guests: OrderedDict[S, float] = OrderedDict()  # When they came, in order.
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._guests)

    def join(self, guest: S) -> None:
        """Its socket does not block."""
        self._guests[guest] = self._loop.time()
        self._loop.add_reader(guest.socket, self._readable, guest)
        if self._timer is None:
            self._wake()

    def end(self, guest: S, why: str) -> None:
        """Closes a connection; nothing where it is not here."""
        if self._leave(guest):
            guest.socket.close()
            self._ends(guest, why)

    def close(self) -> None:
        """Ends all."""
        for guest in list(self._guests):
            self.end(guest, "the server closes")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self, guest: S) -> bool:
        if self._guests.pop(guest, None) is None:
            return False
        self._loop.remove_reader(guest.socket)
        return True

    def _readable(self, guest: S) -> None:
        try:
            is_over = not guest.socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            is_over = True
        if is_over:
            self.end(guest, "the peer closed the connection")
        elif self._leave(guest):
            self._speaks(guest)

    def _wake(self) -> None:
        self._timer = self._loop.call_later(min(max(self._idle_s / 4, 0.001), LONGEST_PAUSE_S), self._end_idle)

    def _end_idle(self) -> None:
        self._timer = None
        since = self._loop.time() - self._idle_s
        while self._guests and self._guests[first := next(iter(self._guests))] <= since:
            self.end(first, "idle")
        if self._guests:
            self._wake()
