"""The time of a coroutine's steps, without the time in which it waits."""

import asyncio

import pytest

from kcore.net.limits.stopwatch import Stopwatch
from net.loops import story


class Clock:
    """A clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@story
async def test_steps_count_and_waits_do_not() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    waits: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        clock.now_ns += 3
        seen = watch.take_ns()
        clock.now_ns += 4
        found = await waits
        clock.now_ns += 50
        await asyncio.sleep(0)
        clock.now_ns += 600
        return seen + found

    task = asyncio.ensure_future(watch.timed(work()))
    await asyncio.sleep(0)
    clock.now_ns += 1_000_000
    assert watch.take_ns() == 4, "what is read is not counted again"
    waits.set_result(10)
    assert await task == 13
    clock.now_ns += 1_000_000
    assert watch.take_ns() == 650 and watch.take_ns() == 0


@story
async def test_errors_and_cancellation_go_through() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    waits: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ends: list[str] = []

    async def work() -> None:
        try:
            await waits
        except ValueError:
            clock.now_ns += 1
            ends.append("failed")
        try:
            await asyncio.Event().wait()
        finally:
            clock.now_ns += 2
            ends.append("cancelled")

    task = asyncio.ensure_future(watch.timed(work()))
    await asyncio.sleep(0)
    waits.set_exception(ValueError("none"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (ends, watch.take_ns()) == (["failed", "cancelled"], 3)


@story
async def test_several_pieces_of_work_add_up() -> None:
    clock = Clock()
    watch = Stopwatch(clock)

    async def work(ns: int) -> int:
        clock.now_ns += ns
        return ns

    assert await watch.timed(work(3)) == 3
    assert await watch.timed(work(40)) == 40
    assert watch.take_ns() == 43
