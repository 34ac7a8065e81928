"""Flushes the log of a node on a thread of its own."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kcore.net.durations import Duration
from kcore.raft.effects import Flush
from kcore.raft.log.raft_log import RaftLog
from kcore.server.quorum_node.lifetime import Lifetime


class LogFlusher:
    """Runs one flush after the other. Flushes that are requested during a flush are combined into the next one."""

    def __init__(self, log: RaftLog, on_flushed: Callable[[Flush], None], lifetime: Lifetime, took: Duration) -> None:
        """`on_flushed` gets each flush that has ended. A flush that fails ends the node. `took`: counts durations."""
        self._log, self._on_flushed, self._lifetime, self._took = log, on_flushed, lifetime, took
        self._thread = ThreadPoolExecutor(1, "flush")
        self._flushing: asyncio.Task[None] | None = None
        self._wanted: Flush | None = None

    def request(self, flush: Flush) -> None:
        """Flushes what the log has now, after the flush that runs."""
        self._wanted = flush
        self._flushing = self._flushing or asyncio.get_running_loop().create_task(self._flush())

    async def close(self) -> None:
        """Waits until the requested flushes have ended."""
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)
        self._thread.shutdown()

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while (flush := self._wanted) is not None and not self._lifetime.has_failed:
            self._wanted, begin_s = None, time.monotonic()
            try:
                await loop.run_in_executor(self._thread, self._log.flush)
            except Exception as error:
                self._lifetime.fail(error)
                break
            end_s = time.monotonic()
            self._took.add(end_s - begin_s, end_s)
            self._on_flushed(flush)
        self._flushing = None
