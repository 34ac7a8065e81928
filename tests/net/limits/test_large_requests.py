"""Requests and answers of many values: other clients do not wait while they are read or freed."""

import asyncio
from typing import Any

import pytest

from kcore import schema as s
from kcore.net import served_requests as served
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.large_requests import FEW, LONG, let_go, long_lists
from kcore.net.limits.work_in_parts import next_turn
from kcore.net.requests import FEW_VALUES
from kcore.net.server import RequestContext, ServerParts, serve
from kcore.schema.cluster_metadata import MetadataRequestTopic, MetadataResponsePartition, MetadataResponseTopic
from kcore.schema.configs import DescribeConfigsResponse, DescribeConfigsResult
from kcore.schema.structure import Struct
from kcore.server.answers import fitting
from net.loops import request_frame, story

APIS = {"Metadata": (0, 12)}


def topics(count: int) -> s.MetadataRequest:
    return s.MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(count)])


async def echo(context: RequestContext, request: Any) -> Any:
    return s.MetadataResponse(topics=[MetadataResponseTopic(name=each.name) for each in request.topics])


@pytest.mark.parametrize("count", [FEW_VALUES, FEW_VALUES + 1, 3 * FEW_VALUES])
@story
async def test_a_request_of_many_values_is_answered(count: int) -> None:
    async with await serve("127.0.0.1", 0, echo, APIS) as server, await connect("127.0.0.1", server.port) as client:
        for _ in range(2):
            assert len((await client.send(topics(count), 9)).topics) == count


@pytest.mark.parametrize(("most", "is_taken"), [(2 * FEW_VALUES, True), (2 * FEW_VALUES - 1, False), (1, False)])
@story
async def test_the_limit_is_for_them_too(most: int, is_taken: bool) -> None:
    async with await serve("127.0.0.1", 0, echo, APIS, limits=Limits(request_values=most)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_frame(topics(2 * FEW_VALUES), 9, 7))
        assert bool(await reader.read(4)) == is_taken
        writer.transport.abort()
        assert server.metrics.errors == ({} if is_taken else {"DecodeError": 1})


@pytest.mark.parametrize(("is_node", "most"), [(True, 4 * FEW_VALUES), (False, 3 * FEW_VALUES)])
@story
async def test_who_is_no_node_of_the_cluster_may_send_fewer(is_node: bool, most: int) -> None:
    limits = Limits(request_values=4 * FEW_VALUES, client_values=3 * FEW_VALUES)
    parts = ServerParts(is_node=lambda session: is_node)
    async with await serve("127.0.0.1", 0, echo, APIS, limits=limits, parts=parts) as server:
        for count in (most, most + 1):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request_frame(topics(count), 9, 7))
            assert bool(await reader.read(4)) == (count == most)
            writer.transport.abort()


@pytest.mark.parametrize(("count", "is_taken"), [(100, True), (101, False)])
@story
async def test_a_limit_of_few_values_holds_too(count: int, is_taken: bool) -> None:
    limits, parts = Limits(client_values=100), ServerParts(is_node=lambda session: False)
    async with await serve("127.0.0.1", 0, echo, APIS, limits=limits, parts=parts) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_frame(topics(count), 9, 7))
        assert bool(await reader.read(4)) == is_taken
        writer.transport.abort()


@story
async def test_one_of_them_is_read_at_a_time() -> None:
    """Others are answered meanwhile."""
    async with (
        await serve("127.0.0.1", 0, echo, APIS) as server,
        await connect("127.0.0.1", server.port) as one,
        await connect("127.0.0.1", server.port) as other,
    ):
        async with server.apis.reading:
            large = one.send(topics(2 * FEW_VALUES), 9)
            for _ in range(300):  # It would be read by then.
                assert len((await other.send(topics(1), 9)).topics) == 1
            assert not large.done()
        assert len((await large).topics) == 2 * FEW_VALUES


async def worked(name: str, parts: int, done: list[str]) -> None:
    for _ in range(parts):
        await next_turn()
        done.append(name)


@story
async def test_a_turn_has_one_part_of_one_of_them() -> None:
    """Each in its turn; others have a turn after each part."""
    done: list[str] = []
    tasks = [asyncio.create_task(worked(name, 3, done)) for name in "abc"]
    most = 0
    while not all(each.done() for each in tasks):
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert (done, most) == ([*"abc"] * 3, 1)


@story
async def test_one_that_waits_no_more_costs_no_turn() -> None:
    done: list[str] = []
    tasks = [asyncio.create_task(worked(name, 1, done)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[2].cancel()
    for _ in range(5):  # A turn to be cancelled, one to be woken and one to go on for each of the two.
        await asyncio.sleep(0)
    assert done == ["b", "d"]


def test_messages_of_an_answer_are_checked_in_short_steps() -> None:
    answer = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[])] * 10_000)
    assert len([*fitting(answer)]) >= 10


def partitions(count: int) -> list[MetadataResponsePartition]:
    return [MetadataResponsePartition(partition_index=each) for each in range(count)]


@pytest.mark.parametrize(
    ("made", "lengths"),
    [
        (s.MetadataResponse(topics=[MetadataResponseTopic(name="t")] * (LONG + 1)), [LONG + 1]),
        (s.MetadataResponse(topics=[MetadataResponseTopic(name="t")] * LONG), []),
        (
            s.MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions(LONG + 1))] * FEW),
            [LONG + 1] * FEW,
        ),
        (s.MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions(LONG + 1))] * (FEW + 1)), []),
        (s.MetadataRequest(topics=None), []),
    ],
)
def test_long_lists_are_found(made: Any, lengths: list[int]) -> None:
    """Those of one topic, too; where there are many topics, none of which is large, nobody looks into each."""
    assert [*map(len, long_lists(made))] == lengths


@story
async def test_they_are_let_go_of_in_parts() -> None:
    values: list[Struct] = [*partitions(3 * LONG + 1)]
    left = []

    async def others() -> None:
        while values:
            left.append(len(values))
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await asyncio.sleep(0)
    await let_go([values])
    await beside
    assert {3 * LONG + 1, 2 * LONG + 1, LONG + 1, 1} <= {*left} and not values


@story
async def test_of_a_large_request_and_its_answer_both_are_let_go_of_before_the_answer_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client may be slow to take it."""
    gone: list[list[int]] = []
    sent: list[int] = []

    async def answered(lists: list[list[Struct]]) -> None:
        gone.append([*map(len, lists)])
        await let_go(lists)
        sent.append(server.metrics.bytes_out)

    monkeypatch.setattr(served, "let_go", answered)
    async with await serve("127.0.0.1", 0, echo, APIS) as server, await connect("127.0.0.1", server.port) as client:
        assert len((await client.send(topics(3 * FEW_VALUES), 9)).topics) == 3 * FEW_VALUES
        assert sent[0] < 3 * FEW_VALUES < server.metrics.bytes_out
        assert len((await client.send(topics(1), 9)).topics) == 1
    assert gone == [[3 * FEW_VALUES] * 2]
