"""A server and clients that talk bytes, well and badly."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import DisconnectedError, UnknownMessageError, UnsupportedVersionError
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.requests import Ask
from kcore.net.server import RequestContext, Server, ServerParts, serve
from kcore.protocol_errors import Errors
from kcore.wire.codec import decode_from
from net.loops import (
    HEARTBEAT,
    QUICK,
    fenced,
    framed,
    heartbeat_answer,
    read_frame,
    request_frame,
    settled,
    story,
    until,
)

APIS = {"BrokerHeartbeat": (0, 1)}
ASK = request_frame(HEARTBEAT, 1, 7)
VERSIONS = s.ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@asynccontextmanager
async def raw_client(server: Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that still comes; a reset is an end too."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def still_serves(server: Server) -> None:
    async with await connect("127.0.0.1", server.port) as connection:
        assert (await connection.send(HEARTBEAT)).is_fenced


@story
async def test_the_bytes_of_an_answer() -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server, raw_client(server) as (reader, writer):
        for byte in ASK:
            writer.write(bytes([byte]))
            await writer.drain()
        expected = heartbeat_answer(7, is_fenced=True, throttle_time_ms=1)
        assert await reader.readexactly(len(expected)) == expected


@pytest.mark.parametrize("version", range(5))
@story
async def test_api_versions_is_answered_from_what_is_served(version: int) -> None:
    apis = {**APIS, "Metadata": (3, 8)}
    async with await serve("127.0.0.1", 0, fenced, apis) as server, raw_client(server) as (reader, writer):
        writer.write(request_frame(VERSIONS, version, 3))
        frame = await read_frame(reader)
        answer, end = decode_from(s.ApiVersionsResponse, version, frame, 4)
        assert (frame[:4], end) == (b"\0\0\0\3", len(frame))
        rows = {(row.api_key, row.min_version, row.max_version) for row in answer.api_keys}
        assert (answer.error_code, rows) == (0, {(18, 0, 4), (63, 0, 1), (3, 3, 8)})


@pytest.mark.parametrize(
    ("identity", "cluster_id", "node_id", "error"),
    [
        (("c", 7), "c", 7, Errors.NONE),
        (("c", 7), "c", 8, Errors.REBOOTSTRAP_REQUIRED),
        (("c", 7), None, 7, Errors.INVALID_REQUEST),
        (("c", 7), None, -1, Errors.NONE),
        (None, "d", 8, Errors.NONE),
        (None, "d", -1, Errors.INVALID_REQUEST),
    ],
)
@story
async def test_a_client_of_another_cluster_or_node_bootstraps_again(
    identity: tuple[str, int] | None, cluster_id: str | None, node_id: int, error: Errors
) -> None:
    """KIP-1242; a server without an identity, such as a controller, takes every pair."""
    apis = {**APIS, "ApiVersions": (0, 5)}
    asked = s.ApiVersionsRequest(
        client_software_name="raw", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    parts = ServerParts(identity=identity)
    async with await serve("127.0.0.1", 0, fenced, apis, parts=parts) as server, raw_client(server) as (reader, writer):
        writer.write(request_frame(asked, 5, 3))
        answer, _ = decode_from(s.ApiVersionsResponse, 5, await read_frame(reader), 4)
        assert (answer.error_code, bool(answer.api_keys)) == (error, error is Errors.NONE)


@story
async def test_a_too_new_api_versions_gets_version_0_and_may_ask_again() -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server, raw_client(server) as (reader, writer):
        for _ in range(2):
            writer.write(request_frame(VERSIONS, 4, 3, header_version_field=5))
            frame = await read_frame(reader)
            answer, end = decode_from(s.ApiVersionsResponse, 0, frame, 4)
            assert end == len(frame)
            assert answer.error_code == 35
            assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
        writer.write(request_frame(VERSIONS, 4, 4))
        answer, _ = decode_from(s.ApiVersionsResponse, 4, await read_frame(reader), 4)
        assert answer.error_code == 0


@story
async def test_a_client_falls_back_to_what_the_server_knows() -> None:
    async with (
        await serve("127.0.0.1", 0, fenced, {**APIS, "ApiVersions": (0, 2)}) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        assert connection.metrics.requests == 2
        assert connection.versions is not None
        assert connection.versions.by_key == {18: (0, 2), 63: (0, 1)}
        assert (await connection.send(HEARTBEAT)).is_fenced


@story
async def test_one_request_at_a_time_and_answers_in_order() -> None:
    running: list[int] = []
    random = Random(3)

    async def handler(context: RequestContext, message: Any) -> Any:
        running.append(context.connection_id)
        await asyncio.sleep(random.random() / 1000)
        assert running.count(context.connection_id) == 1
        running.remove(context.connection_id)
        return await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server:

        async def client() -> None:
            async with await connect("127.0.0.1", server.port, limits=Limits(in_flight=20)) as connection:
                calls = [connection.send(s.BrokerHeartbeatRequest(broker_id=i)) for i in range(100)]
                assert [(await call).throttle_time_ms for call in calls] == list(range(100))

        await asyncio.gather(*(client() for _ in range(5)))
    assert not server.metrics.errors


@story
async def test_a_request_without_an_answer() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return None if message.broker_id == 1 else await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server, raw_client(server) as (reader, writer):
        writer.write(ASK + request_frame(s.BrokerHeartbeatRequest(broker_id=2), 1, 8))
        assert await read_correlation_id_of_answer(reader) == 8


async def read_correlation_id_of_answer(reader: asyncio.StreamReader) -> int:
    return int.from_bytes((await read_frame(reader))[:4], "big")


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
        (b"\x16\x03\x01\x02\x00\x01", "a frame of 369295618 bytes"),  # A TLS hello.
        (framed(b""), "a request of 0 bytes"),
        (framed(b"\0\x3f\0"), "a request of 3 bytes"),
        (framed(b"\0\x3f\0\1"), "the bytes end inside a value"),
        (framed(b"\0\x3f\0\1\0\0\0\7\0\1"), "client_id"),
        (framed(ASK[4:-2]), "the bytes end"),
        (request_frame(HEARTBEAT, 1, 7, header_version_field=2), "BrokerHeartbeat 2 is not served"),
        (request_frame(HEARTBEAT, 1, 7, header_version_field=-1), "BrokerHeartbeat -1 is not served"),
        (request_frame(s.MetadataRequest(), 9, 7), "Metadata 9 is not served"),
        (framed(b"\x7f\xff\0\0" + bytes(20)), "API 32767 0 is not served"),
        (framed(b"\xff\xff\0\0" + bytes(20)), "API -1 0 is not served"),
        (framed(b"\0\x12\0\x09"), "the bytes end inside a value"),  # A too new ApiVersions without a header.
    ],
)
@story
async def test_what_is_no_request(sent: bytes, error: str, caplog: pytest.LogCaptureFixture) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ASK + sent)
            expected = heartbeat_answer(7, is_fenced=True, throttle_time_ms=1)
            assert await reader.readexactly(len(expected)) == expected
            assert await rest(reader) == b""
        assert server.metrics.errors.total() == 1
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert error in record.getMessage()
        await still_serves(server)


@story
async def test_random_garbage() -> None:
    random = Random(12)
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        for _ in range(100):
            garbage = bytearray(ASK * 3)
            for _ in range(random.randrange(1, 6)):
                garbage[random.randrange(len(garbage))] = random.randrange(256)
            async with raw_client(server) as (reader, writer):
                writer.write(garbage)
                writer.write_eof()
                await rest(reader)
        await still_serves(server)
        await until(lambda: not server.connections.served)


@story
async def test_a_handler_that_fails_costs_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        if message.broker_id == 3:
            return s.BrokerHeartbeatResponse(throttle_time_ms=2**40)
        if message.broker_id == 4:
            return s.MetadataResponse()
        if message.broker_id == 5:
            raise ZeroDivisionError
        return await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        for broker_id in (3, 4, 5):
            connection = await connect("127.0.0.1", server.port)
            with pytest.raises(DisconnectedError):
                await connection.send(s.BrokerHeartbeatRequest(broker_id=broker_id))
            await connection.wait_gone()
        assert server.metrics.errors == {"EncodeError": 1, "TypeError": 1, "ZeroDivisionError": 1}
        assert all("BrokerHeartbeat 1 was not answered" in record.getMessage() for record in caplog.records)
        await still_serves(server)


@pytest.mark.parametrize("sent", [b"", ASK[:-1], ASK])
@story
async def test_a_silent_client_is_closed(sent: bytes) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS, limits=Limits(idle_s=0.1)) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(sent)
            assert len(await rest(reader)) in {0, len(heartbeat_answer(7))}
        assert server.metrics.errors == {"idle": 1}


@story
async def test_a_long_request_is_not_idle() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        await asyncio.sleep(0.2)
        return await fenced(context, message)

    async with (
        await serve("127.0.0.1", 0, handler, APIS, limits=Limits(idle_s=0.05)) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        await connection.send(HEARTBEAT)


@story
async def test_a_client_that_takes_no_answers_is_not_read_from_and_then_closed() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse(unknown_tagged_fields=((99, bytes(1_000_000)),))

    async with (
        await serve("127.0.0.1", 0, handler, APIS, limits=Limits(idle_s=1)) as server,
        raw_client(server) as (reader, writer),
    ):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(ASK * 1000)
        await settled(lambda: server.metrics.requests)
        assert server.metrics.requests < 100
        await until(lambda: not server.connections.served and not server.connections.tasks)
        assert server.metrics.errors == {"idle": 1}


@story
async def test_a_client_that_leaves_in_the_middle_of_an_answer() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse(unknown_tagged_fields=((99, bytes(20_000_000)),))

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ASK * 2)
            await reader.readexactly(1000)
        await until(lambda: not server.connections.served and not server.connections.tasks)
        assert server.metrics.responses == 0


@story
async def test_a_slow_client_is_not_idle() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse(unknown_tagged_fields=((99, bytes(20_000_000)),))

    async with await serve("127.0.0.1", 0, handler, APIS, limits=Limits(idle_s=2)) as server:
        with socket.socket() as client:
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)  # The kernel shall not take it all.
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
            reader, writer = await asyncio.open_connection(sock=client)
            writer.write(ASK)
            for _ in range(10):
                await reader.readexactly(2_000_000)
                await asyncio.sleep(0.25)
            writer.close()


@story
async def test_a_client_that_sends_on_is_read_when_it_is_its_turn() -> None:
    go_on = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        await go_on.wait()
        return await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server, raw_client(server) as (reader, writer):
        writer.write(ASK * 100_000)
        await settled(lambda: server.metrics.bytes_in)
        assert server.metrics.bytes_in < 100_000
        assert server.metrics.requests == 1
        go_on.set()
        for _ in range(1000):
            assert await read_correlation_id_of_answer(reader) == 7


@story
async def test_closing_lets_what_runs_end() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        started.set()
        await release.wait()
        return await fenced(context, message)

    server = await serve("127.0.0.1", 0, handler, APIS)
    busy, idle = [await connect("127.0.0.1", server.port) for _ in range(2)]
    calls = [busy.send(HEARTBEAT) for _ in range(2)]
    await started.wait()
    closing = asyncio.create_task(server.close())
    await idle.wait_gone()
    with pytest.raises(DisconnectedError):
        await connect("127.0.0.1", server.port)
    release.set()
    assert (await calls[0]).is_fenced
    with pytest.raises(DisconnectedError):
        await calls[1]
    await closing
    await busy.wait_gone()
    assert (server.connections.served, server.connections.tasks) == (set(), set())
    await server.close()


@story
async def test_closing_does_not_wait_for_ever() -> None:
    cancelled = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    server = await serve("127.0.0.1", 0, handler, APIS, limits=QUICK)
    connection = await connect("127.0.0.1", server.port)
    call = connection.send(HEARTBEAT)
    await until(lambda: server.metrics.requests == 2)
    await server.close()
    assert cancelled.is_set()
    with pytest.raises(DisconnectedError):
        await call
    await connection.wait_gone()


@story
async def test_closing_does_not_wait_for_a_client_that_takes_no_answers() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse(unknown_tagged_fields=((99, bytes(10_000_000)),))

    server = await serve("127.0.0.1", 0, handler, APIS, limits=QUICK)
    async with raw_client(server) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(ASK * 2)
        await until(lambda: server.metrics.bytes_out)
        await server.close()
    assert server.metrics.connections_closed == 1


@story
async def test_a_request_is_carried_out_though_its_client_is_gone() -> None:
    done = []
    go_on = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        await go_on.wait()
        done.append(message.broker_id)
        return await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        async with raw_client(server) as (_, writer):
            writer.write(ASK)
            await until(lambda: server.metrics.requests)
        await until(lambda: not server.connections.served)
        go_on.set()
        await until(lambda: done)
    assert (done, server.metrics.responses) == ([1], 0)


@story
async def test_what_cannot_be_served() -> None:
    with pytest.raises(UnknownMessageError):
        await serve("127.0.0.1", 0, fenced, {"NoSuchApi": (0, 1)})
    with pytest.raises(UnsupportedVersionError, match="BrokerHeartbeat 0-99: kcore has versions 0-"):
        await serve("127.0.0.1", 0, fenced, {"BrokerHeartbeat": (0, 99)})
    with pytest.raises(UnsupportedVersionError):
        await serve("127.0.0.1", 0, fenced, {"BrokerHeartbeat": (-1, 1)})
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        with pytest.raises(OSError, match="address already in use"):
            await serve("127.0.0.1", server.port, fenced, APIS)


class BrokenRouter:
    """Takes everything, answers nothing."""

    def route(self, api_key: int, version: int) -> Ask | None:
        return None if api_key == VERSIONS.api_key else self.ask

    async def ask(self, context: RequestContext) -> bytes:
        raise ValueError("not again")

    def forget(self, connection_id: int) -> None:
        pass


@story
async def test_a_routes_fault_costs_its_connection_alone() -> None:
    async with await serve("127.0.0.1", 0, heartbeat_answer, APIS, parts=ServerParts(router=BrokenRouter())) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ASK)
            assert await rest(reader) == b""
        assert server.metrics.errors == {"ValueError": 1}
        async with await connect("127.0.0.1", server.port) as connection:
            assert connection.versions is not None
