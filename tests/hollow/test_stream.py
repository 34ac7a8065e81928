"""A fetch's answer as it comes in: no connection keeps its records, and the tape has each batch once and whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from hollow.watched import FETCH_VERSION, Watched, answered, batch, fetched, says, watching
from kcore._ext import hollow as kernel
from kcore.schema.fetch import EpochEndOffset
from net.loops import Talk, raw_server, read_correlation_id, story, until

KEPT_A_LINK = 1 << 10
HEADER_END = 61
MOST_AT_FIRST, LEAST_DROPPED = 1 << 14, 1 << 12  # FIRST_BYTES and LEAST_DROPPED of engine.rs.


def answer(*batches: bytes, high_watermark: int = 1_000_000, correlation_id: int = 1, **fields: object) -> bytes:
    return answered(correlation_id, fetched(b"".join(batches), high_watermark, **fields), FETCH_VERSION)


def in_turn(*talks: Talk) -> Talk:
    """Each connection is spoken to by the next of these; the last one speaks to all others."""
    left = list(talks)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(reader, writer)

    return talk


@asynccontextmanager
async def fetching(talk: Talk) -> AsyncIterator[tuple[Watched, int]]:
    """A loop whose one broker has begun to fetch, and the port of the peer."""
    async with raw_server(talk) as port, watching(port, links=[kernel.FETCHES]) as watched:
        watched.loop.fetch(0, True)
        yield watched, port


def another(watched: Watched, port: int) -> int:
    """One more broker that fetches."""
    row = watched.add()
    watched.loop.connect(row, kernel.FETCHES, f"127.0.0.1:{port}")
    watched.loop.fetch(row, True)
    return row


def seen(watched: Watched) -> list[list[int]]:
    return np.frombuffer(watched.batches, np.int64).reshape(-1, 6)[:, :3].tolist()


@story
async def test_connections_keep_nothing_of_the_records_that_are_coming() -> None:
    brokers, big = 40, batch(0, 20_000)
    release = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_correlation_id(reader)
        whole = answer(big)
        writer.write(whole[:-100])
        await writer.drain()
        await release.wait()
        writer.write(whole[-100:])
        await reader.read()

    async with fetching(talk) as (watched, port):
        rows = [0, *(another(watched, port) for _ in range(brokers - 1))]
        await until(lambda: watched.loop.buffered_bytes() > len(big) / 2)
        await asyncio.sleep(0.2)
        assert watched.loop.buffered_bytes() < brokers * KEPT_A_LINK + 2 * len(big) < brokers * len(big) / 10
        assert watched.bytes == b""
        release.set()
        await until(lambda: all(watched.loop.position(row)[0] == 20_000 for row in rows))
        await until(lambda: watched.bytes)
        assert watched.bytes == big and seen(watched) == [[0, 19_999, 20_000]]
        assert watched.loop.buffered_bytes() < brokers * KEPT_A_LINK + 2 * len(big)


@pytest.mark.parametrize("size", [1, 7, HEADER_END - 1, HEADER_END, HEADER_END + 1, 90])
@pytest.mark.parametrize("cut", [0, 1, HEADER_END, HEADER_END + 1])
@story
async def test_an_answer_may_come_in_any_pieces_and_end_inside_a_batch(size: int, cut: int) -> None:
    whole = [batch(0, 3), batch(3, 1), batch(4, 2, epoch=4)]
    response = answer(*whole, batch(6, 2)[:cut])
    pieces = [response[at : at + size] for at in range(0, len(response), size)]
    async with fetching(says(*pieces)) as (watched, _):
        await until(lambda: seen(watched) == [[0, 2, 3], [3, 3, 1], [4, 5, 2]])
        await until(lambda: watched.loop.position(0)[:2] == (6, 4))
        assert watched.bytes == b"".join(whole)
        assert dict(watched.loop.counters())["fetches"] == 1


def dropped(watched: Watched) -> int:
    return dict(watched.loop.counters())["dropped_bytes"]


@pytest.mark.parametrize("size", [100, 5_000, 1 << 20])
@story
async def test_batches_that_another_broker_has_read_are_dropped_unread(size: int) -> None:
    """The next batch is new: the tape has it whole, so exactly the bytes of the known batches were dropped."""
    known, new = [batch(0, 4_000), batch(4_000, 3), batch(4_003, 4_000)], batch(8_003, 4_000, epoch=4)
    before, whole = answer(*known), answer(*known, new)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    async with fetching(in_turn(says(before), says(*pieces))) as (watched, port):
        await until(lambda: watched.loop.position(0)[0] == 8_003)
        assert dropped(watched) == 0
        row = another(watched, port)
        await until(lambda: watched.loop.position(row)[:2] == (12_003, 4))
        await until(lambda: len(watched.bytes) >= len(whole) - 200)
        assert watched.bytes == b"".join([*known, new])
        most_read = MOST_AT_FIRST if size > MOST_AT_FIRST else 2 * size + LEAST_DROPPED
        big = len(known[0]) + len(known[2])
        assert big - 2 * (most_read + LEAST_DROPPED) < dropped(watched) < big
        assert dict(watched.loop.counters())["fetched_bytes"] == len(before) + len(whole) - 2 * 4


@story
async def test_a_new_leaders_batch_replaces_one_that_its_predecessor_did_not_commit() -> None:
    """The broker that reads the new leader first has not read the old batch: no truncation comes before."""
    known, lost, new = batch(0, 3), batch(3, 2), [batch(3, 1, epoch=4), batch(4, 5_000, epoch=5)]
    old, late = answer(known, lost, high_watermark=3), answer(known, *new, high_watermark=5_004)
    async with fetching(in_turn(says(old), says(late), says(answer(known, lost, batch(5, 9_000))))) as (watched, port):
        await until(lambda: watched.loop.position(0)[0] == 5)
        row = another(watched, port)
        await until(lambda: watched.loop.position(row)[:2] == (5_004, 5))
        behind = another(watched, port)  # The old leader goes on: nothing of it is taken.
        await until(lambda: watched.loop.position(behind)[:2] == (9_005, 3))
        await until(lambda: len(watched.bytes) >= len(known + lost) + sum(map(len, new)))
        assert watched.bytes == b"".join([known, lost, *new])
        assert seen(watched) == [[0, 2, 3], [3, 4, 2], [3, 3, 1], [4, 5_003, 5_000]]


@story
async def test_a_connection_that_ends_in_dropped_bytes_begins_again_at_the_last_whole_batch() -> None:
    known = [batch(0, 10), batch(10, 20_000)]
    whole = answer(*known)
    talk = in_turn(says(whole), says(whole[:-5_000], then_closes=True))
    async with fetching(talk) as (watched, port):
        await until(lambda: watched.loop.position(0)[0] == 20_010)
        row = another(watched, port)
        await until(lambda: watched.details("closed"))
        assert watched.details("closed") == [b"the peer closed the connection"]
        assert dropped(watched) > len(known[1]) / 2
        assert watched.loop.position(row)[0] == 0  # The answer was not whole.


@story
async def test_who_comes_behind_a_connection_that_ended_in_a_batch_adds_what_is_missing() -> None:
    big = batch(0, 5_000)
    whole = answer(big)
    talk = in_turn(says(whole[: len(whole) // 2], then_closes=True), says(whole[:1_000], whole[1_000:]))
    async with fetching(talk) as (watched, port):
        await until(lambda: watched.details("closed"))
        assert watched.bytes == b"" and watched.loop.position(0)[0] == 0
        row = another(watched, port)
        await until(lambda: watched.bytes)
        assert watched.bytes == big and seen(watched) == [[0, 4_999, 5_000]]
        await until(lambda: watched.loop.position(row)[0] == 5_000)


@pytest.mark.parametrize(("first", "second"), [(3, 4), (4, 3)])
@story
async def test_of_two_batches_in_one_place_the_newer_leaders_is_kept(first: int, second: int) -> None:
    """A new leader may have replaced batches that the old leader had not committed."""
    of_epoch = {epoch: batch(0, 2_000 + epoch, epoch=epoch) for epoch in (first, second)}
    release = asyncio.Event()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_correlation_id(reader)
        whole = answer(of_epoch[first])
        writer.write(whole[:10_000])
        await release.wait()
        writer.write(whole[10_000:])
        await reader.read()

    async with fetching(in_turn(slowly, says(answer(of_epoch[second])))) as (watched, port):
        await until(lambda: watched.loop.buffered_bytes() > 5_000)
        row = another(watched, port)
        await until(lambda: watched.loop.position(row)[0] == 2_000 + second)
        release.set()
        await until(lambda: watched.loop.position(0)[0] == 2_000 + first)
        await until(lambda: watched.bytes)
        assert watched.bytes == of_epoch[4]


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (answer(batch(0, 3), correlation_id=2), "an answer of correlation id Some(2), where 1 was due"),
        (answer(batch(0, 3)) * 2, "an answer of correlation id Some(1), where 2 was due"),
        (b"\0\0\0\2\0\1", "an answer of correlation id None, where 1 was due"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes, where at most 1048576 are taken"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (answer(batch(0, 9_000), error_code=1), "bytes that is not as usual"),
        (b"\0\x0f\0\0\0\0\0\1" + b"\xff" * 1_000, "a fetch's answer of 983040 bytes that is not as usual"),
        (
            answer(batch(0, 3), diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)),
            "a fetch's answer with records and a divergence",
        ),
        (answer(batch(0, 3))[:-10], "the peer closed the connection"),
    ],
)
@story
async def test_what_is_no_answer_of_a_fetch_ends_the_connection(expected: bytes, text: str) -> None:
    async with fetching(says(expected, then_closes=True)) as (watched, _):
        assert text in await watched.first("closed")
        assert watched.loop.buffered_bytes() <= KEPT_A_LINK


@pytest.mark.parametrize("length", [0x7F, 0xFFFFFF7F])
@story
async def test_records_that_claim_to_be_longer_than_the_answer_are_left_to_python(length: int) -> None:
    """The length stands right before the records; it is not believed."""
    whole = answer(b"", high_watermark=0)
    at = whole.rindex(b"\xff\xff\xff\xff") + 4  # Behind preferred_read_replica.
    longer = length.to_bytes(5, "big").lstrip(b"\0")
    body = whole[4:at] + longer + whole[at + 1 :]
    async with fetching(says(len(body).to_bytes(4, "big") + body)) as (watched, _):
        await until(lambda: watched.details("answer"))
        assert watched.details("answer") == [body]


@pytest.mark.parametrize(
    "broken", [{8: b"\0\0\0\1"}, {8: b"\x7f\xff\xff\xff"}, {8: b"\xff\xff\xff\xff"}, {23: b"\xff" * 4}]
)
@story
async def test_a_batch_that_cannot_be_ends_the_records(broken: dict[int, bytes]) -> None:
    """Its length is none, or its last offset lies before its first: what is behind it cannot be found."""
    wrong = bytearray(batch(3, 2))
    for at, bytes_ in broken.items():
        wrong[at : at + 4] = bytes_
    async with fetching(says(answer(batch(0, 3), bytes(wrong), batch(5, 1)))) as (watched, _):
        await until(lambda: dict(watched.loop.counters())["fetches"] == 1)
        assert watched.loop.position(0)[0] == 3
        await until(lambda: watched.bytes == batch(0, 3))
