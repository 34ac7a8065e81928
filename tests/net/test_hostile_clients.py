"""Clients that exhaust descriptors, memory or the log do not prevent service to other clients."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.cli.servers.server_process import use_all_descriptors
from kcore.errors import NetworkError
from kcore.net import server_connections
from kcore.net.connect import connect
from kcore.net.limits.admission import Admission, Rank, may_be_connections
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.held_bytes import HeldBytes
from kcore.net.server import RequestContext, serve
from net.loops import HEARTBEAT, fenced, framed, read_frame, request_frame, settled, sockets, story, until

APIS = {"BrokerHeartbeat": (0, 1)}
ASK = request_frame(HEARTBEAT, 1, 7)
MIB = 1 << 20


# Connections.


@story
async def test_for_one_connection_too_many_an_idle_one_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS, limits=Limits(connections=3)) as server:
        async with await connect("127.0.0.1", server.port) as polite:
            for _ in range(10):
                with sockets(server, 5):
                    await settled(lambda: server.metrics.connections_opened)
                    assert len(server.connections.admission) == 3
                    assert (await polite.send(HEARTBEAT)).is_fenced
                    async with await connect("127.0.0.1", server.port) as other:
                        assert (await other.send(HEARTBEAT)).is_fenced
        assert server.metrics.errors.keys() == {"evicted"}
        assert server.metrics.errors["evicted"] > 20
        assert "closed for one more connection beside 2" in caplog.records[0].getMessage()
        assert len(caplog.records) < 40


@story
async def test_no_connection_is_closed_while_its_request_runs() -> None:
    release = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        await release.wait()
        return await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS, limits=Limits(connections=2)) as server:
        busy = [await connect("127.0.0.1", server.port) for _ in range(2)]
        calls = [connection.send(HEARTBEAT) for connection in busy]
        await until(lambda: server.metrics.requests == 4)
        with pytest.raises(NetworkError):
            await connect("127.0.0.1", server.port)
        assert server.metrics.errors == {"no room": 1}
        release.set()
        for call, connection in zip(calls, busy, strict=True):
            assert (await call).is_fenced
            await connection.close()


class KeptConnection:
    """A connection, as far as admission knows it."""

    def __init__(self, address: str, rank: Rank = Rank.ANSWERED) -> None:
        self.address, self.rank = address, rank


def test_a_new_connection_closes_silent_ones_then_those_of_the_address_with_most() -> None:
    admission: Admission[KeptConnection] = Admission(5)
    assert admission.victim() is None
    modest, greedy = KeptConnection("10.0.0.1"), [KeptConnection("10.0.0.2") for _ in range(3)]
    for each in (modest, *greedy):
        admission.join(each)
    assert admission.has_room()
    known, silent = KeptConnection("10.0.0.2", Rank.AUTHENTICATED), KeptConnection("10.0.0.3", Rank.SILENT)
    admission.join(known)
    admission.join(silent)
    assert not admission.has_room()
    order = []
    while (victim := admission.victim()) is not None:
        order.append(victim)
        admission.leave(victim)
    # Silent clients first, then the address with the most connections, longest idle first; known clients last.
    assert order == [silent, *greedy, modest, known]
    assert len(admission) == 0
    admission.leave(known)  # Once more does no harm.


def test_a_connection_whose_request_runs_is_kept_and_waits_anew_afterwards() -> None:
    admission: Admission[KeptConnection] = Admission(5)
    first, second = KeptConnection("10.0.0.1"), KeptConnection("10.0.0.1")
    admission.join(first)
    admission.join(second)
    admission.run(first)
    assert admission.victim() is second
    admission.wait(first)
    assert admission.victim() is second  # It waits longer by now.
    admission.run(second)
    admission.run(first)
    assert admission.victim("10.0.0.1") is None
    assert admission.victim("10.0.0.2") is second  # It runs longer; another address has none yet.
    other = KeptConnection("10.0.0.2")
    admission.join(other)
    admission.run(other)
    assert admission.victim("10.0.0.2") is None
    admission.leave(first)
    admission.wait(first)  # Gone: it is nobody's victim.
    assert admission.victim() is None


def test_a_connection_that_ends_counts_until_it_is_over_and_gives_way_to_nobody() -> None:
    admission: Admission[KeptConnection] = Admission(2)
    first, second = KeptConnection("10.0.0.1"), KeptConnection("10.0.0.2")
    admission.join(first)
    admission.join(second)
    admission.end(first)
    assert not admission.has_room() and admission.of_address("10.0.0.1") == 1
    admission.run(first)
    assert admission.victim() is second
    admission.end(second)
    assert admission.victim() is None
    admission.leave(first)
    assert admission.has_room() and admission.of_address("10.0.0.1") == 0


@story
async def test_a_request_whose_client_has_gone_counts_until_it_is_over() -> None:
    release = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        await release.wait()
        return await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        connection = await connect("127.0.0.1", server.port)
        asked = asyncio.ensure_future(connection.send(HEARTBEAT))
        await until(lambda: server.metrics.requests == 2)
        await connection.close()
        await until(lambda: not server.connections.served)
        assert len(server.connections.admission) == 1 and server.connections.admission.victim() is None
        release.set()
        await until(lambda: not len(server.connections.admission))
        with pytest.raises(NetworkError):
            await asked


def test_a_quarter_of_the_descriptors_is_kept_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1_024
    monkeypatch.setattr("resource.getrlimit", lambda kind: (limit, 4_096))
    assert may_be_connections(767) and not may_be_connections(768)
    limit = -1
    assert may_be_connections(10**6)


@asynccontextmanager
async def starved(descriptors: int) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """A server in a process with so many descriptors; its port."""
    path = Path(__file__).with_name("starved.py")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(path), str(descriptors), stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield port, process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@story
async def test_idle_connections_leave_descriptors_for_files_and_log_lines_for_others() -> None:
    """With 256 descriptors in all, a client is served, a file can be opened, and the log stays short."""
    use_all_descriptors()  # For this end of the connections.
    async with starved(256) as (port, process):
        idle = []
        for _ in range(1_100):
            idle.append(await asyncio.open_connection("127.0.0.1", port))
        for _ in range(20):
            async with await connect("127.0.0.1", port) as connection:
                assert (await connection.send(HEARTBEAT)).is_fenced
        for _, writer in idle:
            writer.transport.abort()
        out, err = await process.communicate(b"")
        assert process.returncode == 0
        assert b"'evicted'" in out
        lines = err.decode().splitlines()
        assert 0 < len(lines) < 100
        assert all("closed for one more connection beside" in line for line in lines)


@story
async def test_accept_errors_back_off_and_their_log_lines_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kcore.net.listener.AGAIN_S", 0.01)
    failures, tries = 30, []

    def accept(listening: socket.socket) -> Any:
        tries.append(1)
        if len(tries) <= failures:
            raise OSError(24, "Too many open files")
        return real_accept(listening)

    real_accept = socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", accept)
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        async with await connect("127.0.0.1", server.port) as connection:
            assert (await connection.send(HEARTBEAT)).is_fenced
        messages = [each.getMessage() for each in caplog.records]
        assert len(messages) == 10  # The burst of a kind.
        assert messages[0] == "no connection can be accepted: [Errno 24] Too many open files; again in 0.01 s"


# Bytes.


def announced(size: int, sent: int) -> bytes:
    """The beginning of a frame."""
    return size.to_bytes(4, "big") + ASK[4:] + bytes(sent)


@story
async def test_half_frames_are_bounded_over_all_connections() -> None:
    limits = Limits(received_bytes=16 * MIB)
    async with (
        await serve("127.0.0.1", 0, fenced, APIS, limits=limits) as server,
        await connect("127.0.0.1", server.port) as polite,
    ):
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
        for _, writer in clients:
            writer.write(announced(100 * MIB, 0))
        most = 0
        for _ in range(20):
            for _, writer in clients:
                if not writer.transport.is_closing():
                    writer.write(bytes(MIB))
            await settled(lambda: server.metrics.bytes_in)
            most = max(most, server.connections.received.total)
        assert 8 * MIB < most <= 16 * MIB
        assert server.metrics.errors["received bytes"] > 0
        assert (await polite.send(HEARTBEAT)).is_fenced
        for _, writer in clients:
            writer.transport.abort()
        await until(lambda: len(server.connections.served) == 1)
        assert server.connections.received.total == 0


@story
async def test_the_bytes_of_a_half_frame_count_until_its_client_is_gone() -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(announced(2 * MIB, MIB))
        await until(lambda: server.connections.received.total > MIB)
        writer.transport.abort()
        await until(lambda: not server.connections.served and not server.connections.tasks)
        assert server.connections.received.total == 0


@story
async def test_large_frames_of_several_clients_take_bounded_memory() -> None:
    async with starved(256) as (port, process):
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]

        async def send(writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(announced(100 * MIB, 0))
                for _ in range(99):
                    writer.write(bytes(MIB))
                    await writer.drain()
            except ConnectionError:
                pass  # Its half frame was one too many.

        await asyncio.gather(*(send(writer) for _, writer in clients))
        async with await connect("127.0.0.1", port) as connection:
            assert (await connection.send(HEARTBEAT)).is_fenced
        for _, writer in clients:
            writer.transport.abort()
        out, _ = await process.communicate(b"")
        rss_kib = int(out.split()[0])
        assert rss_kib < 500 * 1024


@story
async def test_answers_that_nobody_takes_are_bounded_over_all_connections() -> None:
    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse(unknown_tagged_fields=((99, bytes(8 * MIB)),))

    limits = Limits(unsent_bytes=20 * MIB)
    async with await serve("127.0.0.1", 0, handler, APIS, limits=limits) as server:
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(10)]
        for reader, writer in clients:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(ASK)
        await until(lambda: server.metrics.requests == 10)
        await settled(lambda: server.connections.unsent.total)
        assert 0 < server.connections.unsent.total <= 20 * MIB
        assert server.metrics.errors["unsent bytes"] >= 6
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(ASK)
        assert len(await read_frame(reader)) > 8 * MIB
        for _, each in (*clients, (reader, writer)):
            each.transport.abort()
        await until(lambda: not server.connections.served and not server.connections.tasks)
        assert server.connections.unsent.total == 0


@story
async def test_the_bytes_of_an_answer_count_until_its_client_has_them() -> None:
    sizes = [8 * MIB, 0]

    async def handler(context: RequestContext, message: Any) -> Any:
        return s.BrokerHeartbeatResponse(unknown_tagged_fields=((99, bytes(sizes.pop(0))),))

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(ASK)
        await until(lambda: server.connections.unsent.total)
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        await read_frame(reader)
        writer.write(ASK)
        await read_frame(reader)
        assert server.connections.unsent.total == 0 and len(server.connections.served) == 1
        writer.transport.abort()


@story
async def test_the_bytes_of_a_request_count_until_it_is_answered() -> None:
    release = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Any:
        await release.wait()
        return await fenced(context, message)

    large = s.BrokerHeartbeatRequest(broker_id=1, unknown_tagged_fields=((99, bytes(MIB)),))
    async with (
        await serve("127.0.0.1", 0, handler, APIS) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        call = connection.send(large)
        await until(lambda: server.metrics.requests == 2)
        assert MIB < server.connections.received.total < MIB + 4096
        release.set()
        await call
        await until(lambda: server.connections.received.total == 0)


@story
async def test_a_small_frame_of_many_values_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Two megabytes of topics without a name would be a hundred of objects."""
    apis = {"FindCoordinator": (4, 4)}
    many = s.FindCoordinatorRequest(key_type=0, coordinator_keys=[""] * 11)
    async with await serve("127.0.0.1", 0, fenced, apis, limits=Limits(request_values=10)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_frame(many, 4, 7))
        assert await reader.read() == b""
        writer.transport.abort()
        assert server.metrics.errors == {"DecodeError": 1}
        assert "coordinator_keys: the message has more values than it may" in caplog.records[0].getMessage()


class Holder:
    """A connection, as far as its bytes go."""

    def __init__(self, address: str, *, may_end: bool = True) -> None:
        self.address, self.may_end = address, may_end


def test_too_many_bytes_close_the_largest_connections_of_the_address_that_holds_most() -> None:
    ended: list[tuple[Holder, int]] = []
    held: HeldBytes[Holder] = HeldBytes(1_000, lambda holder, count: ended.append((holder, count)))
    modest, running = Holder("10.0.0.1"), Holder("10.0.0.2", may_end=False)
    small, large = Holder("10.0.0.2"), Holder("10.0.0.2")
    for holder, count in ((running, 300), (modest, 250), (small, 150), (large, 299)):
        held.hold(holder, count)
    assert (held.total, ended) == (999, [])
    held.hold(small, 152)
    assert (held.total, ended) == (702, [(large, 299)])
    held.hold(running, 5_000)  # It cannot be closed: all others are, the address that holds most first.
    assert (held.total, ended[1:]) == (5_000, [(modest, 250), (small, 152)])
    held.hold(large, 0)
    held.hold(running, 10)
    held.hold(running, 0)
    assert held.total == 0


def test_a_connection_that_frees_bytes_closes_no_other() -> None:
    """Also while all hold too many, because their requests were running."""
    ended: list[Holder] = []
    held: HeldBytes[Holder] = HeldBytes(1_000, lambda holder, count: ended.append(holder))
    one, other = Holder("10.0.0.1", may_end=False), Holder("10.0.0.2", may_end=False)
    held.hold(one, 800)
    held.hold(other, 800)
    other.may_end = True
    held.hold(one, 700)
    assert (held.total, ended) == (1_500, [])
    held.hold(one, 701)
    assert (held.total, ended) == (701, [other])


# The log.


@story
async def test_garbage_costs_a_line_at_a_bounded_rate(caplog: pytest.LogCaptureFixture) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(framed(b"\0\3\0\0garbage"))
            assert await reader.read() == b""
            writer.transport.abort()
        assert server.metrics.errors == {"FrameError": 100}
        assert 10 <= len(caplog.records) < 20
        assert not any(record.exc_info for record in caplog.records)
        assert server_connections.logger.name == caplog.records[0].name


@story
async def test_a_request_that_waits_ends_with_its_client() -> None:
    """A request that may wait for years, sent again and again by clients that leave, would fill the memory."""
    waiting: set[object] = set()

    async def for_ever() -> None:
        waiting.add(me := object())
        try:
            await asyncio.Event().wait()
        finally:
            waiting.discard(me)

    async def handler(context: RequestContext, message: Any) -> Any:
        return await context.while_here(for_ever()) or await fenced(context, message)

    async with await serve("127.0.0.1", 0, handler, APIS) as server:
        writers = [(await asyncio.open_connection("127.0.0.1", server.port))[1] for _ in range(20)]
        for writer in writers:
            writer.write(ASK)
        await until(lambda: len(waiting) == 20)
        for writer in writers:
            writer.transport.abort()
        await until(lambda: not waiting and not server.connections.tasks)
        assert not server.metrics.errors


@story
async def test_what_a_client_waits_for_is_what_it_gets() -> None:
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def handler(context: RequestContext, message: Any) -> Any:
        return await context.while_here(answered)

    async with (
        await serve("127.0.0.1", 0, handler, APIS) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        call = connection.send(HEARTBEAT)
        await until(lambda: server.metrics.requests == 2)
        answered.set_result(s.BrokerHeartbeatResponse(is_fenced=True))
        assert (await call).is_fenced
        assert (await connection.send(HEARTBEAT)).is_fenced  # The answer is there already.
