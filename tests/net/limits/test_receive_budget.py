"""The bytes read in one turn of the event loop: one client as much as it sends, many as much together."""

import asyncio

from kcore.net.limits.held_bytes import A_TURN, LEAST, SMALL, ReceiveBudget
from kcore.net.server import Server, serve
from net.loops import fenced, story, until

APIS = {"BrokerHeartbeat": (0, 1)}


@story
async def test_one_has_all_of_its_room_and_many_share() -> None:
    shared, room = ReceiveBudget(), memoryview(bytearray(A_TURN // 4))
    for _ in range(3):
        given = [len(shared.share(room)) for _ in range(10)]
        assert given == [A_TURN // 4] * 4 + [LEAST] * 6
        assert [len(shared.share(memoryview(bytearray(size)))) for size in (1, LEAST, SMALL)] == [1, LEAST, SMALL]
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@story
async def test_small_rooms_are_not_counted() -> None:
    shared = ReceiveBudget()
    assert all(len(shared.share(memoryview(bytearray(SMALL)))) == SMALL for _ in range(10 * A_TURN // SMALL))
    assert len(shared.share(memoryview(bytearray(2 * SMALL)))) == 2 * SMALL


@story
async def test_fifty_large_frames_do_not_keep_a_small_one_waiting() -> None:
    """In a turn of the loop the server receives little more than A_TURN, whatever has come."""
    most = 0

    async def watch(server: Server) -> None:
        nonlocal most
        before = server.metrics.bytes_in
        while True:
            await asyncio.sleep(0)
            before, come = server.metrics.bytes_in, server.metrics.bytes_in - before
            most = max(most, come)

    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        pairs = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
        watching = asyncio.create_task(watch(server))
        for _, writer in pairs:
            writer.write((1 << 22).to_bytes(4) + bytes(1 << 20))
        await until(lambda: server.metrics.bytes_in >= 50 << 20)
        watching.cancel()
        assert 1 << 17 < most <= 2 * A_TURN + 50 * 2 * (LEAST + SMALL)
        for _, writer in pairs:
            writer.close()
