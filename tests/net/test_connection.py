"""A connection to a peer that behaves: matching, order, bounds, cancellation, back-pressure."""

import asyncio
from random import Random
from socket import SHUT_WR
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import DisconnectedError, EncodeError, NetworkError, RequestTimeoutError, UnsupportedVersionError
from kcore.net.connect import connect
from kcore.net.connection import NEWEST_CORRELATION_ID, Connection
from kcore.net.framed_connection import PIECE_BYTES
from kcore.net.limits.connection_limits import Limits
from kcore.net.server import RequestContext, serve
from kcore.schema.cluster_metadata import MetadataRequestTopic, MetadataResponseTopic
from kcore.wire.codec import decode, encode
from net.loops import (
    HEARTBEAT,
    HEARTBEAT_VERSION,
    QUICK,
    fenced,
    framed,
    heartbeat_answer,
    raw_server,
    read_correlation_id,
    read_frame,
    settled,
    story,
    until,
)

APIS = {"BrokerHeartbeat": (0, 1)}


def heartbeat(broker_id: int) -> s.BrokerHeartbeatRequest:
    return s.BrokerHeartbeatRequest(broker_id=broker_id)


class HoldingHandler:
    """A handler that holds every request until `release` is set."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.release = asyncio.Event()

    async def __call__(self, context: RequestContext, message: Any) -> Any:
        self.taken.append(message.broker_id)
        await self.release.wait()
        return await fenced(context, message)


@story
async def test_a_request_and_its_answer() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        assert message == HEARTBEAT
        assert (context.version, context.header.client_id) == (1, "a client")
        assert context.peer.startswith("127.0.0.1:")
        return s.BrokerHeartbeatResponse(is_caught_up=True)

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        async with await connect("127.0.0.1", server.port, client_id="a client") as connection:
            assert await connection.send(HEARTBEAT) == s.BrokerHeartbeatResponse(is_caught_up=True)
            for metrics in (connection.metrics, server.metrics):
                assert (metrics.requests, metrics.responses, metrics.connections_opened) == (2, 2, 1)
            assert connection.metrics.bytes_in == server.metrics.bytes_out > 0
            assert connection.metrics.bytes_out == server.metrics.bytes_in > 0
        assert connection.closed
        assert connection.metrics.connections_closed == 1
    assert server.metrics.connections_closed == 1
    assert not connection.metrics.errors
    assert not server.metrics.errors


@story
async def test_pipelined_requests_are_answered_in_order() -> None:
    async with (
        await serve("127.0.0.1", 0, fenced, APIS) as server,
        await connect("127.0.0.1", server.port, limits=Limits(in_flight=7)) as connection,
    ):
        order: list[int] = []
        calls = [connection.send(heartbeat(i)) for i in range(500)]
        for call in calls:
            call.add_done_callback(lambda done: order.append(done.result().throttle_time_ms))
        await asyncio.gather(*calls)
        assert order == list(range(500))


@story
async def test_no_more_than_in_flight_are_on_the_wire() -> None:
    seen: list[int] = []
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while True:
            seen.append(await read_correlation_id(reader))

    limits = Limits(in_flight=3)
    async with (
        raw_server(talk) as port,
        await connect("127.0.0.1", port, limits=limits, ask_versions=False) as connection,
    ):
        calls = [connection.send(HEARTBEAT, 1) for _ in range(9)]
        for answered in range(9):
            await settled(lambda: len(seen))
            assert seen == list(range(min(answered + 3, 9)))
            writers[0].write(heartbeat_answer(answered))
        await asyncio.gather(*calls)


@story
async def test_the_queue_is_bounded() -> None:
    holding = HoldingHandler()
    async with (
        await serve("127.0.0.1", 0, holding, APIS) as server,
        await connect("127.0.0.1", server.port, limits=Limits(in_flight=1, queued=2)) as connection,
    ):
        calls = [connection.send(heartbeat(i)) for i in range(3)]
        with pytest.raises(NetworkError, match="2 requests wait already"):
            connection.send(HEARTBEAT)
        holding.release.set()
        await asyncio.gather(*calls)
        await connection.send(HEARTBEAT)


@story
async def test_versions() -> None:
    async with await serve("127.0.0.1", 0, fenced, {"BrokerHeartbeat": (0, 0)}) as server:
        async with await connect("127.0.0.1", server.port) as connection:
            assert (await connection.send(heartbeat(5))).throttle_time_ms == 5
            with pytest.raises(UnsupportedVersionError, match="BrokerHeartbeat 1: the peer knows versions 0, kcore 0-"):
                connection.send(HEARTBEAT, 1)
            with pytest.raises(UnsupportedVersionError, match="does not know Metadata"):
                connection.send(s.MetadataRequest())
            with pytest.raises(EncodeError):
                connection.send(heartbeat("no number"))  # type: ignore[arg-type]
            await connection.send(HEARTBEAT, 0)
        async with await connect("127.0.0.1", server.port, ask_versions=False) as connection:
            with pytest.raises(UnsupportedVersionError, match="BrokerHeartbeatRequest needs a version"):
                connection.send(HEARTBEAT)
            await connection.send(HEARTBEAT, 0)


@story
async def test_bytes_that_are_encoded_already() -> None:
    async with (
        await serve("127.0.0.1", 0, fenced, APIS) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        body = await connection.send_bytes(HEARTBEAT.api_key, 1, encode(heartbeat(9), 1))
        assert decode(s.BrokerHeartbeatResponse, 1, body) == s.BrokerHeartbeatResponse(
            is_fenced=True, throttle_time_ms=9
        )


class Asker:
    """A `Reply` that asks again as soon as it is answered, up to five times."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ends: list[int | str] = []
        self.is_gone = False

    def ask(self) -> None:
        self.connection.ask(self, s.BrokerHeartbeatRequest, 1, encode(heartbeat(len(self.ends)), 1))

    def done(self) -> bool:
        return self.is_gone

    def set_result(self, body: memoryview, /) -> None:
        self.ends.append(decode(s.BrokerHeartbeatResponse, 1, body).throttle_time_ms)
        if len(self.ends) < 5:
            self.ask()

    def set_exception(self, error: NetworkError, /) -> None:
        self.ends.append(str(error))


@story
async def test_calls_without_a_future() -> None:
    async with (
        await serve("127.0.0.1", 0, fenced, APIS) as server,
        await connect("127.0.0.1", server.port, limits=Limits(in_flight=1)) as connection,
    ):
        asker = Asker(connection)
        asker.ask()
        await until(lambda: len(asker.ends) == 5)
        assert asker.ends == [0, 1, 2, 3, 4]
        future = connection.send(heartbeat(7), 1)
        gone = Asker(connection)
        gone.ask()
        gone.is_gone = True
        assert (await future).throttle_time_ms == 7
        assert (await connection.send(heartbeat(8), 1)).throttle_time_ms == 8
        assert gone.ends == [] and connection.metrics.requests == 8, "ApiVersions and seven: who has gone is not begun"


@story
async def test_a_call_without_a_future_ends_once_when_the_connection_does() -> None:
    holding = HoldingHandler()
    async with await serve("127.0.0.1", 0, holding, APIS) as server:
        connection = await connect("127.0.0.1", server.port)
        asker = Asker(connection)
        asker.ask()
        await until(lambda: holding.taken)
        await connection.close()
        assert asker.ends == [f"BrokerHeartbeat 1 to {connection.peer}: the connection was closed on this side"]
        with pytest.raises(DisconnectedError, match="closed on this side"):
            asker.ask()
        assert len(asker.ends) == 1
        holding.release.set()


@story
async def test_tags_in_the_header_of_an_answer_are_passed_over() -> None:
    """Kafka's client reads the tagged fields of a response's header, of which there are none yet."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id = await read_correlation_id(reader)
        body = encode(s.BrokerHeartbeatResponse(throttle_time_ms=5), 1)
        writer.write(framed(correlation_id.to_bytes(4, "big") + b"\x01\x07\x02ab" + body))
        await reader.read()

    async with raw_server(talk) as port, await connect("127.0.0.1", port, ask_versions=False) as connection:
        assert (await connection.send(HEARTBEAT, 1)).throttle_time_ms == 5


@story
async def test_a_frame_that_no_size_can_tell() -> None:
    body = memoryview(bytes(2**24))
    async with (
        await serve("127.0.0.1", 0, fenced, APIS) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        with pytest.raises(EncodeError, match=r"a frame of 21474836\d\d bytes: its size is an int32"):
            connection.send_bytes(HEARTBEAT.api_key, 1, *[body] * 128)
        assert (await connection.send(HEARTBEAT)).is_fenced


@story
async def test_bytes_after_an_answer_are_let_be() -> None:
    """Kafka's own client reads what it knows of a response and looks no further."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(heartbeat_answer(await read_correlation_id(reader), b"more", error_code=7))

    async with raw_server(talk) as port, await connect("127.0.0.1", port, ask_versions=False) as connection:
        for _ in range(3):
            assert (await connection.send(HEARTBEAT, HEARTBEAT_VERSION)).error_code == 7


@story
async def test_a_large_request_and_a_large_answer() -> None:
    name = "x" * 30_000

    async def handler(context: RequestContext, message: Any) -> Any:
        return s.MetadataResponse(topics=[MetadataResponseTopic(name=topic.name) for topic in message.topics])

    async with (
        await serve("127.0.0.1", 0, handler, {"Metadata": (0, 9)}) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        topics = [MetadataRequestTopic(name=f"{i}{name}") for i in range(300)]
        answers = await asyncio.gather(*(connection.send(s.MetadataRequest(topics=topics)) for _ in range(2)))
        for answer in answers:
            assert [topic.name for topic in answer.topics] == [topic.name for topic in topics]


@story
async def test_a_cancelled_call_leaves_the_others_in_place() -> None:
    holding = HoldingHandler()
    async with (
        await serve("127.0.0.1", 0, holding, APIS) as server,
        await connect("127.0.0.1", server.port, limits=Limits(in_flight=2)) as connection,
    ):
        calls = [connection.send(heartbeat(i)) for i in range(4)]
        await until(lambda: holding.taken)
        calls[0].cancel()  # On the wire.
        calls[2].cancel()  # Not yet.
        holding.release.set()
        assert [(await calls[i]).throttle_time_ms for i in (1, 3)] == [1, 3]
        assert holding.taken == [0, 1, 3]
        assert not connection.metrics.errors


@story
async def test_a_task_that_waits_may_be_cancelled() -> None:
    holding = HoldingHandler()
    async with (
        await serve("127.0.0.1", 0, holding, APIS) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.send(heartbeat(1)), 0.01)
        second = connection.send(heartbeat(2))
        holding.release.set()
        assert (await second).throttle_time_ms == 2


@story
async def test_a_time_out_ends_the_connection_with_all_that_wait() -> None:
    holding = HoldingHandler()
    async with await serve("127.0.0.1", 0, holding, APIS, limits=QUICK) as server:
        connection = await connect("127.0.0.1", server.port, limits=Limits(in_flight=2))
        calls = [connection.send(heartbeat(i), timeout_s=t) for i, t in enumerate([0.05, 60, 60])]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == [RequestTimeoutError, DisconnectedError, DisconnectedError]
        assert str(errors[0]) == f"BrokerHeartbeat 1 to 127.0.0.1:{server.port}: no answer within 0.05 s"
        assert "BrokerHeartbeat 1 before it was not answered within 0.05 s" in str(errors[2])
        with pytest.raises(DisconnectedError, match="before it was not answered"):
            connection.send(HEARTBEAT)
        await connection.wait_gone()
        holding.release.set()


@story
async def test_a_call_that_was_not_its_turn_times_out_alone() -> None:
    holding = HoldingHandler()
    async with (
        await serve("127.0.0.1", 0, holding, APIS) as server,
        await connect("127.0.0.1", server.port, limits=Limits(in_flight=1)) as connection,
    ):
        first = connection.send(heartbeat(1))
        with pytest.raises(RequestTimeoutError):
            await connection.send(heartbeat(2), timeout_s=0.05)
        third = connection.send(heartbeat(3))
        holding.release.set()
        assert [(await first).throttle_time_ms, (await third).throttle_time_ms] == [1, 3]
        assert holding.taken == [1, 3]


@story
async def test_a_cancelled_call_that_is_never_answered_still_ends_the_connection() -> None:
    holding = HoldingHandler()
    async with await serve("127.0.0.1", 0, holding, APIS, limits=QUICK) as server:
        connection = await connect("127.0.0.1", server.port, limits=Limits(in_flight=1))
        connection.send(heartbeat(1), timeout_s=0.05).cancel()
        with pytest.raises(DisconnectedError, match="before it was not answered"):
            await connection.send(heartbeat(2))
        await connection.wait_gone()


@story
async def test_closing_ends_what_waits() -> None:
    holding = HoldingHandler()
    async with await serve("127.0.0.1", 0, holding, APIS, limits=QUICK) as server:
        connection = await connect("127.0.0.1", server.port, limits=Limits(in_flight=1))
        calls = [connection.send(HEARTBEAT) for _ in range(3)]
        await connection.close()
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, DisconnectedError)
            assert "closed on this side" in str(error)
        await connection.close()
        with pytest.raises(DisconnectedError):
            connection.send(HEARTBEAT)


@story
async def test_a_peer_that_does_not_read_stops_the_writing() -> None:
    reads = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        while True:
            writer.write(heartbeat_answer(await read_correlation_id(reader)))

    request = s.BrokerHeartbeatRequest(unknown_tagged_fields=((99, bytes(1_000_000)),))
    limits = Limits(in_flight=100, write_buffer_bytes=10_000)
    async with (
        raw_server(talk) as port,
        await connect("127.0.0.1", port, limits=limits, ask_versions=False) as connection,
    ):
        calls = [connection.send(request, 1) for _ in range(50)]
        await settled(lambda: connection.metrics.requests)
        assert connection.metrics.requests < 50
        assert connection.frames.unwritten_bytes < 10_000 + PIECE_BYTES
        reads.set()
        await asyncio.gather(*calls)


@story
async def test_a_connection_that_breaks_as_the_peer_reads_again_ends_once(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio ends it twice where a write fails within resume_writing, and logs every write behind that."""
    reads = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        while await reader.read(1 << 16):
            pass

    async with raw_server(talk) as port, await connect("127.0.0.1", port, ask_versions=False) as connection:
        call = connection.send_bytes(HEARTBEAT.api_key, 1, bytes(20_000_000))
        await settled(lambda: connection.metrics.bytes_out)
        socket, resumed = connection.frames.extra("socket"), connection.frames.resume_writing

        def breaks() -> None:
            socket.shutdown(SHUT_WR)
            resumed()

        connection.frames.resume_writing = breaks  # type: ignore[method-assign]
        reads.set()
        with pytest.raises(DisconnectedError):
            await call
        await connection.wait_gone()
    assert "socket.send() raised exception" not in caplog.text


@story
async def test_a_large_request_that_is_cancelled_half_way_is_written_to_its_end() -> None:
    reads = asyncio.Event()
    bodies: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        while True:
            frame = await read_frame(reader)
            bodies.append(frame[-20_000_000:])
            writer.write(heartbeat_answer(int.from_bytes(frame[4:8], "big"), error_code=len(bodies)))

    body = memoryview(Random(1).randbytes(20_000_000))
    async with raw_server(talk) as port, await connect("127.0.0.1", port, ask_versions=False) as connection:
        first = connection.send_bytes(HEARTBEAT.api_key, 1, body[:7], body[7:])
        second = connection.send(HEARTBEAT, 1)
        await settled(lambda: connection.metrics.bytes_out)
        assert connection.metrics.bytes_out < len(body)
        first.cancel()
        reads.set()
        assert (await second).error_code == 2
        assert bodies[0] == body


@story
async def test_nobody_listens() -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        port = server.port
    with pytest.raises(DisconnectedError, match=f"no connection to 127.0.0.1:{port}"):
        await connect("127.0.0.1", port)
    with pytest.raises(DisconnectedError, match=r"no connection to no-such-host\.invalid:1"):
        await connect("no-such-host.invalid", 1)


@story
async def test_after_the_largest_correlation_id_comes_0() -> None:
    async with (
        await serve("127.0.0.1", 0, fenced, APIS) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        connection._correlation_id = NEWEST_CORRELATION_ID
        for _ in range(2):
            assert (await connection.send(HEARTBEAT)).is_fenced
        assert connection._correlation_id == 1
