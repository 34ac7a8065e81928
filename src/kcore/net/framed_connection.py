"""The common part of client and server connections: reads and writes frames, and handles the connection's end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

from kcore._ext.wire.framing import Splitter
from kcore.errors import EncodeError, FrameError
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
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


class Framed(asyncio.BufferedProtocol, ABC):
    """The asyncio protocol of clients and servers. Subclasses handle received frames and the connection's end."""

    def __init__(self, peer: str, limits: Limits, metrics: Metrics) -> None:
        self.peer = peer
        self.limits = limits
        self.metrics = metrics
        self._splitter = Splitter(limits.frame_bytes, FrameError)
        self._transport: asyncio.Transport | None = None
        self._may_write = True
        self._loop = asyncio.get_running_loop()
        self._gone = self._loop.create_future()
        self._abort_timer: asyncio.TimerHandle | None = None

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor; -1 without a socket."""
        socket = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if socket is None else int(socket.fileno())

    @abstractmethod
    def frames_may_be_here(self) -> None:
        """Called when bytes have arrived, so that the splitter may have a frame."""

    @abstractmethod
    def writing_resumed(self) -> None:
        """Called when the peer has read enough that more can be written."""

    @abstractmethod
    def lost(self, why: str) -> None:
        """Called when the connection has ended; `why` is the reason, as a clause."""

    def write(self, piece: Piece) -> None:
        assert self._transport is not None
        self.metrics.bytes_out += len(piece)
        self._transport.write(piece)

    def abort(self) -> None:
        """Ends the connection at once, and drops unsent data."""
        if self._transport is not None:
            self._transport.abort()

    def close_soon(self) -> None:
        """Ends the connection once all written data is sent, after `limits.close_s` at the latest."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._abort_timer = self._loop.call_later(self.limits.close_s, self._transport.abort)

    async def wait_gone(self) -> None:
        """Waits until the socket is closed."""
        if self._transport is not None:
            await asyncio.wait([self._gone])

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(self.limits.write_buffer_bytes)
        self.metrics.connections_opened += 1

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.metrics.bytes_in += nbytes
        self._splitter.received(nbytes)
        self.frames_may_be_here()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self.writing_resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self.metrics.connections_closed += 1
        self._gone.set_result(None)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        half = self._splitter.pending_bytes
        where = f" inside a frame, of which {half} bytes came" if half else ""
        self.lost(f"the connection broke{where}: {exc}" if exc else f"the peer closed the connection{where}")
