"""The background tasks of a broker."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """Tasks that run until they end or the broker stops; their failures are logged. `stop` makes the broker stop."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()  # Set when the broker must stop.
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Starts a task; `name` is in the line of its failure."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def stop(self, why: str) -> None:
        """Logs the reason; `wait_failed` then returns."""
        logger.critical("%s", why)
        self.failed.set()

    async def wait_failed(self) -> None:
        """Returns when the broker must stop."""
        await self.failed.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: failed", task.get_name(), exc_info=error)

    async def close(self) -> None:
        """Cancels all tasks, and waits until they have ended."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_first(*waits: Coroutine[Any, Any, object]) -> None:
    """Waits until one of the coroutines ends, raises its exception if it failed, and cancels the others."""
    ends = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in ends:
            each.cancel()
