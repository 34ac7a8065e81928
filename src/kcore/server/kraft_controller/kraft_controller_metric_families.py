"""Converts a KRaft controller's counters to families of the metrics page, with Kafka's names where Kafka has them.

Source: ControllerMetadataMetrics, QuorumControllerMetrics, BrokerRegistrationState of 4.3.1.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np

from kcore.controller.kraft.brokers.heartbeats import NEVER
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.server.clock import wall_ms
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.metrics.metric_families import Collect, Family, gauge, gauges
from kcore.server.quorum_node.quorum_metric_families import quorum_families
from kcore.types import Int32s, Int64s
from kcore.wire.record_batch import scan_batches

CONTROLLER: Final = "kafka_controller_KafkaController"
ROWS_AT_ONCE: Final = 500_000  # Partitions that are counted in one iteration of the event loop: a few milliseconds.
FENCED, CONTROLLED_SHUTDOWN, ACTIVE = 10, 20, 30  # BrokerRegistrationState


def collector(server: KraftServer) -> Collect:
    """A function that collects the metrics of one controller."""
    return KraftFamilies(server).collect


class KraftFamilies:
    """The metric families of one controller."""

    def __init__(self, server: KraftServer) -> None:
        self._server = server
        self._counted_at = -1, -1  # Epoch and end offset of the state that was counted last.
        self._offline = self._imbalanced = 0

    async def collect(self) -> Sequence[Family | Callable[[], Family]]:
        """All current families. One step blocks the event loop for milliseconds, however many partitions there are."""
        await self._count()
        server = self._server
        of_node = quorum_families(server.runtime, server.network, is_ready=server.is_ready)
        return [*self._of_controller(), *self._of_state(), *self._of_brokers(), *of_node]

    async def _count(self) -> None:
        """If the image has changed, counts partitions without a leader, and those not led by the preferred one."""
        image = self._server.controller.image
        at = image.epoch, image.end_offset
        if at == self._counted_at:
            return
        table, offline, imbalanced = image.table, 0, 0
        for first in range(0, len(table), ROWS_AT_ONCE):
            counts = counted(table, first, first + ROWS_AT_ONCE)
            offline, imbalanced = offline + counts[0], imbalanced + counts[1]
            await asyncio.sleep(0)
        self._offline, self._imbalanced, self._counted_at = offline, imbalanced, at

    def _of_controller(self) -> Iterable[Family]:
        controller, metrics = self._server.controller, self._server.runtime.metrics
        text = "1 on the active controller, otherwise 0."
        yield gauge(f"{CONTROLLER}_ActiveControllerCount", text, controller.is_active)
        applied = controller.image.end_offset - 1
        text = "The offset of the last record that is applied to this controller's state, committed or not."
        yield gauge(f"{CONTROLLER}_LastAppliedRecordOffset", text, applied)
        if (timestamp_ms := self._timestamp(applied)) is not None:
            text = "Time of the last applied record, in ms."
            yield gauge(f"{CONTROLLER}_LastAppliedRecordTimestamp", text, timestamp_ms)
            lag_ms = wall_ms() - timestamp_ms
            yield gauge(f"{CONTROLLER}_LastAppliedRecordLagMs", "Age of the last applied record, in ms.", lag_ms)
        text = "The offset of the last committed record that this controller knows."
        yield gauge(f"{CONTROLLER}_LastCommittedRecordOffset", text, controller.committed - 1)
        text = "How often this controller has seen a controller become active."
        yield gauge(f"{CONTROLLER}_NewActiveControllersCount", text, metrics.elections.new_leaders)
        text = "Events that this controller has begun to handle."
        yield gauge(f"{CONTROLLER}_EventQueueOperationsStartedCount", text, metrics.events.processing_time.count)
        text = "Requests and tasks that failed because of a bug of the controller, and wrote nothing."
        yield gauge(f"{CONTROLLER}_MetadataErrorCount", text, metrics.faults)

    def _timestamp(self, offset: int) -> int | None:
        """The timestamp in ms of the batch with the record at this offset; None if the log does not have the record."""
        log = self._server.node.log
        if not log.start_offset <= offset < log.end_offset:
            return None
        batches = scan_batches(log.read(offset, 1, log.end_offset), check_crc=False, stop=True)
        return int(batches.max_timestamp[-1])

    def _of_state(self) -> Iterable[Family]:
        image = self._server.controller.image
        brokers, table = image.brokers, image.table
        fenced__b, leaving__b = brokers.fenced__b, brokers.in_controlled_shutdown__b
        for name, what, is_counted__b in (
            ("FencedBrokerCount", "Registered brokers that are fenced.", fenced__b),
            ("ActiveBrokerCount", "Registered brokers that are not fenced.", ~fenced__b),
            ("ControlledShutdownBrokerCount", "Registered brokers in controlled shutdown.", leaving__b),
        ):
            yield gauge(f"{CONTROLLER}_{name}", what, int(np.count_nonzero(brokers.registered__b & is_counted__b)))
        yield gauge(f"{CONTROLLER}_GlobalTopicCount", "Topics.", image.topics.count)
        yield gauge(f"{CONTROLLER}_GlobalPartitionCount", "Partitions.", table.partition_count)
        yield gauge(f"{CONTROLLER}_OfflinePartitionsCount", "Partitions without a leader.", self._offline)
        text = "Partitions that their preferred replica does not lead."
        yield gauge(f"{CONTROLLER}_PreferredReplicaImbalanceCount", text, self._imbalanced)

    def _of_brokers(self) -> Iterable[Callable[[], Family]]:
        """Functions that make families with a sample for each broker; the figures are copied before."""
        controller = self._server.controller
        self._server.deliver_heartbeats()
        brokers, heartbeats = controller.image.brokers, controller.context.heartbeats
        rows = np.flatnonzero(brokers.registered__b)
        ids, states = brokers.ids[rows], registration_states(brokers)[rows]
        text = "10: the broker is fenced, 20: in controlled shutdown, 30: active."
        yield partial(_by_broker, f"{CONTROLLER}_BrokerRegistrationState", text, ids, states)
        if not controller.is_active:
            return
        contacts = {each: state.last_contact_ms for each, state in heartbeats.brokers.items()}
        last_ms = np.array([contacts.get(each, NEVER) for each in ids.tolist()], np.int64)
        longest_ms, now_ms = heartbeats.session_timeout_ms, self._server.clock.now_ms()
        since_ms = np.where(last_ms == NEVER, longest_ms, np.minimum(now_ms - last_ms, longest_ms))
        text = "Time since the broker's last heartbeat, in ms; at most the session time-out."
        yield partial(_by_broker, f"{CONTROLLER}_TimeSinceLastHeartbeatReceivedMs", text, ids, since_ms)


def _by_broker(name: str, what: str, ids: Int32s, values: Int64s) -> Family:
    return gauges(name, what, "broker", dict(zip(map(str, ids.tolist()), values.tolist(), strict=True)))


def counted(table: PartitionTable, first: int, end: int) -> tuple[int, int]:
    """Counts partitions in these rows without a leader, and those not led by the first replica (hasPreferredLeader)."""
    leader__p, preferred__p = table.leader__p[first:end], table.replicas__ps[first:end, :1].ravel()
    is_partition__p = preferred__p >= 0
    offline = np.count_nonzero(is_partition__p & (leader__p < 0))
    return int(offline), int(np.count_nonzero(is_partition__p & (leader__p != preferred__p)))


def registration_states(brokers: BrokerTable) -> Int64s:
    """The BrokerRegistrationState of each row of the table, by Kafka's numbers."""
    states = np.where(brokers.in_controlled_shutdown__b, CONTROLLED_SHUTDOWN, ACTIVE)
    return np.where(brokers.fenced__b, FENCED, states).astype(np.int64)
