"""Keeps when each metadata batch first arrived, and when each hollow broker saw it below the high watermark."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.types import Bools, Int64s

# The loop reports batches and arrivals as rows of so many int64, the last of which is a time.
BATCH: Final = 6  # base offset, last offset, records, bytes, append time in ms, time of the first arrival in ns
ARRIVAL: Final = 3  # the broker's row, its high watermark, the time in ns at which it got this high watermark


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Batches of the log in order, as columns. Times are in nanoseconds, except `append_ms`."""

    base_offset: Int64s
    last_offset: Int64s
    records: Int64s
    bytes: Int64s
    append_ms: Int64s  # by the controller's clock, since 1970
    first_ns: Int64s  # by `time.monotonic_ns`

    def __len__(self) -> int:
        return len(self.base_offset)


@dataclass(slots=True, eq=False)
class Timeline:
    """The arrivals of batches and high watermarks that the loop has reported."""

    committed: int = 0  # The largest high watermark that a broker has got.
    by_row: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))  # By broker row, its high watermark.
    _batches: list[npt.NDArray[np.int64]] = field(default_factory=list)
    _arrivals: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def add(self, batches: bytes, arrivals: bytes) -> None:
        """Adds the batches and arrivals that `Loop.drain` returns."""
        if batches:
            self._batches.append(np.frombuffer(batches, np.int64).reshape(-1, BATCH))
        if arrivals:
            fresh = np.frombuffer(arrivals, np.int64).reshape(-1, ARRIVAL)
            self._arrivals.append(fresh)
            self.committed = max(self.committed, int(fresh[:, 1].max()))
            missing = int(fresh[:, 0].max()) + 1 - len(self.by_row)
            if missing > 0:
                self.by_row = np.append(self.by_row, np.zeros(missing, np.int64))
            np.maximum.at(self.by_row, fresh[:, 0], fresh[:, 1])

    def behind(self, offset: int, rows: Int64s) -> int:
        """The number of these brokers whose high watermark is still below `offset`."""
        there = rows[rows < len(self.by_row)]
        return len(rows) - len(there) + int((self.by_row[there] < offset).sum())

    def batches(self, from_offset: int, end_offset: int | None = None) -> Batches:
        """The batches with records from `from_offset` on and before `end_offset`."""
        rows = _joined(self._batches, BATCH)
        rows = rows[not_replaced(rows[:, 0])]
        wanted = rows[:, 1] >= from_offset
        if end_offset is not None:
            wanted &= rows[:, 0] < end_offset
        return Batches(*rows[wanted].T)

    def known(self, offset: int, rows: int) -> Int64s:
        """By broker row, the time in ns at which its high watermark first exceeded `offset`; -1: not yet."""
        arrivals = _joined(self._arrivals, ARRIVAL)
        arrivals = arrivals[arrivals[:, 1] > offset]
        known: Int64s = np.full(rows, np.iinfo(np.int64).max)
        np.minimum.at(known, arrivals[:, 0], arrivals[:, 2])
        known[known == np.iinfo(np.int64).max] = -1
        return known

    def by_broker(self) -> dict[int, tuple[Int64s, Int64s]]:
        """By broker row, its rising high watermarks, and the times in ns at which it got them."""
        arrivals = _joined(self._arrivals, ARRIVAL)
        found = {}
        for row in np.unique(arrivals[:, 0]).tolist():
            own = arrivals[arrivals[:, 0] == row]
            found[row] = own[:, 1], own[:, 2]
        return found

    def forget(self) -> None:
        """Drops the batches and arrivals seen so far when a scenario begins."""
        self._batches.clear()
        self._arrivals.clear()


def not_replaced(base_offsets__t: Int64s) -> Bools:
    """False for a batch if a later one begins at or before its offset: a new leader's, in place of uncommitted ones."""
    least_after__t = np.minimum.accumulate(np.append(base_offsets__t[1:], np.iinfo(np.int64).max)[::-1])[::-1]
    return base_offsets__t < least_after__t[: len(base_offsets__t)]


def _joined(parts: list[npt.NDArray[np.int64]], width: int) -> Any:
    return np.concatenate(parts) if parts else np.empty((0, width), np.int64)
