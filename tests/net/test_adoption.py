"""Connections that a server gives away, and takes back: nothing is lost or said twice on the way."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest.mock import patch

import pytest

from kcore import schema as s
from kcore.net import adoption
from kcore.net.adoption import AdoptedConnection, Adoption, Direct
from kcore.net.limits.connection_limits import Limits
from kcore.net.requests import Answer
from kcore.net.served_connection import ServedConnection
from kcore.net.server import RequestContext, Server, ServerParts, serve
from net.loops import fenced, heartbeat_answer, request_frame, story, until
from net.test_server import raw_client, rest, still_serves

APIS = {"BrokerHeartbeat": (0, 1), "Metadata": (0, 1)}


class Now:
    """Answers heartbeats at once, without a task."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []

    def takes(self, api_key: int) -> bool:
        return api_key == s.BrokerHeartbeatRequest.api_key

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        self.contexts.append(context)
        answer(s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=request.broker_id))


class Holder:
    """An adopter that wants every connection, and does nothing with it."""

    def __init__(self, wants: bool = True) -> None:
        self.wants, self.direct = wants, Now()
        self.held: dict[AdoptedConnection, int] = {}
        self.times = 0

    def plan(self, direct: Direct, response: Any) -> Adoption | None:
        return self._take if self.wants else None

    def _take(self, connection: AdoptedConnection, descriptor: int) -> Callable[[], None]:
        self.times += 1
        self.held[connection] = descriptor
        return lambda: self._end(connection)

    def _end(self, connection: AdoptedConnection) -> None:
        os.close(self.held.pop(connection))
        connection.ended("closed")

    def only(self) -> tuple[AdoptedConnection, socket.socket]:
        [(connection, descriptor)] = self.held.items()
        return connection, socket.socket(fileno=os.dup(descriptor))

    def hand_back(
        self,
        received: bytes = b"",
        unwritten: bytes = b"",
        *,
        recalled: bool = True,
        of: AdoptedConnection | None = None,
    ) -> None:
        connection = of or next(iter(self.held))
        if recalled:
            connection.recall()
        connection.hand_back(self.held.pop(connection), received, unwritten)


@asynccontextmanager
async def holding(limits: Limits | None = None, *, wants: bool = True) -> AsyncIterator[tuple[Server, Holder]]:
    """Without `DirectConnections`: all connections have a transport."""
    holder = Holder(wants)
    with patch("kcore.net.server.is_supported", lambda: False):
        parts = ServerParts(direct=holder.direct, adopter=holder)
        server = await serve("127.0.0.1", 0, fenced, APIS, limits=limits, parts=parts)
    async with server:
        yield server, holder


def ask(correlation_id: int) -> bytes:
    return request_frame(s.BrokerHeartbeatRequest(broker_id=1, broker_epoch=2), 1, correlation_id)


def answered(correlation_id: int) -> bytes:
    return heartbeat_answer(correlation_id, is_fenced=True, throttle_time_ms=1)


async def assert_answered(reader: asyncio.StreamReader, correlation_id: int) -> None:
    assert await reader.readexactly(len(answered(0))) == answered(correlation_id)


@story
async def test_a_connection_is_given_away_with_its_socket_open_and_taken_back() -> None:
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        connection, ours = holder.only()
        with ours:
            assert (
                not server.connections.served
                and server.connections.adopted == {connection}
                and len(server.connections.admission) == 1
            )
            await until(lambda: not server.connections.tasks)
            ours.send(b"from another loop")
            assert await reader.readexactly(17) == b"from another loop"
            writer.write(ask(2))
            await until(lambda: _waiting(ours) == len(ask(2)))
            assert len(holder.direct.contexts) == 1, "the server does not read it"
        holder.hand_back()
        await assert_answered(reader, 2)
        first, second = holder.direct.contexts
        assert (second.session, second.connection_id, second.peer) == (first.session, first.connection_id, first.peer)
        assert (server.metrics.connections_opened, server.metrics.connections_closed) == (1, 0)
    assert (server.metrics.connections_opened, server.metrics.connections_closed) == (1, 1)


def _waiting(ours: socket.socket) -> int:
    with suppress(BlockingIOError):
        return len(ours.recv(1 << 16, socket.MSG_PEEK))
    return 0


@story
async def test_what_was_received_and_what_was_not_written_come_back_in_order() -> None:
    """A whole frame and half of one, before what the socket has; the rest of an answer before the next one."""
    limits = Limits(frame_bytes=1 << 20)  # Bytes in another order are refused.
    async with holding(limits) as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        later = ask(3) + ask(4)
        holder.wants = False
        counted = server.metrics.bytes_in
        holder.hand_back(ask(2) + later[:7], b"the rest")
        writer.write(later[7:])
        assert await reader.readexactly(8) == b"the rest"
        for correlation_id in (2, 3, 4):
            await assert_answered(reader, correlation_id)
        assert server.metrics.requests == server.metrics.responses == 4
        assert server.metrics.bytes_in - counted == len(later[7:]), "the others were counted when they came"


@story
async def test_what_is_unread_keeps_a_connection_here() -> None:
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1) + ask(2)[:9])
        await assert_answered(reader, 1)
        assert not holder.held
        writer.write(ask(2)[9:])
        await assert_answered(reader, 2)
        assert holder.times == 1


@story
async def test_a_client_of_many_kinds_of_requests_does_not_go_to_and_fro() -> None:
    """Handed back for its own sake, it is answered once more here; one that was recalled goes at once."""
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        holder.hand_back(ask(2), recalled=False)
        await assert_answered(reader, 2)
        assert not holder.held
        writer.write(ask(3))
        await assert_answered(reader, 3)
        assert holder.times == 2
        holder.hand_back(ask(4))
        await assert_answered(reader, 4)
        assert holder.times == 3


@story
async def test_closing_ends_adopted_connections() -> None:
    async with holding() as (server, _), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        await server.close()
        assert await rest(reader) == b"" and not server.connections.adopted


@story
async def test_a_connection_that_comes_back_while_the_server_closes_is_closed() -> None:
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        server.connections.closing = True
        holder.hand_back(ask(2))
        assert await rest(reader) == b""
        assert server.metrics.connections_closed == 1


@pytest.mark.parametrize("why", ["idle", "eof"])
@story
async def test_what_the_adopter_closes_is_counted(why: str) -> None:
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        [(connection, descriptor)] = holder.held.items()
        os.close(descriptor)
        connection.ended(why)
        assert await rest(reader) == b""
        assert server.metrics.errors["idle"] == (why == "idle") and server.metrics.connections_closed == 1
        assert len(server.connections.admission) == 0


@story
async def test_an_adopted_connection_gives_its_place_last() -> None:
    """As one whose request runs: who waits for its client goes first; else who has most."""
    async with holding(Limits(connections=2)) as (server, holder), raw_client(server) as (first, writer):
        writer.write(ask(1))
        await assert_answered(first, 1)
        async with raw_client(server) as (second, _):
            await until(lambda: len(server.connections.admission) == 2)
            async with raw_client(server) as (third, last):
                assert await rest(second) == b""
                last.write(ask(2))
                await assert_answered(third, 2)
                assert holder.times == 2 and server.metrics.errors["evicted"] == 1


@story
async def test_an_evicted_connection_ends() -> None:
    async with holding(Limits(connections=1)) as (server, _), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        [connection] = server.connections.adopted
        connection.abort()
        assert await rest(reader) == b"" and not server.connections.adopted
        await still_serves(server)


@story
async def test_a_client_that_leaves_on_the_way_costs_nothing() -> None:
    async with holding() as (server, holder):
        for at in range(20):
            async with raw_client(server) as (reader, writer):
                writer.write(ask(1))
                await assert_answered(reader, 1)
                if at % 2:
                    writer.transport.abort()
                    await asyncio.sleep(0)
                holder.hand_back(ask(2)[: at * 2])
            await until(lambda: not server.connections.served and not len(server.connections.admission))
        assert server.metrics.connections_opened == server.metrics.connections_closed == 20
        holder.wants = False
        await still_serves(server)


@pytest.mark.parametrize("why", ["descriptors", "write buffer"])
@story
async def test_what_cannot_be_given_away_stays(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptors that are kept for files are not spent; what is unwritten leaves first."""
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        first = ask(1)
        writer.write(first[:2])
        await until(lambda: server.connections.served)
        if why == "descriptors":
            monkeypatch.setattr(adoption, "may_be_connections", lambda descriptor: False)
        else:
            [connection] = server.connections.served
            assert isinstance(connection, ServedConnection)
            monkeypatch.setattr(connection.frames.transport, "get_write_buffer_size", lambda: 1)
        before = len(os.listdir("/proc/self/fd"))
        for correlation_id, asked in ((1, first[2:]), (2, ask(2)), (3, ask(3))):
            writer.write(asked)
            await assert_answered(reader, correlation_id)
        assert not holder.held and len(server.connections.served) == 1
        assert len(os.listdir("/proc/self/fd")) == before


@story
async def test_a_connection_that_comes_back_to_a_closing_server_is_closed() -> None:
    async with holding() as (server, holder), raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        await until(lambda: holder.held)
        server.connections.closing = True
        holder.hand_back(ask(2))
        assert server.metrics.connections_opened == server.metrics.connections_closed == 1
        assert not len(server.connections.admission) and await rest(reader) == b""
