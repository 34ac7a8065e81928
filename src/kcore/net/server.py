"""A server of the protocol: a handler answers one request at a time of each connection, as Kafka mutes a channel."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from struct import Struct
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from kcore.errors import DecodeError, DisconnectedError, FrameError, KcoreError, NetworkError, UnsupportedVersionError
from kcore.net.framed import Framed, Piece, frame_of
from kcore.net.limits import Limits
from kcore.net.metrics import Metrics
from kcore.net.versions import answer_of, api_name, for_version, refusal, response_of
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS, message_class
from kcore.schema.structure import Message
from kcore.schema.versions import NONE, Versions
from kcore.wire.codec import decode_from, encode

logger = logging.getLogger(__name__)
KEY_AND_VERSION = Struct(">hh")  # What every request begins with, whatever its header's version.


class RequestContext(NamedTuple):
    """What a handler knows beyond the message."""

    peer: str
    connection_id: int  # Of this server, never used twice.
    header: RequestHeader

    @property
    def version(self) -> int:
        return self.header.request_api_version


Handler: TypeAlias = Callable[[RequestContext, Any], Awaitable[Message | None]]


class Relay(Protocol):
    """Somebody else who answers some requests: whole frames without their sizes, headers and all, in and out."""

    def takes(self, api_key: int, version: int) -> bool:
        """Whether a request is for the relay."""

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The answer; a NetworkError costs the connection. One at a time of each connection."""

    def forget(self, connection_id: int) -> None:
        """That connection is gone."""


async def serve(
    host: str | None,
    port: int,
    handler: Handler,
    apis: Mapping[str, Versions | tuple[int, int]],
    *,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    relay: Relay | None = None,
) -> "Server":
    """A server that listens; `async with` closes it. Port 0 takes a free one, `server.port` tells which.

    `apis` are names such as "Metadata" with the lowest and highest version; ApiVersions is answered from them. The
    handler gets the request and gives the response, or None where the request has none (Produce with acks 0); one that
    raises costs its connection. What `relay` takes, it never sees. OSError if the address cannot be had,
    UnknownMessageError, UnsupportedVersionError.
    """
    server = Server(handler, _served(apis), limits or Limits(), metrics or Metrics(), relay)
    secured: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": server.limits.connect_s}
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: ServedConnection(server), host, port, backlog=1024, **secured)
    server.listener, server.port = listener, listener.sockets[0].getsockname()[1]
    return server


def _served(apis: Mapping[str, Versions | tuple[int, int]]) -> dict[int, tuple[type[Message], Versions]]:
    """By API key; ApiVersions in all versions that kcore has."""
    served: dict[int, tuple[type[Message], Versions]] = {}
    for name, range_ in {"ApiVersions": ApiVersionsRequest.versions, **apis}.items():
        request, versions = message_class(f"{name}Request"), Versions(*range_)
        if versions.lowest not in request.versions or versions.highest not in request.versions:
            raise UnsupportedVersionError(f"{name} {versions}: kcore has versions {request.versions}")
        served[request.api_key] = request, versions
    return served


class Server:
    """Made by `serve`."""

    def __init__(
        self,
        handler: Handler,
        served: Mapping[int, tuple[type[Message], Versions]],
        limits: Limits,
        metrics: Metrics,
        relay: Relay | None = None,
    ) -> None:
        self.handler = handler
        self.served = served
        self.limits = limits
        self.metrics = metrics
        self.relay = relay
        self.versions_answer = answer_of(dict(served.values()))  # Another may be put here, if a relay takes more.
        self.listener: asyncio.Server | None = None
        self.port = 0
        self.closing = False
        self.connections: set[ServedConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.connection_ids = count()

    async def close(self) -> None:
        """Accepts no more, lets requests that run end and their answers leave, closes; `limits.close_s` for each."""
        self.closing = True
        if self.listener is not None:
            self.listener.close()
        for connection in self.connections:
            connection.finish()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=self.limits.close_s)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.gather(*(connection.wait_gone() for connection in self.connections))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


class ServedConnection(Framed):
    """One client. It is read on only when its request is answered, so what waits is bounded by one buffer.

    A request that was taken up runs to its end even if the client is gone, as in Kafka.
    """

    def __init__(self, server: Server) -> None:
        super().__init__("nobody yet", server.limits, server.metrics)
        self._server = server
        self._id = next(server.connection_ids)
        self._next: asyncio.Future[bytes | None] | None = None  # Waited for while no request runs; None ends it.
        self._drained: asyncio.Future[None] | None = None
        self._reading_paused = False
        self._handling = False
        self._active_s = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        host, port, *_ = transport.get_extra_info("peername") or ("a client that is gone", 0)
        self.peer = f"{host}:{port}"
        server = self._server
        if server.closing or len(server.connections) >= self.limits.connections:
            self._refuse(DisconnectedError(f"there are {len(server.connections)} connections already"))
            self.abort()
            return
        server.connections.add(self)
        task = self._loop.create_task(self._run())
        server.tasks.add(task)
        task.add_done_callback(server.tasks.discard)
        self._check_idle()

    def finish(self) -> None:
        """No more requests."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    # One request after the other.

    async def _run(self) -> None:
        try:
            while (frame := await self._next_frame()) is not None:
                self._active_s = self._loop.time()
                await self._take(frame)
        except (FrameError, DecodeError) as error:
            self._refuse(error)
        finally:
            self._forget_relay()
            self.close_soon()

    async def _next_frame(self) -> bytes | None:
        assert self._transport is not None
        await self._drain()
        if self._server.closing or self.closed:
            return None
        frame = self._splitter.next_frame()
        if frame is not None:
            return frame
        self._next = self._loop.create_future()
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        return await self._next

    async def _drain(self) -> None:
        if not self._may_write and not self.closed:
            self._drained = self._loop.create_future()
            await self._drained

    async def _take(self, frame: bytes) -> None:
        if len(frame) < KEY_AND_VERSION.size:
            raise FrameError(f"a request of {len(frame)} bytes")
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        relay = self._server.relay
        if relay is not None and relay.takes(api_key, version):
            await self._pass_on(relay, frame)
        else:
            await self._serve(*self._read(frame, api_key, version))

    async def _pass_on(self, relay: Relay, frame: bytes) -> None:
        self.metrics.requests += 1
        self._handling = True
        try:
            answer = await relay.ask(self._id, frame)
        except NetworkError as error:
            self._refuse(error)
            self.close_soon()
            return
        except Exception as error:  # Our own fault: only this connection pays for it.
            self.metrics.errors[type(error).__name__] += 1
            logger.exception("%s: a request that was passed on was not answered", self.peer)
            self.close_soon()
            return
        self._handling = False
        self._active_s = self._loop.time()
        await self._write(frame_of(None, 0, answer))

    def _read(self, frame: bytes, api_key: int, version: int) -> tuple[RequestHeader, Message | None]:
        """None stands for a version of ApiVersions that is too new: nobody knows how to read that (KIP-511)."""
        request, versions = self._server.served.get(api_key, (None, NONE))
        if request is None or (version not in versions and request is not ApiVersionsRequest):
            name = api_name(REQUESTS[api_key]) if api_key in REQUESTS else f"API {api_key}"
            raise FrameError(f"{name} {version} is not served")
        header, at = decode_from(RequestHeader, request.header_version(version), frame)
        return header, decode_from(request, version, frame, at)[0] if version in versions else None

    async def _serve(self, header: RequestHeader, message: Message | None) -> None:
        self.metrics.requests += 1
        if message is None:
            _, versions = self._server.served[ApiVersionsRequest.api_key]
            await self._write_answer(refusal(versions), 0, header)
        elif isinstance(message, ApiVersionsRequest):
            version = header.request_api_version
            await self._write_answer(for_version(self._server.versions_answer, version), version, header)
        else:
            await self._handle(header, message)

    async def _handle(self, header: RequestHeader, message: Message) -> None:
        try:
            self._handling = True
            response = await self._server.handler(RequestContext(self.peer, self._id, header), message)
            self._handling = False
            self._active_s = self._loop.time()
            if response is None:
                return
            if type(response) is not response_of(type(message)):
                raise TypeError(f"{type(response).__name__} is no answer to {type(message).__name__}")
            await self._write_answer(response, header.request_api_version, header)
        except Exception as error:  # Our own fault: only this connection pays for it.
            self.metrics.errors[type(error).__name__] += 1
            logger.exception("%s: %s was not answered", self.peer, type(message).__name__)
            self.close_soon()

    async def _write_answer(self, response: Message, version: int, header: RequestHeader) -> None:
        head = ResponseHeader(correlation_id=header.correlation_id)
        await self._write(frame_of(head, response.header_version(version), encode(response, version)))

    async def _write(self, frame: list[Piece]) -> None:
        for piece in frame:
            await self._drain()
            if self.closed:
                return
            self.write(piece)
        self.metrics.responses += 1

    def _refuse(self, error: KcoreError) -> None:
        self.metrics.errors[type(error).__name__] += 1
        logger.warning("%s: %s: closed", self.peer, error)

    # What wakes it.

    def frames_may_be_here(self) -> None:
        assert self._transport is not None
        if self._next is None or self._next.done():
            self._reading_paused = True  # The client sends on before its answer.
            self._transport.pause_reading()
            return
        try:
            frame = self._splitter.next_frame()
            if frame is not None:
                self._next.set_result(frame)
        except FrameError as error:
            self._next.set_exception(error)

    def writing_resumed(self) -> None:
        self._active_s = self._loop.time()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _check_idle(self) -> None:
        """Half a frame keeps nobody alive, nor does a client that takes no answers."""
        idle_s = 0.0 if self._handling else self._loop.time() - self._active_s
        if idle_s >= self.limits.idle_s:
            self.metrics.errors["idle"] += 1
            self.abort()
        else:
            self._idle_timer = self._loop.call_later(self.limits.idle_s - idle_s, self._check_idle)

    def _forget_relay(self) -> None:
        if self._server.relay is not None:
            self._server.relay.forget(self._id)

    def lost(self, why: str) -> None:
        logger.debug("%s: %s", self.peer, why)
        self._server.connections.discard(self)
        self._forget_relay()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.finish()
        self.writing_resumed()
