"""Clients that send more than their share: others are answered meanwhile, and wait for no more than one turn."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import DisconnectedError
from kcore.net.connect import connect
from kcore.net.limits import work_in_parts as one_by_one
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.large_requests import LargeRequests
from kcore.net.requests import FEW_VALUES
from kcore.net.server import RequestContext, ServerParts, serve
from kcore.schema.cluster_metadata import MetadataRequestTopic
from net.loops import request_frame, story, until, with_turns_of_others

APIS = {"Metadata": (0, 12)}


async def empty(context: RequestContext, request: Any) -> Any:
    return s.MetadataResponse(topics=[])


@story
async def test_requests_before_answers_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are in the socket, and however many clients do so: one share of them in a turn of the loop."""
    monkeypatch.setattr(one_by_one, "SHARE_S", 0.0)
    answered = most = 0

    async def counted(context: RequestContext, request: Any) -> Any:
        nonlocal answered
        answered += 1
        return await empty(context, request)

    async with await serve("127.0.0.1", 0, counted, APIS) as server:
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        for _, writer in clients:
            writer.write(request_frame(s.MetadataRequest(topics=[]), 9, 7) * 300)
        while answered < 900:
            before = answered
            await asyncio.sleep(0)
            most = max(most, answered - before)
        for _, writer in clients:
            writer.transport.abort()
    assert most <= 4, "one that wakes each of the three, and one that goes on"


@story
async def test_a_clients_first_request_does_not_wait_for_clients_that_pipeline() -> None:
    """Over TLS it often arrives with the end of the handshake, and has ten seconds."""
    assert await with_turns_of_others(one_by_one.Share().go_on()) == (None, 0)


@story
async def test_a_client_that_has_waited_has_a_whole_share_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_by_one, "SHARE_S", 0.0)
    share = one_by_one.Share()
    share.begin()
    monkeypatch.setattr(one_by_one, "SHARE_S", 3_600.0)
    _, turns = await with_turns_of_others(share.go_on())
    assert turns, "it has used its share up"
    for _ in range(3):
        assert await with_turns_of_others(share.go_on()) == (None, 0)


@story
async def test_large_requests_of_an_address_wait_behind_those_of_others() -> None:
    large, gone = LargeRequests(at_once=1), asyncio.get_running_loop().create_future()
    order: list[str] = []

    async def one(address: str) -> None:
        await large.enter(address, gone)
        order.append(address)

    await one("holder")
    tasks = [asyncio.create_task(one(address)) for address in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    for _ in range(6):
        large.leave()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["holder", "a", "b", "c", "a", "a"]


@story
async def test_one_that_disconnects_takes_no_place() -> None:
    loop = asyncio.get_running_loop()
    large, here, gone = LargeRequests(at_once=1), loop.create_future(), loop.create_future()
    await large.enter("a", here)
    waiting = [asyncio.create_task(large.enter("a", each)) for each in (gone, here, here)]
    await asyncio.sleep(0)
    gone.set_result(None)
    waiting[1].cancel()
    await asyncio.sleep(0)
    large.leave()
    await waiting[2]
    with pytest.raises(DisconnectedError):
        await waiting[0]
    large.leave()
    await large.enter("b", here)


@story
async def test_a_request_that_is_cancelled_when_it_gets_its_place_gives_it_back() -> None:
    large, here = LargeRequests(at_once=1), asyncio.get_running_loop().create_future()
    await large.enter("a", here)
    waiting = asyncio.create_task(large.enter("a", here))
    await asyncio.sleep(0)
    large.leave()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(10):
        await large.enter("b", here)


@story
async def test_large_requests_of_strangers_are_few_at_once_until_they_are_answered() -> None:
    """Those that wait give way when they hold too much; nodes of the cluster do not wait for strangers' answers."""
    running, most, may_answer = 0, 0, asyncio.Event()

    async def slow(context: RequestContext, request: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await may_answer.wait()
        running -= 1
        return await empty(context, request)

    topics = [MetadataRequestTopic(name="") for _ in range(FEW_VALUES + 1)]
    is_node = False
    parts = ServerParts(is_node=lambda session: is_node)
    async with await serve("127.0.0.1", 0, slow, APIS, limits=Limits(close_s=0.1), parts=parts) as server:
        server.apis.large_requests = LargeRequests(at_once=2)
        frame = request_frame(s.MetadataRequest(topics=topics), 9, 7)
        clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
        for _, writer in clients:
            writer.write(frame)
        await until(lambda: running == 2 and sum(each.may_end for each in server.connections.served) == 4)
        is_node = True
        async with await connect("127.0.0.1", server.port) as node:
            asked = node.send(s.MetadataRequest(topics=topics), 9)
            await until(lambda: running == 3)
            may_answer.set()
            await asked
        for reader, writer in clients:
            assert await reader.readexactly(4)
            writer.transport.abort()
        with suppress(OSError):
            await asyncio.sleep(0)
    assert most == 3


@story
async def test_a_connection_keeps_nothing_of_its_earlier_large_requests() -> None:
    large, gone = LargeRequests(at_once=1), asyncio.get_running_loop().create_future()
    await large.enter("a", gone)
    for _ in range(3):
        waiting = asyncio.create_task(large.enter("a", gone))
        await asyncio.sleep(0)
        large.leave()
        await waiting
    assert not gone._callbacks  # type: ignore[attr-defined]
