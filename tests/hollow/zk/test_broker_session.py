"""A ZooKeeper session that expires: its requests, and how the client notices that the server has ended it."""

import asyncio
import struct

import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.zk import broker_session
from kcore.measure.hollow.zk.broker_session import BrokerSession

CREATED = 0x1234


class Zookeeper:
    """Gives a session, answers one multi of a create and a setData, and counts pings."""

    def __init__(self, granted_ms: int = 18_000, error: int = 0) -> None:
        self.granted_ms, self.error, self.pings, self.has_lost = granted_ms, error, 0, asyncio.Event()
        self.writer: asyncio.StreamWriter | None = None
        self.request = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self.answer(await reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            self.has_lost.set()
        finally:
            writer.close()

    def answer(self, request: bytes) -> None:
        assert self.writer is not None
        if len(request) == 45:
            self.request = request
            body = struct.pack(">iiqi16s?", 0, self.granted_ms, 7, 16, bytes(16), False)
        elif struct.unpack_from(">ii", request) == (-2, 11):
            self.pings += 1
            body = struct.pack(">iqi", -2, 1, 0)
        else:
            stat = struct.pack(">qqqqiiiqiiq", CREATED, CREATED, 0, 0, 1, 0, 0, 7, 0, 0, CREATED)
            done = struct.pack(">i?i", 1, False, 0) + struct.pack(">i2s", 2, b"/b") + struct.pack(">i?i", 5, False, 0)
            failed = struct.pack(">i?ii", -1, False, self.error, self.error) * 2
            body = struct.pack(">iqi", 1, 2, 0) + (failed if self.error else done + stat)
            body += struct.pack(">i?i", -1, True, -1)
        self.writer.write(struct.pack(">i", len(body)) + body)


async def opened(zookeeper: Zookeeper) -> tuple[BrokerSession, asyncio.Server]:
    server = await asyncio.start_server(zookeeper.serve, "127.0.0.1", 0)
    session = BrokerSession(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await session.open()
    return session, server


def test_it_opens_makes_a_znode_pings_and_dies_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_session, "PING_S", 0.01)

    async def run() -> None:
        zookeeper = Zookeeper()
        session, server = await opened(zookeeper)
        assert struct.unpack_from(">iqi", zookeeper.request) == (0, 0, 18_000)
        assert await session.create("/b", b"data") == CREATED
        async with asyncio.timeout(20):
            while zookeeper.pings < 3:
                await asyncio.sleep(0.01)
        assert not session.has_ended
        session.cut()
        async with asyncio.timeout(20):
            await zookeeper.has_lost.wait()
        server.close()

    asyncio.run(run())


def test_a_znode_that_is_there_is_an_error_with_its_path() -> None:
    async def run() -> None:
        session, server = await opened(Zookeeper(error=-110))
        with pytest.raises(TargetError, match=r"/b: ZooKeeper answers NODEEXISTS \(-110\)"):
            await session.create("/b", b"")
        session.cut()
        server.close()

    asyncio.run(run())


def test_another_time_out_than_kafkas_is_refused() -> None:
    async def run() -> None:
        with pytest.raises(TargetError, match="does not grant a session of 18 s"):
            await opened(Zookeeper(granted_ms=4_000))

    asyncio.run(run())


def test_a_session_that_the_server_ends_says_so() -> None:
    async def run() -> None:
        zookeeper = Zookeeper()
        session, server = await opened(zookeeper)
        assert zookeeper.writer is not None
        zookeeper.writer.close()
        async with asyncio.timeout(20):
            while not session.has_ended:
                await asyncio.sleep(0.01)
        session.cut()
        server.close()

    asyncio.run(run())
