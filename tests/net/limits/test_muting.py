"""A throttled client: it is answered, and nothing more is read of it for a while (ThrottledChannel)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kcore import schema as s
from kcore.net.connection_states import ConnectionState
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.stopwatch import NOBODY
from kcore.net.limits.throttled_channel import ThrottledChannel
from kcore.net.request_context import ClientSession
from kcore.net.requests import Answer
from kcore.net.served_connection import ServedConnection
from kcore.net.server import RequestContext, Server, ServerParts, serve
from kcore.wire.codec import decode_from, encode
from net.loops import HEARTBEAT, fenced, framed, read_frame, request_frame, story, until
from net.test_direct_connections import Handler, receiving
from net.test_direct_handler import Later, answered, ask
from net.test_server import VERSIONS, raw_client, rest

APIS = {"BrokerHeartbeat": (0, 1)}
AN_HOUR_MS = 3_600_000
FENCED = s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=1)


class Counting:
    """A throttle of which each request has used up `used_ms`; it notes what it is asked."""

    def __init__(self, *, is_on: bool = True, used_ms: int = 0) -> None:
        self.is_on, self.used_ms = is_on, used_ms
        self.ticks = 0
        self.received: list[tuple[str, int]] = []

    def clock_ns(self) -> int:
        """A millisecond later each time."""
        self.ticks += 1
        return self.ticks * 1_000_000

    def used(self, session: ClientSession) -> int:
        assert session.watch is not None
        session.watch.asker = "somebody", session.client_id
        self.received.append(("used", session.watch.take_ns()))
        session.mute_ms = self.used_ms
        return self.used_ms

    def sent(self, session: ClientSession) -> None:
        assert session.watch is not None
        if session.watch.asker is not None:
            self.received.append(("sent", session.watch.take_ns()))


async def muting(context: RequestContext, message: Any) -> Any:
    """The client with that id is muted for an hour."""
    context.session.mute_ms = AN_HOUR_MS if context.header.client_id == "raw" else 0
    return FENCED


def muted(server: Server) -> list[ThrottledChannel]:
    """The connections that are muted."""
    throttled = [each for each in server.connections.served if each.client.state is ConnectionState.THROTTLED]
    return [each._requests.throttled for each in throttled if isinstance(each, ServedConnection)]


async def becomes_muted(server: Server, requests: int) -> ThrottledChannel:
    """A client, behind so many requests: the next one is not begun."""
    await until(lambda: muted(server) or server.metrics.requests > requests)
    [channel] = muted(server)
    assert server.metrics.requests == requests
    return channel


async def is_answered(reader: asyncio.StreamReader, *correlation_ids: int) -> None:
    for each in correlation_ids:
        assert await reader.readexactly(len(answered(each))) == answered(each)


@story
async def test_a_muted_client_has_its_answer_and_no_other_until_its_time_is_over() -> None:
    async with await serve("127.0.0.1", 0, muting, APIS) as server, raw_client(server) as (reader, writer):
        writer.write(ask(1) + ask(2))
        await is_answered(reader, 1)
        channel = await becomes_muted(server, 1)
        writer.write(ask(3))
        other = s.RequestHeader(request_api_key=63, request_api_version=1, correlation_id=9, client_id="other")
        async with raw_client(server) as (others, asks):
            for _ in range(3):
                asks.write(framed_as(other))
                await is_answered(others, 9)
        for correlation_id in (2, 3):
            await becomes_muted(server, correlation_id + 2)
            channel.end()
            await is_answered(reader, correlation_id)
        assert not reader.at_eof()


def framed_as(header: s.RequestHeader) -> bytes:
    return framed(encode(header, HEARTBEAT.header_version(1)) + encode(HEARTBEAT, 1))


@story
async def test_a_muted_client_waits_by_itself() -> None:
    """Here for a millisecond each time."""

    async def briefly(context: RequestContext, message: Any) -> Any:
        context.session.mute_ms = 1
        return FENCED

    async with await serve("127.0.0.1", 0, briefly, APIS) as server, raw_client(server) as (reader, writer):
        writer.write(b"".join(map(ask, range(1, 20))))
        await is_answered(reader, *range(1, 20))


@story
async def test_a_muted_client_may_go_and_gives_way_to_others() -> None:
    async with await serve("127.0.0.1", 0, muting, APIS, limits=Limits(connections=1)) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            await is_answered(reader, 1)
            await until(lambda: muted(server))
        await until(lambda: not server.connections.served)
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            await is_answered(reader, 1)
            await until(lambda: muted(server))
            async with raw_client(server) as (others, asks):
                asks.write(ask(2))
                await is_answered(others, 2)
                assert await rest(reader) == b""
        assert server.metrics.errors == {"evicted": 1}


@story
async def test_closing_does_not_wait_for_muted_clients() -> None:
    server = await serve("127.0.0.1", 0, muting, APIS, limits=Limits(close_s=1_000))
    async with raw_client(server) as (reader, writer):
        writer.write(ask(1) + ask(2))
        await is_answered(reader, 1)
        await until(lambda: muted(server))
        await server.close()
        assert await rest(reader) == b""


class MutingLater(Later):
    """As `Later`, and the client is muted for an hour."""

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        def answer_muted(response: Any) -> None:
            context.session.mute_ms = AN_HOUR_MS
            answer(response)

        super().begin(context, request, answer_muted)


@pytest.mark.parametrize("sends_on", [False, True])
@story
async def test_who_is_answered_without_a_task_is_muted_too(*, sends_on: bool) -> None:
    direct = MutingLater()
    parts = ServerParts(direct=direct)
    async with await serve("127.0.0.1", 0, fenced, APIS, parts=parts) as server, raw_client(server) as (reader, writer):
        writer.write(ask(1) + (ask(2) if sends_on else b""))
        await until(lambda: direct.received)
        direct.received.pop()[1](FENCED)
        await is_answered(reader, 1)
        if not sends_on:
            writer.write(ask(2))
        channel = await becomes_muted(server, 1)
        await asyncio.sleep(0.01)
        await becomes_muted(server, 1)
        channel.end()
        await is_answered(reader, 2)


@story
async def test_who_is_new_is_muted_too_and_not_given_away() -> None:
    class Muting(Handler):
        def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
            context.session.mute_ms = AN_HOUR_MS
            super().begin(context, request, answer)

    async with receiving(Muting(), wants=True) as (server, direct, _), raw_client(server) as (reader, writer):
        writer.write(ask(1) + ask(2))
        await is_answered(reader, 1)
        channel = await becomes_muted(server, 1)
        assert len(direct.received) == 1
        channel.end()
        await is_answered(reader, 2)


# The time of requests.


@asynccontextmanager
async def counting(throttle: Counting, handler: Any) -> AsyncIterator[Server]:
    """A server that counts the time of requests."""
    async with await serve("127.0.0.1", 0, handler, APIS, parts=ServerParts(throttle=throttle)) as server:
        yield server


def counted(throttle: Counting) -> Callable[[RequestContext, Any], Any]:
    """A handler that uses a quota."""

    async def handler(context: RequestContext, message: Any) -> Any:
        assert (context.session.watch is not None) is throttle.is_on
        if throttle.is_on:
            throttle.used(context.session)
        return FENCED

    return handler


@story
async def test_the_time_before_and_behind_a_decision_is_counted() -> None:
    throttle = Counting()
    async with counting(throttle, counted(throttle)) as server, raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await is_answered(reader, 1)
        await until(lambda: len(throttle.received) == 2)
        assert [what for what, _ in throttle.received] == ["used", "sent"]
        assert all(ns > 0 for _, ns in throttle.received)


@story
async def test_nothing_is_measured_without_a_quota() -> None:
    throttle = Counting(is_on=False)
    async with counting(throttle, counted(throttle)) as server, raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await is_answered(reader, 1)
        assert (throttle.ticks, throttle.received) == (0, [])


@pytest.mark.parametrize("version", range(5))
@story
async def test_who_asks_for_versions_is_throttled_too(version: int) -> None:
    """The answer that others get is as it was."""
    throttle = Counting(used_ms=AN_HOUR_MS)
    async with counting(throttle, fenced) as server, raw_client(server) as (reader, writer):
        writer.write(request_frame(VERSIONS, version, 3))
        answer, _ = decode_from(s.ApiVersionsResponse, version, await read_frame(reader), 4)
        assert answer.throttle_time_ms == (AN_HOUR_MS if version else 0)
        await until(lambda: muted(server))
        assert server.apis.versions_answer.throttle_time_ms == 0


@story
async def test_who_is_new_may_ask_for_versions_once() -> None:
    throttle = Counting(used_ms=AN_HOUR_MS)
    async with (
        receiving(throttle=throttle) as (server, _, direct_connections),
        raw_client(server) as (reader, writer),
    ):
        for expected in (0, AN_HOUR_MS):
            writer.write(request_frame(VERSIONS, 3, 3))
            answer, _ = decode_from(s.ApiVersionsResponse, 3, await read_frame(reader), 4)
            assert answer.throttle_time_ms == expected
        await until(lambda: muted(server))
        assert not len(direct_connections) and server.metrics.requests == 2


@story
async def test_an_exempt_request_leaves_nothing_for_the_next_one() -> None:
    throttle = Counting()

    async def handler(context: RequestContext, message: Any) -> Any:
        assert context.session.watch is not None
        context.session.watch.asker = NOBODY
        return FENCED

    async with counting(throttle, handler) as server, raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await is_answered(reader, 1)
        await until(lambda: throttle.received)
        session = next(iter(server.connections.served)).client.session
        assert session.watch is not None and session.watch.take_ns() == 0


@story
async def test_a_server_that_closes_mutes_no_client_any_more() -> None:
    may_answer = asyncio.Event()

    async def muting_later(context: RequestContext, request: Any) -> Any:
        await may_answer.wait()
        return await muting(context, request)

    server = await serve("127.0.0.1", 0, muting_later, APIS, limits=Limits(close_s=1_000))
    async with raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await until(lambda: server.metrics.requests)
        closing = asyncio.create_task(server.close())
        await until(lambda: server.connections.closing)
        may_answer.set()
        await is_answered(reader, 1)
        await closing
        assert await rest(reader) == b""
