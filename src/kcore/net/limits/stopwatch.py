"""Measures how much time of the event loop a connection's requests take, without the time that they wait."""

import time
from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import Any, Final, TypeAlias, TypeVar, cast

T = TypeVar("T")
Asker: TypeAlias = tuple[str, str | None]
"""The name of a principal, and a client id."""
NOBODY: Final[Asker] = "", None


class Stopwatch:
    """The stopwatch of one connection; it runs while the event loop executes the connection's task."""

    __slots__ = ("_before_ns", "_clock_ns", "_went_ns", "asker")

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._before_ns = 0  # The time of ended steps that was not read yet.
        self._went_ns: int | None = None  # When the current step began; None if the stopwatch does not run.
        self.asker: Asker | None = None  # The client charged for the time; None: the client of the next request.

    def take_ns(self) -> int:
        """The time in ns since the last call."""
        taken_ns, self._before_ns = self._before_ns, 0
        if self._went_ns is not None:
            now_ns = self._clock_ns()
            taken_ns += now_ns - self._went_ns
            self._went_ns = now_ns
        return taken_ns

    def timed(self, work: Awaitable[T]) -> Awaitable[T]:
        """Wraps `work`, so that the stopwatch measures its steps."""
        return cast(Awaitable[T], self._timed(work))

    @coroutine
    def _timed(self, work: Awaitable[T]) -> Generator[Any, Any, T]:
        steps = work.__await__()
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            self._went_ns = self._clock_ns()
            try:
                waits_for = step(value)
            except StopIteration as end:
                return cast(T, end.value)
            finally:
                self._before_ns += self._clock_ns() - self._went_ns
                self._went_ns = None
            try:
                value, step = (yield waits_for), steps.send
            except BaseException as error:
                value, step = error, steps.throw


def timed(watch: Stopwatch | None, work: Awaitable[T]) -> Awaitable[T]:
    """Wraps `work` with `watch.timed`; returns `work` unchanged without a watch."""
    return work if watch is None else watch.timed(work)
