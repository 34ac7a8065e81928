"""A storm: hollow brokers against one quorum, scenario after scenario, each measured from the controller's outside."""

import asyncio
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np

from kcore.errors import TargetError
from kcore.hollow import isr
from kcore.hollow.fleet import Fleet, HollowBroker, State
from kcore.hollow.kafka import Usage
from kcore.hollow.outcome import Outcome, histogram, percentile_ms
from kcore.hollow.quorum import Quorum
from kcore.metadata.partition_table import PartitionTable
from kcore.schema.index import METADATA_RECORDS
from kcore.types import Int64s

_POLL_S: Final = 0.02
_LATE_MS: Final = 500.0  # A load generator later than this with its heartbeats is no measure of the controller.
_MILLIS: Final = 1e6


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the cluster is grown to."""

    brokers: int = 20
    partitions: int = 10_000
    partitions_per_topic: int = 100
    replication_factor: int = 3
    racks: int = 3


@dataclass(slots=True, eq=False)
class Storm:
    """The state that scenarios share."""

    quorum: Quorum
    fleet: Fleet
    sizes: Sizes
    random: Random
    controllers: int = 1
    usage: Callable[[], Usage | None] = lambda: None  # of the controllers' processes, together
    timeout_s: float = 120.0
    topics: list[str] = field(default_factory=list)

    @property
    def table(self) -> PartitionTable:
        """The partitions as the hollow brokers know them."""
        return self.fleet.observer.image.table

    def live(self) -> list[HollowBroker]:
        """Those that are not off, by id."""
        return [broker for broker in self.fleet.brokers.values() if broker.state is not State.OFF]

    def is_fenced(self, broker: HollowBroker) -> bool:
        """Whether the others know that it is."""
        known = self.fleet.observer.image.brokers.get(broker.broker_id)
        return known is None or known.fenced

    def fresh_topics(self) -> list[tuple[str, int]]:
        """Names and partitions of topics that are not there yet, `sizes.partitions` in all."""
        whole, rest = divmod(self.sizes.partitions, self.sizes.partitions_per_topic)
        counts = [self.sizes.partitions_per_topic] * whole + [rest] * (rest > 0)
        return [(f"storm-{len(self.topics) + at:06}", count) for at, count in enumerate(counts)]

    async def restore(self, brokers: Sequence[HollowBroker]) -> None:
        """Those that are off come back, and all are in the ISRs again."""
        off = [broker for broker in brokers if broker.state is State.OFF]
        await self.fleet.start(off)
        await self.fleet.unfenced(off, self.timeout_s)
        await self.settled()
        end = time.monotonic() + self.timeout_s
        ids = [broker.broker_id for broker in brokers]
        while len(rows := isr.lacking(self.table, ids)):
            if time.monotonic() > end:
                raise TargetError(f"{len(rows)} partitions lack a member of their ISR after {self.timeout_s:g} s")
            table = self.table
            whole = [[int(table.brokers.ids[each]) for each in of if each >= 0] for of in table.replicas__ps[rows]]
            await isr.alter(self.quorum, table, rows, whole, self.fleet.brokers)
            await self.settled()

    async def until(self, what: str, done: Callable[[], bool]) -> None:
        """Returns when that is so. TargetError when the storm's time-out is over."""
        end = time.monotonic() + self.timeout_s
        while not done():
            if time.monotonic() > end:
                raise TargetError(f"{what}: not within {self.timeout_s:g} s")
            await asyncio.sleep(_POLL_S)
            self.fleet.drain()

    async def settled(self) -> None:
        """Returns when every live broker knows all of the log that was there at the call, and that is in the image."""
        self.fleet.drain()
        target = self.fleet.timeline.committed
        await self.until("the brokers to catch up", lambda: self.fleet.observer.end_offset >= target)
        await self.until("the brokers to catch up", lambda: self._behind(target) == 0)
        self.fleet.drain()

    def _behind(self, offset: int) -> int:
        return sum(self.fleet.committed(broker) < offset for broker in self.live())


class Measure:
    """One scenario between its beginning and its end. `begin` settles first, so that what it sees is its own."""

    def __init__(self, storm: Storm, scenario: str) -> None:
        self.storm = storm
        self.outcome = Outcome(scenario, 0, 0, storm.controllers)
        self.intended_ns = 0

    async def begin(self) -> None:
        """Forgets all that was before; the intended moment is now."""
        storm, fleet = self.storm, self.storm.fleet
        await storm.settled()
        fleet.timeline.forget()
        fleet.observer.forget()
        fleet.errors.clear()
        fleet.false_fencings = 0
        fleet.histograms()
        self._counters = fleet.counters()
        self._usage, self._own = storm.usage(), _own_cpu_s()
        self.start_offset = fleet.observer.end_offset
        self.intended_ns = time.monotonic_ns()

    def answered(self) -> None:
        """The controller has answered all that was asked of it."""
        self.outcome.answered_ms = (time.monotonic_ns() - self.intended_ns) / _MILLIS

    def changes(self, *names: str) -> Int64s:
        """Offsets of the records of these types since the beginning."""
        wanted = [number for number, record in METADATA_RECORDS.items() if record.__name__ in names]
        offsets, types = self.storm.fleet.observer.types(self.start_offset)
        return offsets[np.isin(types, wanted)]

    async def end(self, *names: str) -> Outcome:
        """Waits until every live broker knows the last record of these types, and tells what there was to see."""
        storm, outcome = self.storm, self.outcome
        await storm.settled()
        offsets = self.changes(*names)
        rows = np.array([broker.row for broker in storm.live()], np.int64)
        outcome.brokers, outcome.partitions = len(rows), len(storm.table)
        outcome.changes = len(offsets)
        if len(offsets):
            self._time(offsets, rows)
        self._count()
        self._weigh()
        outcome.seconds = (time.monotonic_ns() - self.intended_ns) / 1e9
        return outcome

    def _time(self, offsets: Int64s, rows: Int64s) -> None:
        """When the first broker saw the first change, and each the last."""
        timeline, outcome = self.storm.fleet.timeline, self.outcome
        first = timeline.batches(int(offsets[0]))
        outcome.first_ms = (int(first.first_ns[0]) - self.intended_ns) / _MILLIS
        unix_ms = time.time_ns() / _MILLIS - (time.monotonic_ns() - int(first.first_ns[0])) / _MILLIS
        outcome.append_gap_ms = unix_ms - int(first.append_ms[0])
        known = timeline.known(int(offsets[-1]), len(self.storm.fleet.brokers))[rows]
        late_ms = (known - self.intended_ns) / _MILLIS
        outcome.last_ms = float(late_ms.max())
        outcome.p50_ms, outcome.p99_ms, outcome.p999_ms = map(float, np.percentile(late_ms, [50, 99, 99.9]))

    def _count(self) -> None:
        """Records, bytes, requests, errors."""
        fleet, outcome = self.storm.fleet, self.outcome
        _, types = fleet.observer.types(self.start_offset)
        for number, count in zip(*np.unique(types, return_counts=True), strict=True):
            outcome.records[METADATA_RECORDS[int(number)].__name__] = int(count)
        outcome.log_bytes = int(fleet.timeline.batches(self.start_offset).bytes.sum())
        counters = fleet.counters()
        outcome.requests = sum(counters[name] - self._counters[name] for name in ("heartbeats", "fetches"))
        outcome.errors, outcome.false_fencings = dict(fleet.errors), fleet.false_fencings

    def _weigh(self) -> None:
        """Heartbeats, our own lag, and what both sides took of the machine."""
        outcome, usage = self.outcome, self.storm.usage()
        latency, lag = map(histogram, self.storm.fleet.histograms())
        outcome.heartbeat_p50_ms, outcome.heartbeat_p99_ms = (percentile_ms(latency, share) for share in (0.5, 0.99))
        outcome.heartbeat_p999_ms, outcome.heartbeat_max_ms = (percentile_ms(latency, share) for share in (0.999, 1))
        outcome.lag_max_ms = percentile_ms(lag, 1)
        outcome.own_cpu_s = _own_cpu_s() - self._own
        if usage and self._usage:
            outcome.controller_cpu_s = usage.cpu_s - self._usage.cpu_s
            outcome.controller_rss_mb = usage.peak_rss_bytes / 1e6
        if outcome.lag_max_ms > _LATE_MS:
            outcome.valid, outcome.note = False, f"the load generator itself was {outcome.lag_max_ms:.0f} ms late"


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
