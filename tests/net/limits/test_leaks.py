"""10,000 connections opened and dropped, well and badly: no socket, no task and no memory is left."""

import asyncio
import gc
import logging
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kcore.errors import NetworkError
from kcore.net.connect import connect
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.net.server import Server, serve
from net.loops import HEARTBEAT, fenced, raw_server, request_frame, story, until

APIS = {"BrokerHeartbeat": (0, 1)}
ASK = request_frame(HEARTBEAT, 1, 7)
DROPS = [b"", ASK[:3], ASK[:-1], ASK, ASK * 3, b"\x7f\xff\xff\xff", b"garbage", b"\0\1\0\0" + bytes(3000)]
RESET = struct.pack("ii", 1, 0)  # Closing sends RST: no port is left waiting, and the other end gets an error.


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


async def drop(port: int, sent: bytes) -> None:
    """Opens, says that, and is gone."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await loop.sock_connect(client, ("127.0.0.1", port))
        if sent:
            client.send(sent)
        await asyncio.sleep(0)


async def ask(server: Server) -> None:
    async with await connect("127.0.0.1", server.port, metrics=server.metrics) as connection:
        await connection.send(HEARTBEAT)


async def many(one: Callable[[int], Coroutine[Any, Any, None]], count: int, at_once: int = 100) -> None:
    for begin in range(0, count, at_once):
        await asyncio.gather(*(one(i) for i in range(begin, begin + at_once)))


async def left_over(rounds: Callable[[], Coroutine[Any, Any, None]]) -> tuple[int, int, int]:
    """Sockets, tasks and blocks of memory that are there after the last rounds and were not before them."""

    def here() -> tuple[int, int, int]:
        gc.collect()
        return open_files(), len(asyncio.all_tasks()), sys.getallocatedblocks()

    await rounds()
    before = here()
    await rounds()
    after = here()
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


@story
async def test_a_server_forgets_its_clients(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # caplog keeps every record, which would look like a leak.
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:

        async def rounds() -> None:
            await many(lambda i: drop(server.port, DROPS[i % len(DROPS)]), 1_800)
            await many(lambda i: ask(server), 200)
            await until(lambda: not server.connections.served and not server.connections.tasks)
            server.metrics.errors.clear()

        files, tasks, blocks = await left_over(rounds)
        assert (files, tasks) == (0, 0)
        assert blocks < 200  # A tenth of a block for each of 2,000.
        assert server.metrics.connections_opened == server.metrics.connections_closed == 4_400


@story
async def test_a_client_forgets_its_connections() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)

    async with raw_server(talk) as port:
        limits, metrics = Limits(connect_s=60), Metrics()

        async def one(i: int) -> None:
            connection = await connect("127.0.0.1", port, limits=limits, metrics=metrics, ask_versions=False)
            try:
                if i % 3 == 0:
                    connection.send(HEARTBEAT, 1).cancel()
                elif i % 3 == 1:
                    await connection.send(HEARTBEAT, 1)
            except NetworkError:
                pass
            if i % 2:
                connection.abort()
                await connection.wait_gone()
            else:
                await connection.close()

        files, tasks, blocks = await left_over(lambda: many(one, 500, at_once=50))
        assert (files, tasks) == (0, 0)
        assert blocks < 500
        assert metrics.connections_opened == metrics.connections_closed == 1000
