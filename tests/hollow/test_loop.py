"""The loop in Rust: its requests, its notices, and its robustness against peers."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from hollow.watched import FETCH_VERSION, Watched, answered, batch, beaten, fetched, says, watching
from kcore import schema as s
from kcore._ext import hollow as kernel
from kcore.measure.hollow.frames import heartbeat_frame
from kcore.measure.hollow.histograms import histogram
from kcore.net.server import RequestContext, serve
from kcore.schema.structure import Message
from net.loops import QUICK, raw_server, story, until
from reference.heartbeat_latency import latencies

APIS = {"BrokerHeartbeat": (1, 1), "Fetch": (17, 17)}
MILLISECOND = 1_000_000  # In nanoseconds.
INTERVAL_NS = 5 * MILLISECOND


@story
async def test_an_answer_may_come_byte_by_byte() -> None:
    answer = beaten(is_fenced=False, is_caught_up=True)
    async with raw_server(says(*(answer[at : at + 1] for at in range(len(answer))))) as port, watching(port) as watched:
        watched.beat(0)
        await until(lambda: watched.details("state"))
        [flags] = watched.details("state")
        assert flags[0] & kernel.CAUGHT_UP and not flags[0] & (kernel.FENCED | kernel.SHOULD_SHUT_DOWN)
        assert dict(watched.loop.counters())["heartbeats"] == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (beaten(2), "an answer of correlation id Some(2), where 1 was due"),
        (beaten() + beaten(), "an answer of correlation id Some(1), where 1 was due"),
        (b"\0\0\0\2\0\1", "an answer of correlation id None, where 1 was due"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes, where at most 65536 are taken"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request", "a frame of 1213486160 bytes"),
        (b"\0\0\0\5\0\0\0\1\0", "a heartbeat's answer that cannot be read"),
        (beaten()[:7], "the peer closed the connection"),
        (b"", "the peer closed the connection"),
    ],
)
@story
async def test_what_is_no_answer_ends_the_connection(answer: bytes, text: str) -> None:
    async with raw_server(says(answer, then_closes=True)) as port, watching(port) as watched:
        watched.beat(0)
        assert text in await watched.first("closed")


@story
async def test_silence_ends_the_connection_within_the_time_out() -> None:
    async with raw_server(says()) as port, watching(port, timeout_ns=100_000_000) as watched:
        watched.beat(0)
        assert await watched.first("closed") == "no answer within the time-out"


@story
async def test_a_port_where_nobody_listens() -> None:
    async with raw_server(says()) as port:
        pass
    async with watching(port) as watched:
        assert "refused" in await watched.first("closed")


@story
async def test_a_refused_heartbeat_is_reported_and_the_next_one_is_sent() -> None:
    async with served(s.BrokerHeartbeatResponse(error_code=41)) as (port, asked), watching(port) as watched:
        watched.beat(0, interval_ns=1_000_000)
        await until(lambda: len(asked) > 3)
        assert {int.from_bytes(detail, "big") for detail in watched.details("error")} == {41}
        assert watched.details("state") == []


@story
async def test_a_state_is_reported_when_it_changes_and_again_after_a_registration() -> None:
    async with served(s.BrokerHeartbeatResponse(is_fenced=False)) as (port, asked), watching(port) as watched:
        watched.beat(0, epoch=5, interval_ns=1_000_000)
        await until(lambda: len(asked) > 5)
        assert len(watched.details("state")) == 1
        watched.beat(0, epoch=6, interval_ns=1_000_000)
        await until(lambda: len(watched.details("state")) == 2)
        assert {each.broker_epoch for each in asked} == {5, 6}


@story
async def test_a_state_is_reported_again_on_another_connection() -> None:
    """The observer may have dropped the state that came on the previous connection."""
    async with served(s.BrokerHeartbeatResponse(is_fenced=False)) as (port, _), watching(port) as watched:
        watched.beat(0)
        await until(lambda: len(watched.details("state")) == 1)
        watched.loop.connect(0, kernel.HEARTBEATS, f"127.0.0.1:{port}")
        watched.beat(0)
        await until(lambda: len(watched.details("state")) == 2)


@story
async def test_a_connection_and_its_notices_have_the_time_of_pythons_clock() -> None:
    async with served(s.BrokerHeartbeatResponse()) as (port, _), watching(port, links=()) as watched:
        before = time.monotonic_ns()
        begun = watched.loop.connect(0, kernel.HEARTBEATS, f"127.0.0.1:{port}")
        assert before - MILLISECOND < begun < time.monotonic_ns() + MILLISECOND
        await until(lambda: watched.details("connected"))
        [when] = watched.times
        assert begun <= when < time.monotonic_ns() + MILLISECOND


@story
async def test_an_order_while_an_answer_is_awaited_goes_out_right_after_it() -> None:
    release = asyncio.Event()

    async def handler(context: RequestContext, message: Any) -> Message:
        wishes.append(message.want_shut_down)
        await release.wait()
        return s.BrokerHeartbeatResponse(should_shut_down=message.want_shut_down)

    wishes: list[bool] = []
    async with await serve("127.0.0.1", 0, handler, APIS) as server, watching(server.port) as watched:
        watched.beat(0)
        await until(lambda: wishes)
        watched.beat(0, want_shut_down=True)
        release.set()
        await until(lambda: any(flags[0] & kernel.SHOULD_SHUT_DOWN for flags in watched.details("state")))
        assert wishes == [False, True]


@story
async def test_a_rest_ends_heartbeats_and_a_close_tells_nothing() -> None:
    async with served() as (port, asked), watching(port) as watched:
        watched.beat(0, interval_ns=1_000_000)
        await until(lambda: asked)
        watched.loop.rest(0)
        for which in (kernel.HEARTBEATS, kernel.FETCHES):
            watched.loop.close(0, which)
        count = len(asked)
        await asyncio.sleep(0.05)
        assert len(asked) <= count + 1
        assert watched.details("closed") == []


@story
async def test_fetches_go_on_behind_whole_batches_and_tell_what_is_committed() -> None:
    log = [batch(0, 3), batch(3, 2), batch(5, 1, epoch=4)]
    answers = [fetched(log[0] + log[1] + log[2][:-1], 4), fetched(log[2], 6), fetched(b"", 6)]
    async with served(fetches=answers) as (port, asked), watching(port) as watched:
        watched.loop.set_leader_epoch(9)
        watched.loop.fetch(0, True)
        await until(lambda: len(asked) == 4)
        partitions = [each.topics[0].partitions[0] for each in asked]
        assert [each.fetch_offset for each in partitions] == [0, 5, 6, 6]
        assert [each.last_fetched_epoch for each in partitions] == [0, 3, 4, 4]
        assert [each.current_leader_epoch for each in partitions] == [9] * 4
        await until(lambda: watched.bytes == b"".join(log))
        seen = np.frombuffer(watched.batches, np.int64).reshape(-1, 6)
        assert seen[:, :5].tolist() == [
            [0, 2, 3, len(log[0]), 1_002],
            [3, 4, 2, len(log[1]), 1_001],
            [5, 5, 1, len(log[2]), 1_000],
        ]
        assert np.frombuffer(watched.arrivals, np.int64).reshape(-1, 3)[:, :2].tolist() == [[0, 4], [0, 6]]
        assert watched.loop.position(0) == (6, 4, 6, 6)


@story
async def test_the_loop_remembers_when_the_last_heartbeat_was_sent() -> None:
    async with served() as (port, asked), watching(port) as watched:
        assert watched.loop.heartbeat_sent(0) == 0
        began_ns = time.monotonic_ns()
        watched.beat(0, epoch=5)
        await until(lambda: heartbeats(asked))
        sent_ns = watched.loop.heartbeat_sent(0)
        assert began_ns < sent_ns < time.monotonic_ns()
        watched.loop.rest(0)
        watched.loop.close(0, kernel.HEARTBEATS)
        assert watched.loop.heartbeat_sent(0) >= sent_ns  # Known after the broker's death, too.


@story
async def test_heartbeats_that_were_due_while_an_answer_was_missing_count() -> None:
    """A client that waits for each answer measures one slow request where a hundred would have been slow."""
    release = asyncio.Event()
    asked: list[int] = []
    async with answering_once(release, asked) as port, watching(port) as watched:
        before_ns = time.monotonic_ns()
        watched.beat(0, interval_ns=INTERVAL_NS)
        await until(lambda: asked)
        await asyncio.sleep(0.1)
        released_ns = time.monotonic_ns()
        release.set()
        await until(lambda: watched.details("state"))
        counted = int(histogram(watched.loop.histograms()[0]).sum())
        at_least = len(latencies(asked[0], INTERVAL_NS, released_ns))
        assert 10 < at_least <= counted <= len(latencies(before_ns, INTERVAL_NS, time.monotonic_ns()))


@story
async def test_heartbeats_that_were_due_while_there_was_no_connection_count() -> None:
    release = asyncio.Event()
    release.set()
    asked: list[int] = []
    async with raw_server(says(b"", then_closes=True)) as closing, watching(closing) as watched:
        before_ns = time.monotonic_ns()
        watched.beat(0, interval_ns=INTERVAL_NS)
        await watched.first("closed")
        lost_ns = time.monotonic_ns()
        await asyncio.sleep(0.1)
        back_ns = time.monotonic_ns()
        async with answering_once(release, asked) as port:
            watched.loop.connect(0, kernel.HEARTBEATS, f"127.0.0.1:{port}")
            watched.beat(0, interval_ns=INTERVAL_NS)
            await until(lambda: watched.details("state"))
            counted = int(histogram(watched.loop.histograms()[0]).sum())
        at_least = len(latencies(lost_ns, INTERVAL_NS, back_ns))
        assert 10 < at_least <= counted <= len(latencies(before_ns, INTERVAL_NS, time.monotonic_ns()))


@pytest.mark.long
@story
async def test_no_heartbeat_is_due_between_a_rest_and_the_next_order() -> None:
    async with served() as (port, asked), watching(port) as watched:
        watched.beat(0, interval_ns=INTERVAL_NS)
        await until(lambda: asked)
        watched.loop.rest(0)
        watched.loop.close(0, kernel.HEARTBEATS)
        await asyncio.sleep(0.1)
        watched.loop.histograms()
        count = len(asked)
        watched.loop.connect(0, kernel.HEARTBEATS, f"127.0.0.1:{port}")
        watched.beat(0)
        await until(lambda: len(asked) > count and watched.loop.counters()[0][1] > count)
        assert int(histogram(watched.loop.histograms()[0]).sum()) == 1


@pytest.mark.parametrize("interval_ns", [0, 1, 3, 7, 1000, 2_500_001])
@pytest.mark.parametrize("waited_ns", [0, 1, 31, 33, 1_151, 1_153, 5_000, 40_000, 200_003])
def test_due_heartbeats_are_counted_as_the_twin_lists_them(waited_ns: int, interval_ns: int) -> None:
    counted = histogram(kernel.due_latencies(50, interval_ns, 50 + waited_ns))
    listed = np.zeros_like(counted)
    for each in latencies(50, interval_ns, 50 + waited_ns):
        listed += histogram(kernel.due_latencies(0, 0, each))
    assert counted.tolist() == listed.tolist()


def test_the_work_does_not_grow_with_the_heartbeats_that_were_due() -> None:
    """A minute at one a nanosecond, and a time that no run lasts."""
    assert int(histogram(kernel.due_latencies(0, 1, 60 * 10**9)).sum()) == 60 * 10**9
    assert int(histogram(kernel.due_latencies(0, 1, 2**62)).sum()) == 2**62


@pytest.mark.parametrize("interval_ns", [0, 1, 7, 10, 100])
def test_the_twin_counts_each_due_time_before_the_answer(interval_ns: int) -> None:
    found = latencies(100, interval_ns, 170)
    assert found[0] == 70 and all(each > 0 for each in found)
    assert len(found) == (max(1, -(-70 // interval_ns)) if interval_ns else 1)


@asynccontextmanager
async def answering_once(release: asyncio.Event, asked: list[int]) -> AsyncIterator[int]:
    """A server that answers the first request once it is released, and no other; when requests came."""

    async def handler(context: RequestContext, message: Any) -> Message:
        asked.append(time.monotonic_ns())
        await (release if len(asked) == 1 else asyncio.Event()).wait()
        return s.BrokerHeartbeatResponse()

    async with await serve("127.0.0.1", 0, handler, APIS, limits=QUICK) as server:
        yield server.port


@story
async def test_who_has_read_its_own_registration_says_so_at_once() -> None:
    answers = [fetched(batch(0, 3), 3), fetched(batch(3, 3), 6)]
    async with served(fetches=answers) as (port, asked), watching(port) as watched:
        watched.beat(0, epoch=5)
        await until(lambda: asked)
        watched.loop.fetch(0, True)
        await until(lambda: len(heartbeats(asked)) > 1)
        assert [each.current_metadata_offset for each in heartbeats(asked)] == [-1, 5]


@story
async def test_an_unusual_fetch_is_left_to_python_and_fetching_waits() -> None:
    refused = fetched(None, -1, error_code=74)
    async with served(fetches=[refused, refused]) as (port, asked), watching(port) as watched:
        watched.loop.fetch(0, True)
        await until(lambda: watched.details("answer"))
        assert watched.details("answer") == [answered(1, refused, FETCH_VERSION)[4:]]
        assert len(asked) == 1
        watched.loop.fetch(0, True, offset=17, last_epoch=2)
        await until(lambda: len(asked) == 2)
        assert asked[1].topics[0].partitions[0].fetch_offset == 17


@story
async def test_rows_connections_addresses_and_frames_are_checked() -> None:
    watched = Watched()
    watched.add()
    for wrong in (lambda: watched.beat(1), lambda: watched.loop.rest(1), lambda: watched.loop.close(0, 2)):
        with pytest.raises(IndexError):
            wrong()
    with pytest.raises(ValueError, match=r'"localhost:1" is not address:port'):
        watched.loop.connect(0, 0, "localhost:1")
    frame, places = heartbeat_frame("me", 1, 7)
    with pytest.raises(ValueError, match="a place is not within the request's frame"):
        watched.loop.set_heartbeat(0, (frame[:-1], [*places[:-1], len(frame) - 1]))


def heartbeats(asked: list[Any]) -> list[Any]:
    return [each for each in asked if isinstance(each, s.BrokerHeartbeatRequest)]


@asynccontextmanager
async def served(beat: Message | None = None, fetches: Sequence[Message] = ()) -> AsyncIterator[tuple[int, list[Any]]]:
    """A server that answers heartbeats alike and fetches in turn, the last one never; its port, and what was asked."""
    asked: list[Any] = []
    left = [*fetches]

    async def handler(context: RequestContext, message: Any) -> Message:
        asked.append(message)
        if isinstance(message, s.BrokerHeartbeatRequest):
            return beat or s.BrokerHeartbeatResponse()
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    async with await serve("127.0.0.1", 0, handler, APIS, limits=QUICK) as server:
        yield server.port, asked


@story
async def test_a_loop_that_has_ended_has_no_connections() -> None:
    """Though its object is still in use: the next storm of the process needs the descriptors."""
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        ended.set()

    async with raw_server(talk) as port:
        async with watching(port, links=[kernel.HEARTBEATS]) as watched:
            await until(lambda: dict(watched.loop.counters())["connections"] == 1)
        await asyncio.wait_for(ended.wait(), 30)
        assert dict(watched.loop.counters())["connections"] == 1
