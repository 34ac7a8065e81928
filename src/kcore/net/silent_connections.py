"""Keeps accepted connections whose clients have sent nothing yet: without a transport or a task each.

In Kafka's protocol, as in TLS, the client sends first. A silent connection costs a socket and an entry, and little
more when it ends. A client gets a protocol with its first bytes.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kcore.net.idle_connections import IdleConnections


class Silent(Protocol):
    """One connection."""

    socket: socket.socket


S = TypeVar("S", bound=Silent)


class SilentConnections(Generic[S]):
    """The accepted connections of a server that have sent nothing yet."""

    def __init__(self, idle_s: float, speaks: Callable[[S], None], ends: Callable[[S, str], None]) -> None:
        """`speaks` has the connection from then on; `ends` has one that is over, and why, its socket closed.

        `idle_s`: how long one may be silent.
        """
        self._speaks, self._ends = speaks, ends
        self._loop = asyncio.get_running_loop()
        self._connections: IdleConnections[S] = IdleConnections(idle_s, lambda connection: self.end(connection, "idle"))

    def __len__(self) -> int:
        return len(self._connections)

    def join(self, connection: S) -> None:
        """Its socket does not block."""
        self._connections.wait(connection)
        # By number: asyncio formats a socket that it does not know, which takes longer than all of this.
        self._loop.add_reader(connection.socket.fileno(), self._readable, connection)

    def end(self, connection: S, why: str) -> None:
        """Closes a connection; nothing where it is not here."""
        if self._leave(connection):
            connection.socket.close()
            self._ends(connection, why)

    def close(self) -> None:
        """Ends all."""
        for connection in list(self._connections):
            self.end(connection, "the server closes")
        self._connections.close()

    def _leave(self, connection: S) -> bool:
        is_here = self._connections.leave(connection)
        if is_here:
            self._loop.remove_reader(connection.socket.fileno())
        return is_here

    def _readable(self, connection: S) -> None:
        try:
            is_over = not connection.socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            is_over = True
        if is_over:
            self.end(connection, "the peer closed the connection")
        elif self._leave(connection):
            self._speaks(connection)
