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
import sys
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from kcore.errors import KcoreError
from kcore.net.adoption import Direct, Returned
from kcore.net.connection_metrics import Metrics
from kcore.net.connection_states import ClientConnection, ConnectionState, Event
from kcore.net.framed_connection import PIECE_BYTES, Piece
from kcore.net.idle_connections import IdleConnections
from kcore.net.limits.admission import Rank
from kcore.net.requests import KEY_AND_VERSION, ServedApis, context_of
from kcore.net.server_connections import IDLE, ServerConnections
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.structure import Message

MOST_BYTES: Final = 4096  # The longest frame of a request here; the server's own protocol receives longer frames.
MOST_HELD: Final = 2 * MOST_BYTES  # The most unanswered bytes that are received from a connection.
READ_AT_ONCE: Final = 256  # Connections that one poll returns at most.
SLICE_S: Final = 0.002  # Time after which other work of the event loop runs.
_SIZE: Final = 4
_HEAD: Final = _SIZE + KEY_AND_VERSION.size
_EVENTS: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET if sys.platform == "linux" else 0


def is_supported() -> bool:
    """Whether this system has epoll."""
    return sys.platform == "linux"


class DirectConnection:
    """A connection without a transport, and what it has received."""

    __slots__ = (
        "_connections",
        "active_s",
        "client",
        "direct",
        "ends",
        "is_asking",
        "is_here",
        "is_readable",
        "received",
        "socket",
    )

    may_end, idle_s = True, 0.0

    def __init__(self, connections: "DirectConnections", client: ClientConnection, accepted: socket.socket) -> None:
        self._connections, self.client, self.socket = connections, client, accepted
        self.received = bytearray()  # Received bytes that `_take` has not yet removed as a request's frame.
        self.is_here = True  # False once it has ended, or another holder has it.
        self.is_readable = False  # The socket may have bytes, or its end, to read.
        self.ends = False  # The client will send no more bytes.
        self.is_asking = False  # A request waits to begin, or for its answer.
        self.direct: Direct | None = None  # The running request.
        self.active_s = 0.0  # When the last whole request was received, or its answer was written.

    def abort(self) -> None:
        """Closes the connection at once."""
        self._connections.end(self, "aborted")

    def receive(self, metrics: Metrics) -> str:
        """Receives bytes if there are any; returns why the connection has ended, or an empty string."""
        try:
            data = self.socket.recv(MOST_HELD - len(self.received))
        except (BlockingIOError, InterruptedError):
            self.is_readable = False
            return ""
        except OSError:
            return "reset"
        if not data:
            return "the peer closed the connection"
        metrics.bytes_in += len(data)
        if self.client.state is ConnectionState.ACCEPTED:
            self.client.enter(Event.BEGIN_REQUESTS)
        self.received += data
        self.is_readable = self.ends or len(self.received) == MOST_HELD
        return ""


class DirectConnections:
    """The new connections of one server."""

    def __init__(self, apis: ServedApis, connections: ServerConnections, urgent: Collection[int]) -> None:
        """`urgent`: API keys of requests that begin before others."""
        self._apis, self._connections, self._urgent = apis, connections, frozenset(urgent)
        self._metrics = connections.metrics
        self._loop = asyncio.get_running_loop()
        self._poll = select.epoll()
        self._held: dict[int, DirectConnection] = {}  # By descriptor.
        # Connections that wait for a request. An incomplete request does not count as activity.
        self._idle: IdleConnections[DirectConnection] = IdleConnections(
            connections.limits.idle_s, lambda connection: self.end(connection, IDLE)
        )
        self._asking: deque[tuple[DirectConnection, bytes]] = deque()  # Frames of requests that wait to begin.
        self._more: deque[DirectConnection] = deque()  # Connections that may have pipelined requests.
        self._is_due = False
        self._loop.add_reader(self._poll.fileno(), self._pass)

    def __len__(self) -> int:
        return len(self._held)

    def close(self) -> None:
        """Closes all connections; no effect the second time."""
        if self._poll.closed:
            return
        self._idle.close()
        self._loop.remove_reader(self._poll.fileno())
        for each in list(self._held.values()):
            self.end(each, "the server closes")
        self._asking.clear()
        self._more.clear()
        self._poll.close()

    def join(self, client: ClientConnection, accepted: socket.socket) -> None:
        """Serves an accepted connection from now on."""
        client.holder = connection = DirectConnection(self, client, accepted)
        connection.active_s = self._loop.time()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held[accepted.fileno()] = connection
        self._poll.register(accepted.fileno(), _EVENTS)
        self._idle.wait(connection)

    # Steps in the event loop.

    def look(self) -> None:
        """Begins urgent requests that have arrived; called in the middle of long work."""
        if self._held:
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
            connection = self._held.get(descriptor)
            if connection is not None:
                connection.is_readable = True
                connection.ends = connection.ends or bool(events & ~select.EPOLLIN)
                self._read(connection)

    def _read(self, connection: DirectConnection) -> None:
        """Reads received bytes until a request is answered; further requests wait for the next event loop iteration."""
        while connection.is_here:
            if self._take(connection) and not connection.is_asking:
                return
            if not connection.is_here or not connection.is_readable or len(connection.received) >= MOST_HELD:
                return
            if why := connection.receive(self._metrics):
                self.end(connection, why)

    def _take(self, connection: DirectConnection) -> bool:
        """Begins or queues the next request if it is complete and no request is running; returns whether it has."""
        received = connection.received
        if connection.is_asking or len(received) < _SIZE:
            return False
        size = int.from_bytes(received[:_SIZE], "big")
        if not KEY_AND_VERSION.size <= size <= MOST_BYTES - _SIZE:
            self._send_on(connection, bytes(received))
            return False
        if len(received) < _HEAD:
            return False
        api_key, _ = KEY_AND_VERSION.unpack_from(received, _SIZE)
        handler = self._apis.parts.direct
        if api_key != ApiVersionsRequest.api_key and (handler is None or not handler.takes(api_key)):
            self._send_on(connection, bytes(received))
        elif len(received) >= _SIZE + size:
            frame = bytes(received[_SIZE : _SIZE + size])
            del received[: _SIZE + size]
            connection.is_asking, connection.active_s = True, self._loop.time()
            self._idle.leave(connection)
            self._connections.admission.run(connection.client)
            if api_key in self._urgent:
                self._begin(connection, frame)
            else:
                self._asking.append((connection, frame))
            return True
        return False

    # Requests.

    def _begin(self, connection: DirectConnection, frame: bytes) -> None:
        """Begins a request, even if the client has disconnected."""
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        client, throttle = connection.client, self._apis.parts.throttle
        try:
            kind = self._apis.kind_of(api_key, version)
            context = context_of(client, kind, version, frame, connection.active_s)
            message = self._apis.read(context)
        except KcoreError:
            self._send_back(connection, frame)
            return
        if message is not None and not isinstance(message, ApiVersionsRequest):
            direct = connection.direct = Direct(context, message, frame)
            if not self._apis.begin(direct, partial(self._answer, connection)):
                self.end(connection, "refused")
        elif throttle is not None and throttle.is_on and client.rank is not Rank.SILENT:
            self._send_back(connection, frame)  # If clients have request quotas, their task counts the time.
        else:
            self._metrics.requests += 1
            if connection.is_here:
                self._write(connection, self._apis.versions_frame(context.header, message))
                if connection.is_here:
                    self._go_on(connection)

    def _answer(self, connection: DirectConnection, response: Message | None) -> None:
        """Writes the response, and offers the connection to the adopter."""
        direct, connection.direct = connection.direct, None
        if direct is None or not connection.is_here:
            return
        frame = None if response is None else self._apis.direct_frame(direct, response)
        if response is None or frame is None:
            self.end(connection, "no answer")
        elif connection.client.session.mute_ms:
            self._send_on(connection, bytes(connection.received), frame)
        else:
            self._write(connection, frame)
            if connection.is_here and not self._is_adopted(direct, response, connection):
                self._go_on(connection)

    def _write(self, connection: DirectConnection, frame: list[Piece]) -> None:
        """Writes an answer; the server's own protocol takes over if the socket does not accept all of it at once."""
        connection.active_s = self._loop.time()
        connection.client.rank = max(connection.client.rank, Rank.ANSWERED)
        [first, *more] = frame
        if more or len(first) > PIECE_BYTES:
            self._send_on(connection, bytes(connection.received), frame)
            return
        try:
            sent = connection.socket.send(first)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.end(connection, "reset")
            return
        self._metrics.bytes_out += sent
        if sent < len(first):
            self._send_on(connection, bytes(connection.received), [memoryview(first)[sent:]])
        else:
            self._metrics.responses += 1

    def _go_on(self, connection: DirectConnection) -> None:
        """Waits for the next request; if the client may have sent it already, queues the connection."""
        connection.is_asking = False
        self._connections.admission.wait(connection.client)
        self._idle.wait(connection)
        if connection.received or connection.is_readable:
            self._more.append(connection)
            self._pass_soon()

    # Connections that are handed over.

    def _is_adopted(self, direct: Direct, response: Message, connection: DirectConnection) -> bool:
        """Offers the connection to the adopter, unless bytes are unread; returns whether the adopter has taken it."""
        adopter = self._apis.parts.adopter
        if adopter is None or connection.received or connection.is_readable:
            return False
        if (adoption := adopter.plan(direct, response)) is None:
            return False
        self._drop(connection)
        self._connections.give_away(connection.client, adoption, connection.socket.detach())
        return True

    def _send_on(self, connection: DirectConnection, received: bytes, unwritten: Sequence[Piece] = ()) -> None:
        """Continues the connection with a transport; `unwritten` is the rest of an answer."""
        self._drop(connection)
        returned = Returned(received, b"", is_recalled=True, pieces=unwritten)
        self._connections.resume(connection.client, connection.socket, returned)

    def _send_back(self, connection: DirectConnection, frame: bytes) -> None:
        """Hands the connection to the server's own protocol, which begins the request with this frame."""
        if connection.is_here:
            self._send_on(connection, len(frame).to_bytes(_SIZE, "big") + frame + connection.received)

    def end(self, connection: DirectConnection, why: str) -> None:
        """Closes a connection; no effect if it has ended or was handed over."""
        if connection.is_here:
            self._drop(connection)
            connection.socket.close()
            self._connections.ended(connection.client, why)

    def _drop(self, connection: DirectConnection) -> None:
        descriptor = connection.socket.fileno()
        self._poll.unregister(descriptor)
        del self._held[descriptor]
        self._idle.leave(connection)
        connection.is_here = False
