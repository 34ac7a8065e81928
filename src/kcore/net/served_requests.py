"""The task of a connection: reads requests, calls the server's handler, and writes answers, one by one."""

import asyncio
from typing import NamedTuple

from kcore.errors import DecodeError, FrameError, NetworkError
from kcore.net.activity import Activity
from kcore.net.connection_states import ClientConnection, ConnectionState, Event
from kcore.net.framed_connection import PIECE_BYTES, Encoded, FrameTransport, Piece, encoded, frame_of
from kcore.net.limits.large_requests import Place, let_go, long_lists
from kcore.net.limits.stopwatch import timed
from kcore.net.limits.throttled_channel import ThrottledChannel
from kcore.net.limits.work_in_parts import Share
from kcore.net.request_context import PEER, RequestContext
from kcore.net.requests import KEY_AND_VERSION, ServedApis, check_kind, context_of
from kcore.net.security.sasl_server import SaslListener, SaslServer
from kcore.net.server_connections import ServerConnections
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.fetch import FetchResponse
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message, Struct


class Serving(NamedTuple):
    """The parts of a server that its connections share."""

    apis: ServedApis
    connections: ServerConnections
    sasl: SaslListener | None
    is_tls: bool


class Authentication:
    """The SASL exchanges of one connection."""

    def __init__(
        self, serving: Serving, listener: SaslListener, client: ClientConnection, frames: FrameTransport
    ) -> None:
        apis, connections = serving.apis, serving.connections
        self.server = SaslServer(listener, lambda: apis.versions_answer, apis.api_versions)
        self._listener, self._client, self._frames = listener, client, frames
        self._limits, self._metrics, self._log = connections.limits, connections.metrics, connections.log
        frames.splitter.max_frame_bytes = min(listener.max_receive_bytes, self._limits.frame_bytes)

    async def answer(self, frame: bytes, now_s: float) -> tuple[list[Piece] | None, bool]:
        """The answer to a frame of SASL, and whether the connection must end. Failed clients wait `failure_delay_s`."""
        self._metrics.requests += 1
        if self._client.state is ConnectionState.SERVING and not self.server.is_complete:
            self._client.enter(Event.REAUTHENTICATE)
        step = self.server.take(frame, now_s, self._listener.wall_ms())
        if not step.failure:
            found = self.server.authenticated if self.server.is_complete else None
            if found is not None:
                self._client.session.authenticated(found.principal, is_token=found.is_token)
                self._frames.splitter.max_frame_bytes = self._limits.frame_bytes
                if self._client.state is ConnectionState.AUTHENTICATING:  # Or else the client has disconnected.
                    self._client.enter(Event.AUTHENTICATE)
            return step.answer, False
        self._metrics.errors["authentication"] += 1
        self._log.warning("%s: %s: closed", self._client.peer, step.failure)
        if step.is_delayed:
            await asyncio.sleep(self._listener.failure_delay_s)
        return step.answer, True


class ServedRequests:
    """The requests of one connection, one after the other.

    The next request is read only when the last request is answered, so unread data is bounded by one buffer. As in
    Kafka, a request that has begun runs to its end even if the client disconnects.
    """

    def __init__(self, serving: Serving, client: ClientConnection, frames: FrameTransport, activity: Activity) -> None:
        self._apis, self._connections = serving.apis, serving.connections
        self._client, self._frames, self._activity = client, frames, activity
        sasl = serving.sasl
        self._authentication = None if sasl is None else Authentication(serving, sasl, client, frames)
        self.throttled = ThrottledChannel(client)
        # The idle task waits for this future, whose result is a frame, or pieces to write; None ends the task.
        self._next: asyncio.Future[bytes | list[Piece] | None] | None = None
        self._drained: asyncio.Future[None] | None = None  # Done when more can be written.
        self._place = Place(serving.apis.large_requests, client.address, frames.gone)
        self._done_with: list[list[Struct]] = []  # Long lists of the last request and its answer, to be freed in parts.
        self._share = Share()

    # Called by the connection.

    @property
    def is_waiting(self) -> bool:
        """Whether the task waits for the client's next request."""
        return self._next is not None and not self._next.done()

    @property
    def may_end(self) -> bool:
        """False while a request is running, which would still use its memory after the connection has ended."""
        return not self._activity.is_running or self._place.is_awaited

    def go_on(self, following: bytes | list[Piece] | None) -> None:
        """Makes the waiting task handle a frame, or write an answer's pieces; None ends the task."""
        if self._next is not None and not self._next.done():
            self._next.set_result(following)

    def fail(self, error: FrameError) -> None:
        """Makes the waiting task end the connection for an invalid frame."""
        if self._next is not None and not self._next.done():
            self._next.set_exception(error)

    def lets_in(self, now_s: float) -> bool:
        """Whether the client need not authenticate first."""
        return self._authentication is None or self._authentication.server.lets_in(now_s)

    def writing_resumed(self) -> None:
        """Makes a task that waits for its client go on writing."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def rest(self) -> None:
        """Prepares the connection to wait for its client: frees its buffer and resumes reading."""
        self._frames.splitter.trim()
        self._activity.weigh()
        self._connections.admission.wait(self._client)
        self._frames.resume_reading()

    # The task.

    async def run(self) -> None:
        """Answers requests until the connection ends."""
        PEER.set(self._client.peer)
        session, throttle = self._client.session, self._apis.parts.throttle
        try:
            while (frame := await self._next_frame()) is not None:
                if isinstance(frame, list):
                    await self._write(frame)
                else:
                    watch = session.started_watch(throttle.clock_ns) if throttle and throttle.is_on else None
                    self._activity.begin(frame)
                    answer = await timed(watch, self._answer(frame))
                    del frame  # Freed before the answer is written, which may take long.
                    self._activity.end()
                    if self._done_with:  # Freed before the answer is written: its client may receive it slowly.
                        done_with, self._done_with = self._done_with, []
                        await let_go(done_with)
                    self._place.leave()
                    if answer is not None:
                        await timed(watch, self._write(answer))
                        del answer
                    if watch is not None and throttle is not None:
                        throttle.sent(session)
                if session.mute_ms:
                    await self._throttle()
        except (FrameError, DecodeError, NetworkError) as error:
            self._apis.refuse(self._client.peer, error)
        finally:
            self._activity.stop()
            self._place.leave()
            self._connections.received.hold(self._client, 0)
            self.forget_routes()
            self._close_soon()

    async def _throttle(self) -> None:
        throttle_ms, self._client.session.mute_ms = self._client.session.mute_ms, 0
        if not self._connections.closing and not self._frames.closed:
            self._connections.admission.wait(self._client)
            await self.throttled.wait(throttle_ms)

    async def _next_frame(self) -> bytes | list[Piece] | None:
        await self._drain()
        if self._connections.closing or self._frames.closed:
            return None
        if (frame := self._frames.splitter.next_frame()) is None:
            self._next = asyncio.get_running_loop().create_future()
            self.rest()
            following = await self._next
            self._share.begin()
            return following
        await self._share.go_on()
        return None if self._connections.closing or self._frames.closed else frame

    async def _drain(self, rest: int = 0) -> None:
        """Waits until the client has received enough that more can be written; `rest` bytes are still to be written.

        If the client receives nothing, the connection is closed by its idle time, or because unsent bytes are limited.
        """
        if self._frames.may_write or self._frames.closed:
            return
        self._connections.unsent.hold(self._client, rest + self._frames.unwritten_bytes)
        self._drained = asyncio.get_running_loop().create_future()
        await self._drained
        self._connections.unsent.hold(self._client, 0)

    async def _answer(self, frame: bytes) -> list[Piece] | None:
        """The response's frame; None if there is no response, or if the connection is being closed."""
        if len(frame) < KEY_AND_VERSION.size:
            raise FrameError(f"a request of {len(frame)} bytes")
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        apis, authentication = self._apis, self._authentication
        now_s, metrics = asyncio.get_running_loop().time(), self._connections.metrics
        try:
            if authentication is not None and authentication.server.takes(frame, now_s):
                answer, ends = await authentication.answer(frame, now_s)
                if not ends:
                    return answer
                if answer is not None and not self._frames.closed:
                    await self._write(answer)
            else:
                ask = None if apis.parts.router is None else apis.parts.router.route(api_key, version)
                kind = apis.kind_of(api_key, version) if ask is None else REQUESTS[api_key]
                began_s = self._activity.since_s
                context = context_of(self._client, kind, version, frame, began_s, self._frames.gone)
                if ask is not None:
                    metrics.requests += 1
                    return frame_of(None, 0, await ask(context))
                message = await apis.read_any(context, self._place.enter)
                metrics.requests += 1
                return await self._serve(context, message)
        except (NetworkError, DecodeError) as error:
            self._apis.refuse(self._client.peer, error)
        except Exception as error:
            self._apis.blame_us(self._client.peer, error, api_key, version)
        self._close_soon()
        return None

    async def _serve(self, context: RequestContext, message: Message | None) -> list[Piece] | None:
        session, apis = context.session, self._apis
        session.client_id = context.header.client_id
        if message is None or isinstance(message, ApiVersionsRequest):
            throttle = apis.parts.throttle
            throttled_ms = 0 if throttle is None or session.watch is None else throttle.used(session)
            return apis.versions_frame(context.header, message, throttled_ms)
        response = await apis.handler(context, message)
        if response is None:
            return None
        if not isinstance(response, Encoded | FetchResponse):
            check_kind(message, response)
            response = await encoded(response, context.version)
        answer = apis.response_frame(context, message, response)
        if isinstance(response, Encoded) and self._activity.running_bytes + sum(map(len, answer)) > PIECE_BYTES:
            self._done_with = [*long_lists(message), *long_lists(response.response)]
        return answer

    async def _write(self, frame: list[Piece]) -> None:
        rest = sum(map(len, frame))
        for piece in frame:
            await self._drain(rest)
            if self._frames.closed:
                return
            self._frames.write(piece)
            rest -= len(piece)
        self._connections.metrics.responses += bool(frame)

    def forget_routes(self) -> None:
        """Makes the router forget the connection."""
        if self._apis.parts.router is not None:
            self._apis.parts.router.forget(self._client.connection_id)

    def _close_soon(self) -> None:
        """Ends the connection once all written data is sent."""
        if not self._frames.closed:
            self._client.enter(Event.FINISH)
            self._frames.close_soon()
