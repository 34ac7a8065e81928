"""A client's connection to a peer, which sends requests and receives responses in the order of the calls."""

import asyncio
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from kcore.errors import (
    DecodeError,
    DisconnectedError,
    FrameError,
    NetworkError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kcore.net.connection_metrics import Metrics
from kcore.net.framed_connection import Framed, Piece, frame_with
from kcore.net.limits.connection_limits import Limits
from kcore.net.versions import PeerVersions, api_name, response_of
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from, encode
from kcore.wire.fanout import CORRELATION_ID, request_header

NEWEST_CORRELATION_ID = 2**31 - 1
CORRELATION_BYTES = 4


class Reply(Protocol):
    """Gets the result of a call: a future, or an object whose methods are called as soon as the answer arrives.

    The methods run inside the connection: they may send further requests, and must not raise.
    """

    def done(self) -> bool:
        """Whether no caller waits any more: the request is then not sent, or its answer is dropped."""

    def set_result(self, result: Any, /) -> None:
        """Called with the answer: the decoded response, or its body as a memoryview."""

    def set_exception(self, exception: NetworkError, /) -> None:
        """Called once instead of `set_result` if no answer will come."""


@dataclass(slots=True, eq=False)
class Call:
    """A request that waits to be sent, or for its answer."""

    request: type[Message]
    version: int
    correlation_id: int
    decoded: bool  # Whether the caller gets the decoded response, or else the response's body.
    frame: list[Piece]
    answer: Reply
    timeout_s: float
    deadline_s: float

    def __str__(self) -> str:
        return f"{api_name(self.request)} {self.version}"

    def end(self, error: NetworkError) -> None:
        """Passes the error to the caller; no effect if the caller was cancelled."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def read(self, frame: bytes) -> Any:
        """The answer in a frame; raises FrameError or DecodeError. Ignores bytes after the response, as Kafka does."""
        response = response_of(self.request)
        correlation_id, at = correlation_id_of(frame, response.header_version(self.version))
        if correlation_id != self.correlation_id:
            raise FrameError(f"the answer has correlation id {correlation_id}, not {self.correlation_id}")
        if self.answer.done():
            return None
        return decode_from(response, self.version, frame, at)[0] if self.decoded else memoryview(frame)[at:]


def correlation_id_of(frame: bytes, header_version: int) -> tuple[int, int]:
    """The correlation id of a response, and the position of its body; raises DecodeError for an invalid header."""
    at = CORRELATION_BYTES + header_version  # In version 1 the number of tags follows, which is nearly always 0.
    if len(frame) >= at and (header_version == 0 or frame[at - 1] == 0):
        return int.from_bytes(frame[:CORRELATION_BYTES], "big", signed=True), at
    header, at = decode_from(ResponseHeader, header_version, frame)
    return header.correlation_id, at


class Connection(Framed):
    """A client's connection, which `kcore.net.connect.connect` opens and `async with` closes.

    At most `limits.in_flight` requests are in flight; further requests wait in order. The connection ends if the oldest
    request is not answered in time, or another frame arrives. Every waiting call then gets an exception with the
    reason.
    """

    def __init__(self, peer: str, client_id: str | None, limits: Limits, metrics: Metrics) -> None:
        super().__init__(peer, limits, metrics)
        self.versions: PeerVersions | None = None  # None until the peer answers ApiVersions.
        self._client_id, self._correlation_id = client_id, 0
        self._queue: deque[Call] = deque()
        self._in_flight: deque[Call] = deque()
        self._unwritten: deque[Piece] = deque()  # The unwritten rest of the last request in flight.
        self._timer: asyncio.TimerHandle | None = None  # Fires at the first deadline, or before it.
        self._ended = ""  # The reason, once the connection has ended.
        self._again_s: float | None = None  # When the client should authenticate again, if its session ends.

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
        self._end(DisconnectedError, "the connection was closed on this side")
        self.close_soon()
        await self.wait_gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    # Sending.

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
        if self._ended:
            raise DisconnectedError(f"{api_name(request)} {version} to {self.peer}: {self._ended}")
        if len(self._queue) >= self.limits.queued:
            raise NetworkError(
                f"{api_name(request)} {version} to {self.peer}: {len(self._queue)} requests wait already"
            )
        correlation_id = self._correlation_id
        head = request_header(request, version, self._client_id) if head is None else head
        number = correlation_id.to_bytes(CORRELATION_BYTES, "big")
        head = head[: CORRELATION_ID.start] + number + head[CORRELATION_ID.stop :]
        frame = frame_with(head, *body)
        timeout_s = self.limits.request_s if timeout_s is None else timeout_s
        deadline_s = self._loop.time() + timeout_s
        self._correlation_id = (correlation_id + 1) & NEWEST_CORRELATION_ID
        self._queue.append(Call(request, version, correlation_id, decoded, frame, answer, timeout_s, deadline_s))
        self._wake_at(deadline_s)
        self._write_queued()

    def _write_queued(self) -> None:
        while self._may_write and not self.closed and (self._unwritten or self._begin_next()):
            self.write(self._unwritten.popleft())

    def _begin_next(self) -> bool:
        """Puts the next waiting call in flight; False if no call waits, or `limits.in_flight` is reached."""
        while self._queue and len(self._in_flight) < self.limits.in_flight:
            call = self._queue.popleft()
            if call.answer.done():  # The call was cancelled or timed out in the queue.
                continue
            self._in_flight.append(call)
            self._unwritten.extend(call.frame)
            call.frame = []
            self.metrics.requests += 1
            return True
        return False

    # Receiving.

    def frames_may_be_here(self) -> None:
        try:
            while not self._ended and (frame := self._splitter.next_frame()) is not None:
                if not self._in_flight:
                    raise FrameError(f"a frame of {len(frame)} bytes came, and nothing was asked")
                self._answer(frame)
        except (FrameError, DecodeError) as error:
            self._fail(FrameError, str(error))
        self._write_queued()

    def _answer(self, frame: bytes) -> None:
        call = self._in_flight[0]
        answer = call.read(frame)
        self._in_flight.popleft()
        self.metrics.responses += 1
        if not call.answer.done():
            call.answer.set_result(answer)

    # The end.

    def _wake_at(self, deadline_s: float) -> None:
        """Sets the timer to `deadline_s`, unless it fires earlier. All calls share one timer: most never time out."""
        if self._timer is not None:
            if self._timer.when() <= deadline_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline_s, self._time_out)

    def _time_out(self) -> None:
        """Fails calls that have timed out. Ends the connection if one was written: later answers come after its own."""
        self._timer = None
        now_s = self._loop.time()
        for call in (*self._in_flight, *self._queue):
            if call.deadline_s > now_s:
                self._wake_at(call.deadline_s)
                continue
            call.end(RequestTimeoutError(f"{call} to {self.peer}: no answer within {call.timeout_s} s"))
            if call in self._in_flight:
                self._fail(DisconnectedError, f"{call} before it was not answered within {call.timeout_s} s")
                return

    def _fail(self, kind: type[NetworkError], why: str) -> None:
        self.metrics.errors[kind.__name__] += 1
        self._end(kind, why)
        self.abort()

    def _end(self, kind: type[NetworkError], why: str) -> None:
        self._ended = self._ended or why
        if self._timer is not None:
            self._timer.cancel()
        waiting = (*self._in_flight, *self._queue)
        self._in_flight.clear()
        self._queue.clear()
        self._unwritten.clear()
        for call in waiting:
            call.end(kind(f"{call} to {self.peer}: {why}"))

    def writing_resumed(self) -> None:
        self._loop.call_soon(self._write_queued)  # If a write fails inside this call, asyncio ends a transport twice.

    def lost(self, why: str) -> None:
        if self._in_flight or self._queue:
            self._fail(DisconnectedError, why)
        self._end(DisconnectedError, why)
