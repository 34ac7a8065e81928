"""TLS handshakes of a server: few run at once, and the others wait, at the cost of a socket each.

A handshake takes OpenSSL's state before any client is authenticated. While all places are taken, the address with the
most running handshakes loses its oldest handshake to an address with fewer. Within one address, the oldest handshake
gives way after LEAST_S.
"""

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from kcore.net.idle_connections import IdleConnections

AT_ONCE: Final = 128
LEAST_S: Final = 1.0  # A handshake has this long before it gives way to another one of its address.
HANDSHAKE_BYTES: Final = 64 * 1024  # The state of one that runs, in OpenSSL, in asyncio and here; measured.
TLS_BYTES: Final = 32 * 1024  # The same, after the handshake.
HANDSHAKE_MOST: Final = 32 * 1024  # A client's bytes until its handshake ends; as jdk.tls.maxHandshakeMessageSize.
# OpenSSL keeps the cipher suites that a client lists, two bytes each, as a pointer each while the connection lasts.
KEPT_PER_BYTE: Final = 6
_RECEIVED: Final = "handshake bytes"  # The transport's attribute for the client's handshake without its last flight.
_ROOM_BYTES: Final = 64 * 1024


class Beginner(Protocol):
    """A connection whose client has sent its first bytes."""

    @property
    def address(self) -> str:
        """The address of the client's host."""

    socket: socket.socket

    def abort(self) -> None:
        """Ends the connection in any state."""


B = TypeVar("B", bound=Beginner)


class Handshakes(Generic[B]):
    """The handshakes of one server."""

    def __init__(self, begin: Callable[[B], None], wait_s: float, ends: Callable[[B, str], None]) -> None:
        """`begin` starts a handshake. `ends` gets a connection that waited in vain, its socket closed, and the reason.

        `wait_s`: how long one may wait.
        """
        self.room = memoryview(bytearray(_ROOM_BYTES))  # For all connections of the event loop.
        self._begin, self._ends, self._loop = begin, ends, asyncio.get_running_loop()
        self._running: dict[B, float] = {}  # Since when; the oldest first.
        self._ended: set[B] = set()  # Running ones that were aborted, and still have their state.
        self._of_address: Counter[str] = Counter()  # The running ones that were not aborted.
        self._idle: IdleConnections[B] = IdleConnections(wait_s, lambda each: self.end(each, "idle"))
        self._waiting: dict[str, OrderedDict[B, None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many run, which is how many have state in OpenSSL."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._idle)

    def join(self, connection: B) -> None:
        """Begins the handshake now or later."""
        if len(self._running) < AT_ONCE:
            self._start(connection)
            return
        self._idle.wait(connection)
        self._waiting.setdefault(connection.address, OrderedDict())[connection] = None
        self._give_way()

    def leave(self, connection: B) -> None:
        """Removes a waiting connection, or one whose handshake has ended and holds no memory."""
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
        """Closes a connection that waits; does nothing for others."""
        if self._leave_waiting(connection):
            connection.socket.close()
            self._ends(connection, why)

    def close(self) -> None:
        """Begins no more, and ends those that wait."""
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
        """Ends a running handshake for a waiting one, if the module's rule allows it."""
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


_OF_ASYNCIO: Final[Any] = SSLProtocol  # Gives access to its methods that have no types.


class _Connection(SSLProtocol):
    """asyncio's own keeps 256 KiB for each connection, although it fills and empties them within one call."""

    max_size = 0
    # Attributes of asyncio's own.
    _state: SSLProtocolState
    _app_reading_paused: bool
    _extra: dict[str, Any]
    _ssl_writing_paused: bool
    _ssl_reading_paused: bool

    def __init__(self, room: memoryview, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ssl_buffer_view = self._room = room

    def get_buffer(self, n: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Ends a handshake that is longer than any real one."""
        super().buffer_updated(nbytes)
        if self._state is SSLProtocolState.DO_HANDSHAKE:
            self._extra[_RECEIVED] = received = self._extra.get(_RECEIVED, 0) + nbytes
            if received > HANDSHAKE_MOST:
                too_long = ConnectionAbortedError(f"a handshake of more than {HANDSHAKE_MOST:,} bytes")
                _OF_ASYNCIO._on_handshake_complete(self, too_long)

    def _write_appdata(self, list_of_data: Any) -> None:
        """Drops what cannot be sent any more: asyncio's own logs a line for each answer of such a connection."""
        if self._state is not SSLProtocolState.WRAPPED or self._transport is None or self._transport.is_closing():
            if self._app_transport is not None:
                self._app_transport._closed = True  # The protocol above reads this before it answers.
            return
        super()._write_appdata(list_of_data)

    def _control_ssl_reading(self) -> None:
        """Reads nothing that the protocol above does not read, and nothing whose answer by OpenSSL cannot leave.

        asyncio's own keeps up to 256 KiB that wait to be read, and as many answers to KeyUpdate as the client asks for.
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
        """OpenSSL's output may be written again, and more input may be read."""
        super().resume_writing()
        if self._transport is not None:
            self._control_ssl_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Leaves no reference cycle through the protocol above, so that OpenSSL's state is free at once."""
        super().connection_lost(exc)
        self._app_protocol_get_buffer = self._app_protocol_buffer_updated = _over


def tls_bytes(transport: asyncio.BaseTransport | None) -> int:
    """The bytes that a TLS connection holds once its handshake has ended."""
    received: int = 0 if transport is None else transport.get_extra_info(_RECEIVED, 0)
    return TLS_BYTES + KEPT_PER_BYTE * received


def _over(*given: object) -> memoryview:
    """Refuses to read: the connection is over."""
    raise AssertionError("the connection is over")


async def accept_tls(
    accepted: socket.socket,
    make: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext,
    timeout_s: float,
    room: memoryview,
) -> None:
    """The handshake of a socket that was accepted; its end connects the protocol. OSError, TimeoutError.

    `room` is shared by connections of one event loop.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    protocol = _Connection(room, loop, make(), context, done, server_side=True, ssl_handshake_timeout=timeout_s)
    made = [protocol]
    del protocol
    transport, _ = await loop.connect_accepted_socket(made.pop, accepted)
    try:
        await done
    except BaseException:
        transport.abort()
        raise
    finally:
        del done, transport  # An exception has this frame, and `done` the exception.
