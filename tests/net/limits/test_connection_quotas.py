"""How many connections a listener takes: of an address, and in a second."""

import asyncio
import socket
from typing import Any

import pytest

from kcore.net import acceptor
from kcore.net.connect import connect
from kcore.net.limits.admission import MOST_ADDRESSES, ConnectionQuotas, RateOf, Refused
from kcore.net.limits.connection_limits import Limits
from kcore.net.listener import plain_address
from kcore.net.server import Server, serve
from net.loops import fenced, story, until

APIS = {"BrokerHeartbeat": (0, 1)}
HERE = "127.0.0.1"


async def served(rate_of: RateOf | None = None, **limits: Any) -> Server:
    return await serve(HERE, 0, fenced, APIS, limits=Limits(close_s=0.1, **limits), rate_of=rate_of)


async def is_closed(server: Server) -> bool:
    """Whether a new connection ends without a word."""
    reader, writer = await asyncio.open_connection(HERE, server.port)
    try:
        async with asyncio.timeout(0.3):
            return await reader.read(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    finally:
        writer.close()


@pytest.mark.parametrize("limits", [{"connections_per_address": 2}, {"connections_of_address": {HERE: 2}}])
@story
async def test_an_address_has_no_more_than_its_most(limits: dict[str, Any]) -> None:
    async with await served(**limits) as server:
        first = await connect(HERE, server.port)
        async with await connect(HERE, server.port):
            assert await is_closed(server)
            assert server.metrics.errors["connections of an address"] == 1
            await first.close()
            await until(lambda: server.connections.admission.of_address(HERE) == 1)
            async with await connect(HERE, server.port) as again:
                assert again.versions is not None


@story
async def test_an_override_is_for_its_address_alone() -> None:
    async with await served(connections_per_address=0, connections_of_address={HERE: 1}) as server:
        first = await connect(HERE, server.port)
        assert await is_closed(server)
        await first.close()
    async with await served(connections_per_address=0, connections_of_address={"127.0.0.2": 1}) as server:
        assert await is_closed(server)


@story
async def test_clients_wait_where_more_come_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener pauses; whoever waits in its backlog comes later, and nobody is refused."""
    async with await served(connections_a_second=1) as server:
        paused: list[float] = []
        pause = server.acceptor.listener.pause

        def briefly(pause_s: float) -> None:
            paused.append(pause_s)
            pause(pause_s / 100)

        monkeypatch.setattr(server.acceptor.listener, "pause", briefly)
        for _ in range(12):
            async with await connect(HERE, server.port):
                pass
        assert len(paused) == 2 == server.metrics.errors["connection rate"]
        assert all(0 < each <= 1 for each in paused)


@story
async def test_an_address_that_comes_too_often_is_closed_late() -> None:
    rates: dict[str, float] = {HERE: 0.1}
    async with await served(lambda address: rates.get(address)) as server:
        async with await connect(HERE, server.port):
            refused = asyncio.create_task(is_closed(server))
            await until(lambda: server.acceptor.closing_late)
            assert server.metrics.errors["connection rate of an address"] == 1
            await refused
            assert len(server.connections.admission) == 1
        rates.clear()
        async with await connect(HERE, server.port):
            pass
        rates[HERE] = 0.1
        _, writer = await asyncio.open_connection(HERE, server.port)
        await until(lambda: server.acceptor.closing_late)
        writer.close()
    assert not server.acceptor.closing_late


def test_what_is_refused_does_not_count() -> None:
    quotas = ConnectionQuotas(Limits(), lambda address: 1.0)
    times = [0.05 * number for number in range(30)]
    assert sum(quotas.refused("a", 0, each) is None for each in times) == 10
    assert quotas.refused("b", 0, 1.5) is None, "another address"
    assert quotas.refused("a", 0, 11.1) is None


def test_addresses_are_forgotten_in_the_end() -> None:
    quotas = ConnectionQuotas(Limits(), lambda address: 5.0)
    for number in range(MOST_ADDRESSES + 10):
        quotas.refused(str(number), 0, 0.0)
    assert len(quotas._of_address) == MOST_ADDRESSES


def test_an_address_of_ipv4_is_one_on_every_socket() -> None:
    assert plain_address("::ffff:10.0.0.1") == plain_address("10.0.0.1") == "10.0.0.1"
    assert plain_address("::1") == "::1" and plain_address("::ffff:0:1") == "::ffff:0:1"


@pytest.mark.parametrize("why", ["too many are late", "descriptors of files"])
@story
async def test_a_refused_connection_is_closed_at_once_if_it_may_not_wait(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    async with await served() as server:
        refused = Refused("connection rate of an address", "it comes too often", after_s=3_600.0)
        server.acceptor._refuse_of(pairs[0][0], HERE, refused)
        if why == "too many are late":
            monkeypatch.setattr(acceptor, "MOST_LATE", 1)
        else:
            monkeypatch.setattr(acceptor, "may_be_connections", lambda descriptor: False)
        server.acceptor._refuse_of(pairs[1][0], HERE, refused)
        assert [ours.fileno() >= 0 for ours, _ in pairs] == [True, False]
    assert pairs[0][0].fileno() < 0, "the server has closed"
    for _, theirs in pairs:
        theirs.close()
