"""Work that may wait gets a share of the event loop's time."""

import asyncio
from math import ceil

from kcore.net.limits.time_share import LEAST_NS, MOST_NS, PART, TimeShare
from net.loops import story


class Clock:
    """A clock that only `spend` moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def spend(self, ns: int) -> None:
        self.now_ns += ns


@story
async def test_work_that_may_wait_takes_a_share_of_the_time_of_other_work() -> None:
    clock = Clock()
    share = TimeShare(lambda: clock.now_ns)
    for _ in range(100):
        share.add(lambda: clock.spend(LEAST_NS))

    async def done_after(other_ns: int) -> int:
        clock.spend(other_ns)
        before = len(share)
        await asyncio.sleep(0)
        return before - len(share)

    assert await done_after(3 * PART * LEAST_NS) == 3
    assert await done_after(0) == 1, "without other work it goes on, a little in each turn"
    assert await done_after(1000 * MOST_NS) == ceil(MOST_NS / LEAST_NS), "an idle event loop saves no time for later"


@story
async def test_work_that_may_wait_runs_in_order_and_may_add_more() -> None:
    done: list[int] = []
    clock = Clock()
    share = TimeShare(lambda: clock.now_ns)
    share.add(lambda: share.add(lambda: done.append(2)))
    share.add(lambda: done.append(1))
    await asyncio.sleep(0)
    assert done == [1, 2] and not len(share)
    share.add(lambda: done.append(3))
    share.clear()
    await asyncio.sleep(0)
    share.add(lambda: done.append(4))
    await asyncio.sleep(0)
    assert done == [1, 2, 4]
