"""A server of the protocol: a handler answers one request of each connection at a time, as Kafka mutes a channel.

The server accepts connections while enough descriptors remain for the process's files. After that it closes a
connection for each new one (`admission`). `held_bytes` limits the bytes of all connections, `bounded_log` the log.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Final, Self

from kcore.errors import UnsupportedVersionError
from kcore.net.address import address_text, network_errors
from kcore.net.adoption import AdoptedConnection, Adopter, Returned
from kcore.net.connection_metrics import Metrics
from kcore.net.direct_connections import DirectConnection, DirectConnections
from kcore.net.framed_connection import Piece
from kcore.net.limits.admission import Admission, ConnectionQuotas, Rank, Refused, may_be_connections
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.held_bytes import HeldBytes, ReceiveBudget
from kcore.net.limits.large_requests import LargeRequests
from kcore.net.limits.work_in_parts import next_turn
from kcore.net.listener import Listener, bound_sockets
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import DirectHandler, Relay, SharedBody, Throttle
from kcore.net.security.handshakes import HANDSHAKE_BYTES, Handshakes, accept_tls
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext
from kcore.net.served_connection import Handler, ServedConnection
from kcore.net.silent_connections import SilentConnections
from kcore.net.versions import API_VERSIONS, answer_of
from kcore.schema.index import message_class
from kcore.schema.structure import Message
from kcore.schema.versions import Versions

__all__ = ["Handler", "Relay", "RequestContext", "Server", "serve"]

logger = logging.getLogger(__name__)
MOST_LATE: Final = 1_000  # Refused connections that wait to be closed; further ones are closed at once.


async def serve(
    host: str | None,
    port: int,
    handler: Handler,
    apis: Mapping[str, Versions | tuple[int, int]],
    *,
    tls: ssl.SSLContext | TlsContext | None = None,
    sasl: SaslListener | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    relay: Relay | None = None,
    listener_name: str | None = None,
    before_listening: Callable[[], None] | None = None,
) -> "Server":
    """Starts a server that listens; `async with` closes it. For port 0 it uses a free port, `server.port`.

    `apis` has names such as "Metadata", each with the lowest and highest version; the server answers ApiVersions from
    it. The handler returns the response, or None if the request has none (Produce with acks 0); an exception closes the
    connection. It gets neither requests that `relay` answers nor, with `sasl`, requests of unauthenticated clients.
    `listener_name` is in each request's context; its default is the name of the protocol, as in Kafka.
    `before_listening` is called when the address is bound, before any client is served; if it raises, the address is
    released. Raises NetworkError if the address cannot be bound, UnknownMessageError, UnsupportedVersionError.
    """
    server = Server(handler, _served(apis), limits or Limits(), metrics or Metrics(), relay)
    server.tls, server.sasl = tls, sasl
    server.listener_name = listener_name or server.protocol
    with network_errors(address_text(host or "", port), server.limits.connect_s, failed="cannot listen at"):
        sockets = await bound_sockets(host, port)
    try:
        if before_listening is not None:
            before_listening()
    except BaseException:
        for each in sockets:
            each.close()
        raise
    server.listen(sockets)
    return server


def _served(apis: Mapping[str, Versions | tuple[int, int]]) -> dict[int, tuple[type[Message], Versions]]:
    """The served requests and their versions by API key; ApiVersions is always served."""
    served: dict[int, tuple[type[Message], Versions]] = {}
    for name, range_ in {"ApiVersions": API_VERSIONS, **apis}.items():
        request, versions = message_class(f"{name}Request"), Versions(*range_)
        if versions.lowest not in request.versions or versions.highest not in request.versions:
            raise UnsupportedVersionError(f"{name} {versions}: kcore has versions {request.versions}")
        served[request.api_key] = request, versions
    return served


class Server:
    """A server with its connections, which `serve` starts."""

    def __init__(
        self,
        handler: Handler,
        served: Mapping[int, tuple[type[Message], Versions]],
        limits: Limits,
        metrics: Metrics,
        relay: Relay | None = None,
    ) -> None:
        self.handler = handler
        self.served = served
        self.limits = limits
        self.metrics = metrics
        self.relay = relay
        self.direct: DirectHandler | None = None  # The server tries it before `handler`.
        self.adopter: Adopter | None = None  # The server offers it connections after a request of `direct`.
        self.throttle: Throttle | None = None  # Throttles clients that exceed their request quota.
        self.direct_connections: DirectConnections | None = (
            None  # It receives new connections, while there is an adopter.
        )
        self.tls: ssl.SSLContext | TlsContext | None = None
        self.sasl: SaslListener | None = None
        self.listener_name = "PLAINTEXT"
        self.versions_answer = answer_of(dict(served.values()))  # A server whose relay answers more APIs replaces it.
        self.port = 0
        self.closing = False
        self.fetched = SharedBody()
        self.connections: set[ServedConnection] = set()
        self.adopted: set[AdoptedConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.connection_ids = count()
        self.log = BoundedLog(logger)
        self.admission: Admission[ServedConnection | AcceptedSocket | AdoptedConnection | DirectConnection]
        self.admission = Admission(limits.connections)
        self.quotas = ConnectionQuotas(limits)
        self._closing_late: dict[socket.socket, asyncio.TimerHandle] = {}  # Refused connections, closed after a delay.
        self.received: HeldBytes[ServedConnection | AcceptedSocket] = HeldBytes(limits.received_bytes, _holds_too_much)
        self.unsent: HeldBytes[ServedConnection] = HeldBytes(limits.unsent_bytes, _takes_too_little)
        self.receive_budget = ReceiveBudget()
        self.reading = asyncio.Lock()
        self.large_requests = LargeRequests()
        self.is_node: Callable[[ClientSession], bool] = lambda session: True
        self.identity: tuple[str, int] | None = None
        self._listener: Listener | None = None
        self._silent: SilentConnections[AcceptedSocket] | None = None
        self._handshakes: Handshakes[AcceptedSocket] | None = None
        self._accepted_sockets: set[asyncio.Task[None]] = set()

    @property
    def protocol(self) -> str:
        """The server's security protocol, as Kafka names it."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.sasl is None else f"SASL_{transport}"

    def listen(self, sockets: list[socket.socket]) -> None:
        """Accepts connections from now on."""
        idle_s = self.limits.idle_s if self.tls is None else min(self.limits.idle_s, self.limits.connect_s)
        self._silent = SilentConnections(idle_s, self._has_spoken, self._silent_ended)
        self._handshakes = Handshakes(self._begin_soon, self.limits.connect_s, self._silent_ended)
        self._listener = Listener(sockets, self._accepted, self._make_room, self.log)
        self.port = self._listener.port

    async def close(self) -> None:
        """Stops accepting, waits for running requests and for their responses, at most `limits.close_s` each."""
        self.closing = True
        if self._listener is not None:
            self._listener.close()
        if self._silent is not None and self._handshakes is not None:
            self._silent.close()
            self._handshakes.close()
        for connection in self.connections:
            connection.finish()
        if self.direct_connections is not None:
            self.direct_connections.close()
        for adopted in list(self.adopted):
            adopted.abort()
        for accepted_socket in self._accepted_sockets:
            accepted_socket.cancel()
        for refused, timer in self._closing_late.items():
            timer.cancel()
            refused.close()
        self._closing_late.clear()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=self.limits.close_s)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, *self._accepted_sockets, return_exceptions=True)
        await asyncio.gather(*(connection.wait_gone() for connection in self.connections))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def begun(self, connection: ServedConnection, accepted_socket: "AcceptedSocket") -> None:
        """Called when a connection's protocol has replaced its accepted socket."""
        self.admission.leave(accepted_socket)
        self.admission.join(connection)
        self.connections.add(connection)

    def lost(self, connection: ServedConnection, why: str) -> None:
        """Called when a connection has ended."""
        logger.debug("%s: %s", connection.peer, why)
        self.connections.discard(connection)
        if connection.may_end:
            self.admission.leave(connection)
        else:
            self.admission.end(connection)

    def finished(self, connection: ServedConnection, task: asyncio.Task[None]) -> None:
        """Called when a connection's task, and so its last request, has ended."""
        self.tasks.discard(task)
        if connection not in self.connections:
            self.admission.leave(connection)

    # Connections that are given away, and taken back.

    def given_away(self, connection: ServedConnection | DirectConnection, adopted: AdoptedConnection) -> None:
        """Called when the adopter takes a connection."""
        if isinstance(connection, ServedConnection):
            self.connections.discard(connection)
        self.admission.leave(connection)
        self.admission.join(adopted)
        self.admission.run(adopted)
        self.adopted.add(adopted)

    def take_back(self, adopted: AdoptedConnection, descriptor: int, received: bytes, unwritten: bytes) -> None:
        """Called when the adopter returns a connection; the server owns the descriptor from now on."""
        self._forget(adopted)
        returned = Returned(adopted.identity, received, unwritten, adopted.is_recalled)
        self._resume(socket.socket(fileno=descriptor), returned)

    def _resume(self, connection: socket.socket, returned: Returned) -> None:
        """Continues a connection with a new protocol."""
        accepted_socket = AcceptedSocket(connection, returned.identity.session.client_address)
        if self.closing:
            accepted_socket.socket.close()
            self.metrics.connections_closed += 1
            return
        accepted_socket.rank, accepted_socket.returned = returned.identity.rank, returned
        self.admission.join(accepted_socket)
        self._begin_soon(accepted_socket)

    def adopted_ended(self, adopted: AdoptedConnection, why: str) -> None:
        """Called when the adopter has closed a connection; the metrics count it if `why` is "idle"."""
        logger.debug("%s: %s", adopted.identity.peer, why)
        self._forget(adopted)
        self.metrics.connections_closed += 1
        if why == "idle":
            self.metrics.errors["idle"] += 1

    def _forget(self, adopted: AdoptedConnection) -> None:
        self.adopted.discard(adopted)
        self.admission.leave(adopted)

    # New connections. With an adopter, `direct_connections` serves them first.

    def take_over(self, direct_connection: DirectConnection, received: bytes, unwritten: Sequence[Piece]) -> None:
        """Serves a direct connection from now on. `received`: unanswered bytes; `unwritten`: the rest of an answer."""
        self.admission.leave(direct_connection)
        self._resume(
            direct_connection.socket,
            Returned(direct_connection.identity, received, b"", is_recalled=True, pieces=unwritten),
        )

    def direct_connection_ended(self, direct_connection: DirectConnection, why: str) -> None:
        """Called when `direct_connections` has closed a connection."""
        logger.debug("%s: %s", direct_connection.peer, why)
        self.admission.leave(direct_connection)
        self.metrics.connections_closed += 1

    def _accepted(self, accepted: socket.socket, address: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if refused := self.quotas.refused(address, self.admission.of_address(address), now_s):
            self._refuse_of(accepted, address, refused)
            return
        if self._listener is not None and (pause_s := self.quotas.pause_s(now_s)):
            self.metrics.errors["connection rate"] += 1
            self._listener.pause(pause_s)
        has_descriptors = may_be_connections(accepted.fileno())
        if not (has_descriptors and self.admission.has_room()) and not self._make_room(address):
            self._refuse(accepted)
            return
        if not has_descriptors:
            accepted = _lowered(accepted)
            has_descriptors = may_be_connections(accepted.fileno())
        is_plain = self.tls is None and self.sasl is None
        if has_descriptors and is_plain and self.direct_connections is not None and self.adopter is not None:
            self.direct_connections.join(accepted, address)
            return
        accepted_socket = AcceptedSocket(accepted, address)
        self.admission.join(accepted_socket)
        if has_descriptors:
            self._wait_for(accepted_socket)
        else:
            asyncio.get_running_loop().call_soon(self._move, accepted_socket)

    def _move(self, accepted_socket: "AcceptedSocket") -> None:
        """Moves the socket out of the descriptors that are kept for files, once the victim's descriptor is free."""
        if accepted_socket.socket.fileno() >= 0:  # The victim was not closed.
            accepted_socket.socket = _lowered(accepted_socket.socket)
            if may_be_connections(accepted_socket.socket.fileno()) and not self.closing:
                self._wait_for(accepted_socket)
                return
            self._refuse(accepted_socket.socket)
        self.admission.leave(accepted_socket)

    def _wait_for(self, accepted_socket: "AcceptedSocket") -> None:
        """Waits for the client's first bytes, with which the connection begins."""
        assert self._silent is not None
        self.metrics.connections_opened += 1
        accepted_socket.silent = self._silent
        self._silent.join(accepted_socket)

    def _has_spoken(self, accepted_socket: "AcceptedSocket") -> None:
        accepted_socket.silent = None
        if self.tls is None or self._handshakes is None:
            self._begin_soon(accepted_socket)
        else:
            accepted_socket.handshakes = self._handshakes
            self._handshakes.join(accepted_socket)

    def _silent_ended(self, accepted_socket: "AcceptedSocket", why: str) -> None:
        logger.debug("%s: %s", accepted_socket, why)
        self.admission.leave(accepted_socket)
        self.metrics.connections_closed += 1
        if why == "idle":
            self.metrics.errors["idle"] += 1

    def _begin_soon(self, accepted_socket: "AcceptedSocket") -> None:
        accepted_socket.task = asyncio.get_running_loop().create_task(self._begin(accepted_socket))
        self._accepted_sockets.add(accepted_socket.task)
        accepted_socket.task.add_done_callback(lambda task: self._arrived(accepted_socket, task))

    def _refuse(self, accepted: socket.socket) -> None:
        self.metrics.errors["no room"] += 1
        self.log.warning("no room for one more connection beside %s: refused", len(self.admission))
        accepted.close()

    def _refuse_of(self, accepted: socket.socket, address: str, refused: Refused) -> None:
        """Closes a refused connection, as Kafka does: with a delay if its address exceeds its connection rate."""
        self.metrics.errors[refused.what] += 1
        self.log.warning("a connection from %s: %s: closed", address, refused.why)
        if not refused.after_s or len(self._closing_late) >= MOST_LATE or not may_be_connections(accepted.fileno()):
            accepted.close()
            return
        loop = asyncio.get_running_loop()
        self._closing_late[accepted] = loop.call_later(refused.after_s, self._close_late, accepted)

    def _close_late(self, refused: socket.socket) -> None:
        del self._closing_late[refused]
        refused.close()

    def _make_room(self, direct_connection: str = "") -> bool:
        """Closes the connection of lowest rank for a new connection of an address; False if none may be closed."""
        victim = self.admission.victim(direct_connection)
        if victim is None:
            return False
        self.admission.end(victim)
        self.metrics.errors["evicted"] += 1
        self.log.warning("%s: closed for one more connection beside %s", victim, len(self.admission) - 1)
        victim.abort()
        return True

    async def _begin(self, accepted_socket: "AcceptedSocket") -> None:
        """Begins the connection's protocol, after the TLS handshake if the listener requires TLS."""

        def make() -> ServedConnection:
            return ServedConnection(self, accepted_socket)

        tls = self.tls.current() if isinstance(self.tls, TlsContext) else self.tls
        if tls is None or accepted_socket.handshakes is None:
            await asyncio.get_running_loop().connect_accepted_socket(make, accepted_socket.socket)
            return
        self.received.hold(accepted_socket, HANDSHAKE_BYTES)
        await next_turn("TLS handshakes")  # The server's signature takes a millisecond or more.
        await accept_tls(accepted_socket.socket, make, tls, self.limits.connect_s, accepted_socket.handshakes.room)

    def _arrived(self, accepted_socket: "AcceptedSocket", task: asyncio.Task[None]) -> None:
        self._accepted_sockets.discard(task)
        accepted_socket.task = None  # The task's exception has frames that refer to the accepted socket.
        self.received.hold(accepted_socket, 0)
        self.admission.leave(accepted_socket)
        if task.cancelled() or task.exception() is not None:
            accepted_socket.socket.close()
            self.metrics.connections_closed += 1
        # The client has disconnected, or does not use TLS.
        if not task.cancelled() and (error := task.exception()) is not None:
            self.metrics.errors["handshake"] += 1
            self.log.warning("%s: %s", accepted_socket, str(error) or "it ended in the handshake")
        if accepted_socket.handshakes is not None:
            asyncio.get_running_loop().call_soon(
                accepted_socket.handshakes.leave, accepted_socket
            )  # Called when its transport has ended.


class AcceptedSocket:
    """A socket that was accepted, or returned by the adopter, and whose protocol has not begun yet."""

    __slots__ = ("address", "handshakes", "rank", "returned", "silent", "socket", "task")

    def __init__(self, accepted: socket.socket, address: str) -> None:
        self.socket, self.address = accepted, address
        self.rank = Rank.SILENT
        self.returned: Returned | None = None
        self.silent: SilentConnections[AcceptedSocket] | None = None  # Set while the client has sent nothing.
        self.handshakes: Handshakes[AcceptedSocket] | None = None  # Set for TLS, once the client has sent bytes.
        self.task: asyncio.Task[None] | None = None

    @property
    def may_end(self) -> bool:
        """True: no request is running yet."""
        return True

    def __str__(self) -> str:
        return f"a connection from {self.address} that has not begun"

    def abort(self) -> None:
        """Closes the socket before its protocol begins."""
        if self.silent is not None:
            self.silent.end(self, "aborted")
        elif self.task is not None:
            self.task.cancel()
        elif self.handshakes is not None:
            self.handshakes.end(self, "aborted")
        else:
            self.socket.close()  # The socket waits for `Server._move`.


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


def _holds_too_much(connection: "ServedConnection | AcceptedSocket", held: int) -> None:
    if isinstance(connection, AcceptedSocket):
        connection.abort()
        return
    connection.end_for("received bytes", f"{held:,} bytes of an incomplete request, and all connections hold too many")


def _takes_too_little(connection: ServedConnection, held: int) -> None:
    connection.end_for("unsent bytes", f"{held:,} bytes that it does not receive, and all connections hold too many")
