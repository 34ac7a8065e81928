"""Large work in parts: in a turn of the event loop one part of one request, however many requests are under way."""

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary


async def next_turn() -> None:
    """Between two parts, in place of `sleep(0)`: with that, each turn would have a part of every such request."""
    loop = asyncio.get_running_loop()
    waiting = _WAITING.setdefault(loop, deque())
    mine = loop.create_future()
    waiting.append(mine)
    if len(waiting) == 1:
        loop.call_soon(_wake_first, loop, waiting)
    await mine


def _wake_first(loop: asyncio.AbstractEventLoop, waiting: deque[asyncio.Future[None]]) -> None:
    while waiting:
        first = waiting.popleft()
        if not first.done():  # Cancelled.
            first.set_result(None)
            break
    if waiting:
        loop.call_soon(_wake_first, loop, waiting)


_WAITING: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]]] = WeakKeyDictionary()
