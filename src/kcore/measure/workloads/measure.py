"""Measures one operation: warms it up, checks that results repeat, then times it beside memcpy of the same bytes."""

import gc
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcore.measure.workloads.memory import peak_growth

SAMPLES_AT_LEAST = 5
SAMPLES_AT_MOST = 200
MOST_KEPT = 10_000  # Samples.
BUDGET_NS = 300_000_000  # Sampling ends after this time if the operation has SAMPLES_AT_LEAST.
MEMCPY_AT_MOST = 64 << 20  # Bytes; longer copies are calculated in proportion.
MEMCPY_SAMPLES = 5


class UnsteadyResultError(AssertionError):
    """The same operation on the same input gave two different results."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation to measure; a workload's `setup` makes its input before the clock starts."""

    name: str  # "group: action"; each group has one chart.
    run: Callable[[], Any]
    digest: Callable[[Any], Iterable[Any]]  # The buffers of a result, which must be equal in every run.
    partitions: int  # Partitions that one run handles; times are divided by them.
    moved_bytes: int  # The least bytes to move: a message, or the columns read and written.
    wire_bytes: int | None = None  # Bytes on the wire, if the operation makes any.
    memory_bytes: int | None = None  # Bytes of the result in memory, if the workload compares them.
    before: Callable[[], Any] | None = None  # Restores the state before each run; not timed.


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times, memory and result of one operation in one cell."""

    samples_ns: list[int]
    memcpy_ns: int
    peak_bytes: int | None
    digest: str


def measure(operation: Operation, warm_up_s: float = 0.0, duration_s: float = 0.0) -> Measurement:
    """Runs the operation until it is warm, measures its memory once, then times it.

    `warm_up_s`: seconds of runs between the first run and sampling. `duration_s`: seconds of sampling, of which at most
    MOST_KEPT samples are kept, evenly spread; 0: until BUDGET_NS or SAMPLES_AT_MOST. Raises UnsteadyResultError if the
    result changes.
    """
    digest = _digest(operation, _run(operation))  # The first run includes lazy compilation and imports.
    if operation.before is not None:
        operation.before()
    peak_bytes = peak_growth(operation.run)
    if warm_up_s:
        _sample(operation, warm_up_s)
    samples_ns, last = _sample(operation, duration_s)
    if _digest(operation, last) != digest:
        raise UnsteadyResultError(f"{operation.name}: the last run's result is not the first one's")
    return Measurement(samples_ns, memcpy_ns(operation.moved_bytes), peak_bytes, digest)


def memcpy_ns(size: int) -> int:
    """Nanoseconds to copy `size` bytes into mapped memory; the best of several copies."""
    if size <= 0:
        return 0
    source = np.ones(min(size, MEMCPY_AT_MOST), np.uint8)
    target = np.zeros_like(source)
    best = min(_timed(lambda: np.copyto(target, source)) for _ in range(MEMCPY_SAMPLES))
    return best * size // len(source)


def _timed(run: Callable[[], Any]) -> int:
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def _run(operation: Operation) -> Any:
    if operation.before is not None:
        operation.before()
    return operation.run()


def _sample(operation: Operation, duration_s: float) -> tuple[list[int], Any]:
    """The times of several runs, and the last run's result. Each result is freed outside the timed part."""
    samples_ns: list[int] = []
    spent, runs, every, result, clock = 0, 0, 1, None, time.perf_counter_ns
    budget_ns = int(duration_s * 1e9) or BUDGET_NS
    with _collector_off():
        while runs < SAMPLES_AT_LEAST or (spent < budget_ns and (duration_s or runs < SAMPLES_AT_MOST)):
            result = None
            if operation.before is not None:
                operation.before()
            start = clock()
            result = operation.run()
            took_ns = clock() - start
            if runs % every == 0:
                samples_ns.append(took_ns)
            if len(samples_ns) == MOST_KEPT:
                samples_ns, every = samples_ns[::2], 2 * every
            runs += 1
            spent += took_ns
    return samples_ns, result


@contextmanager
def _collector_off() -> Iterator[None]:
    """Turns garbage collection off while times are taken, as `timeit` does."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _digest(operation: Operation, result: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for buffer in operation.digest(result):
        digest.update(np.ascontiguousarray(buffer).data if isinstance(buffer, np.ndarray) else buffer)
    return digest.hexdigest()
