"""Long work in steps: a server runs other work between two steps, and tests run all steps at once."""

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]


def finished(steps: Steps[T]) -> T:
    """Runs all steps at once, and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def lists_of(values: Iterable[T], most: int, weight: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """The values in order, in lists. A list ends with the value with which its weight reaches `most`."""
    part, total = list[T](), 0
    for each in values:
        part.append(each)
        total += weight(each)
        if total >= most:
            yield part
            part, total = [], 0
    if part:
        yield part


def sorting(values: Iterable[T], key: Callable[[T], Any], at_once: int) -> Steps[list[T]]:
    """As `sorted`: a step sorts `at_once` values, or merges `at_once` values of the sorted lists."""
    runs: list[list[T]] = []
    for part in lists_of(values, at_once):
        if runs:
            yield
        runs.append(sorted(part, key=key))
    if len(runs) <= 1:
        return runs[0] if runs else []
    merged: list[T] = []
    for part in lists_of(heapq.merge(*runs, key=key), at_once):
        yield
        merged += part
    return merged


class Work:
    """Counts the work of items that differ in size, and ends a part once it has enough."""

    def __init__(self, most: int) -> None:
        """`most`: the work of one part."""
        self._most, self._done = most, 0

    def add(self, work: int = 1) -> Steps[None]:
        """Counts the work of the next item; ends the present part if it is full."""
        self._done += work
        if self._done >= self._most:
            self._done = 0
            yield
