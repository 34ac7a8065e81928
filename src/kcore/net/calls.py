"""The requests of one client's connection: those that wait to be sent, and those that wait for their answers."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from kcore.errors import DecodeError, DisconnectedError, FrameError, NetworkError, RequestTimeoutError
from kcore.net.connection_metrics import Metrics
from kcore.net.framed_connection import FrameTransport, Piece
from kcore.net.limits.connection_limits import Limits
from kcore.net.versions import api_name, response_of
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from

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


class Calls:
    """Sends calls in order, at most `limits.in_flight` at a time, and reads their answers in the same order."""

    def __init__(self, peer: str, limits: Limits, metrics: Metrics) -> None:
        self.peer, self.limits, self.metrics = peer, limits, metrics
        self.frames = FrameTransport(self._begun, limits, metrics)
        self.ended = ""  # The reason, once the connection has ended.
        self._queue: deque[Call] = deque()
        self._in_flight: deque[Call] = deque()
        self._unwritten: deque[Piece] = deque()  # The unwritten rest of the last request in flight.
        self._timer: asyncio.TimerHandle | None = None  # Fires at the first deadline, or before it.
        self._loop = asyncio.get_running_loop()

    def check(self, request: type[Message], version: int) -> None:
        """Raises DisconnectedError or NetworkError if a call cannot be added."""
        if self.ended:
            raise DisconnectedError(f"{api_name(request)} {version} to {self.peer}: {self.ended}")
        if len(self._queue) >= self.limits.queued:
            raise NetworkError(
                f"{api_name(request)} {version} to {self.peer}: {len(self._queue)} requests wait already"
            )

    def add(self, call: Call) -> None:
        """Sends a call, now or when fewer are in flight."""
        self._queue.append(call)
        self._wake_at(call.deadline_s)
        self._write_queued()

    def end(self, kind: type[NetworkError], why: str) -> None:
        """Fails all calls, and refuses further ones."""
        self.ended = self.ended or why
        if self._timer is not None:
            self._timer.cancel()
        waiting = (*self._in_flight, *self._queue)
        self._in_flight.clear()
        self._queue.clear()
        self._unwritten.clear()
        for call in waiting:
            call.end(kind(f"{call} to {self.peer}: {why}"))

    # Sending.

    def _write_queued(self) -> None:
        frames = self.frames
        while frames.may_write and not frames.closed and (self._unwritten or self._begin_next()):
            frames.write(self._unwritten.popleft())

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

    # Time-outs.

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
        self.end(kind, why)
        self.frames.abort()

    # FrameReceiver.

    def _begun(self, frames: FrameTransport) -> "Calls":
        self.metrics.connections_opened += 1
        return self

    def frames_may_be_here(self) -> None:
        """See `FrameReceiver.frames_may_be_here`."""
        try:
            while not self.ended and (frame := self.frames.splitter.next_frame()) is not None:
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

    def writing_resumed(self) -> None:
        """See `FrameReceiver.writing_resumed`."""
        self._loop.call_soon(self._write_queued)  # If a write fails inside this call, asyncio ends a transport twice.

    def lost(self, why: str) -> None:
        """See `FrameReceiver.lost`."""
        self.metrics.connections_closed += 1
        if self._in_flight or self._queue:
            self._fail(DisconnectedError, why)
        self.end(DisconnectedError, why)
