"""TLS handshakes: the limit of concurrent ones, the clients that are dropped, the costs, and leaks."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.security import handshakes
from kcore.net.security.client_security import Security
from kcore.net.security.handshakes import HANDSHAKE_BYTES, HANDSHAKE_MOST, KEPT_PER_BYTE, TLS_BYTES, Handshakes
from kcore.net.security.tls import TlsSettings
from kcore.net.server import Server, serve
from net.authority import Authority, client_tls
from net.loops import HEARTBEAT, fenced, settled, story, until

APIS = {"BrokerHeartbeat": (0, 1)}
HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(100)  # The beginning of a ClientHello of 512 bytes.


class Fake:
    """A connection whose handshake takes as long as the test likes."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.socket = socket.socket()
        self.was_aborted = False

    def abort(self) -> None:
        self.was_aborted = True


class World:
    """Handshakes, those begun in order, and those that waited in vain."""

    def __init__(self, wait_s: float = 100.0) -> None:
        self.begun: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.running: dict[str, Fake] = {}
        self.handshakes: Handshakes[Fake] = Handshakes(self._begin, wait_s, self._end)

    def _begin(self, connection: Fake) -> None:
        self.begun.append(connection.name)
        self.running[connection.name] = connection

    def _end(self, connection: Fake, why: str) -> None:
        assert connection.socket.fileno() < 0
        self.ended.append((connection.name, why))

    def join(self, *names: str) -> list[Fake]:
        """A name's first letter is its address."""
        made = [Fake(each, each[0]) for each in names]
        for each in made:
            self.handshakes.join(each)
        return made

    def leave(self, name: str) -> None:
        connection = self.running.pop(name)
        connection.socket.close()
        self.handshakes.leave(connection)

    def close(self) -> None:
        self.handshakes.close()
        for name in list(self.running):
            self.running.pop(name).socket.close()


def few(test: Callable[..., Any]) -> Callable[..., Any]:
    return pytest.mark.usefixtures("three_at_once")(test)


@pytest.fixture
def three_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "AT_ONCE", 3)


@few
@story
async def test_a_place_is_free_when_the_handshake_holds_nothing() -> None:
    world = World()
    world.join("a1", "b1", "c1", "d1", "e1")
    assert world.begun == ["a1", "b1", "c1"] and (len(world.handshakes), world.handshakes.waiting) == (3, 2)
    world.leave("b1")
    assert world.begun[3:] == ["d1"] and (len(world.handshakes), world.handshakes.waiting) == (3, 1)
    world.close()
    assert world.ended == [("e1", "the server closes")]


@few
@story
async def test_the_address_with_most_handshakes_gives_its_oldest_up_for_an_address_with_fewer() -> None:
    world = World()
    attackers = world.join("a1", "a2", "a3", "a4", "a5")
    assert not any(each.was_aborted for each in attackers), "none for another one of the same address"
    world.join("b1")
    assert [each.was_aborted for each in attackers] == [True, False, False, False, False]
    assert "b1" not in world.begun and len(world.handshakes) == 3, "it is not over yet"
    world.leave("a1")
    assert world.begun[3:] == ["b1"]
    world.join("b2")
    assert not any(each.was_aborted for each in attackers[1:]), "two of one and two of the other would be no fairer"
    world.leave("a2")
    assert world.begun[4:] == ["b2"] or world.begun[4:] == ["a4"]
    world.close()


@few
@story
async def test_within_one_address_the_oldest_gives_way_once_it_has_had_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshakes, "LEAST_S", 0.05)
    world = World()
    made = world.join("a1", "a2", "a3", "a4")
    await until(lambda: made[0].was_aborted)
    await settled(lambda: made[1].was_aborted)
    assert [each.was_aborted for each in made] == [True, False, False, False], "one for each that waits"
    world.leave("a1")
    assert world.begun[3:] == ["a4"]
    world.close()


@few
@story
async def test_nobody_waits_for_a_handshake_for_ever() -> None:
    world = World(wait_s=0.05)
    world.join("a1", "a2", "a3", "a4")
    await until(lambda: world.ended)
    assert world.ended == [("a4", "idle")] and not world.handshakes.waiting
    world.leave("a1")
    assert len(world.begun) == 3
    world.close()


async def half(server: Server, count: int) -> list[socket.socket]:
    """Clients that send the beginning of a ClientHello."""
    made = []
    for number in range(count):
        each = socket.socket()
        each.bind((f"127.0.0.{2 + number % 3}", 0))
        each.setblocking(False)
        await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", server.port))
        each.send(HELLO)
        made.append(each)
    return made


def parts_of_tls() -> int:
    return sum(type(each).__name__ in ("SSLObject", "_Connection", "ServedConnection") for each in gc.get_objects())


@story
async def test_half_handshakes_are_bounded_and_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting ones cost a socket; nothing is left of ended ones, although the collector does not run."""
    monkeypatch.setattr(handshakes, "AT_ONCE", 6)
    authority = Authority(tmp_path / "authority")
    context = TlsSettings(str(authority.keystore("server"))).server_context()
    gc.collect()
    gc.disable()
    try:
        before = parts_of_tls()
        async with await serve("127.0.0.1", 0, fenced, APIS, tls=context) as server:
            assert server.accepted.handshakes is not None
            attackers = await half(server, 40)
            await settled(lambda: len(server.connections.admission))
            assert len(server.accepted.handshakes) == 6 and server.accepted.handshakes.waiting == 34
            assert server.connections.received.total == 6 * HANDSHAKE_BYTES
            async with await connect("127.0.0.1", server.port, security=Security(client_tls(authority.trusted))) as it:
                assert (await it.send(HEARTBEAT)).is_fenced
                assert len(server.accepted.handshakes) <= 6
                await until(lambda: len(server.accepted.handshakes) == 6)
                assert server.connections.received.total == 6 * HANDSHAKE_BYTES
            for each in attackers:
                each.close()
            await until(lambda: not len(server.connections.admission) and not len(server.accepted.handshakes))
            assert server.connections.received.total == 0 and not server.accepted.handshakes.waiting
        assert parts_of_tls() <= before + 3, "at most those of the polite client"
    finally:
        gc.enable()


@story
async def test_one_handshake_begins_in_a_turn_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server signs something for each: 128 at once would hold the loop for a tenth of a second or two."""
    begun = 0

    async def accept(*given: Any) -> None:
        nonlocal begun
        begun += 1
        raise ConnectionResetError

    monkeypatch.setattr("kcore.net.accepted_sockets.accept_tls", accept)
    authority = Authority(tmp_path / "authority")
    context = TlsSettings(str(authority.keystore("server"))).server_context()
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=context) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
        await until(lambda: len(server.connections.admission) == 40)
        for each in clients:
            each.sendall(HELLO)
        most = 0
        while begun < 40:
            before = begun
            await asyncio.sleep(0)
            most = max(most, begun - before)
        for each in clients:
            each.close()
    assert most <= 2, "one that was woken, and one that found nobody before it"


@story
async def test_a_client_that_says_nothing_behind_its_handshake_is_charged_and_has_as_long_as_a_handshake(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "authority")
    context = TlsSettings(str(authority.keystore("server"))).server_context()
    security = client_tls(authority.trusted)
    limits = Limits(connect_s=0.3, idle_s=600)
    async with (
        await serve("127.0.0.1", 0, fenced, APIS, tls=context, limits=limits) as server,
        await connect("127.0.0.1", server.port, security=Security(security)) as polite,
    ):
        await polite.send(HEARTBEAT)
        assert server.connections.received.total == 0
        assert isinstance(security, ssl.SSLContext)
        name = "127.0.0.1"
        reader, writer = await asyncio.open_connection(name, server.port, ssl=security, server_hostname=name)
        await until(lambda: len(server.connections.served) == 2)
        kept = server.connections.received.total - TLS_BYTES
        assert 0 < kept < KEPT_PER_BYTE * 2_000 and kept % KEPT_PER_BYTE == 0, "what OpenSSL keeps of its ClientHello"
        assert await reader.read() == b""
        assert server.metrics.errors == {"idle": 1} and server.connections.received.total == 0
        writer.close()
        assert (await polite.send(HEARTBEAT)).is_fenced


def hello_of(suites: int) -> bytes:
    """A ClientHello with so many cipher suites, which OpenSSL keeps for the whole connection, in records of 16 KiB."""
    body = b"\x03\x03" + bytes(33) + (2 * suites).to_bytes(2) + b"\x13\x01" * suites + b"\x01\x00"
    message = b"\x01" + len(body).to_bytes(3) + body
    records = [message[at : at + 16_384] for at in range(0, len(message), 16_384)]
    return b"".join(b"\x16\x03\x01" + len(each).to_bytes(2) + each for each in records)


@story
async def test_a_handshake_of_more_bytes_than_any_real_one_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a client made a server hold 340 KiB for each of its connections, ten times what it was charged."""
    authority = Authority(tmp_path / "authority")
    context = TlsSettings(str(authority.keystore("server"))).server_context()
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=context, limits=Limits(connect_s=0.3)) as server:
        for cut, errors in ((HANDSHAKE_MOST, {"handshake": 1}), (HANDSHAKE_MOST + 1, {"handshake": 2})):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(hello_of(30_000)[:cut])
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            await until(lambda errors=errors: server.metrics.errors == errors)  # type: ignore[misc]
            assert ("a handshake of more than 32,768 bytes" in caplog.text) == (cut > HANDSHAKE_MOST), caplog.text
        assert server.connections.received.total == 0


@story
async def test_the_room_of_tls_is_shared_by_connections(tmp_path: Path) -> None:
    """Bytes for one connection reach no other one, whatever arrives at the same time."""
    authority = Authority(tmp_path / "authority")
    context = TlsSettings(str(authority.keystore("server"))).server_context()
    security = Security(client_tls(authority.trusted))
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=context) as server:
        opened = [await connect("127.0.0.1", server.port, security=security) for _ in range(5)]
        answers = await asyncio.gather(*(each.send(HEARTBEAT) for each in opened for _ in range(20)))
        assert all(each.is_fenced for each in answers) and not server.metrics.errors
        for each in opened:
            await each.close()
