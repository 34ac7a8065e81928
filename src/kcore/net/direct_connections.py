"""Serves new connections without a transport or a task each, while their requests are short.

Thousands of brokers may connect and register within seconds. The server answers one or two requests on most of these
connections before its adopter takes them. A protocol with a task, transport and timers costs more than these requests.
So in a server with an adopter, this module serves new connections. One poll returns the readable connections. Urgent
requests (heartbeats) begin at once; other requests begin in slices of a few milliseconds, with a poll before each.

The server's own protocol (`served_connection`) takes over a connection and its received bytes in three cases. Either a
request is long, or the direct handler does not take it, or the answer cannot be written at once.
"""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from kcore.errors import DecodeError, KcoreError, NetworkError
from kcore.net.adoption import AdoptedConnection, Adopter, Direct, Identity
from kcore.net.framed_connection import PIECE_BYTES, Piece
from kcore.net.idle_connections import IdleConnections
from kcore.net.limits.admission import Admission, Rank
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import (
    KEY_AND_VERSION,
    DirectHandler,
    Serving,
    Throttle,
    fault_line,
    read_request,
    response_frame,
    versions_frame,
)
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message

MOST_BYTES: Final = 4096  # The longest frame of a request here; the server's own protocol receives longer frames.
MOST_HELD: Final = 2 * MOST_BYTES  # The most unanswered bytes that are received from a connection.
READ_AT_ONCE: Final = 256  # Connections that one poll returns at most.
SLICE_S: Final = 0.002  # Time after which other work of the event loop runs.
_SIZE: Final = 4
_HEAD: Final = _SIZE + KEY_AND_VERSION.size


def is_supported() -> bool:
    """Whether this system has epoll."""
    return hasattr(select, "epoll")


class DirectConnection:
    """A new connection, which the server's admission counts."""

    __slots__ = (
        "_connections",
        "active_s",
        "connection_id",
        "direct",
        "ends",
        "is_asking",
        "is_here",
        "is_readable",
        "peer",
        "rank",
        "received",
        "session",
        "socket",
    )

    def __init__(
        self, direct_connections: "DirectConnections", accepted: socket.socket, session: ClientSession, number: int
    ) -> None:
        self._connections, self.socket, self.session, self.connection_id = direct_connections, accepted, session, number
        self.peer = _peer(accepted)
        self.rank = Rank.SILENT
        self.received = bytearray()  # Received bytes that `_take` has not yet removed as a request's frame.
        self.is_here = True  # False once it has ended, or the adopter or the server's own protocol serves it.
        self.is_readable = False  # The socket may have bytes, or its end, to read.
        self.ends = False  # The client will send no more bytes.
        self.is_asking = False  # A request waits to begin, or for its answer.
        self.direct: Direct | None = None  # The running request.
        self.active_s = 0.0  # When the last whole request was received, or its answer was written.

    @property
    def address(self) -> str:
        """The address of the client's host."""
        return self.session.client_address

    @property
    def identity(self) -> Identity:
        return Identity(self.connection_id, self.peer, self.session, self.rank)

    def abort(self) -> None:
        """Closes the connection at once."""
        self._connections.end(self, "aborted")

    def __str__(self) -> str:
        return f"{self.peer}, which is new"


class Host(Serving, Protocol):
    """The parts of a server that its DirectConnections use."""

    listener_name: str
    direct: DirectHandler | None
    adopter: Adopter | None
    throttle: Throttle | None
    admission: Admission[Any]
    connection_ids: "count[int]"
    log: BoundedLog

    def given_away(self, connection: DirectConnection, adopted: AdoptedConnection) -> None:
        """Called when the adopter takes a connection."""

    def take_over(self, direct_connection: DirectConnection, received: bytes, unwritten: Sequence[Piece]) -> None:
        """Called to serve a connection with the server's own protocol from now on (`Server.take_over`)."""

    def direct_connection_ended(self, direct_connection: DirectConnection, why: str) -> None:
        """Called when a connection has been closed."""


class DirectConnections:
    """The new connections of one server."""

    def __init__(self, server: Host, urgent: Collection[int]) -> None:
        """`urgent`: API keys of requests that begin before others."""
        self._server, self._urgent, self._metrics = server, frozenset(urgent), server.metrics
        self._loop = asyncio.get_running_loop()
        self._poll = select.epoll()
        self._events = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
        self._direct_connections: dict[int, DirectConnection] = {}  # By descriptor.
        # Connections that wait for a request. An incomplete request does not count as activity.
        self._idle: IdleConnections[DirectConnection] = IdleConnections(server.limits.idle_s, self._end_idle)
        self._asking: deque[tuple[DirectConnection, bytes]] = deque()  # Frames of requests that wait to begin.
        self._more: deque[DirectConnection] = deque()  # Connections that may have pipelined requests.
        self._is_due = False
        self._loop.add_reader(self._poll.fileno(), self._pass)

    def __len__(self) -> int:
        return len(self._direct_connections)

    def close(self) -> None:
        """Closes all connections; no effect the second time."""
        if self._poll.closed:
            return
        self._idle.close()
        self._loop.remove_reader(self._poll.fileno())
        for each in list(self._direct_connections.values()):
            self.end(each, "the server closes")
        self._asking.clear()
        self._more.clear()
        self._poll.close()

    def join(self, accepted: socket.socket, address: str) -> None:
        """Serves an accepted connection from now on; the server must have room for it."""
        server = self._server
        session = ClientSession(server.listener_name, address)
        direct_connection = DirectConnection(self, accepted, session, next(server.connection_ids))
        direct_connection.active_s = self._loop.time()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._metrics.connections_opened += 1
        self._direct_connections[accepted.fileno()] = direct_connection
        self._poll.register(accepted.fileno(), self._events)
        server.admission.join(direct_connection)
        self._idle.wait(direct_connection)

    # Steps in the event loop.

    def look(self) -> None:
        """Begins urgent requests that have arrived; called in the middle of long work."""
        if self._direct_connections:
            self._read_all()
            self._pass_soon()

    def _pass(self) -> None:
        until = self._loop.time() + SLICE_S
        while True:
            self._read_all()
            if self._more:
                self._read(self._more.popleft())
            elif self._asking:
                self._begin(*self._asking.popleft())
            else:
                return
            if self._loop.time() >= until:
                self._pass_soon()
                return

    def _pass_soon(self) -> None:
        if (self._asking or self._more) and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pass_again)

    def _pass_again(self) -> None:
        self._is_due = False
        if not self._poll.closed:
            self._pass()

    def _read_all(self) -> None:
        for descriptor, events in self._poll.poll(0, READ_AT_ONCE):
            direct_connection = self._direct_connections.get(descriptor)
            if direct_connection is not None:
                direct_connection.is_readable = True
                direct_connection.ends = direct_connection.ends or bool(events & ~select.EPOLLIN)
                self._read(direct_connection)

    def _read(self, direct_connection: DirectConnection) -> None:
        """Reads received bytes until a request is answered; further requests wait for the next event loop iteration."""
        while direct_connection.is_here:
            if self._take(direct_connection) and not direct_connection.is_asking:
                return
            if (
                not direct_connection.is_here
                or not direct_connection.is_readable
                or len(direct_connection.received) >= MOST_HELD
            ):
                return
            try:
                data = direct_connection.socket.recv(MOST_HELD - len(direct_connection.received))
            except (BlockingIOError, InterruptedError):
                direct_connection.is_readable = False
                continue
            except OSError:
                self.end(direct_connection, "reset")
                return
            if not data:
                self.end(direct_connection, "the peer closed the connection")
                return
            self._metrics.bytes_in += len(data)
            direct_connection.received += data
            direct_connection.is_readable = direct_connection.ends or len(direct_connection.received) == MOST_HELD

    def _take(self, direct_connection: DirectConnection) -> bool:
        """Begins or queues the next request if it is complete and no request is running; returns whether it has."""
        received = direct_connection.received
        if direct_connection.is_asking or len(received) < _SIZE:
            return False
        size = int.from_bytes(received[:_SIZE], "big")
        if not KEY_AND_VERSION.size <= size <= MOST_BYTES - _SIZE:
            self._send_on(direct_connection, bytes(received))
            return False
        if len(received) < _HEAD:
            return False
        api_key, _ = KEY_AND_VERSION.unpack_from(received, _SIZE)
        direct = self._server.direct
        if api_key != ApiVersionsRequest.api_key and (direct is None or not direct.takes(api_key)):
            self._send_on(direct_connection, bytes(received))
        elif len(received) >= _SIZE + size:
            frame = bytes(received[_SIZE : _SIZE + size])
            del received[: _SIZE + size]
            direct_connection.is_asking, direct_connection.active_s = True, self._loop.time()
            self._idle.leave(direct_connection)
            self._server.admission.run(direct_connection)
            if api_key in self._urgent:
                self._begin(direct_connection, frame)
            else:
                self._asking.append((direct_connection, frame))
            return True
        return False

    # Requests.

    def _begin(self, direct_connection: DirectConnection, frame: bytes) -> None:
        """Begins a request, even if the client has disconnected."""
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        server = self._server
        try:
            header, message = read_request(server, frame, api_key, version)
        except KcoreError:
            self._send_back(direct_connection, frame)
            return
        if message is None or isinstance(message, ApiVersionsRequest):
            self._send_api_versions(direct_connection, frame, header, message)
            return
        self._metrics.requests += 1
        context = RequestContext(
            direct_connection.peer, direct_connection.connection_id, header, direct_connection.session
        )
        direct_connection.direct = Direct(context, message, frame)
        assert server.direct is not None
        try:
            server.direct.begin(context, message, partial(self._answer, direct_connection))
        except (NetworkError, DecodeError) as error:
            self._metrics.errors[type(error).__name__] += 1
            server.log.warning("%s: %s: closed", direct_connection.peer, error)
            self.end(direct_connection, "refused")
        except Exception as error:
            self._blame_us(direct_connection, error, header)

    def _send_api_versions(
        self,
        direct_connection: DirectConnection,
        frame: bytes,
        header: RequestHeader,
        message: ApiVersionsRequest | None,
    ) -> None:
        """Answers ApiVersions. If clients have request quotas, the server's own protocol answers, to count the time."""
        throttle = self._server.throttle
        if throttle is not None and throttle.is_on and direct_connection.rank is not Rank.SILENT:
            self._send_back(direct_connection, frame)
            return
        self._metrics.requests += 1
        if direct_connection.is_here:
            self._write(direct_connection, versions_frame(self._server, header, message))
            if direct_connection.is_here:
                self._go_on(direct_connection)

    def _blame_us(self, direct_connection: DirectConnection, error: Exception, header: RequestHeader) -> None:
        """Logs an internal error in a handler, and closes only this connection."""
        self._metrics.errors[type(error).__name__] += 1
        what = fault_line(header.request_api_key, header.request_api_version)
        self._server.log.exception("%s: %s", direct_connection.peer, what)
        self.end(direct_connection, "a fault of ours")

    def _answer(self, direct_connection: DirectConnection, response: Message | None) -> None:
        """Writes the response, and offers the connection to the adopter."""
        direct, direct_connection.direct = direct_connection.direct, None
        if direct is None or not direct_connection.is_here:
            return
        if response is None:
            self.end(direct_connection, "no answer")
            return
        header, server = direct.context.header, self._server
        try:
            frame = response_frame(
                server, header, direct.request, response, direct_connection.active_s, self._loop.time()
            )
        except Exception as error:
            self._blame_us(direct_connection, error, header)
            return
        if direct_connection.session.mute_ms:
            self._send_on(direct_connection, bytes(direct_connection.received), frame)
            return
        self._write(direct_connection, frame)
        if direct_connection.is_here and not self._is_adopted(direct, response, direct_connection):
            self._go_on(direct_connection)

    def _write(self, direct_connection: DirectConnection, frame: list[Piece]) -> None:
        """Writes an answer; the server's own protocol takes over if the socket does not accept all of it at once."""
        direct_connection.active_s = self._loop.time()
        direct_connection.rank = max(direct_connection.rank, Rank.ANSWERED)
        [first, *more] = frame
        if more or len(first) > PIECE_BYTES:
            self._send_on(direct_connection, bytes(direct_connection.received), frame)
            return
        try:
            sent = direct_connection.socket.send(first)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.end(direct_connection, "reset")
            return
        self._metrics.bytes_out += sent
        if sent < len(first):
            self._send_on(direct_connection, bytes(direct_connection.received), [memoryview(first)[sent:]])
        else:
            self._metrics.responses += 1

    def _go_on(self, direct_connection: DirectConnection) -> None:
        """Waits for the next request; if the client may have sent it already, queues the connection."""
        direct_connection.is_asking = False
        self._server.admission.wait(direct_connection)
        self._idle.wait(direct_connection)
        if direct_connection.received or direct_connection.is_readable:
            self._more.append(direct_connection)
            self._pass_soon()

    # Connections that are handed over.

    def _is_adopted(self, direct: Direct, response: Message, direct_connection: DirectConnection) -> bool:
        """Offers the connection to the adopter, unless bytes are unread; returns whether the adopter has taken it."""
        adopter = self._server.adopter
        if adopter is None or direct_connection.received or direct_connection.is_readable:
            return False
        if (adoption := adopter.plan(direct, response)) is None:
            return False
        self._drop(direct_connection)
        adopted = AdoptedConnection(direct_connection.identity)
        self._server.given_away(direct_connection, adopted)
        adoption(adopted, direct_connection.socket.detach())
        return True

    def _send_on(
        self, direct_connection: DirectConnection, received: bytes, unwritten: list[Piece] | None = None
    ) -> None:
        """Hands the connection to the server's own protocol; `unwritten` is the rest of an answer."""
        self._drop(direct_connection)
        self._server.take_over(direct_connection, received, unwritten or ())

    def _send_back(self, direct_connection: DirectConnection, frame: bytes) -> None:
        """Hands the connection to the server's own protocol, which begins the request with this frame."""
        if direct_connection.is_here:
            self._send_on(direct_connection, len(frame).to_bytes(_SIZE, "big") + frame + direct_connection.received)

    def end(self, direct_connection: DirectConnection, why: str) -> None:
        """Closes a connection; no effect if it has ended or was handed over."""
        if direct_connection.is_here:
            self._drop(direct_connection)
            direct_connection.socket.close()
            self._server.direct_connection_ended(direct_connection, why)

    def _drop(self, direct_connection: DirectConnection) -> None:
        descriptor = direct_connection.socket.fileno()
        self._poll.unregister(descriptor)
        del self._direct_connections[descriptor]
        self._idle.leave(direct_connection)
        direct_connection.is_here = False

    def _end_idle(self, direct_connection: DirectConnection) -> None:
        self._metrics.errors["idle"] += 1
        self.end(direct_connection, "idle")


def _peer(accepted: socket.socket) -> str:
    """The client's address and port, for the log."""
    try:
        host, port, *_ = accepted.getpeername()
    except OSError:
        host, port = "a client that is gone", 0
    return f"{host}:{port}"
