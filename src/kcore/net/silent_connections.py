"""Holds accepted connections whose clients have sent nothing yet, without a transport or a task each.

In Kafka's protocol, as in TLS, the client sends first. Until then a connection needs only a socket and an entry here.
Its protocol begins with the client's first bytes.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kcore.net.idle_connections import IdleConnections


class Silent(Protocol):
    """A connection whose client has sent nothing yet."""

    socket: socket.socket


S = TypeVar("S", bound=Silent)


class SilentConnections(Generic[S]):
    """The accepted connections of a server that have sent nothing yet."""

    def __init__(self, idle_s: float, speaks: Callable[[S], None], ends: Callable[[S, str], None]) -> None:
        """`speaks` takes over a connection at its first bytes. `ends` gets a closed connection and the reason.

        `idle_s`: how long a connection may be silent.
        """
        self._speaks, self._ends = speaks, ends
        self._loop = asyncio.get_running_loop()
        self._connections: IdleConnections[S] = IdleConnections(idle_s, lambda connection: self.end(connection, "idle"))

    def __len__(self) -> int:
        return len(self._connections)

    def join(self, connection: S) -> None:
        """Adds a connection; its socket must be non-blocking."""
        self._connections.wait(connection)
        # By its number: with a socket object, asyncio formats the object, which takes longer than this whole method.
        self._loop.add_reader(connection.socket.fileno(), self._readable, connection)

    def end(self, connection: S, why: str) -> None:
        """Closes a connection; no effect if it is not silent any more."""
        if self._leave(connection):
            connection.socket.close()
            self._ends(connection, why)

    def close(self) -> None:
        """Closes all silent connections."""
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
