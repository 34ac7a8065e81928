"""Reads and writes the frames of one connection, at both ends of it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from kcore._ext.wire.framing import Splitter
from kcore.errors import EncodeError, FrameError
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.held_bytes import ReceiveBudget
from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Message
from kcore.wire.codec import encode, encode_parts

Piece: TypeAlias = bytes | memoryview
PIECE_BYTES = 64 * 1024  # A larger frame is written in pieces of at most so many bytes.
LARGEST_FRAME_BYTES = 2**31 - 1  # A frame's size is an int32.


def frame_of(header: Message | None, header_version: int, *body: Piece) -> list[Piece]:
    """Encodes the header, and returns the frame as `frame_with` does; None if the body already has a header."""
    return frame_with(encode(header, header_version) if header is not None else b"", *body)


def frame_with(head: bytes, *body: Piece) -> list[Piece]:
    """A frame: size, header and body; a small frame is one piece.

    A large body is not copied but written piece by piece, as thousands of connections may send the same body at once.
    """
    size = len(head) + sum(map(len, body))
    if size > LARGEST_FRAME_BYTES:
        raise EncodeError(f"a frame of {size} bytes: its size is an int32")
    head = size.to_bytes(4, "big") + head
    if size <= PIECE_BYTES:
        return [b"".join((head, *body))]
    return [
        head,
        *(memoryview(each)[at : at + PIECE_BYTES] for each in body for at in range(0, len(each), PIECE_BYTES)),
    ]


class Encoded(NamedTuple):
    """A response, and its encoded body without a header."""

    response: Message
    body: Sequence[Piece]


async def encoded(response: Message, version: int) -> Encoded:
    """Encodes a response, a large one in several steps with other work of the event loop in between.

    Callers must not change the response meanwhile.
    """
    body = []
    for part in encode_parts(response, version):
        body.append(part)
        if len(part) >= PIECE_BYTES:
            await next_turn()
    return Encoded(response, body)


class FrameReceiver(Protocol):
    """The object that handles the frames of a connection, and its end."""

    def frames_may_be_here(self) -> None:
        """Called when bytes have arrived, so that the splitter may have a frame."""

    def writing_resumed(self) -> None:
        """Called when the peer has read enough that more can be written."""

    def lost(self, why: str) -> None:
        """Called when the connection has ended; `why` is the reason, as a clause."""


class FrameTransport(asyncio.BufferedProtocol):
    """The asyncio protocol of both ends of a connection: splits received bytes into frames, and writes bytes."""

    def __init__(
        self,
        begin: Callable[["FrameTransport"], FrameReceiver],
        limits: Limits,
        metrics: Metrics,
        budget: ReceiveBudget | None = None,
    ) -> None:
        """`begin` is called when the transport exists. `budget` limits the bytes received in a turn of the loop."""
        self.splitter = Splitter(limits.frame_bytes, FrameError)
        self.transport: asyncio.Transport | None = None  # None before the connection, and after it was given away.
        self.may_write = True  # False while the peer does not receive what was written.
        self.is_reading = True
        self._begin: Callable[[FrameTransport], FrameReceiver] | None = begin  # None after the call.
        self._receiver: FrameReceiver | None = None  # Set while the connection lasts.
        self._limits, self._metrics, self._budget = limits, metrics, budget
        self._loop = asyncio.get_running_loop()
        self.gone = self._loop.create_future()
        self._abort_timer: asyncio.TimerHandle | None = None

    @property
    def closed(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def extra(self, name: str) -> Any:
        """A property of the transport, such as its socket; None without a transport."""
        return None if self.transport is None else self.transport.get_extra_info(name)

    @property
    def unwritten_bytes(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def write(self, piece: Piece) -> None:
        assert self.transport is not None
        self._metrics.bytes_out += len(piece)
        self.transport.write(piece)

    def pause_reading(self) -> None:
        """Receives nothing until `resume_reading`."""
        if self.transport is not None:
            self.is_reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_reading and self.transport is not None:
            self.is_reading = True
            self.transport.resume_reading()

    def receive(self, received: bytes) -> None:
        """Appends bytes that another object has received from the peer."""
        while received:
            buffer = self.splitter.get_buffer()
            count = min(len(buffer), len(received))
            buffer[:count] = received[:count]
            self.splitter.received(count)
            received = received[count:]

    def abort(self) -> None:
        """Ends the connection at once, and drops unsent data."""
        if self.transport is None:
            self.detach()
        else:
            self.transport.abort()

    def close_soon(self) -> None:
        """Ends the connection once all written data is sent, after `limits.close_s` at the latest."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._abort_timer = self._loop.call_later(self._limits.close_s, self.transport.abort)

    def detach(self) -> None:
        """Forgets the transport and the receiver, after another object has taken the socket."""
        self.transport = self._begin = self._receiver = None

    async def wait_gone(self) -> None:
        """Waits until the socket is closed."""
        if self.transport is not None:
            await asyncio.wait([self.gone])

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(self._limits.write_buffer_bytes)
        begin, self._begin = self._begin, None  # Breaks a reference cycle.
        if begin is not None:
            self._receiver = begin(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self.splitter.get_buffer()
        return room if self._budget is None else self._budget.share(room)

    def buffer_updated(self, nbytes: int) -> None:
        self._metrics.bytes_in += nbytes
        self.splitter.received(nbytes)
        if self._receiver is not None:
            self._receiver.frames_may_be_here()

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True
        if self._receiver is not None:  # A TLS transport calls this after the connection's end, too.
            self._receiver.writing_resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set_result(None)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        half = self.splitter.pending_bytes
        where = f" inside a frame, of which {half} bytes came" if half else ""
        receiver, self._receiver = self._receiver, None  # Breaks a reference cycle.
        if receiver is not None:
            receiver.lost(f"the connection broke{where}: {exc}" if exc else f"the peer closed the connection{where}")
