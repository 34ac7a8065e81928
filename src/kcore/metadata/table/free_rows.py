"""Holds the free rows of a table as runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np

from kcore.types import Int32s


class FreeRows:
    """Rows without a partition, below the table's length. Neighbouring runs are merged.

    `take_run` scans the runs from the lowest on, and finds a single row at once. `add` finds its place by bisection.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []  # Ascending.
        self._ends: list[int] = []

    def __len__(self) -> int:
        return sum(self._ends) - sum(self._firsts)

    def add(self, rows: Int32s) -> None:
        """Add these rows, ascending and none of them free yet."""
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        for run in np.split(rows, breaks) if len(rows) else ():
            self._join(int(run[0]), int(run[-1]) + 1)

    def _join(self, first: int, end: int) -> None:
        at = bisect_left(self._firsts, first)
        begin, stop = at, at
        if at and self._ends[at - 1] == first:
            begin, first = at - 1, self._firsts[at - 1]
        if at < len(self._firsts) and self._firsts[at] == end:
            stop, end = at + 1, self._ends[at]
        self._firsts[begin:stop], self._ends[begin:stop] = [first], [end]

    def take_run(self, count: int) -> int | None:
        """Take the first run of `count` free rows; returns its first row, None if there is no such run."""
        first = self.first_of_run(count)
        if first is not None:
            self._cut(bisect_left(self._firsts, first), first, first + count)
        return first

    def first_of_run(self, count: int) -> int | None:
        """The first row of the first run of `count` free rows, which stay free; None if there is no such run."""
        runs = zip(self._firsts, self._ends, strict=True)
        return next((first for first, end in runs if end - first >= count), None)

    def lowest(self, count: int) -> Int32s:
        """The `count` lowest free rows, ascending, or all there are; they stay free."""
        found, runs = 0, []
        for first, end in zip(self._firsts, self._ends, strict=True):
            if found >= count:
                break
            runs.append(np.arange(first, min(end, first + count - found), dtype=np.int32))
            found += len(runs[-1])
        return np.concatenate(runs) if runs else np.empty(0, np.int32)

    def take(self, rows: Iterable[int]) -> None:
        """Take these rows, all of them free."""
        for row in rows:
            self._cut(bisect_right(self._firsts, row) - 1, row, row + 1)

    def take_lowest(self, count: int) -> None:
        """Take the `count` lowest free rows."""
        at = 0
        while count and count >= self._ends[at] - self._firsts[at]:
            count -= self._ends[at] - self._firsts[at]
            at += 1
        del self._firsts[:at], self._ends[:at]
        if count:
            self._firsts[0] += count

    def truncate(self, length: int) -> None:
        """Remove the rows from `length` on, where the table now ends."""
        at = bisect_left(self._firsts, length)
        del self._firsts[at:], self._ends[at:]
        if at and self._ends[at - 1] > length:
            self._ends[at - 1] = length

    def _cut(self, at: int, first: int, end: int) -> None:
        """Remove rows first..end from run `at`."""
        left = [(self._firsts[at], first), (end, self._ends[at])]
        kept = [run for run in left if run[0] < run[1]]
        self._firsts[at : at + 1], self._ends[at : at + 1] = [run[0] for run in kept], [run[1] for run in kept]

    def copy(self) -> "FreeRows":
        """A copy that shares nothing with this one."""
        twin = FreeRows()
        twin._firsts, twin._ends = list(self._firsts), list(self._ends)
        return twin
