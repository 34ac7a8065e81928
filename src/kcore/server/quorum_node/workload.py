"""Appends records at a rate on a leader and measures their commit latencies, as kafka.tools.TestRaftServer does."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from kcore.raft.log.accumulator import max_records
from kcore.raft.state_machine import AnyAppend, Append, SnapshotReader
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.types import Int64s
from kcore.wire.metadata_frames import encode_metadata_record

TICK_S: Final = 0.001
MOST_IDLE_S: Final = 0.01  # A node notices within this time that it leads.
REPORT_S: Final = 5.0
WINDOWS: Final = 12  # Periods of REPORT_S that the percentiles cover: a minute, as in Kafka's tool.
BUCKETS_A_MS: Final = 10
BUCKETS: Final = 1_000 * BUCKETS_A_MS  # The last one counts all longer latencies.
SMALLEST_FILLED: Final = 6  # Bytes of a no-op with an empty tagged field.
FILLING_TAG: Final = 100
MOST_PENDING: Final = 1_000_000  # Uncommitted records; at this limit the rate cannot be held, and no more are appended.


class Stats(NamedTuple):
    """Throughput of commits in a period; percentiles of the time in ms from when a record is due to its commit."""

    records_per_s: float
    bytes_per_s: float
    p50_ms: float
    p75_ms: float
    p99_ms: float
    p999_ms: float

    def __str__(self) -> str:
        """The line that TestRaftServer prints, with the median and the records a second."""
        return (
            f"Throughput (bytes/second): {self.bytes_per_s:.2f}, Latency (ms): {self.p75_ms:.1f} p75 {self.p99_ms:.1f} "
            f"p99 {self.p999_ms:.1f} p999, {self.p50_ms:.1f} p50, {self.records_per_s:.0f} records/second"
        )


def stats_of(counts: Int64s, record_bytes: int, seconds: float) -> Stats | None:
    """Stats from the number of latencies in each bucket; None if nothing was committed."""
    running = np.cumsum(counts)
    if not running[-1]:
        return None

    def at(share: float) -> float:
        return float(np.searchsorted(running, share * running[-1], side="right")) / BUCKETS_A_MS

    rate = float(running[-1]) / seconds
    return Stats(rate, rate * record_bytes, at(0.5), at(0.75), at(0.99), at(0.999))


def no_op_of(size: int) -> bytes:
    """A record that controllers ignore: a no-op, padded by an unknown tagged field.

    The record has `size` bytes, or one less if no length of the field gives `size`; it has at least 4.
    """
    if size <= SMALLEST_FILLED:
        return encode_metadata_record(NoOpRecord(), 0)
    spare = size - SMALLEST_FILLED
    for length in (spare, spare - 1, spare - 2, spare - 3):  # The field's length takes one to four bytes.
        made = encode_metadata_record(NoOpRecord(unknown_tagged_fields=[(FILLING_TAG, bytes(max(0, length)))]), 0)
        if len(made) <= size:
            break
    return made


class Pending(NamedTuple):
    """Records that were appended together, and when the first of them was due."""

    last_offset: int
    records: int
    due_s: float


class Window(NamedTuple):
    """A period, and the number of latencies in each bucket."""

    begun_s: float
    counts: Int64s


class AppendWorkload:
    """A state machine that appends records while its node leads.

    A record's latency begins when the record is due, even if the append is late.
    """

    reads_batches: ClassVar = False
    is_at_work: ClassVar = False

    def __init__(self, rate: float, record_bytes: int, report: Callable[[Stats], None]) -> None:
        """`rate`: records a second. `report` is called every `REPORT_S`."""
        self._rate, self._report = rate, report
        self._record = no_op_of(record_bytes)
        self._most_at_once = max_records(len(self._record))
        self._pending: deque[Pending] = deque()
        self._windows: deque[Window] = deque(maxlen=WINDOWS)
        self._epoch: int | None = None
        self._next_offset = 0  # The offset of the next append, unless another append comes first.
        self._claimed_s, self._appended, self._waiting = 0.0, 0, 0

    def on_leader(self, epoch: int, offset: int) -> Sequence[Append]:
        self._epoch, self._next_offset = epoch, offset
        self._claimed_s, self._appended, self._waiting = time.monotonic(), 0, 0
        self._pending.clear()
        self._windows.clear()
        self._begin_window(self._claimed_s)
        return ()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Append]:
        now_s, pending = time.monotonic(), self._pending
        while pending and pending[0].last_offset < end_offset:
            batch = pending.popleft()
            self._waiting -= batch.records
            latencies_s = now_s - batch.due_s - np.arange(batch.records) / self._rate
            buckets = np.clip(latencies_s * (1000 * BUCKETS_A_MS), 0, BUCKETS - 1).astype(np.int64)
            np.add.at(self._windows[-1].counts, buckets, 1)
        return ()

    def on_resigned(self, epoch: int) -> Sequence[Append]:
        self._epoch = None
        self._pending.clear()
        self._windows.clear()
        return ()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Append]:
        """Makes the refused records due again, at their first due times."""
        first_offset = append.expected_offset
        while self._pending and self._pending[-1].last_offset >= first_offset:
            batch = self._pending.pop()
            self._appended -= batch.records
            self._waiting -= batch.records
        self._next_offset = next_offset
        return ()

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Append]:
        reader.close()
        return ()

    async def run(self, submit: Callable[[Sequence[Append]], None]) -> None:
        """Appends records until it is cancelled. `submit`: that of the server whose state machine this workload is."""
        while True:
            await asyncio.sleep(max(TICK_S, min(self._next_due_s() - time.monotonic(), MOST_IDLE_S)))
            submit(self._append_due())
            now_s = time.monotonic()
            if self._windows and now_s - self._windows[-1].begun_s >= REPORT_S:
                counts = np.sum([each.counts for each in self._windows], axis=0)
                stats = stats_of(counts, len(self._record), now_s - self._windows[0].begun_s)
                self._begin_window(now_s)
                if stats is not None:
                    self._report(stats)

    def _begin_window(self, now_s: float) -> None:
        self._windows.append(Window(now_s, np.zeros(BUCKETS, np.int64)))

    def _next_due_s(self) -> float:
        return self._claimed_s + (self._appended + 1) / self._rate

    def _append_due(self) -> Sequence[Append]:
        """An append of the records that are due, as many as one batch holds."""
        due = int((time.monotonic() - self._claimed_s) * self._rate) - self._appended
        due = min(due, MOST_PENDING - self._waiting, self._most_at_once)
        if self._epoch is None or due <= 0:
            return ()
        append = Append([self._record] * due, self._epoch, self._next_offset)
        self._next_offset += due
        self._pending.append(Pending(self._next_offset - 1, due, self._next_due_s()))
        self._appended += due
        self._waiting += due
        return (append,)
