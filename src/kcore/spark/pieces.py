"""Runs independent pieces of work on Spark, each as a job of one task, so that a failed piece costs no other result.

If a task is lost, Spark drops the results of the whole stage; without executors, Spark waits forever. With a job per
piece, finished results survive the loss of an executor, the loss of the master, and Ctrl-C.
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
NO_EXECUTOR_S: Final = 60.0  # Without an executor for this many seconds, the remaining pieces fail.
# Modes without an executor beside the driver; local-cluster has executors.
LOCAL_MODE: Final = re.compile(r"local(\[|$)")
_AT_ONCE: Final = 64  # Jobs submitted to Spark at the same time. Jobs beyond the cluster's cores wait in its queue.


class Outcome(NamedTuple):
    """The result of one piece, or why it failed."""

    number: int  # Index of the piece.
    result: Any  # None if the piece failed.
    error: str = ""  # One sentence; begins with failures.LOST or ENDED if Spark, not the work, failed.
    again: bool = False  # Its executor was lost: the piece runs once more, alone, after all others.


def outcomes(
    spark: SparkSession,
    work: Callable[[Piece], Any],
    pieces: Sequence[Piece],
    on_running: Callable[[int], None] = lambda _: None,
    no_executor_s: float = NO_EXECUTOR_S,
) -> Generator[Outcome, None, None]:
    """Runs `work(piece)` for every piece and yields each outcome when it is done; reports running tasks to
    `on_running`.

    Closing the iterator, or an exception in it, cancels the running jobs.
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
        for number in lost:  # One at a time: a piece that kills its executor then harms no other piece.
            yield from jobs.run([number], 1, on_running, patience)
    finally:
        jobs.cancel()


class _Jobs:
    """The pieces as partitions of one RDD, with one job for each."""

    def __init__(self, context: SparkContext, work: Callable[[Piece], Any], pieces: Sequence[Piece]) -> None:
        self._context, self._work = context, work
        self._group = f"kcore-{uuid4()}"
        self._rdd = context.parallelize(pieces, max(1, len(pieces)))

    def run(
        self, numbers: Sequence[int], at_once: int, on_running: Callable[[int], None], patience: "_Patience"
    ) -> Iterator[Outcome]:
        """Yields the outcomes of these pieces. When `patience` is over, all remaining pieces fail with one error."""
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
        """Cancels the running jobs; does nothing if Spark itself has ended."""
        if not _is_stopped(self._context):
            self._context.cancelJobGroup(self._group)


class _Patience:
    """Measures how long Spark has had no executor, to end a wait that will not succeed."""

    def __init__(self, context: SparkContext, limit_s: float) -> None:
        self._context, self._limit_s = context, limit_s
        self._since_s = time.monotonic()

    def over(self) -> str:
        """Why to stop waiting, as one sentence; empty as long as waiting makes sense."""
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
        return True  # The driver's Java process has ended.
