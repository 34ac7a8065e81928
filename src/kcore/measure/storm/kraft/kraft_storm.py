"""A storm on a quorum: the state that scenarios share, and the measurement from outside the controller."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np

from kcore.errors import TargetError
from kcore.measure.hollow import isr
from kcore.measure.hollow.fleet import Fleet, HollowBroker, State, cluster_of
from kcore.measure.hollow.histograms import histogram, percentile_ms
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.local_process import Usage
from kcore.measure.storm.expectations import Bounds, Held, Holdings
from kcore.measure.storm.profiling import Profiling
from kcore.measure.storm.result import ScenarioResult
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.placement import place
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.topics import CreatableReplicaAssignment, CreateTopicsRequest
from kcore.types import Int32s, Int64s

_POLL_S: Final = 0.02
_ALTERED_AT_ONCE: Final = 100_000  # The most partitions whose AlterPartition requests are in memory together.
_LATE_MS: Final = 500.0  # Heartbeats that the load generator sends later than this do not measure the controller.
_MILLIS: Final = 1e6


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that the cluster grows to."""

    brokers: int = 20
    partitions: int = 10_000
    partitions_per_topic: int = 100
    replication_factor: int = 3
    racks: int = 3
    seconds: float = 10.0  # of a steady state
    restarts: int = 3  # brokers of a rolling restart
    leaders: int = 1  # brokers whose followers leave the ISRs in an ISR storm
    rounds: int = 1  # of an ISR storm
    deleted_share: float = 0.25  # of the topics
    lost_share: float = 0.5  # of a broker's replicas: those in the log directory that it loses
    lost_replicas: int = 0  # their number, if not 0


@dataclass(slots=True, eq=False)
class Storm:
    """The state that scenarios share."""

    quorum: Quorum
    fleet: Fleet
    sizes: Sizes
    random: Random  # for the scenarios' choices only: seeded for each scenario, so that all targets get the same
    controllers: int = 1
    processes: ControllerQuorum | None = None  # the controllers, if this run started them and may kill them
    usage: Callable[[], Usage | None] = lambda: None  # of the controllers' processes, together
    session_ms: int = 0  # broker.session.timeout.ms of the controllers; 0: not known
    session_unknown: str = ""  # why the time-out is not known
    timeout_s: float = 120.0
    topics: list[str] = field(default_factory=list)  # that this run has created
    prefix: str = "storm-"  # of the topics' names
    places: bool = False  # The cluster has other brokers, too: topics are created with assignments.
    measure: "Measure | None" = None  # the measurement in progress
    named: int = 0  # topics created so far, deleted ones included
    layout: Sequence[Sequence[Sequence[int]]] = ()  # of a real cluster: replicas by topic and partition
    assignments: dict[str, Sequence[Sequence[int]]] = field(default_factory=dict)  # of its topics, by name
    profile: Profiling | None = None

    @property
    def table(self) -> PartitionTable:
        """The partitions in the hollow brokers' image. TargetError if the brokers only count records."""
        if self.fleet.options.counts_only:
            raise TargetError("this scenario needs hollow brokers that know the partitions: --metadata full")
        return self.fleet.observer.image.table

    async def state(self) -> PartitionTable:
        """The partitions as they are now. If the brokers only count, this reads the log once more."""
        if not self.fleet.options.counts_only:
            return self.table
        return (await cluster_of(self.quorum, Random(), self.timeout_s)).table

    async def pick(self, count: int = 1, what: str = "leaders") -> tuple[list[HollowBroker], Holdings]:
        """Chooses random brokers that hold `what`, a field of Holdings; returns them and their Holdings together.

        `random` shuffles all live brokers, so that all targets get the same ones unless a broker holds nothing.
        """
        held, live = Held(await self.state()), self.live()
        ordered = [each.broker_id for each in self.random.sample(live, len(live))]
        chosen = [each for each in ordered if getattr(held.of([each]), what)][:count]
        if not chosen:
            raise TargetError(f"no live broker has any {what}: there is nothing to measure")
        return [self.fleet.brokers[each] for each in chosen], held.of(chosen)

    async def holdings(self, brokers: Sequence[HollowBroker]) -> Holdings:
        """The Holdings of these brokers at this moment."""
        return Held(await self.state()).of([broker.broker_id for broker in brokers])

    def live(self) -> list[HollowBroker]:
        """The brokers that are not off."""
        return [broker for broker in self.fleet.brokers.values() if broker.state is not State.OFF]

    def is_fenced(self, broker: HollowBroker) -> bool:
        """True if the other brokers have read that this broker is fenced."""
        known = self.fleet.observer.image.brokers.get(broker.broker_id)
        return known is None or known.fenced

    def fresh_topics(self) -> list[tuple[str, int]]:
        """Names and partition counts of topics to create, with `sizes.partitions` partitions in all."""
        if self.layout:
            names = [f"{self.prefix}{self.named + at:06}" for at in range(len(self.layout))]
            self.assignments = dict(zip(names, self.layout, strict=True))
            return [(name, len(replicas)) for name, replicas in self.assignments.items()]
        whole, rest = divmod(self.sizes.partitions, self.sizes.partitions_per_topic)
        counts = [self.sizes.partitions_per_topic] * whole + [rest] * (rest > 0)
        return [(f"{self.prefix}{self.named + at:06}", count) for at, count in enumerate(counts)]

    def place(self, request: CreateTopicsRequest) -> None:
        """Assigns topics of a real cluster as that cluster does.

        On a cluster with other brokers, assigns all others to the storm's brokers, so that no real disk fills.
        """
        brokers = self.live()
        ids, racks = [broker.broker_id for broker in brokers], [broker.rack for broker in brokers]
        for topic in request.topics:
            replicas = self.assignments.get(topic.name)
            if replicas is None and self.places:
                seed, factor = self.random.getrandbits(31), topic.replication_factor
                replicas = place("kafka-3.9", ids, topic.num_partitions, factor, racks=racks, seed=seed).tolist()
            if replicas is None:
                continue
            topic.assignments = [
                CreatableReplicaAssignment(partition_index=at, broker_ids=list(of)) for at, of in enumerate(replicas)
            ]
            topic.num_partitions = topic.replication_factor = -1

    async def restore(self, brokers: Sequence[HollowBroker], *, clean: bool = False) -> None:
        """Brokers that are off come back, after a clean shutdown or a crash, and rejoin all their ISRs."""
        off = [broker for broker in brokers if broker.state is State.OFF]
        await self.fleet.start(off, clean=clean)
        await self.fleet.unfenced(off, self.timeout_s)
        await self.settled()
        await self.fill_isrs(brokers)

    async def fill_isrs(self, brokers: Sequence[HollowBroker]) -> None:
        """The leaders add these brokers to the ISRs of all partitions that have a replica on them."""
        ids = [broker.broker_id for broker in brokers]
        await self.alter_isrs("lack a member of their ISR", lambda table: isr.lacking(table, ids), replicas_of)

    async def alter_isrs(
        self,
        what: str,
        rows: Callable[[PartitionTable], Int32s],
        wanted: Callable[[PartitionTable, int], list[int]],
    ) -> None:
        """Until `rows` finds no partitions, the leaders request the ISRs of `wanted`. TargetError after a time-out."""
        end = time.monotonic() + self.timeout_s
        while len(found := rows(table := await self.state())):
            if time.monotonic() > end:
                raise TargetError(f"{len(found)} partitions still {what} after {self.timeout_s:g} s")
            for first in range(0, len(found), _ALTERED_AT_ONCE):
                part = found[first : first + _ALTERED_AT_ONCE]
                isrs = [wanted(table, row) for row in part.tolist()]
                await isr.alter(self.quorum, table, part, isrs, self.fleet.brokers)
            await self.settled()

    def replicas(self, row: int) -> list[int]:
        """Ids of a partition's brokers."""
        return replicas_of(self.table, row)

    async def until(self, what: str, done: Callable[[], bool]) -> None:
        """Returns when the condition holds. TargetError after the storm's time-out."""
        end = time.monotonic() + self.timeout_s
        while not done():
            if time.monotonic() > end:
                raise TargetError(f"waited {self.timeout_s:g} s in vain for {what}")
            await asyncio.sleep(_POLL_S)
            self.fleet.drain()

    async def settled(self) -> None:
        """Returns when every live broker, and the image, have all records that were committed at the call."""
        await self.fleet.sync()
        if not self.live():
            return
        target = (await self.quorum.describe()).high_watermark  # Brokers may lag behind the answers.
        observer, timeline = self.fleet.observer, self.fleet.timeline
        await self.until("the brokers to catch up", lambda: observer.end_offset >= target)
        await self.until("the brokers to catch up", lambda: timeline.behind(target, self.live_rows()) == 0)
        await self.fleet.sync()

    def live_rows(self) -> Int64s:
        """The numbers of the live brokers in the compiled loop (`HollowBroker.row`)."""
        return np.array([broker.row for broker in self.live()], np.int64)


def layout_of(table: PartitionTable, broker_ids: Sequence[int]) -> list[list[list[int]]]:
    """The replicas of each topic and partition; `broker_ids` are the ids of the table's brokers by row."""
    topics = (table.replicas__ps[table.rows_of_topic(name)].tolist() for name in table.topics.names)
    return [[[broker_ids[row] for row in rows if row >= 0] for rows in topic] for topic in topics]


def replicas_of(table: PartitionTable, row: int) -> list[int]:
    """Ids of the brokers of one partition."""
    return [int(table.brokers.ids[each]) for each in table.replicas__ps[row] if each >= 0]


class Measure:
    """Measures one scenario, from `begin` to `end`. `begin` first waits until the brokers have read earlier changes."""

    def __init__(self, storm: Storm, scenario: str) -> None:
        self.storm = storm
        self.result = ScenarioResult(scenario, 0, 0, storm.controllers)
        self.intended_ns = 0
        self._lost: Sequence[HollowBroker] = ()

    async def begin(self, bounds: Bounds) -> None:
        """Discards earlier records; the intended moment is now. Changes out of bounds make the result invalid."""
        storm, fleet = self.storm, self.storm.fleet
        self._bounds = bounds
        self.result.expected_least, self.result.expected_most = bounds.least, bounds.most
        storm.measure = self
        await storm.settled()
        fleet.timeline.forget()
        fleet.observer.forget()
        fleet.errors.clear()
        fleet.false_fencings = fleet.refused_ns = 0
        if storm.profile:
            await asyncio.to_thread(storm.profile.begin, self.result.scenario)
            self.result.profiled = True
        fleet.histograms()
        self._counters = fleet.counters()
        self._usage, self._own = storm.usage(), fleet.cpu_s()
        self.start_offset = fleet.observer.end_offset
        if not storm.live():  # There may be earlier records that our brokers have not read.
            self.start_offset = (await storm.quorum.describe()).high_watermark
        self.intended_ns = self._wave_ns = time.monotonic_ns()
        self._wave_offset = self.start_offset

    async def wave(self, name: str, *names: str) -> None:
        """Ends a wave: sets the time until every live broker had read the wave's last record of these types."""
        await self.storm.settled()
        fleet = self.storm.fleet
        if len(offsets := self.changes(*names, from_offset=self._wave_offset)):
            known = fleet.timeline.known(int(offsets[-1]), len(fleet.brokers))[self.storm.live_rows()]
            self.result.waves_ms[name] = (int(known.max()) - self._wave_ns) / _MILLIS
        self.begin_wave()

    def elected(self, before: int) -> None:
        """Adds the wave "elected": until the leader after epoch `before` wrote a batch, by the batch's time stamp."""
        timeline, start_offset = self.storm.fleet.timeline, self.storm.fleet.observer.committed_of(before)
        if len(batches := timeline.batches(start_offset)):
            since_ns = time.monotonic_ns() - self.intended_ns
            self.result.waves_ms["elected"] = int(batches.append_ms[0]) - (time.time_ns() - since_ns) / _MILLIS

    def begin_wave(self) -> None:
        """Begins the next wave."""
        self._wave_offset, self._wave_ns = self.storm.fleet.observer.end_offset, time.monotonic_ns()

    def waits_for_sessions(self, lost: Sequence[HollowBroker]) -> None:
        """Sets the brokers whose loss the controller notices only when their sessions end."""
        self._lost = lost

    def waits_no_more(self) -> None:
        """Takes `waits_for_sessions` back: the controller began its work without this wait."""
        self._lost = ()

    def answered(self) -> None:
        """Sets the time at which the controller has answered all requests."""
        self.result.answered_ms = (time.monotonic_ns() - self.intended_ns) / _MILLIS

    def changes(self, *names: str, from_offset: int | None = None) -> Int64s:
        """Offsets of the records of these types since `begin`, or from `from_offset` on."""
        wanted = [number for number, record in METADATA_RECORDS.items() if record.__name__ in names]
        offsets, types = self.storm.fleet.observer.types(self.start_offset if from_offset is None else from_offset)
        return offsets[np.isin(types, wanted)]

    async def end(self, *names: str) -> ScenarioResult:
        """Waits until every live broker has read the last record of these types, and returns the measured result."""
        await self.storm.settled()
        result = self.so_far(*names)
        if flaw := self.flaw(*names):
            result.invalidate(flaw)
        return result

    def flaw(self, *names: str) -> str:
        """Why the number of changes so far makes the result invalid; empty within the bounds."""
        return self._bounds.flaw(len(self.changes(*names)))

    def so_far(self, *names: str) -> ScenarioResult:
        """The result of an unfinished scenario, from the changes that have arrived so far."""
        storm, result = self.storm, self.result
        offsets = self.changes(*names)
        rows = storm.live_rows()
        result.brokers, result.partitions = len(rows), storm.fleet.observer.partitions
        result.changes = len(offsets)
        if len(offsets):
            self._time(offsets, rows)
        self._count()
        self._weigh()
        result.seconds = (time.monotonic_ns() - self.intended_ns) / 1e9
        return result

    def _time(self, offsets: Int64s, rows: Int64s) -> None:
        """Sets when the first broker read the first change, and when each broker read the last change."""
        timeline, result = self.storm.fleet.timeline, self.result
        first = timeline.batches(int(offsets[0]))
        result.first_ms = (int(first.first_ns[0]) - self.intended_ns) / _MILLIS
        unix_ms = time.time_ns() / _MILLIS - (time.monotonic_ns() - int(first.first_ns[0])) / _MILLIS
        result.append_gap_ms = unix_ms - int(first.append_ms[0])
        known = timeline.known(int(offsets[-1]), len(self.storm.fleet.brokers))[rows]
        late_ms = (known[known >= 0] - self.intended_ns) / _MILLIS
        if not len(late_ms):
            return
        result.known_ms = late_ms.tolist()
        result.last_ms = float(late_ms.max())
        result.p50_ms, result.p99_ms, result.p999_ms = map(float, np.percentile(late_ms, [50, 99, 99.9]))

    def _count(self) -> None:
        """Sets the counts of records, bytes, requests and errors."""
        fleet, result = self.storm.fleet, self.result
        result.log_begin, result.log_end = self.start_offset, fleet.observer.end_offset
        _, types = fleet.observer.types(self.start_offset)
        for number, count in zip(*np.unique(types, return_counts=True), strict=True):
            result.records[METADATA_RECORDS[int(number)].__name__] = int(count)
        result.log_bytes = int(fleet.timeline.batches(self.start_offset, result.log_end).bytes.sum())
        counters = fleet.counters()
        result.requests = sum(counters[name] - self._counters[name] for name in ("heartbeats", "fetches"))
        self._wait_for_sessions()
        result.errors, result.false_fencings = dict(fleet.errors), fleet.false_fencings

    def _wait_for_sessions(self) -> None:
        """Sets how long the controller waited for the sessions of lost brokers to end, or why this is not known.

        The time-out runs from when the controller reads a broker's last heartbeat, a little after it was sent.
        """
        storm, result = self.storm, self.result
        sent_ns = [broker.last_sent_ns for broker in self._lost]
        if self._lost and storm.session_ms and all(sent_ns):
            result.session_ms = (max(sent_ns) - self.intended_ns) / _MILLIS + storm.session_ms
        elif storm.fleet.refused_ns:
            result.session_ms = storm.fleet.refused_ns / _MILLIS
        elif self._lost:
            result.work_unknown = storm.session_unknown or "the time of a lost broker's last heartbeat is not known"

    def _weigh(self) -> None:
        """Sets the heartbeat figures, our own lag, the CPU time of both sides, and the controllers' memory."""
        result, usage = self.result, self.storm.usage()
        if self.storm.profile:
            self.storm.profile.end()
        latency, lag = map(histogram, self.storm.fleet.histograms())
        result.heartbeats = latency.tolist()
        result.clock_ms = self.storm.fleet.clock_ns / _MILLIS
        result.heartbeat_p50_ms, result.heartbeat_p99_ms = (percentile_ms(latency, share) for share in (0.5, 0.99))
        result.heartbeat_p999_ms, result.heartbeat_max_ms = (percentile_ms(latency, share) for share in (0.999, 1))
        result.lag_max_ms = percentile_ms(lag, 1)
        result.own_cpu_s = self.storm.fleet.cpu_s() - self._own
        if usage and self._usage and usage.cpu_s >= self._usage.cpu_s:  # Lower if a process was replaced.
            result.controller_cpu_s = usage.cpu_s - self._usage.cpu_s
            result.controller_rss_mb = usage.peak_rss_bytes / 1e6
        if result.lag_max_ms > _LATE_MS:
            result.invalidate(f"the load generator itself was {result.lag_max_ms:.0f} ms late")
