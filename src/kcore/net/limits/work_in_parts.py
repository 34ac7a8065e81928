"""Splits large work: each turn of the event loop runs one part of one request, even if many requests are running."""

import asyncio
from collections import deque
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from kcore.steps import Steps

T = TypeVar("T")

SHARE_S: Final = 0.001  # The event loop time of a client's pipelined requests before other clients are served.
PART_S: Final = 0.0001  # The event loop time of a part of large work. Other requests wait for two parts or more.


async def next_turn(of: str = "large work") -> None:
    """Waits between two parts of large work until this request is next.

    With `sleep(0)` instead, each turn of the loop would run a part of every large request. `of` names a kind of work;
    each turn runs one part of each kind.
    """
    loop = asyncio.get_running_loop()
    waiting = _WAITING.setdefault(loop, {}).setdefault(of, deque())
    mine = loop.create_future()
    waiting.append(mine)
    if len(waiting) == 1:
        loop.call_soon(_wake_first, loop, waiting)
    await mine


async def run_steps(steps: Steps[T]) -> T:
    """Runs one step in a turn; returns the result of the steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await next_turn()


class Share:
    """Limits the event loop time of a client that pipelines requests."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends_s: float | None = None  # None before the first request, which no answer precedes.

    def begin(self) -> None:
        """Starts a new share: the client has sent a request after it received all answers."""
        self._ends_s = self._loop.time() + SHARE_S

    async def go_on(self) -> None:
        """Called before a request that has already arrived; waits for other clients once the share is used up."""
        if self._ends_s is not None and self._loop.time() < self._ends_s:
            return
        if self._ends_s is not None:
            await next_turn("requests before answers")
        self.begin()


class Parts:
    """Divides the large work of one request into parts of PART_S. The cost of an element depends on its client.

    An authorizer makes a topic of a Metadata response five times as expensive. So time bounds a part, not a count.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + PART_S

    async def go_on(self) -> None:
        """Called after each element; waits for other requests once the part has taken PART_S."""
        if self._loop.time() >= self._ends_s:
            await next_turn()
            self._ends_s = self._loop.time() + PART_S


def _wake_first(loop: asyncio.AbstractEventLoop, waiting: deque[asyncio.Future[None]]) -> None:
    while waiting:
        first = waiting.popleft()
        if not first.done():  # Cancelled requests are done.
            first.set_result(None)
            break
    if waiting:
        loop.call_soon(_wake_first, loop, waiting)


_WAITING: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, deque[asyncio.Future[None]]]]] = (
    WeakKeyDictionary()
)
