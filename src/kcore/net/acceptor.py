"""Accepts the connections of a server, while its limits and the process's descriptors allow. Source: SocketServer.

After that the acceptor closes a connection for each new one (`kcore.net.limits.admission`).
"""

import asyncio
import socket
from collections.abc import Callable
from itertools import count
from typing import Final

from kcore.net.accepted_sockets import AcceptedSocket
from kcore.net.connection_states import ClientConnection
from kcore.net.limits.admission import ConnectionQuotas, RateOf, Refused, may_be_connections
from kcore.net.listener import Listener
from kcore.net.request_context import ClientSession
from kcore.net.server_connections import ServerConnections

MOST_LATE: Final = 1_000  # Refused connections that wait to be closed; further ones are closed at once.


class Acceptor:
    """The listening sockets of one server."""

    def __init__(
        self,
        sockets: list[socket.socket],
        connections: ServerConnections,
        session_of: Callable[[str], ClientSession],
        begin: Callable[[AcceptedSocket], None],
        rate_of: RateOf | None,
    ) -> None:
        """`session_of` makes the session of an address; `begin` takes over an accepted connection."""
        self._connections, self._session_of, self._begin = connections, session_of, begin
        self._limits, self._metrics, self._admission = connections.limits, connections.metrics, connections.admission
        self.quotas = ConnectionQuotas(self._limits, rate_of)
        self.closing_late: dict[socket.socket, asyncio.TimerHandle] = {}  # Refused connections, closed after a delay.
        self._ids = count()
        self._loop = asyncio.get_running_loop()
        self.listener = Listener(sockets, self._accepted, connections.make_room, connections.log)

    def close(self) -> None:
        """Stops accepting."""
        self.listener.close()
        for refused, timer in self.closing_late.items():
            timer.cancel()
            refused.close()
        self.closing_late.clear()

    def _accepted(self, accepted: socket.socket, address: str, port: int) -> None:
        now_s = self._loop.time()
        if refused := self.quotas.refused(address, self._admission.of_address(address), now_s):
            self._refuse_of(accepted, address, refused)
            return
        if pause_s := self.quotas.pause_s(now_s):
            self._metrics.errors["connection rate"] += 1
            self.listener.pause(pause_s)
        has_descriptors = may_be_connections(accepted.fileno())
        if not (has_descriptors and self._admission.has_room()) and not self._connections.make_room(address):
            self._refuse(accepted)
            return
        if not has_descriptors:
            accepted = _lowered(accepted)
            has_descriptors = may_be_connections(accepted.fileno())
        client = ClientConnection(next(self._ids), f"{address}:{port}", self._session_of(address))
        client.holder = waiting = AcceptedSocket(client, accepted)
        self._metrics.connections_opened += 1
        self._admission.join(client)
        if has_descriptors:
            self._begin(waiting)
        else:
            self._loop.call_soon(self._move, waiting)

    def _move(self, waiting: AcceptedSocket) -> None:
        """Moves the socket out of the descriptors that are kept for files, once the victim's descriptor is free."""
        if waiting.socket.fileno() >= 0:  # The acceptor has not closed it for another connection.
            waiting.socket = _lowered(waiting.socket)
            if may_be_connections(waiting.socket.fileno()) and not self._connections.closing:
                self._begin(waiting)
                return
            self._refuse(waiting.socket)
        self._connections.ended(waiting.client, "no room")

    def _refuse(self, accepted: socket.socket) -> None:
        self._metrics.errors["no room"] += 1
        self._connections.log.warning("no room for one more connection beside %s: refused", len(self._admission))
        accepted.close()

    def _refuse_of(self, accepted: socket.socket, address: str, refused: Refused) -> None:
        """Closes a refused connection, as Kafka does: with a delay if its address exceeds its connection rate."""
        self._metrics.errors[refused.what] += 1
        self._connections.log.warning("a connection from %s: %s: closed", address, refused.why)
        if not refused.after_s or len(self.closing_late) >= MOST_LATE or not may_be_connections(accepted.fileno()):
            accepted.close()
        else:
            self.closing_late[accepted] = self._loop.call_later(refused.after_s, self._close_late, accepted)

    def _close_late(self, refused: socket.socket) -> None:
        del self.closing_late[refused]
        refused.close()


def _lowered(accepted: socket.socket) -> socket.socket:
    """The same connection with the lowest free descriptor, if it is lower than the present descriptor.

    A lower descriptor is free if the evicted connection had no transport, so that it was closed at once.
    """
    try:
        lowest = accepted.dup()
    except OSError:
        return accepted
    if lowest.fileno() > accepted.fileno():
        lowest.close()
        return accepted
    accepted.close()
    lowest.setblocking(False)
    return lowest
