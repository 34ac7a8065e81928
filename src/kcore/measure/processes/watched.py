"""Ends work with processes as soon as one of the processes fails."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from kcore.errors import TargetError
from kcore.measure.processes.java_process import ChildProcess

T = TypeVar("T")

_POLL_S: Final = 0.2


async def watched(work: Awaitable[T], processes: Sequence[ChildProcess]) -> T:
    """The result of `work`. Cancels `work` and raises TargetError if one of the processes ends by itself.

    The error names each such process, its exit code and the last lines of its log. A process that `work` ends with a
    method of ChildProcess is no failure.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=_POLL_S))[0]:
            if ends := [process.failure for process in processes if process.failure]:
                raise TargetError("; ".join(ends))
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
