"""Connections that were accepted and have said nothing yet: without a transport or a task each.

In Kafka's protocol, as in TLS, the client speaks first. What thousands of silent connections cost is then a socket and
an entry each, and their end costs no more: a protocol is made for who has sent something.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kcore.net.idle_connections import Quiet


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
        self._speaks, self._ends = speaks, ends
        self._loop = asyncio.get_running_loop()
        self._guests: Quiet[S] = Quiet(idle_s, lambda guest: self.end(guest, "idle"))

    def __len__(self) -> int:
        return len(self._guests)

    def join(self, guest: S) -> None:
        """Its socket does not block."""
        self._guests.wait(guest)
        # By number: asyncio formats a socket that it does not know, which takes longer than all of this.
        self._loop.add_reader(guest.socket.fileno(), self._readable, guest)

    def end(self, guest: S, why: str) -> None:
        """Closes a connection; nothing where it is not here."""
        if self._leave(guest):
            guest.socket.close()
            self._ends(guest, why)

    def close(self) -> None:
        """Ends all."""
        for guest in list(self._guests):
            self.end(guest, "the server closes")
        self._guests.close()

    def _leave(self, guest: S) -> bool:
        is_here = self._guests.leave(guest)
        if is_here:
            self._loop.remove_reader(guest.socket.fileno())
        return is_here

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
