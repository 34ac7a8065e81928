"""TLS handshakes of a server: at most AT_ONCE run at the same time. Other connections wait, each with only a socket.

A handshake needs memory in OpenSSL before the client is authenticated. When AT_ONCE handshakes are running and another
connection waits, the server closes the oldest handshake of the address that has the most. It does so at once if the
waiting connection's address has at least two fewer, otherwise when that handshake has run for LEAST_S.
"""

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from kcore.net.idle_connections import IdleConnections

AT_ONCE: Final = 128  # Handshakes that may run at the same time.
LEAST_S: Final = 1.0  # The time that a handshake has before it is closed for another connection of its address.
HANDSHAKE_BYTES: Final = 64 * 1024  # Measured memory of a running handshake, in OpenSSL, in asyncio and here.
TLS_BYTES: Final = 32 * 1024  # Measured memory of a TLS connection after its handshake.
HANDSHAKE_MOST: Final = 32 * 1024  # The most bytes of a client's handshake, as jdk.tls.maxHandshakeMessageSize.
# While a connection lasts, OpenSSL stores a pointer for each cipher suite that the client listed in two bytes.
KEPT_PER_BYTE: Final = 6  # Bytes of memory per byte of the handshake.
_RECEIVED: Final = "handshake bytes"  # The transport's attribute: bytes of the handshake without its last flight.
_ROOM_BYTES: Final = 64 * 1024  # The size of the shared receive buffer.


class Beginner(Protocol):
    """A connection whose client has sent its first bytes, and whose handshake can begin."""

    @property
    def address(self) -> str:
        """The address of the client's host."""

    socket: socket.socket

    def abort(self) -> None:
        """Ends the connection, even during its handshake."""


B = TypeVar("B", bound=Beginner)


class Handshakes(Generic[B]):
    """The running and the waiting handshakes of one server."""

    def __init__(self, begin: Callable[[B], None], wait_s: float, ends: Callable[[B, str], None]) -> None:
        """`begin` starts a handshake. `ends` gets a waiting connection whose socket was closed, and the reason.

        `wait_s`: how long a connection may wait for its handshake.
        """
        self.room = memoryview(bytearray(_ROOM_BYTES))  # The receive buffer that all handshakes of the loop share.
        self._begin, self._ends, self._loop = begin, ends, asyncio.get_running_loop()
        self._running: dict[B, float] = {}  # The time of the start by connection; the oldest first.
        self._ended: set[B] = set()  # Running handshakes that were aborted, but still use memory.
        self._of_address: Counter[str] = Counter()  # Counts running handshakes that were not aborted.
        self._idle: IdleConnections[B] = IdleConnections(wait_s, lambda each: self.end(each, "idle"))
        self._waiting: dict[str, OrderedDict[B, None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of running handshakes, which have memory in OpenSSL."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of connections that wait for their handshake."""
        return len(self._idle)

    def join(self, connection: B) -> None:
        """Begins a connection's handshake, now or when others have ended."""
        if len(self._running) < AT_ONCE:
            self._start(connection)
            return
        self._idle.wait(connection)
        self._waiting.setdefault(connection.address, OrderedDict())[connection] = None
        self._give_way()

    def leave(self, connection: B) -> None:
        """Removes a waiting connection, or a connection whose handshake has ended and uses no memory any more."""
        if self._leave_waiting(connection) or self._running.pop(connection, None) is None:
            return
        if connection in self._ended:
            self._ended.remove(connection)
        else:
            self._forget(connection)
        while len(self._running) < AT_ONCE and (following := self._following()) is not None:
            self._leave_waiting(following)
            self._start(following)

    def end(self, connection: B, why: str) -> None:
        """Closes a waiting connection; no effect for other connections."""
        if self._leave_waiting(connection):
            connection.socket.close()
            self._ends(connection, why)

    def close(self) -> None:
        """Closes all waiting connections, and begins no further handshake."""
        for waiting in list(self._idle):
            self.end(waiting, "the server closes")
        self._idle.close()
        if self._timer is not None:
            self._timer.cancel()

    def _start(self, connection: B) -> None:
        self._running[connection] = self._loop.time()
        self._of_address[connection.address] += 1
        self._begin(connection)

    def _forget(self, connection: B) -> None:
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def _leave_waiting(self, connection: B) -> bool:
        if not self._idle.leave(connection):
            return False
        same = self._waiting[connection.address]
        del same[connection]
        if not same:
            del self._waiting[connection.address]
        return True

    def _following(self) -> B | None:
        """The oldest waiting connection of the address with the fewest running handshakes."""
        address = min(self._waiting, key=self._of_address.__getitem__, default=None)
        return None if address is None else next(iter(self._waiting[address]))

    def _give_way(self) -> None:
        """Aborts a running handshake for a waiting connection, if the rule in the module's docstring allows it."""
        following = self._following()
        if following is None or not self._of_address or len(self._ended) >= len(self._idle):
            return
        most = max(self._of_address.values())
        oldest = next(k for k in self._running if k not in self._ended and self._of_address[k.address] == most)
        left_s = self._running[oldest] + LEAST_S - self._loop.time()
        if most > self._of_address[following.address] + 1 or left_s <= 0:
            self._ended.add(oldest)
            self._forget(oldest)
            oldest.abort()
        if self._timer is None:
            self._timer = self._loop.call_later(max(left_s, 0.01), self._give_way_again)

    def _give_way_again(self) -> None:
        self._timer = None
        before = -1
        while before != (before := len(self._ended)):
            self._give_way()


_OF_ASYNCIO: Final[Any] = SSLProtocol  # With the type Any, for calls of its private methods.


class _Connection(SSLProtocol):
    """asyncio's SSLProtocol with less memory: connections share one receive buffer, and output is bounded.

    asyncio allocates a receive buffer of 256 KiB per connection, though it fills and empties the buffer in one call.
    """

    max_size = 0
    # Attributes of SSLProtocol.
    _state: SSLProtocolState
    _app_reading_paused: bool
    _extra: dict[str, Any]
    _ssl_writing_paused: bool
    _ssl_reading_paused: bool

    def __init__(
        self,
        room: memoryview,
        protocol: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        done: "asyncio.Future[None]",
        timeout_s: float,
    ) -> None:
        """`done`: the result of the handshake of a server."""
        loop, options = asyncio.get_running_loop(), {"server_side": True, "ssl_handshake_timeout": timeout_s}
        _OF_ASYNCIO.__init__(self, loop, protocol, context, done, **options)  # typeshed allows no float for a time-out.
        self._ssl_buffer_view = self._room = room

    def get_buffer(self, n: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Ends a handshake of more than HANDSHAKE_MOST bytes, which no real client sends."""
        super().buffer_updated(nbytes)
        if self._state is SSLProtocolState.DO_HANDSHAKE:
            self._extra[_RECEIVED] = received = self._extra.get(_RECEIVED, 0) + nbytes
            if received > HANDSHAKE_MOST:
                too_long = ConnectionAbortedError(f"a handshake of more than {HANDSHAKE_MOST:,} bytes")
                _OF_ASYNCIO._on_handshake_complete(self, too_long)

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        """Sends OpenSSL's alert before asyncio closes a refused connection (SslTransportLayer.handshakeFailure)."""
        if isinstance(handshake_exc, ssl.SSLError):
            _OF_ASYNCIO._process_outgoing(self)
        _OF_ASYNCIO._on_handshake_complete(self, handshake_exc)

    def _write_appdata(self, list_of_data: Any) -> None:
        """Drops data if the connection is closing; asyncio would log a line for each answer on such a connection."""
        if self._state is not SSLProtocolState.WRAPPED or self._transport is None or self._transport.is_closing():
            if self._app_transport is not None:
                self._app_transport._closed = True  # The protocol above reads this before it answers.
            return
        super()._write_appdata(list_of_data)

    def _control_ssl_reading(self) -> None:
        """Pauses reading while the protocol above reads nothing, or while OpenSSL's output cannot be written.

        asyncio would buffer 256 KiB of unread data, and the answers to any number of KeyUpdate messages of the client.
        """
        is_to_wait = self._app_reading_paused or self._ssl_writing_paused
        if self._state is not SSLProtocolState.WRAPPED or not is_to_wait:
            _OF_ASYNCIO._control_ssl_reading(self)
        elif not self._ssl_reading_paused:
            self._ssl_reading_paused = True
            transport: Any = self._transport
            transport.pause_reading()

    def _pause_reading(self) -> None:
        _OF_ASYNCIO._pause_reading(self)
        if self._state is SSLProtocolState.WRAPPED:
            self._control_ssl_reading()

    def resume_writing(self) -> None:
        """Called when OpenSSL's output may be written again; then more input may be read."""
        super().resume_writing()
        if self._transport is not None:
            self._control_ssl_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Breaks the reference cycle through the protocol above, so that OpenSSL's memory is freed at once."""
        super().connection_lost(exc)
        self._app_protocol_get_buffer = self._app_protocol_buffer_updated = _over


def tls_bytes(transport: asyncio.BaseTransport | None) -> int:
    """The memory, in bytes, that a TLS connection uses after its handshake."""
    received: int = 0 if transport is None else transport.get_extra_info(_RECEIVED, 0)
    return TLS_BYTES + KEPT_PER_BYTE * received


def _over(*given: object) -> memoryview:
    """Stands in for the buffer methods of the protocol above after the connection has ended."""
    raise AssertionError("the connection is over")


async def accept_tls(
    accepted: socket.socket,
    make: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext,
    timeout_s: float,
    room: memoryview,
) -> None:
    """Performs the TLS handshake of an accepted socket, then connects the protocol from `make` to it.

    `room` is the receive buffer that connections of one event loop share. Raises OSError, TimeoutError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    protocol = _Connection(room, make(), context, done, timeout_s)
    made = [protocol]
    del protocol
    transport, _ = await loop.connect_accepted_socket(made.pop, accepted)
    try:
        await done
    except BaseException:
        transport.abort()
        raise
    finally:
        del done, transport  # Breaks a cycle: an exception refers to this frame, and `done` to the exception.
