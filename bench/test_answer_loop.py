"""A controller's two fronts side by side: requests a second, and the CPU time that one costs the controller.

The clients are hollow brokers in a thread of their own, in Rust, whose CPU time does not count. Run with
`pytest bench/test_answer_loop.py --benchmark-enable`; `extra_info` has microseconds of CPU a request. Take ratios.
"""

import asyncio
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore._ext import hollow
from kcore.measure.hollow import frames
from kcore.net.connect import connect
from kcore.server.quorum_node.answer_loop import ANSWER_LOOPS, AnswerLoopKind
from kcore.storage.raft.file_raft_log import DiskRaftLog
from server.compiled_cluster import CLUSTER, active, registration
from server.quorum_nodes import CLUSTER_ID, Nodes, append, committed_everywhere

OBSERVERS = 1000
BROKERS = 100
FIRST = 100  # The lowest broker id.
HEARTBEATS, FETCHES, COMMITS = 20_000, 10_000, 10  # A round.
WAIT_MS = 50  # The wait of a fetch that finds no new records.
MINUTE_NS = 60 * 10**9
VERSIONS = {"heartbeat": 1, "fetch": 17}

Run = Callable[[Any], Any]


@pytest.fixture(params=ANSWER_LOOPS)
def answer_loop(request: pytest.FixtureRequest) -> AnswerLoopKind:
    kind: AnswerLoopKind = request.param
    return kind


@pytest.fixture
def events() -> Iterator[asyncio.AbstractEventLoop]:
    events = asyncio.new_event_loop()
    yield events
    events.close()


def cpu_ns(server: Any) -> int:
    """The CPU time of the controller's thread and of the answer loop's thread."""
    compiled = server.handlers._compiled
    own = time.thread_time_ns()
    return own if compiled is None else own + time.clock_gettime_ns(time.pthread_getcpuclockid(compiled._thread.ident))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def fleet(port: int, many: int, links: tuple[int, ...], cluster_id: str) -> AsyncIterator[hollow.Loop]:
    """So many hollow brokers, connected, and silent yet."""
    loop = hollow.Loop(frame_bytes=1 << 24, timeout_ns=MINUTE_NS)
    thread = threading.Thread(target=loop.run, daemon=True)  # A failed benchmark does not end the loop.
    thread.start()
    for broker_id in range(FIRST, FIRST + many):
        beat = frames.heartbeat_frame("a broker", VERSIONS["heartbeat"], broker_id)
        fetch = frames.fetch_frame("a broker", VERSIONS["fetch"], broker_id, cluster_id, 1 << 20)
        row = loop.add(beat, fetch, MINUTE_NS)
        for link in links:
            loop.connect(row, link, f"127.0.0.1:{port}")
    try:
        await until(lambda: dict(loop.counters())["connections"] == many * len(links))
        yield loop
    finally:
        loop.stop()
        await asyncio.to_thread(thread.join)


@asynccontextmanager
async def observed(folder: str, answer_loop: AnswerLoopKind) -> AsyncIterator[tuple[Any, hollow.Loop]]:
    """An only voter that leads, and observers that have all of its log and fetch on."""
    nodes = Nodes(1)
    log = DiskRaftLog(Path(folder) / "__cluster_metadata-0")
    async with nodes.server(1, log, answer_loop=answer_loop) as server:
        await nodes.leader()
        await committed_everywhere(nodes, 1)
        async with fleet(server.port, OBSERVERS, (hollow.FETCHES,), CLUSTER_ID) as loop:
            loop.set_leader_epoch(server.node.epoch)
            for row in range(OBSERVERS):
                loop.fetch(row, True, offset=log.end_offset, last_epoch=server.node.epoch)
            await until(lambda: dict(loop.counters())["fetches"] >= OBSERVERS)
            yield server, loop
    log.close()


@asynccontextmanager
async def beaten(folder: str, answer_loop: AnswerLoopKind) -> AsyncIterator[tuple[Any, hollow.Loop]]:
    """An active controller and its brokers, unfenced, whose next heartbeat comes a moment after the answer."""
    links = hollow.HEARTBEATS, hollow.FETCHES
    async with active(Path(folder), answer_loop) as server, fleet(server.port, BROKERS, links, CLUSTER) as loop:
        loop.set_leader_epoch(server.node.epoch)
        async with await connect("127.0.0.1", server.port) as admin:
            for row in range(BROKERS):
                registered = await admin.send(registration(FIRST + row, "4.3.1"))
                loop.fetch(row, True)
                loop.beat(row, registered.broker_epoch, time.monotonic_ns(), 1)
        await until(lambda: dict(loop.counters())["heartbeats"] >= 10 * BROKERS)
        yield server, loop


def measured(
    benchmark: BenchmarkFixture, events: asyncio.AbstractEventLoop, server: Any, loop: hollow.Loop, what: str, work: Run
) -> None:
    """A few rounds of `work`; the requests of all rounds, a second and by their CPU time."""
    counts = [0, 0, 0]

    def round_of_work() -> None:
        before = dict(loop.counters())[what], cpu_ns(server), time.monotonic_ns()
        events.run_until_complete(work(before[0]))
        after = dict(loop.counters())[what], cpu_ns(server), time.monotonic_ns()
        for place, (begin, end) in enumerate(zip(before, after, strict=True)):
            counts[place] += end - begin

    benchmark.pedantic(round_of_work, rounds=3, warmup_rounds=1)
    requests, cpu, wall = counts
    assert requests
    benchmark.extra_info |= {"requests a second": requests * 10**9 // wall, "CPU us": round(cpu / requests / 1000, 2)}
    print(f" {requests * 10**9 // wall:,} requests a second, {cpu / requests / 1000:.2f} us of CPU each")


def test_heartbeats(
    benchmark: BenchmarkFixture, events: asyncio.AbstractEventLoop, answer_loop: AnswerLoopKind
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = beaten(folder, answer_loop)
        server, loop = events.run_until_complete(both.__aenter__())

        def work(begin: int) -> Any:
            return until(lambda: dict(loop.counters())["heartbeats"] >= begin + HEARTBEATS)

        measured(benchmark, events, server, loop, "heartbeats", work)
        events.run_until_complete(both.__aexit__(None, None, None))


def test_fetches_that_find_nothing(
    benchmark: BenchmarkFixture,
    events: asyncio.AbstractEventLoop,
    answer_loop: AnswerLoopKind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "MAX_WAIT_MS", WAIT_MS)
    with tempfile.TemporaryDirectory() as folder:
        both = observed(folder, answer_loop)
        server, loop = events.run_until_complete(both.__aenter__())

        def work(begin: int) -> Any:
            return until(lambda: dict(loop.counters())["fetches"] >= begin + FETCHES)

        measured(benchmark, events, server, loop, "fetches", work)
        events.run_until_complete(both.__aexit__(None, None, None))


def test_a_record_for_all(
    benchmark: BenchmarkFixture, events: asyncio.AbstractEventLoop, answer_loop: AnswerLoopKind
) -> None:
    """All observers receive each commit before the next one."""
    with tempfile.TemporaryDirectory() as folder:
        both = observed(folder, answer_loop)
        server, loop = events.run_until_complete(both.__aenter__())

        async def work(begin: int) -> None:
            for _ in range(COMMITS):
                append(server, [bytes(100)])
                end_offset = server.node.log.end_offset
                await until(lambda end=end_offset: all(loop.position(row)[3] >= end for row in range(OBSERVERS)))

        measured(benchmark, events, server, loop, "fetches", work)
        events.run_until_complete(both.__aexit__(None, None, None))
