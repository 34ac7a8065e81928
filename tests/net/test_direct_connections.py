"""New connections without a transport or a task each: the promises of `test_server.py` hold for them, too."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import NetworkError
from kcore.net.adoption import AdoptedConnection, Adoption, Direct
from kcore.net.direct_connections import MOST_BYTES, MOST_HELD, DirectConnections
from kcore.net.limits.connection_limits import Limits
from kcore.net.requests import Answer, Throttle
from kcore.net.requests import Handler as Handling
from kcore.net.security.sasl_mechanisms import PlainUsers
from kcore.net.security.sasl_server import SaslListener
from kcore.net.server import RequestContext, Server, ServerParts, serve
from kcore.wire.codec import decode_from
from net.loops import fenced, framed, heartbeat_answer, read_frame, request_frame, story, until
from net.security.test_tls_listener import Users
from net.test_direct_handler import FETCH, LARGE, fetched
from net.test_server import raw_client, rest, still_serves

APIS = {"BrokerHeartbeat": (0, 1), "Fetch": (12, 18), "Metadata": (0, 1)}
BEAT, FETCHED = s.BrokerHeartbeatRequest.api_key, s.FetchRequest.api_key
VERSIONS = s.ApiVersionsRequest(client_software_name="raw", client_software_version="1")
FENCED = s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=1)


class Handler:
    """Answers heartbeats and fetches at once, or when the test says so; it notes their order."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.at_once = at_once
        self.received: list[tuple[RequestContext, Any, Answer]] = []

    def takes(self, api_key: int) -> bool:
        return api_key in (BEAT, FETCHED)

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        self.received.append((context, request, answer))
        if self.at_once:
            answer(FENCED if isinstance(request, s.BrokerHeartbeatRequest) else fetched(b""))

    @property
    def kinds(self) -> list[int]:
        return [type(request).api_key for _, request, _ in self.received]


class Taker:
    """An adopter that has what it wants: descriptors of connections."""

    def __init__(self, wants: bool = False) -> None:
        self.wants = wants
        self.held: list[tuple[AdoptedConnection, int]] = []

    def plan(self, direct: Direct, response: Any) -> Adoption | None:
        return self._take if self.wants else None

    def _take(self, connection: AdoptedConnection, descriptor: int) -> Callable[[], None]:
        self.held.append((connection, descriptor))
        return lambda: None


@asynccontextmanager
async def receiving(
    direct: Any = None,
    limits: Limits | None = None,
    *,
    wants: bool = False,
    handler: Handling = fenced,
    throttle: Throttle | None = None,
) -> AsyncIterator[tuple[Server, Handler, DirectConnections]]:
    """A server with an adopter; in the end nothing is left of its connections."""
    direct, taker = direct or Handler(), Taker(wants)
    parts = ServerParts(direct=direct, adopter=taker, urgent=[BEAT], throttle=throttle)
    server = await serve("127.0.0.1", 0, handler, APIS, limits=limits, parts=parts)
    direct_connections = server.direct_connections
    assert direct_connections is not None
    async with server:
        yield server, direct, direct_connections
    await server.close()  # A node that hands over has closed it before its end.
    held = taker.held
    for _, descriptor in held:
        os.close(descriptor)
    assert not len(direct_connections) and not server.connections.served
    assert server.metrics.connections_opened - len(held) == server.metrics.connections_closed


def ask(correlation_id: int) -> bytes:
    return request_frame(s.BrokerHeartbeatRequest(broker_id=1, broker_epoch=2), 1, correlation_id)


def answered(correlation_id: int) -> bytes:
    return heartbeat_answer(correlation_id, is_fenced=True, throttle_time_ms=1)


@story
async def test_a_listener_that_authenticates_has_no_use_for_it() -> None:
    sasl = SaslListener(("PLAIN",), lambda: 0, PlainUsers({}), Users(), failure_delay_s=0)
    handler = Handler()
    parts = ServerParts(direct=handler, adopter=Taker())
    async with await serve("127.0.0.1", 0, fenced, APIS, sasl=sasl, parts=parts) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            assert await rest(reader) == b"", "a heartbeat without authentication"
        assert handler.received == []
        assert server.direct_connections is None


async def assert_answered(reader: asyncio.StreamReader, *correlation_ids: int) -> None:
    for each in correlation_ids:
        assert await reader.readexactly(len(answered(0))) == answered(each)


@pytest.mark.parametrize("seed", range(5))
@story
async def test_answers_in_order_whatever_pieces_the_requests_come_in(seed: int) -> None:
    random, ids = Random(seed), range(1, 400)
    async with receiving() as (server, _, direct_connections), raw_client(server) as (reader, writer):
        data = b"".join(map(ask, ids))
        while data:
            size = random.choice((1, 3, 60, 1000, MOST_HELD, 100_000))
            writer.write(data[:size])
            data = data[size:]
            if random.random() < 0.3:
                await asyncio.sleep(0.001)
        await assert_answered(reader, *ids)
        assert len(direct_connections) == 1 and not server.connections.served
        assert server.metrics.requests == server.metrics.responses == len(ids)
        assert server.metrics.bytes_in == len(ask(0)) * len(ids)
        assert server.metrics.bytes_out == len(answered(0)) * len(ids)


@story
async def test_one_request_at_a_time() -> None:
    async with receiving(Handler(at_once=False)) as (server, direct, _), raw_client(server) as (reader, writer):
        writer.write(ask(1) + ask(2))
        await until(lambda: direct.received)
        writer.write(ask(3))
        await asyncio.sleep(0.01)
        assert len(direct.received) == 1
        for correlation_id in (1, 2, 3):
            await until(lambda: direct.received)
            direct.received.pop()[2](FENCED)
            await assert_answered(reader, correlation_id)


@story
async def test_urgent_requests_are_begun_before_others() -> None:
    """Heartbeats of some clients, behind the fetches of others that came before."""
    async with receiving() as (server, direct, direct_connections), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(server)) for _ in range(20)]
        await until(lambda: len(direct_connections) == 20)
        for number, (_, writer) in enumerate(clients):
            writer.write(ask(1) if number % 4 == 3 else request_frame(FETCH, 18, 1))
        await until(lambda: len(direct.received) == 20)
        assert direct.kinds == [BEAT] * 5 + [FETCHED] * 15


@story
async def test_urgent_requests_are_looked_for_between_others() -> None:
    async with receiving() as (server, direct, direct_connections), raw_client(server) as (reader, writer):
        await until(lambda: len(direct_connections) == 1)
        writer.write(ask(1))
        direct_connections.look()
        assert direct.kinds == [BEAT]
        await assert_answered(reader, 1)


@story
async def test_a_client_that_sends_on_has_one_urgent_request_begun_a_look() -> None:
    """Otherwise who sends heartbeats faster than they are answered would have the event loop for ever."""
    ids = range(1, 1000)
    async with receiving() as (server, direct, direct_connections), raw_client(server) as (reader, writer):
        await until(lambda: len(direct_connections) == 1)
        writer.write(b"".join(map(ask, ids)))
        direct_connections.look()
        assert direct.kinds == [BEAT]
        await assert_answered(reader, *ids)


@story
async def test_versions_are_answered() -> None:
    async with receiving() as (server, _, direct_connections), raw_client(server) as (reader, writer):
        for version in (0, 3, 99):
            writer.write(request_frame(VERSIONS, min(version, 3), 5, header_version_field=version))
            frame = await read_frame(reader)
            read = 0 if version == 99 else version
            found, _ = decode_from(s.ApiVersionsResponse, read, frame, 4)
            assert {each.api_key for each in found.api_keys} >= ({18} if version == 99 else {1, 3, 18, 63})
        assert len(direct_connections) == 1
        writer.write(ask(2))
        await assert_answered(reader, 2)


@pytest.mark.parametrize("kind", ["another", "long"])
@story
async def test_what_is_not_for_the_reception_is_the_servers(kind: str) -> None:
    """With what came behind it; the connection stays what it was."""
    handler = fenced if kind == "long" else _metadata
    async with (
        receiving(handler=handler) as (server, direct, direct_connections),
        raw_client(server) as (reader, writer),
    ):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        name = "n" * (MOST_BYTES if kind == "long" else 1)
        if kind == "long":
            frame = request_frame(FETCH.__class__(rack_id=name, topics=[], forgotten_topics_data=[]), 18, 2)
        else:
            frame = request_frame(s.MetadataRequest(topics=[]), 1, 2)
        sent = frame + ask(3)
        writer.write(sent[:9])
        await asyncio.sleep(0.01)
        writer.write(sent[9:])
        assert (await read_frame(reader))[:4] == bytes([0, 0, 0, 2])
        await assert_answered(reader, 3)
        assert not len(direct_connections) and len(server.connections.served) == 1
        assert len({context.connection_id for context, _, _ in direct.received}) == 1
        assert len({id(context.session) for context, _, _ in direct.received}) == 1
        assert server.metrics.bytes_in == len(ask(1) + sent) and server.metrics.connections_opened == 1


async def _metadata(context: RequestContext, request: Any) -> Any:
    is_metadata = isinstance(request, s.MetadataRequest)
    return s.MetadataResponse(brokers=[], topics=[]) if is_metadata else await fenced(context, request)


@pytest.mark.parametrize(
    "sent", [b"\0\0\0\4\0\x3f\0\1", b"\0\0\0\3\0\x3f\0", b"\xff\xff\xff\xff", framed(b"\0\x3f\0\x63" + bytes(20))]
)
@story
async def test_what_cannot_be_read_is_refused(sent: bytes) -> None:
    async with receiving() as (server, direct, _):
        async with raw_client(server) as (reader, writer):
            writer.write(sent)
            assert await rest(reader) == b""
        assert not direct.received and server.metrics.errors.total() == 1


@pytest.mark.parametrize("wrong", [None, s.MetadataResponse()])
@story
async def test_no_answer_or_a_wrong_one_costs_its_connection_only(wrong: Any) -> None:
    async with receiving(Handler(at_once=False)) as (server, direct, _):
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            await until(lambda: direct.received)
            direct.received.pop()[2](wrong)
            assert await rest(reader) == b""
        direct.at_once = True
        await still_serves(server)


@pytest.mark.parametrize("error", [NetworkError("no sense"), KeyError("our own")])
@story
async def test_a_handler_that_fails_costs_its_connection_only(error: Exception) -> None:
    class Failing(Handler):
        def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
            raise error

        def takes(self, api_key: int) -> bool:
            return not server.metrics.errors

    async with receiving(Failing()) as (server, _, _):
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            assert await rest(reader) == b""
        assert server.metrics.errors == {type(error).__name__: 1}
        await still_serves(server)


@story
async def test_a_long_answer_leaves_as_its_client_takes_it() -> None:
    """By the server's own protocol, which weighs it; then the next request, which came before, is answered."""
    async with receiving(Handler(at_once=False)) as (server, direct, direct_connections):
        async with raw_client(server) as (reader, writer):
            writer.write(request_frame(FETCH, 18, 7) + ask(8))
            await until(lambda: direct.received)
            direct.received.pop()[2](fetched(LARGE))
            assert not len(direct_connections)
            direct.at_once = True
            found, _ = decode_from(s.FetchResponse, 18, await read_frame(reader), 5)
            assert bytes(found.responses[0].partitions[0].records or b"") == LARGE
            await assert_answered(reader, 8)
        assert server.metrics.responses == 2


@story
async def test_a_client_that_takes_no_answers_is_the_servers() -> None:
    async with receiving() as (server, _, direct_connections), raw_client(server) as (reader, writer):
        await until(lambda: len(direct_connections) == 1)
        [newcomer] = direct_connections._held.values()
        newcomer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # As little as the system lets it have.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        count = 0
        while not server.connections.served:
            writer.write(b"".join(map(ask, range(count, count + 100))))
            count += 100
            await asyncio.sleep(0.001)
        assert not len(direct_connections)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await assert_answered(reader, *range(count))


@pytest.mark.parametrize("half", [b"", ask(1)[:20]])
@story
async def test_a_silent_client_is_closed(half: bytes) -> None:
    async with receiving(limits=Limits(idle_s=0.1)) as (server, _, _), raw_client(server) as (reader, writer):
        writer.write(half)
        assert await rest(reader) == b""
        assert server.metrics.errors == {"idle": 1}


@story
async def test_who_has_said_nothing_goes_first_for_a_newcomer() -> None:
    async with (
        receiving(limits=Limits(connections=2)) as (server, _, direct_connections),
        raw_client(server) as (first, writer),
    ):
        writer.write(ask(1))
        await assert_answered(first, 1)
        async with raw_client(server) as (second, _):
            await until(lambda: len(direct_connections) == 2)
            async with raw_client(server) as (third, last):
                assert await rest(second) == b""
                last.write(ask(2))
                await assert_answered(third, 2)
                assert server.metrics.errors["evicted"] == 1 and len(server.connections.admission) == 2


def _has_gone(server: Server, opened: int) -> bool:
    return server.metrics.connections_opened > opened and not len(server.connections.admission)


@story
async def test_a_client_that_leaves_costs_nothing() -> None:
    """In the middle of a request, behind a whole one, or by a reset; what has come is carried out."""
    before = len(os.listdir("/proc/self/fd"))
    async with receiving(Handler(at_once=False)) as (server, direct, _):
        for sent, resets in ((b"", False), (ask(1)[:9], True), (ask(1), False), (ask(1) + ask(2), True)):
            opened = server.metrics.connections_opened
            ours = socket.create_connection(("127.0.0.1", server.port))
            ours.sendall(sent)
            if resets:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ours.close()
            await until(partial(_has_gone, server, opened))
        assert direct.received
        for _, _, answer in direct.received:
            answer(FENCED)
        assert server.metrics.connections_opened == server.metrics.connections_closed == 4
        direct.at_once = True
        await still_serves(server)
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 3)


@pytest.mark.parametrize("unread", [b"", b"\0\0"])
@story
async def test_a_connection_is_given_away_with_its_socket_unless_something_is_unread(unread: bytes) -> None:
    async with receiving(wants=True) as (server, _, direct_connections), raw_client(server) as (reader, writer):
        writer.write(ask(1) + unread)
        await assert_answered(reader, 1)
        held = server.apis.parts.adopter.held  # type: ignore[union-attr]
        assert len(held) == (not unread) and len(direct_connections) == bool(unread)
        if held:
            [(connection, descriptor)] = held
            assert server.connections.adopted == {connection} and len(server.connections.admission) == 1
            os.write(descriptor, b"from another loop")
            assert await reader.readexactly(17) == b"from another loop"
            server.connections.adopted.clear()


@story
async def test_without_an_adopter_the_server_has_all() -> None:
    async with (
        await serve("127.0.0.1", 0, fenced, APIS, parts=ServerParts(direct=Handler())) as server,
        raw_client(server) as (reader, writer),
    ):
        writer.write(ask(1))
        await assert_answered(reader, 1)
        assert server.direct_connections is None and len(server.connections.served) == 1


@story
async def test_a_connection_whose_request_runs_is_neither_idle_nor_closed_for_another() -> None:
    async with (
        receiving(Handler(at_once=False)) as (server, direct, direct_connections),
        raw_client(server) as (reader, writer),
    ):
        await until(lambda: len(direct_connections._idle) == 1)
        writer.write(ask(1))
        await until(lambda: direct.received)
        assert not len(direct_connections._idle) and server.connections.admission.victim("another") is None
        direct.received[0][2](FENCED)
        await assert_answered(reader, 1)
        assert len(direct_connections._idle) == 1 and server.connections.admission.victim("another") is not None


@pytest.mark.parametrize(("size", "stays"), [(MOST_BYTES - 4, True), (MOST_BYTES - 3, False)])
@story
async def test_a_frame_that_is_larger_than_the_room_for_it_is_the_servers(size: int, stays: bool) -> None:
    head = size.to_bytes(4) + ask(1)[4:12]
    async with receiving() as (server, _, direct_connections), raw_client(server) as (_, writer):
        writer.write(head)
        await until(lambda: server.metrics.bytes_in >= len(head))
        assert len(direct_connections) == stays
