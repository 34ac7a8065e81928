"""A storm in ZooKeeper mode: the state that scenarios share, and the measurement from outside the controller."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np

from kcore.broker.zk_control.broker import Broker
from kcore.errors import TargetError
from kcore.measure.hollow.zk.receivers import Receiver
from kcore.measure.hollow.zk.zk_fleet import HollowFleet
from kcore.measure.processes.local_process import Usage
from kcore.measure.processes.zk_controllers import ControllerProcess
from kcore.measure.storm.expectations import Bounds, Held
from kcore.measure.storm.profiling import Profiling
from kcore.measure.storm.result import ScenarioResult
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.merge import merge
from kcore.net.versions import api_name
from kcore.schema import LeaderAndIsrRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import Int32s

_MILLIS: Final = 1e6
MOST_WAVES: Final = 3  # Kafka's controller sends one state at most this often.
QUIET_S: Final = 1.5  # Kafka's controller sends in waves, up to a second apart.


class Witness:
    """The cluster as one broker, the witness, knows it from its requests. Scenarios never stop the witness."""

    def __init__(self, broker: Receiver) -> None:
        self.broker_id = broker.broker_id
        self._broker = broker
        broker.keeps_updates = True
        self._view = Broker(broker.broker_id, -1).table

    def has_not(self, broker_id: int) -> bool:
        """True if the broker leads nothing any more, and is in no ISR with other members."""
        view = self.view()
        if broker_id not in view.brokers:
            return True
        row = view.brokers.row(broker_id)
        in_isr = (view.isr__pi == row).any(axis=1) & ((view.isr__pi >= 0).sum(axis=1) > 1)
        return not in_isr.any() and not (view.leader__p == row).any()

    def view(self) -> PartitionTable:
        """The cluster as of the last request that was drained."""
        assert self._broker.keeps_updates, "the witness keeps no requests"
        for each in self._broker.updates():
            if len(each.topic_states.partition_states):
                merge(self._view, each)
        return self._view

    def catch_up(self) -> None:
        """Merges the received requests into the view, so that a later caller does not wait for the merge."""
        if self._broker.keeps_updates:
            self.view()

    def stop_keeping(self) -> None:
        """Keeps no requests from now on: if each has one partition, merging them takes longer than answering."""
        self._broker.keeps_updates = False


@dataclass(slots=True, eq=False)
class ZkStorm:
    """The state that scenarios share.

    `table`: the cluster as it was written or will be created, with reassignments but without elections. `lost_id`: the
    broker that broker-lost kills; it has a session of its own.
    """

    fleet: HollowFleet
    controller: ControllerProcess
    table: PartitionTable
    random: Random
    lost_id: int | None = None
    timeout_s: float = 180.0
    profile: Profiling | None = None
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.fleet.brokers[min(self.fleet.brokers)])

    def pick(self) -> int:
        """Chooses a live broker: not the witness, and not `lost_id`, which leads nothing after its return."""
        others = self.fleet.live - {self.witness.broker_id}
        return self.random.choice(sorted(others - {self.lost_id} or others))

    def sent_about(self, broker_id: int, times: int = 1) -> Bounds:
        """Bounds of the partitions in LeaderAndIsr when a broker ends: at least one for each partition that it leads.

        At most, all new leaders and ISRs go to every replica. `times` multiplies this, if the broker also comes back.
        """
        held = Held(self.witness.view()).of([broker_id])
        most = (held.leaders + held.replicas) * self.table.replicas__ps.shape[1]
        return Bounds(max(1, held.leaders), times * most, f"a broker that {held} ends")

    def sent_whole(self) -> Bounds:
        """Bounds of the partitions in LeaderAndIsr when live brokers get all their replicas, up to MOST_WAVES times."""
        count = sum(len(self.held(broker_id)) for broker_id in self.fleet.live)
        return Bounds(max(1, count), max(1, MOST_WAVES * count), f"{count:,} replicas on live brokers")

    def forget(self) -> None:
        """Excludes the requests received so far from the next measurement."""
        self.fleet.forget()
        self.witness.catch_up()

    def held(self, broker_id: int) -> Int32s:
        """Rows of the partitions with a replica on this broker."""
        return self.table.index.rows(self.table.brokers.row(broker_id))

    def replicas(self, row: int) -> list[int]:
        """Ids of a partition's brokers."""
        return [int(self.table.brokers.ids[each]) for each in self.table.replicas__ps[row] if each >= 0]

    def knows_all(self, broker_id: int) -> bool:
        """True if a broker got all partitions by UpdateMetadata, and its replicas by LeaderAndIsr, since `forget`."""
        fleet = self.fleet
        return fleet.partitions_sent(broker_id, UpdateMetadataRequest) >= len(self.table) and fleet.partitions_sent(
            broker_id, LeaderAndIsrRequest
        ) >= len(self.held(broker_id))

    def everyone_knows_all(self) -> bool:
        """True if `knows_all` is true for every live broker."""
        return all(map(self.knows_all, self.fleet.live))

    async def everyone_back(self) -> None:
        """Lost brokers register again; returns when each has received all partitions from the controller."""
        away = sorted(self.fleet.brokers.keys() - self.fleet.live)
        if not away:
            return
        self.forget()
        await self.fleet.register(away)
        what = "the brokers that are back to know all partitions"
        await self.fleet.until(what, lambda: all(map(self.knows_all, away)), self.timeout_s)
        await self.fleet.quiet(QUIET_S, self.timeout_s)

    async def settled(self) -> None:
        """Returns when every live broker has all partitions, and no request has come for a while."""
        await self.fleet.until("the brokers to know all partitions", self.everyone_knows_all, self.timeout_s)
        await self.fleet.quiet(QUIET_S, self.timeout_s)


class ZkMeasure:
    """Measures one scenario, from the construction until `end`."""

    def __init__(
        self, storm: ZkStorm, scenario: str, bounds: Bounds, counted: type[Message] = LeaderAndIsrRequest
    ) -> None:
        """`counted`: the request whose partitions are the changes; changes out of bounds make the result invalid."""
        self.storm, self._bounds, self._counted = storm, bounds, counted
        self.result = ScenarioResult(scenario, len(storm.fleet.live), len(storm.table), controllers=1)
        self.result.expected_least, self.result.expected_most = bounds.least, bounds.most
        storm.forget()
        if storm.profile:
            storm.profile.begin(scenario)
            self.result.profiled = True
        self._usage: Usage | None = storm.controller.usage()
        self._own_s = time.process_time()
        self.intended_ns = self._begun_ns = time.monotonic_ns()

    def begins_now(self) -> None:
        """Sets the intended moment, if it is not the construction, to now or to an earlier first request.

        On a busy machine the watch that calls this may fire after all requests that follow the same change.
        """
        arrivals = [each.at_ns for _, each in self.storm.fleet.arrivals()]
        self.intended_ns = min([time.monotonic_ns(), *arrivals])

    def session_ended(self, least_s: float) -> None:
        """Records the end of a dead broker's session: now, or the arrival of an earlier request that follows from it.

        `least_s`: how long the session lasts at least; earlier requests do not follow from its end.
        """
        soonest_ns = self.intended_ns + int(least_s * 1e9)
        arrivals = [each.at_ns for _, each in self.storm.fleet.arrivals() if each.at_ns >= soonest_ns]
        self.result.session_ms = (min([time.monotonic_ns(), *arrivals]) - self.intended_ns) / _MILLIS

    def wave(self, name: str) -> None:
        """Records when a part of the requested work is done."""
        self.result.waves_ms[name] = (time.monotonic_ns() - self.intended_ns) / _MILLIS

    def answered(self) -> None:
        """Records when the controller has answered."""
        self.result.answered_ms = (time.monotonic_ns() - self.intended_ns) / _MILLIS

    async def end(self, what: str, so: Callable[[], bool], timeout_s: float | None = None) -> ScenarioResult:
        """Waits until `so` holds and no more requests come, and returns the measured result. `what`: for a time-out."""
        storm, result = self.storm, self.result
        most_s = timeout_s or storm.timeout_s  # Kafka's controller may be minutes late with its decisions.
        await storm.fleet.until(what, so, most_s)
        await storm.fleet.quiet(QUIET_S, most_s)
        arrivals = [(broker_id, each) for broker_id, each in storm.fleet.arrivals() if each.at_ns >= self.intended_ns]
        if not arrivals:
            raise TargetError(f"{result.scenario}: no request came")
        last = {broker_id: (each.at_ns - self.intended_ns) / _MILLIS for broker_id, each in arrivals}
        result.known_ms = list(last.values())
        result.first_ms = (arrivals[0][1].at_ns - self.intended_ns) / _MILLIS
        result.last_ms = max(result.known_ms)
        result.p50_ms, result.p99_ms, result.p999_ms = map(float, np.percentile(result.known_ms, [50, 99, 99.9]))
        result.records = dict(Counter(api_name(each.message) for _, each in arrivals))
        result.requests, result.log_bytes = len(arrivals), sum(each.bytes for _, each in arrivals)
        result.changes = sum(each.partitions for _, each in arrivals if each.message is self._counted)
        if flaw := self._bounds.flaw(result.changes):
            result.invalidate(flaw)
        self._weigh()
        result.seconds = (time.monotonic_ns() - self._begun_ns) / 1e9
        return result

    def _weigh(self) -> None:
        usage = self.storm.controller.usage()
        if self.storm.profile:
            self.storm.profile.end()
        self.result.own_cpu_s = time.process_time() - self._own_s
        if usage and self._usage:
            self.result.controller_cpu_s = usage.cpu_s - self._usage.cpu_s
            self.result.controller_rss_mb = usage.peak_rss_bytes / 1e6
