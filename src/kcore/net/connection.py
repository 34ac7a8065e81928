"""A client's connection to a peer, which sends requests and receives responses in the order of the calls."""

import asyncio
from types import TracebackType
from typing import Any, Self

from kcore.errors import DisconnectedError, UnsupportedVersionError
from kcore.net.calls import CORRELATION_BYTES, Call, Calls, Reply
from kcore.net.connection_metrics import Metrics
from kcore.net.framed_connection import FrameTransport, Piece, frame_with
from kcore.net.limits.connection_limits import Limits
from kcore.net.versions import PeerVersions
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.wire.codec import encode
from kcore.wire.fanout import CORRELATION_ID, request_header

NEWEST_CORRELATION_ID = 2**31 - 1


class Connection:
    """A client's connection, which `kcore.net.connect.connect` opens and `async with` closes.

    At most `limits.in_flight` requests are in flight; further requests wait in order. The connection ends if the oldest
    request is not answered in time, or another frame arrives. Every waiting call then gets an exception with the
    reason.
    """

    def __init__(self, peer: str, client_id: str | None, limits: Limits, metrics: Metrics) -> None:
        self.peer, self.limits, self.metrics = peer, limits, metrics
        self.versions: PeerVersions | None = None  # None until the peer answers ApiVersions.
        self._calls = Calls(peer, limits, metrics)
        self._client_id, self._correlation_id = client_id, 0
        self._again_s: float | None = None  # When the client should authenticate again, if its session ends.
        self._loop = asyncio.get_running_loop()

    @property
    def frames(self) -> FrameTransport:
        """The connection's protocol, for asyncio."""
        return self._calls.frames

    @property
    def closed(self) -> bool:
        return self.frames.closed

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor; -1 without a socket."""
        socket = self.frames.extra("socket")
        return -1 if socket is None else int(socket.fileno())

    def negotiated(self, versions: PeerVersions) -> None:
        """Records the versions that the peer supports."""
        self.versions = versions

    def begin_session(self, lasts_s: float | None) -> None:
        """Records that the client has authenticated, and should reauthenticate after `lasts_s`; None: never."""
        self._again_s = None if lasts_s is None else self._loop.time() + lasts_s

    @property
    def ends_soon(self) -> bool:
        """Whether the client should reauthenticate now (`kcore.net.connect.authenticate`)."""
        return self._again_s is not None and self._loop.time() >= self._again_s

    def send(
        self, message: Message, version: int | None = None, *, timeout_s: float | None = None
    ) -> asyncio.Future[Any]:
        """Sends a request now; returns a future of the response message.

        The default version is the highest that both ends support. If the caller cancels the future, the peer must still
        answer in time. `timeout_s` (default: `limits.request_s`) begins now. Raises UnsupportedVersionError,
        EncodeError, DisconnectedError. The future raises RequestTimeoutError, DisconnectedError or FrameError.
        """
        request = type(message)
        if self.versions is not None:
            version = self.versions.choose(request, version)
        elif version is None:
            raise UnsupportedVersionError(f"{request.__name__} needs a version: {self.peer} was sent no ApiVersions")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._call(request, version, (encode(message, version),), True, timeout_s, answer)
        return answer

    def send_bytes(
        self, api_key: int, version: int, *body: Piece, head: bytes | None = None, timeout_s: float | None = None
    ) -> asyncio.Future[Any]:
        """Sends an encoded body as `send` does; returns a future of a memoryview of the answer's body.

        A large body is not copied, so the caller must not change it before the answer arrives. `head`: an encoded
        header instead of the usual one; its correlation id is replaced.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._call(REQUESTS[api_key], version, body, False, timeout_s, answer, head)
        return answer

    def ask(self, reply: Reply, request: type[Message], version: int, *body: Piece) -> None:
        """Sends an encoded body as `send_bytes` does, without a future: for callers with thousands of connections."""
        self._call(request, version, body, False, None, reply)

    async def close(self) -> None:
        """Fails waiting calls with DisconnectedError, and waits at most `limits.close_s` until the socket is closed."""
        self._calls.end(DisconnectedError, "the connection was closed on this side")
        self.frames.close_soon()
        await self.wait_gone()

    def abort(self) -> None:
        """Ends the connection at once, and drops unsent data."""
        self.frames.abort()

    async def wait_gone(self) -> None:
        """Waits until the socket is closed."""
        await self.frames.wait_gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def _call(
        self,
        request: type[Message],
        version: int,
        body: tuple[Piece, ...],
        decoded: bool,
        timeout_s: float | None,
        answer: Reply,
        head: bytes | None = None,
    ) -> None:
        self._calls.check(request, version)
        correlation_id = self._correlation_id
        head = request_header(request, version, self._client_id) if head is None else head
        number = correlation_id.to_bytes(CORRELATION_BYTES, "big")
        head = head[: CORRELATION_ID.start] + number + head[CORRELATION_ID.stop :]
        frame = frame_with(head, *body)
        timeout_s = self.limits.request_s if timeout_s is None else timeout_s
        deadline_s = self._loop.time() + timeout_s
        self._correlation_id = (correlation_id + 1) & NEWEST_CORRELATION_ID
        self._calls.add(Call(request, version, correlation_id, decoded, frame, answer, timeout_s, deadline_s))
