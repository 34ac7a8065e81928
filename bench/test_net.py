"""Framing against a copy of the same bytes; connections against asyncio's own streams that echo frames as long.

Run with `pytest bench/test_net.py --benchmark-enable`; take ratios, not absolutes, on a shared machine.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore import schema as s
from kcore._ext.wire.framing import Splitter
from kcore.errors import FrameError
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.server import RequestContext, serve

STREAM_BYTES = 64 * 2**20
REQUESTS = 1000
HEARTBEAT = s.BrokerHeartbeatRequest(broker_id=1, broker_epoch=2)
HEARTBEAT_BYTES = 43  # A frame of it, with the header of client "kcore".

Ask: TypeAlias = Callable[[], Awaitable[Any]]


@pytest.fixture(params=[43, 1000, 100_000, 10_000_000], ids="frames of {} bytes".format)
def stream(request: pytest.FixtureRequest) -> bytes:
    frame = int(request.param).to_bytes(4, "big") + bytes(request.param)
    return frame * (STREAM_BYTES // len(frame))


def test_memcpy(benchmark: BenchmarkFixture, stream: bytes) -> None:
    source = np.frombuffer(stream, np.uint8)
    benchmark(np.copyto, np.zeros_like(source), source)


def test_splitter(benchmark: BenchmarkFixture, stream: bytes) -> None:
    """With the copy that a socket would make."""
    source = memoryview(stream)

    def split() -> int:
        splitter, at, taken = Splitter(2**30, FrameError), 0, 0
        while at < len(source):
            room = splitter.get_buffer()
            count = min(len(room), len(source) - at)
            room[:count] = source[at : at + count]
            splitter.received(count)
            at += count
            while (frame := splitter.next_frame()) is not None:
                taken += 4 + len(frame)
        return taken

    assert benchmark(split) == len(stream)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while size := await reader.read(4):
        writer.write(size + await reader.readexactly(int.from_bytes(size, "big")))
    writer.close()


def test_streams_one_at_a_time(benchmark: BenchmarkFixture, loop: asyncio.AbstractEventLoop) -> None:
    frame = (HEARTBEAT_BYTES - 4).to_bytes(4, "big") + bytes(HEARTBEAT_BYTES - 4)

    async def opened() -> tuple[asyncio.Server, asyncio.StreamReader, asyncio.StreamWriter]:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        return server, *await asyncio.open_connection(*server.sockets[0].getsockname())

    server, reader, writer = loop.run_until_complete(opened())

    async def run() -> None:
        for _ in range(REQUESTS):
            writer.write(frame)
            await reader.readexactly(HEARTBEAT_BYTES)

    benchmark(lambda: loop.run_until_complete(run()))
    writer.close()
    loop.run_until_complete(writer.wait_closed())
    server.close()


@pytest.mark.parametrize("in_flight", [1, 5, 100])
def test_connection(benchmark: BenchmarkFixture, loop: asyncio.AbstractEventLoop, in_flight: int) -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse()

    server = loop.run_until_complete(serve("127.0.0.1", 0, handler, {"BrokerHeartbeat": (0, 1)}))
    limits = Limits(in_flight=in_flight)
    connection = loop.run_until_complete(connect("127.0.0.1", server.port, limits=limits))

    async def run() -> None:
        if in_flight > 1:
            await asyncio.gather(*(connection.send(HEARTBEAT) for _ in range(REQUESTS)))
        else:
            for _ in range(REQUESTS):
                await connection.send(HEARTBEAT)

    benchmark(lambda: loop.run_until_complete(run()))
    loop.run_until_complete(connection.close())
    loop.run_until_complete(server.close())
