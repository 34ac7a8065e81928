"""Connections over TLS whose clients send on, or are gone, while the server does not read them."""

import asyncio
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocolState
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kcore import schema as s
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.tls import TlsSettings
from kcore.net.served_connection import ServedConnection
from kcore.net.server import RequestContext, Server, serve
from net.authority import Authority
from net.loops import request_frame, settled, story, until

APIS = {"Metadata": (0, 12)}
FRAME = request_frame(s.MetadataRequest(topics=[]), 9, 7)
MOST_READ = 160 * 1024  # Two reads of the socket, and what the kernel gives in one.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def served(authority: Authority, handler: Any) -> AsyncIterator[tuple[Server, asyncio.StreamWriter]]:
    """A server, and a client that has connected and reads nothing."""
    tls = TlsSettings(str(authority.keystore("server"))).server_context()
    limits = Limits(close_s=0.1)
    async with await serve("127.0.0.1", 0, handler, APIS, tls=tls, limits=limits) as server:
        context = ssl.create_default_context(cafile=str(authority.trusted))
        context.check_hostname = False
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: server.connections.served)
        yield server, writer
        writer.transport.abort()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


def tls_of(server: Server) -> Any:
    [connection] = server.connections.served
    assert isinstance(connection, ServedConnection)
    return connection.frames.transport._ssl_protocol  # type: ignore[union-attr]


async def empty(context: RequestContext, request: Any) -> Any:
    return s.MetadataResponse(topics=[])


@story
async def test_what_is_not_read_stays_in_the_socket(authority: Authority) -> None:
    may_answer = asyncio.Event()

    async def waits(context: RequestContext, request: Any) -> Any:
        await may_answer.wait()
        return await empty(context, request)

    async with served(authority, waits) as (server, writer):
        writer.write(FRAME * 40_000)
        received = server.metrics
        await settled(lambda: received.bytes_in + tls_of(server)._incoming.pending)
        assert received.bytes_in + tls_of(server)._incoming.pending < MOST_READ
        may_answer.set()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await until(lambda: received.responses > 10_000)


@story
async def test_nothing_is_read_whose_answer_by_tls_cannot_leave(authority: Authority) -> None:
    """KeyUpdate is answered by OpenSSL itself: whoever takes no answer is not read."""
    async with served(authority, empty) as (server, writer):
        protocol = tls_of(server)
        protocol.pause_writing()
        writer.write(FRAME)
        await until(lambda: protocol._ssl_reading_paused)
        assert not protocol._transport.is_reading()
        protocol.resume_writing()
        assert protocol._transport.is_reading()
        writer.write(FRAME)
        await until(lambda: server.metrics.responses == 2)


@pytest.mark.parametrize("ends", [socket.SHUT_WR, socket.SHUT_RDWR])
@story
async def test_answers_that_nobody_takes_have_no_lines(
    authority: Authority, caplog: pytest.LogCaptureFixture, ends: int
) -> None:
    """asyncio logs each write to a TLS connection whose other half is closed: a line for each request sent ahead."""
    caplog.set_level(logging.WARNING)
    answered, may_answer = 0, asyncio.Event()

    async def counted(context: RequestContext, request: Any) -> Any:
        nonlocal answered
        await may_answer.wait()
        answered += 1
        return await empty(context, request)

    async with served(authority, counted) as (server, writer):
        writer.write(FRAME * 500)
        await writer.drain()
        await until(lambda: server.metrics.bytes_in >= len(FRAME))
        raw = socket.socket(fileno=socket.dup(writer.get_extra_info("socket").fileno()))
        raw.shutdown(ends)
        raw.close()
        await settled(lambda: server.metrics.bytes_in)
        may_answer.set()
        await until(lambda: not server.connections.served)
    assert answered
    assert [each.message for each in caplog.records] == []


@story
async def test_a_connection_whose_tls_has_ended_is_closed_for_its_server(authority: Authority) -> None:
    """The server then handles no request whose answer nobody could read."""
    async with served(authority, empty) as (server, _):
        [connection] = server.connections.served
        assert isinstance(connection, ServedConnection)
        protocol = tls_of(server)
        assert not connection.frames.closed
        state, protocol._state = protocol._state, SSLProtocolState.FLUSHING
        protocol._write_appdata([b"an answer"])
        protocol._state = state
        assert connection.frames.closed
