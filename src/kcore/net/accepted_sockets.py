"""The accepted sockets of a server whose transport has not begun: they wait for the client, and for TLS handshakes."""

import asyncio
import socket
import ssl

from kcore.net.adoption import Returned
from kcore.net.connection_states import ClientConnection, Event
from kcore.net.framed_connection import FrameTransport
from kcore.net.limits.work_in_parts import next_turn
from kcore.net.security.handshakes import HANDSHAKE_BYTES, Handshakes, accept_tls
from kcore.net.security.tls import TlsContext
from kcore.net.served_connection import ServedConnection
from kcore.net.served_requests import Serving
from kcore.net.silent_connections import SilentConnections


class AcceptedSockets:
    """Begins the transports of one server's connections."""

    def __init__(self, serving: Serving, tls: ssl.SSLContext | TlsContext | None) -> None:
        limits = serving.connections.limits
        self._serving, self._connections, self._tls = serving, serving.connections, tls
        idle_s = limits.idle_s if tls is None else min(limits.idle_s, limits.connect_s)
        self.silent: SilentConnections[AcceptedSocket] = SilentConnections(idle_s, self._has_spoken, self._closed)
        self.handshakes: Handshakes[AcceptedSocket] = Handshakes(self._begin_soon, limits.connect_s, self._closed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def wait(self, accepted: "AcceptedSocket") -> None:
        """Waits for the client's first bytes, with which the transport begins."""
        accepted.silent = self.silent
        self.silent.join(accepted)

    def resume(self, client: ClientConnection, connection: socket.socket, returned: Returned) -> None:
        """Begins the transport of a connection that another holder has returned."""
        accepted = AcceptedSocket(client, connection, returned)
        client.holder = accepted
        self._begin_soon(accepted)

    def close(self) -> None:
        """Closes all sockets, and begins no further transport."""
        self.silent.close()
        self.handshakes.close()
        for task in self._tasks:
            task.cancel()

    async def wait_gone(self) -> None:
        """Waits until all sockets are closed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _has_spoken(self, accepted: "AcceptedSocket") -> None:
        accepted.silent = None
        if self._tls is None:
            self._begin_soon(accepted)
        else:
            accepted.handshakes = self.handshakes
            accepted.client.enter(Event.BEGIN_TLS)
            self.handshakes.join(accepted)

    def _closed(self, accepted: "AcceptedSocket", why: str) -> None:
        self._connections.ended(accepted.client, why)

    def _begin_soon(self, accepted: "AcceptedSocket") -> None:
        accepted.task = self._loop.create_task(self._begin(accepted))
        self._tasks.add(accepted.task)
        accepted.task.add_done_callback(lambda task: self._begun(accepted, task))

    async def _begin(self, accepted: "AcceptedSocket") -> None:
        """Begins the transport, after the TLS handshake if the listener requires TLS."""

        def begin(frames: FrameTransport) -> ServedConnection:
            connection = ServedConnection(self._serving, accepted.client, frames, accepted.returned)
            connection.begin(accepted.returned)
            return connection

        def protocol() -> FrameTransport:
            connections = self._connections
            return FrameTransport(begin, connections.limits, connections.metrics, connections.receive_budget)

        tls = self._tls.current() if isinstance(self._tls, TlsContext) else self._tls
        if tls is None:
            await self._loop.connect_accepted_socket(protocol, accepted.socket)
            return
        self._connections.received.hold(accepted.client, HANDSHAKE_BYTES)
        await next_turn("TLS handshakes")  # The server's signature takes a millisecond or more.
        connect_s = self._connections.limits.connect_s
        await accept_tls(accepted.socket, protocol, tls, connect_s, self.handshakes.room)

    def _begun(self, accepted: "AcceptedSocket", task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        accepted.task = None  # The task's exception has frames that refer to the accepted socket.
        error = None if task.cancelled() else task.exception()
        if error is not None:  # The client has disconnected, or does not use TLS.
            self._connections.metrics.errors["handshake"] += 1
            self._connections.log.warning("%s: %s", accepted.client, str(error) or "it ended in the handshake")
        if accepted.client.holder is accepted:  # The transport has not begun.
            self._connections.received.hold(accepted.client, 0)
            accepted.socket.close()
            self._connections.ended(accepted.client, "aborted" if error is None else str(error))
        if accepted.handshakes is not None:
            self._loop.call_soon(accepted.handshakes.leave, accepted)  # Called when its transport has ended.


class AcceptedSocket:
    """A socket that was accepted, or returned by another holder, and whose transport has not begun yet."""

    __slots__ = ("client", "handshakes", "returned", "silent", "socket", "task")

    may_end = True

    def __init__(self, client: ClientConnection, accepted: socket.socket, returned: Returned | None = None) -> None:
        self.client, self.socket, self.returned = client, accepted, returned
        self.silent: SilentConnections[AcceptedSocket] | None = None  # Set while the client has sent nothing.
        self.handshakes: Handshakes[AcceptedSocket] | None = None  # Set for TLS, once the client has sent bytes.
        self.task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The address of the client's host."""
        return self.client.address

    def __str__(self) -> str:
        return "which has not begun"

    def abort(self) -> None:
        """Closes the socket before its transport begins."""
        if self.silent is not None:
            self.silent.end(self, "aborted")
        elif self.task is not None:
            self.task.cancel()
        elif self.handshakes is not None:
            self.handshakes.end(self, "aborted")
        else:
            self.socket.close()  # The socket waits for `Acceptor._move`.
