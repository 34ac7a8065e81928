"""A listening socket and its accept loop, which outlives a process that is out of descriptors."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from kcore.net.limits.bounded_log import BoundedLog

BACKLOG: Final = 1024
AT_ONCE: Final = 32  # Connections accepted before others have a turn.
AGAIN_S: Final = 0.5  # After a failure: new clients wait in the backlog.
_MAPPED: Final = "::ffff:"
# Errors of the one connection that accept() would have given (accept(2)): the next may succeed.
_ITS_OWN: Final = {errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}


class Listener:
    """Accepts until it is closed."""

    def __init__(
        self,
        sockets: list[socket.socket],
        accepted: Callable[[socket.socket, str], None],
        make_room: Callable[[], object],
        log: BoundedLog,
    ) -> None:
        """`accepted` owns the sockets that it gets, each with the host at its other end.

        `make_room` closes a connection: no descriptor is left.
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
        """No connection is accepted for that time; new clients wait in the backlog."""
        for each in self._sockets:
            self._stop(each, pause_s)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            if listening in self._timers or not self._sockets:
                return
            try:
                connection, (host, *_) = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _ITS_OWN:
                    self._pause(listening, error)
                    return
            else:
                connection.setblocking(False)
                self._accepted(connection, plain_address(host))

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
    """Sockets that listen at all addresses of the host; OSError and whatever else odd addresses raise."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    sockets = [each.dup() for each in server.sockets]
    server.close()
    for each in sockets:
        each.setblocking(False)
        each.listen(BACKLOG)
    return sockets


def plain_address(host: str) -> str:
    """The client's address; IPv4 addresses that an IPv6 socket shows as mapped ones are written as IPv4, as in Java."""
    mapped = host.removeprefix(_MAPPED)
    return mapped if "." in mapped else host
