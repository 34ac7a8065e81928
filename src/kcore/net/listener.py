"""Listening sockets, and an accept loop that continues after the process had no free descriptor."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from kcore.net.limits.bounded_log import BoundedLog

BACKLOG: Final = 1024  # Connections that the kernel queues before they are accepted.
AT_ONCE: Final = 32  # Connections accepted before other work of the event loop runs.
AGAIN_S: Final = 0.5  # Pause after a failed accept(); new clients wait in the backlog.
_MAPPED: Final = "::ffff:"  # The prefix of an IPv4 address that is written as IPv6.
# Errors that concern only the connection that accept() was to return (accept(2)); the next call may succeed.
_ITS_OWN: Final = {errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}


class Listener:
    """Accepts connections on all listening sockets of a server until it is closed."""

    def __init__(
        self,
        sockets: list[socket.socket],
        accepted: Callable[[socket.socket, str, int], None],
        make_room: Callable[[], object],
        log: BoundedLog,
    ) -> None:
        """`accepted` gets each accepted socket, which it then owns, and the client's IP address and port.

        `make_room` is called if no descriptor is left, and closes a connection.
        """
        self._sockets, self._accepted, self._make_room, self._log = sockets, accepted, make_room, log
        self._loop = asyncio.get_running_loop()
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}
        for each in sockets:
            self._loop.add_reader(each, self._ready, each)

    @property
    def port(self) -> int:
        """The port of the first socket."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stops accepting."""
        for each in self._timers.values():
            each.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = []

    def pause(self, pause_s: float) -> None:
        """Accepts no connection for `pause_s`; new clients wait in the backlog."""
        for each in self._sockets:
            self._stop(each, pause_s)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            if listening in self._timers or not self._sockets:
                return
            try:
                connection, (host, port, *_) = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _ITS_OWN:
                    self._pause(listening, error)
                    return
            else:
                connection.setblocking(False)
                self._accepted(connection, plain_address(host), port)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        self._log.error("no connection can be accepted: %s; again in %s s", error, AGAIN_S)
        self._make_room()
        self._stop(listening, AGAIN_S)

    def _stop(self, listening: socket.socket, pause_s: float) -> None:
        if listening not in self._timers:
            self._loop.remove_reader(listening)
            self._timers[listening] = self._loop.call_later(pause_s, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        del self._timers[listening]
        self._loop.add_reader(listening, self._ready, listening)


async def bound_sockets(host: str | None, port: int) -> list[socket.socket]:
    """Sockets that listen at all addresses of the host. Raises OSError, or other errors for invalid addresses."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    sockets = [each.dup() for each in server.sockets]
    server.close()
    for each in sockets:
        each.setblocking(False)
        each.listen(BACKLOG)
    return sockets


def plain_address(host: str) -> str:
    """The client's IP address; an IPv4 address that an IPv6 socket returns as mapped is written as IPv4, as in Java."""
    mapped = host.removeprefix(_MAPPED)
    return mapped if "." in mapped else host
