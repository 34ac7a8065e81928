"""Connections that have said nothing yet: no transport and no task, and an end that costs as little."""

import asyncio
import socket
import ssl
import struct
from typing import Any

import pytest

from kcore.net.connect import connect
from kcore.net.idle_connections import IdleConnections
from kcore.net.limits.connection_limits import Limits
from kcore.net.server import serve
from kcore.net.silent_connections import SilentConnections
from net.loops import HEARTBEAT, fenced, sockets, story, until

APIS = {"BrokerHeartbeat": (0, 1)}
RESETS = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a RST.


class Silent:
    """An accepted connection."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted


@story
async def test_who_says_nothing_has_no_protocol() -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        with sockets(server, 20) as opened:
            await until(lambda: len(server.connections.admission) == 20)
            assert not server.connections.served and not server.connections.tasks
            async with await connect("127.0.0.1", server.port) as polite:
                assert (await polite.send(HEARTBEAT)).is_fenced
                assert len(server.connections.served) == 1
            for number, each in enumerate(opened):  # Some politely, some with a RST.
                if number % 2:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
                each.close()
            await until(lambda: not len(server.connections.admission))
            metrics = server.metrics
            assert (metrics.connections_opened, metrics.connections_closed) == (21, 21)
            assert not metrics.errors


@pytest.mark.parametrize("where", [1, 4, 10])
@story
async def test_the_first_byte_makes_it_a_connection(where: int) -> None:
    """Nothing of what was sent is lost, and it is counted once."""
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        with sockets(server, 1) as [mine]:
            await until(lambda: len(server.connections.admission) == 1)
            whole = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff"  # ApiVersions 0, correlation id 7, no client id
            mine.sendall(whole[:where])
            await until(lambda: server.connections.served)
            mine.sendall(whole[where:])
            await until(lambda: server.metrics.responses == 1)
            assert mine.recv(8)[4:] == b"\0\0\0\x07"
            assert server.metrics.connections_opened == 1 and len(server.connections.admission) == 1
    assert server.metrics.connections_closed == 1


@pytest.mark.parametrize("is_tls", [False, True])
@story
async def test_nobody_is_silent_for_ever(is_tls: bool) -> None:
    """Silent clients are closed: before a TLS handshake after `connect_s`, without TLS after `idle_s`."""
    limits = Limits(connect_s=0.2) if is_tls else Limits(idle_s=0.2)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if is_tls else None
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=tls, limits=limits) as server:
        with sockets(server, 3) as opened:
            await until(lambda: server.metrics.errors["idle"] == 3)
            assert not len(server.connections.admission) and [each.recv(1) for each in opened] == [b""] * 3


@story
async def test_a_server_that_closes_ends_them() -> None:
    server = await serve("127.0.0.1", 0, fenced, APIS)
    with sockets(server, 3) as opened:
        await until(lambda: len(server.connections.admission) == 3)
        await server.close()
        assert not len(server.connections.admission) and [each.recv(1) for each in opened] == [b""] * 3


@story
async def test_a_connection_that_has_spoken_is_not_watched_any_more() -> None:
    """One that waits for its TLS handshake would wake the loop again and again."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    spoken: list[Any] = []
    silent: SilentConnections[Any] = SilentConnections(3_600.0, spoken.append, lambda connection, why: None)
    silent.join(Silent(ours))
    theirs.send(b"x")
    await until(lambda: spoken)
    assert not asyncio.get_running_loop().remove_reader(ours.fileno()) and not len(silent)
    silent.close()
    ours.close()
    theirs.close()


@story
async def test_the_connection_that_has_waited_longest_is_first() -> None:
    idle: IdleConnections[str] = IdleConnections(3_600.0, lambda connection: None)
    for connection in ("a", "b", "a", "c"):
        idle.wait(connection)
    assert [*idle] == ["b", "a", "c"]
    idle.close()
