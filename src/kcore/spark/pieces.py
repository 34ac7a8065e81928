"""Runs independent pieces of work on Spark, each as a job of one task: a failed piece costs no other its result.

Spark drops the results of a whole stage with one lost task, and waits forever where no executor is left. So each piece
is a job, and finished results survive the loss of an executor, the loss of the master, and Ctrl-C.
"""

import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

from kcore.extras import needs
from kcore.spark.failures import ENDED, LOST, sentence

with needs("spark"):
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

Piece = TypeVar("Piece")

POLL_S: Final = 0.2
NO_EXECUTOR_S: Final = 60.0  # Without any executor for so long the rest is given up.
LOCAL_MODE: Final = re.compile(r"local(\[|$)")  # No executor but the driver; not local-cluster.
_AT_ONCE: Final = 64  # Jobs that wait in Spark's queue: more than the cores of most clusters cost nothing.


class Outcome(NamedTuple):
    """The outcome of a piece."""

    number: int  # Place among the pieces.
    result: Any  # None if it failed.
    error: str = ""  # One sentence; begins with failures.LOST or ENDED if not the work itself was the cause.
    again: bool = False  # Its executor was lost: the piece is tried once more, by itself, after all others.


def outcomes(
    spark: SparkSession,
    work: Callable[[Piece], Any],
    pieces: Sequence[Piece],
    on_running: Callable[[int], None] = lambda _: None,
    no_executor_s: float = NO_EXECUTOR_S,
) -> Generator[Outcome, None, None]:
    """`work(piece)` of every piece, as each is done; `on_running` is called with the count of running tasks.

    Closing the iterator, or an exception in it, cancels what still runs.
    """
    jobs = _Jobs(spark.sparkContext, work, pieces)
    patience = _Patience(spark.sparkContext, no_executor_s)
    try:
        lost: list[int] = []
        for found in jobs.run(range(len(pieces)), _AT_ONCE, on_running, patience):
            if found.error.startswith(LOST) and not patience.over():
                lost.append(found.number)
                found = found._replace(again=True)
            yield found
        for number in lost:  # One after the other: the one that ends its executor takes no other with it.
            yield from jobs.run([number], 1, on_running, patience)
    finally:
        jobs.cancel()


class _Jobs:
    """The pieces as partitions of one RDD, and a job for each."""

    def __init__(self, context: SparkContext, work: Callable[[Piece], Any], pieces: Sequence[Piece]) -> None:
        self._context, self._work = context, work
        self._group = f"kcore-{uuid4()}"
        self._rdd = context.parallelize(pieces, max(1, len(pieces)))

    def run(
        self, numbers: Sequence[int], at_once: int, on_running: Callable[[int], None], patience: "_Patience"
    ) -> Iterator[Outcome]:
        """Yields the outcomes of these pieces; without executors, the rest fail with one error."""
        pool = ThreadPoolExecutor(max(1, min(at_once, len(numbers))))
        waiting: dict[Future[Outcome], int] = {pool.submit(self._one, number): number for number in numbers}
        try:
            while waiting:
                done = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED).done
                for each in done:
                    del waiting[each]
                    yield each.result()
                if waiting and (error := patience.over()):
                    yield from (Outcome(number, None, error) for number in waiting.values())
                    return
                on_running(_running(self._context))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, number: int) -> Outcome:
        work = self._work
        try:
            self._context.setJobGroup(self._group, "kcore", interruptOnCancel=True)
            [result] = self._context.runJob(self._rdd, lambda pieces: [work(piece) for piece in pieces], [number])
        except (PySparkException, Py4JError, OSError) as error:
            return Outcome(number, None, ENDED if _is_stopped(self._context) else sentence(error))
        return Outcome(number, result)

    def cancel(self) -> None:
        """Cancels the running jobs; does nothing once Spark itself has ended."""
        if not _is_stopped(self._context):
            self._context.cancelJobGroup(self._group)


class _Patience:
    """Measures how long Spark has had no executor."""

    def __init__(self, context: SparkContext, limit_s: float) -> None:
        self._context, self._limit_s = context, limit_s
        self._since_s = time.monotonic()

    def over(self) -> str:
        """The reason to stop waiting; empty while waiting makes sense."""
        if _is_stopped(self._context):
            return ENDED
        if executors(self._context) > 0:
            self._since_s = time.monotonic()
        elif time.monotonic() - self._since_s > self._limit_s:
            return f"{LOST}: there has been no executor for {self._limit_s:g} s"
        return ""


def executors(context: SparkContext) -> int:
    """The number of executors; in local mode the driver counts as one."""
    count = int(context._jsc.sc().getExecutorMemoryStatus().size())
    return count if LOCAL_MODE.match(str(context.master)) else count - 1


def _running(context: SparkContext) -> int:
    if _is_stopped(context):
        return 0
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def _is_stopped(context: SparkContext) -> bool:
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True  # Java itself is gone.
