"""One client's connection to a server: reads requests, calls the server's handler, and writes answers, one by one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kcore.errors import DecodeError, FrameError, KcoreError, NetworkError
from kcore.net.adoption import AdoptedConnection, Direct, Identity, Returned, descriptor_of
from kcore.net.framed_connection import PIECE_BYTES, Encoded, Framed, Piece, encoded, frame_of
from kcore.net.limits.admission import Rank
from kcore.net.limits.large_requests import Place, let_go, long_lists
from kcore.net.limits.stopwatch import timed
from kcore.net.limits.work_in_parts import Share
from kcore.net.request_context import SESSION, ClientSession, RequestContext
from kcore.net.requests import (
    KEY_AND_VERSION,
    check_kind,
    fault_line,
    read_any_request,
    read_request,
    response_frame,
    started_watch,
    versions_frame,
)
from kcore.net.security.handshakes import tls_bytes
from kcore.net.security.principal import principal_of_certificate
from kcore.net.security.sasl_server import SaslServer
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.fetch import FetchResponse
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message, Struct

if TYPE_CHECKING:
    from kcore.net.server import AcceptedSocket, Server

# The client of the current request, for the log; empty outside of requests.
PEER: ContextVar[str] = ContextVar("PEER", default="")
QUIET_BYTES = 4096  # The size of the receive buffer of a connection that waits for its client.


Handler: TypeAlias = Callable[[RequestContext, Any], Awaitable[Message | Encoded | None]]
"""Returns a response that must not change later: a Fetch response that is returned again is not encoded again, and a
large response is encoded part by part."""


class ServedConnection(Framed):
    """The server's own protocol for one client.

    It reads the next request only when the last request is answered, so unread data is bounded by one buffer. As in
    Kafka, a request that has begun runs to its end even if the client disconnects.
    """

    def __init__(self, server: "Server", accepted_socket: "AcceptedSocket") -> None:
        super().__init__("nobody yet", server.limits, server.metrics)
        self.address = accepted_socket.address
        self.rank = Rank.SILENT
        self._server, self._accepted_socket = server, accepted_socket
        self._returned = returned = accepted_socket.returned  # Set until `_go_on`, if the connection was returned.
        if returned is None:
            self._id = next(server.connection_ids)
            self._session = ClientSession(server.listener_name, accepted_socket.address, server.protocol)
        else:
            self._id, _, self._session, self.rank = returned.identity
        self._sasl: SaslServer | None = None
        self._done_with: list[list[Struct]] = []  # Long lists of the last request and its answer, to be freed in parts.
        if server.sasl is not None:
            _, api_versions = server.served[ApiVersionsRequest.api_key]
            self._sasl = SaslServer(server.sasl, lambda: server.versions_answer, api_versions)
            self._splitter.max_frame_bytes = min(server.sasl.max_receive_bytes, server.limits.frame_bytes)
        # If the adopter could not answer the last request, the server keeps the connection for one more request.
        # Otherwise alternating kinds of requests would move the connection back and forth.
        self._stays_once = returned is not None and not returned.is_recalled
        # The idle task waits for this future, whose result is a frame, or pieces to write; None ends the task.
        self._next: asyncio.Future[bytes | list[Piece] | None] | None = None
        self._direct: Direct | None = None  # The running request of the direct handler.
        self._drained: asyncio.Future[None] | None = None  # Done when more can be written.
        self._muted: asyncio.Future[None] | None = None  # Done when the client is no longer throttled.
        self._reading_paused = False
        self._handling = False
        self._place = Place(server.large_requests, accepted_socket.address, self._gone)
        self._share = Share()
        self._running_bytes = 0  # The bytes of the running request's frame.
        self._active_s = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        returned = self._returned
        if returned is None:
            host, port, *_ = transport.get_extra_info("peername") or ("a client that is gone", 0)
            self.peer = f"{host}:{port}"
            self._session.principal = principal_of_certificate(transport.get_extra_info("peercert"))
        else:
            self.peer = returned.identity.peer
        self.metrics.connections_opened -= 1  # Counted twice: its accepted socket is counted, too.
        server = self._server
        if server.closing:
            self.abort()
            return
        server.begun(self, self._accepted_socket)
        task = self._loop.create_task(self._run())
        server.tasks.add(task)
        task.add_done_callback(partial(server.finished, self))
        self._weigh()
        self._check_idle()
        if returned is not None:
            self._go_on(returned)

    def __str__(self) -> str:
        return f"{self.peer}, idle for {self.idle_s:.1f} s"

    @property
    def may_end(self) -> bool:
        """False while a request is running, which would still use its memory after the connection has ended."""
        return not self._handling or self._place.is_awaited

    @property
    def _is_unknown(self) -> bool:
        """True for a connection over TLS whose client has sent no request, or is not authenticated."""
        is_silent = self.rank is Rank.SILENT or (self._sasl is not None and not self._sasl.is_complete)
        return self._server.tls is not None and is_silent

    @property
    def idle_s(self) -> float:
        """The time in s since the last whole request, or since its answer was sent; 0 while a request is running."""
        return 0.0 if self._handling else self._loop.time() - self._active_s

    def finish(self) -> None:
        """Begins no further request. A running request of the direct handler is still answered, unless disconnected."""
        if self._next is not None and not self._next.done() and (self._direct is None or self.closed):
            self._next.set_result(None)
        self._unmute()

    def end_for(self, what: str, why: str) -> None:
        """Closes the connection because all connections together exceed a limit; counted in the metrics as `what`."""
        self.metrics.errors[what] += 1
        self._server.log.warning("%s: %s: closed", self.peer, why)
        self.abort()

    # The task: one request after the other.

    async def _run(self) -> None:
        PEER.set(self.peer)
        SESSION.set(self._session)
        try:
            while (frame := await self._next_frame()) is not None:
                if isinstance(frame, list):
                    await self._write(frame)
                else:
                    watch = started_watch(self._server.throttle, self._session)
                    self._begin_request(frame)
                    answer = await timed(watch, self._answer(frame))
                    del frame  # Freed before the answer is written, which may take long.
                    self._end_request()
                    if self._done_with:  # Freed before the answer is written: its client may receive it slowly.
                        done_with, self._done_with = self._done_with, []
                        await let_go(done_with)
                    self._place.leave()
                    if answer is not None:
                        await timed(watch, self._write(answer))
                        del answer
                    if watch is not None and self._server.throttle is not None:
                        self._server.throttle.sent(self._session)
                if self._session.mute_ms:
                    await self._mute()
        except (FrameError, DecodeError, NetworkError) as error:
            self._refuse(error)
        finally:
            self._handling = False
            self._place.leave()
            self._server.received.hold(self, 0)
            self._forget_relay()
            self.close_soon()

    async def _mute(self) -> None:
        """Waits until the client is no longer throttled, or the connection must end (ThrottledChannel)."""
        muted_s, self._session.mute_ms = self._session.mute_ms / 1000, 0
        if self._server.closing or self.closed:
            return
        self._server.admission.wait(self)
        self._muted = self._loop.create_future()
        timer = self._loop.call_later(muted_s, self._unmute)
        await self._muted
        timer.cancel()

    def _unmute(self) -> None:
        if self._muted is not None and not self._muted.done():
            self._muted.set_result(None)

    def _begin_request(self, frame: bytes) -> None:
        self._active_s = self._loop.time()
        self._handling = True
        self._server.admission.run(self)
        self._running_bytes = len(frame) if len(frame) > QUIET_BYTES else 0
        self._weigh()

    def _end_request(self) -> None:
        self._active_s = self._loop.time()
        self._handling = False
        self._running_bytes = 0
        self._weigh()
        if self.rank is Rank.SILENT or (self._sasl is not None and self.rank is Rank.ANSWERED):
            has_shown = self._transport is not None and self._transport.get_extra_info("peercert")
            is_known = has_shown if self._sasl is None else self._sasl.is_complete
            self.rank = Rank.AUTHENTICATED if is_known else Rank.ANSWERED

    def _weigh(self) -> None:
        """Reports the bytes that this connection holds for its client."""
        held = self._splitter.held_bytes - QUIET_BYTES + self._running_bytes
        self._server.received.hold(self, held + (tls_bytes(self._transport) if self._is_unknown else 0))

    async def _next_frame(self) -> bytes | list[Piece] | None:
        await self._drain()
        if self._server.closing or self.closed:
            return None
        if (frame := self._splitter.next_frame()) is None:
            self._next = self._loop.create_future()
            self._rest()
            following = await self._next
            self._share.begin()
            return following
        await self._share.go_on()
        return None if self._server.closing or self.closed else frame

    def _rest(self) -> None:
        """Prepares the connection to wait for its client: frees its buffer and resumes reading."""
        assert self._transport is not None
        self._splitter.trim()
        self._weigh()
        self._server.admission.wait(self)
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    async def _drain(self, rest: int = 0) -> None:
        """Waits until the client has received enough that more can be written; `rest` bytes are still to be written.

        If the client receives nothing, the connection is closed by its idle time, or because unsent bytes are limited.
        """
        if self._may_write or self.closed:
            return
        assert self._transport is not None
        self._server.unsent.hold(self, rest + self._transport.get_write_buffer_size())
        self._drained = self._loop.create_future()
        await self._drained
        self._server.unsent.hold(self, 0)

    async def _answer(self, frame: bytes) -> list[Piece] | None:
        """The response's frame; None if there is no response, or if the connection is being closed."""
        if len(frame) < KEY_AND_VERSION.size:
            raise FrameError(f"a request of {len(frame)} bytes")
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        relay = self._server.relay
        try:
            if self._sasl is not None and self._sasl.takes(frame, self._loop.time()):
                return await self._authenticate(self._sasl, frame)
            if relay is not None and relay.takes(api_key, version):
                self.metrics.requests += 1
                return frame_of(None, 0, await relay.ask(self._id, frame))
            what = frame, api_key, version, self._place.enter
            header, message = await read_any_request(self._server, self._session, *what)
            self.metrics.requests += 1
            return await self._serve(header, message, len(frame))
        except (NetworkError, DecodeError) as error:
            self._refuse(error)
        except Exception as error:
            self._blame_us(error, api_key, version)
        self.close_soon()
        return None

    async def _authenticate(self, sasl: SaslServer, frame: bytes) -> list[Piece] | None:
        """Handles a frame of SASL. Answers a failed client after `failure_delay_s`, and closes its connection."""
        assert self._server.sasl is not None
        self.metrics.requests += 1
        step = sasl.take(frame, self._loop.time(), self._server.sasl.wall_ms())
        if not step.failure:
            if sasl.is_complete and sasl.authenticated is not None:
                self._session.authenticated(sasl.authenticated.principal, is_token=sasl.authenticated.is_token)
                self._splitter.max_frame_bytes = self.limits.frame_bytes
            return step.answer
        self.metrics.errors["authentication"] += 1
        self._server.log.warning("%s: %s: closed", self.peer, step.failure)
        if step.is_delayed:
            await asyncio.sleep(self._server.sasl.failure_delay_s)
        if step.answer is not None and not self.closed:
            await self._write(step.answer)
        self.close_soon()
        return None

    def _blame_us(self, error: Exception, api_key: int, version: int) -> None:
        """Logs an internal error in a handler; the caller closes only this connection."""
        self.metrics.errors[type(error).__name__] += 1
        self._server.log.exception("%s: %s", self.peer, fault_line(api_key, version))

    async def _serve(self, header: RequestHeader, message: Message | None, size_bytes: int) -> list[Piece] | None:
        self._session.client_id = header.client_id
        if message is None or isinstance(message, ApiVersionsRequest):
            throttle, watch = self._server.throttle, self._session.watch
            throttled_ms = 0 if throttle is None or watch is None else throttle.used(self._session)
            return versions_frame(self._server, header, message, throttled_ms)
        context = RequestContext(self.peer, self._id, header, self._session, self._gone, size_bytes)
        response = await self._server.handler(context, message)
        if response is None:
            return None
        if not isinstance(response, Encoded | FetchResponse):
            check_kind(message, response)
            response = await encoded(response, header.request_api_version)
        answer = response_frame(self._server, header, message, response, self._active_s, self._loop.time())
        if isinstance(response, Encoded) and self._running_bytes + sum(map(len, answer)) > PIECE_BYTES:
            self._done_with = [*long_lists(message), *long_lists(response.response)]
        return answer

    async def _write(self, frame: list[Piece]) -> None:
        rest = sum(map(len, frame))
        for piece in frame:
            await self._drain(rest)
            if self.closed:
                return
            self.write(piece)
            rest -= len(piece)
        self.metrics.responses += bool(frame)

    def _refuse(self, error: KcoreError) -> None:
        self.metrics.errors[type(error).__name__] += 1
        self._server.log.warning("%s: %s: closed", self.peer, error)

    # Requests of the direct handler; the task waits meanwhile.

    def _begin_directly(self, frame: bytes) -> bool:
        """Begins the request with the direct handler; False if the task must handle the frame."""
        direct = self._server.direct
        if direct is None or len(frame) < KEY_AND_VERSION.size or not self._may_write:
            return False
        if self._sasl is not None and not self._sasl.lets_in(self._loop.time()):
            return False
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        if not direct.takes(api_key):
            return False
        try:
            header, message = read_request(self._server, frame, api_key, version)
        except KcoreError:
            return False
        if message is None:
            return False
        self.metrics.requests += 1
        self._begin_request(frame)
        context = RequestContext(self.peer, self._id, header, self._session, self._gone)
        self._direct = Direct(context, message, frame)
        try:
            direct.begin(context, message, self._answer_directly)
        except (NetworkError, DecodeError) as error:
            self._end_directly(error)
        except Exception as error:
            self._blame_us(error, api_key, version)
            self._end_directly(None)
        return True

    def _answer_directly(self, response: Message | None) -> None:
        """Writes the direct handler's response and waits for the next request; the task writes what does not fit."""
        if self._direct is None or self._next is None or self._next.done():
            return  # The connection has ended.
        direct, self._direct = self._direct, None
        header = direct.context.header
        if response is None or self.closed:
            self._end_directly(None)
            return
        try:
            frame = response_frame(self._server, header, direct.request, response, self._active_s, self._loop.time())
        except Exception as error:
            self._blame_us(error, header.request_api_key, header.request_api_version)
            self._end_directly(None)
            return
        self._end_request()
        for place, piece in enumerate(frame):
            if not self._may_write or self._server.closing:
                self._next.set_result(frame[place:])
                return
            self.write(piece)
        self.metrics.responses += 1
        if self._session.mute_ms:
            self._next.set_result([])  # The task mutes the client.
            return
        try:
            following = self._splitter.next_frame()
        except FrameError as error:
            self._next.set_exception(error)
            return
        if following is not None or not self._may_write:
            self._next.set_result([] if following is None else following)
        elif not self._is_given_away(direct, response):
            self._rest()

    def _end_directly(self, error: KcoreError | None) -> None:
        """Ends the connection, with `error` as the reason if given."""
        self._direct = None
        if self._next is not None and not self._next.done():
            if error is None:
                self._next.set_result(None)
            else:
                self._next.set_exception(error)

    # Adoption and return of the connection: see `adoption.py`.

    def _is_given_away(self, direct: Direct, response: Message) -> bool:
        """Offers the connection to the adopter; returns whether the adopter has taken it, which ends this protocol."""
        server, transport = self._server, self._transport
        assert transport is not None and self._next is not None
        if server.adopter is None or server.tls is not None or self._sasl is not None:
            return False
        if self._splitter.pending_bytes or transport.get_write_buffer_size():
            return False
        adoption = server.adopter.plan(direct, response)
        stays, self._stays_once = self._stays_once, False
        if adoption is None or stays or (descriptor := descriptor_of(transport)) < 0:
            return False
        self._transport = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        adopted = AdoptedConnection(Identity(self._id, self.peer, self._session, self.rank))
        server.given_away(self, adopted)
        self._next.set_result(None)
        adoption(adopted, descriptor)
        return True

    def _go_on(self, returned: Returned) -> None:
        """Continues a returned connection; reads nothing before the returned bytes are processed."""
        assert self._transport is not None
        self._returned = self._accepted_socket.returned = None
        self._transport.pause_reading()
        if returned.unwritten:
            self.write(returned.unwritten)
        self._loop.call_soon(self._receive_again, returned.received, returned.pieces)  # When the task waits.

    def _receive_again(self, received: bytes, pieces: Sequence[Piece]) -> None:
        if self.closed:
            return
        assert self._transport is not None
        self._transport.resume_reading()
        while received:
            buffer = self._splitter.get_buffer()
            count = min(len(buffer), len(received))
            buffer[:count] = received[:count]
            self._splitter.received(count)
            received = received[count:]
        if pieces and self._next is not None and not self._next.done():
            self._next.set_result([*pieces])  # The task writes the pieces, then handles the received bytes.
        elif self._splitter.pending_bytes:
            self.frames_may_be_here()

    # Calls of the base class.

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.receive_budget.share(super().get_buffer(sizehint))

    def frames_may_be_here(self) -> None:
        assert self._transport is not None
        if self._next is None or self._next.done() or self._direct is not None:
            self._reading_paused = True  # The client sends further requests before its answer.
            self._transport.pause_reading()
            self._weigh()
            return
        try:
            frame = self._splitter.next_frame()
            if frame is None:
                self._weigh()
            elif not self._begin_directly(frame):
                self._next.set_result(frame)
        except FrameError as error:
            self._next.set_exception(error)

    def writing_resumed(self) -> None:
        self._active_s = self._loop.time()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _check_idle(self) -> None:
        """Ends an idle connection. Incomplete frames and answers that the client does not receive are no activity."""
        idle_s, most_s = self.idle_s, self.limits.idle_s
        if self._is_unknown:
            most_s = min(most_s, self.limits.connect_s)
        if idle_s >= most_s:
            self.metrics.errors["idle"] += 1
            self.abort()
        else:
            self._idle_timer = self._loop.call_later(most_s - idle_s, self._check_idle)

    def _forget_relay(self) -> None:
        if self._server.relay is not None:
            self._server.relay.forget(self._id)

    def lost(self, why: str) -> None:
        self._server.lost(self, why)
        self._forget_relay()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.finish()
        self.writing_resumed()
