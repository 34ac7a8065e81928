"""The metrics of a KRaft broker, under Kafka's names where Kafka has them.

Source: KafkaBroker, ReplicaManager, LogManager, AssignmentsManager, FetchSession, BrokerServerMetrics,
ClientQuotaManager, ReplicationQuotaManager of 4.3.1.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from kcore.broker.lifecycle.machine import BrokerState
from kcore.broker.replicas.partition import Partition
from kcore.broker.replicas.replica import Role
from kcore.metadata.image.image import ClusterImage
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.metrics import metric_families
from kcore.server.metrics.metric_families import Collect, Family, client_gauges, counter, counters, gauge, gauges
from kcore.server.metrics.watched_loop import current_watched_loop

SERVER: Final = "kafka_server"
REPLICAS: Final = f"{SERVER}_ReplicaManager"
LOGS: Final = "kafka_log_LogManager"
SESSIONS: Final = f"{SERVER}_FetchSessionCache"
PARTITIONS_AT_ONCE: Final = 2_000  # Partitions that are counted before other events are handled: a few milliseconds.
CLIENTS: Final = 100  # The most users and client ids with a rate of their own.
NAME: Final = 200  # The most characters of their names.
STATES: Final = {  # Kafka's numbers of BrokerState.
    BrokerState.STARTING: 1,
    BrokerState.RECOVERY: 2,
    BrokerState.RUNNING: 3,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUTTING_DOWN: 7,
}


def collector(server: KraftBrokerServer) -> Collect:
    """A function that collects the metrics of one broker. It blocks the event loop for milliseconds at a time."""

    async def collect() -> Sequence[Family]:
        replicas = await _of_replicas(server)
        at_s = time.monotonic()
        return [
            *replicas,
            *_of_broker(server),
            *_of_directories(server),
            *_of_requests(server),
            *_of_quotas(server),
            *metric_families.of_network(server.listening.metrics),
            *metric_families.of_loop(current_watched_loop(), at_s),
        ]

    return collect


def _of_broker(server: KraftBrokerServer) -> Iterable[Family]:
    text = "1: starting, 2: recovery, 3: running, 6: pending controlled shutdown, 7: shutting down."
    yield gauge(f"{SERVER}_KafkaServer_BrokerState", text, STATES[server.state])
    yield metric_families.ready(server.state is BrokerState.RUNNING)
    text = "The offset of the last record of the metadata log that the broker has applied."
    yield gauge(f"{SERVER}_broker_metadata_metrics_last_applied_record_offset", text, server.applied_offset)


async def _of_replicas(server: KraftBrokerServer) -> Iterable[Family]:
    counts = dict.fromkeys(("led", "offline", "under replicated", "under min", "at min"), 0)
    partitions = [*server.runtime.manager.partitions.values()]
    for first in range(0, len(partitions), PARTITIONS_AT_ONCE):
        for partition in partitions[first : first + PARTITIONS_AT_ONCE]:
            for kind in _counted(partition, server.link.image):
                counts[kind] += 1
        await asyncio.sleep(0)
    return [
        gauge(f"{REPLICAS}_{name}", text, count)
        for name, text, count in (
            ("PartitionCount", "Replicas on this broker.", len(partitions)),
            ("LeaderCount", "Partitions that this broker leads.", counts["led"]),
            ("OfflineReplicaCount", "Replicas in log directories that are offline.", counts["offline"]),
            (
                "UnderReplicatedPartitions",
                "Partitions that this broker leads and that have replicas out of sync.",
                counts["under replicated"],
            ),
            ("UnderMinIsrPartitionCount", "Partitions with an ISR below min.insync.replicas.", counts["under min"]),
            ("AtMinIsrPartitionCount", "Partitions with an ISR of min.insync.replicas.", counts["at min"]),
        )
    ]


def _counted(partition: Partition, image: ClusterImage | None) -> Iterable[str]:
    """The counts of `_of_replicas` that include this partition, by their keys in `counts`."""
    if partition.role is Role.OFFLINE:
        yield "offline"
    if partition.role is not Role.LEADER or partition.received is None:
        return
    yield "led"
    in_sync, replicas = len(partition.isr), len(partition.received.replicas)
    if in_sync < replicas - len(_adding(partition, image) if in_sync < replicas else ()):
        yield "under replicated"
    if in_sync <= partition.min_isr:
        yield "under min" if in_sync < partition.min_isr else "at min"


def _adding(partition: Partition, image: ClusterImage | None) -> Sequence[int]:
    """The replicas that a reassignment adds: they do not count yet (OngoingReassignmentState.replicationFactor)."""
    topic, index = partition.key
    if image is None or topic not in image.topics or (row := image.table.row_at(image.topics.row(topic), index)) < 0:
        return ()
    return image.table.registration(row).adding_replicas


def _of_directories(server: KraftBrokerServer) -> Iterable[Family]:
    directories = server.runtime.logs.directories
    offline = {str(each.path): int(each.failed is not None) for each in directories}
    yield gauge(f"{LOGS}_OfflineLogDirectoryCount", "Log directories that are offline.", sum(offline.values()))
    yield gauges(f"{LOGS}_LogDirectoryOffline", "1 where the log directory is offline.", "logDirectory", offline)
    text = "Log directories that get no new replicas."
    yield gauge(f"{LOGS}_CordonedLogDirectoryCount", text, len(server.handlers.mode.cordoned()))
    text = "Replicas whose directory the controller has not accepted yet (KIP-858)."
    name = f"{SERVER}_AssignmentsManager_QueuedReplicaToDirAssignments"
    yield gauge(name, text, server.directories.queued_assignments)


def _of_requests(server: KraftBrokerServer) -> Iterable[Family]:
    manager = server.runtime.manager
    waiting = {"Fetch": len(manager.fetching.by_id), "Produce": len(manager.producing.by_id)}
    text = "Requests that wait for records or for replicas."
    yield gauges(f"{SERVER}_DelayedOperationPurgatory_PurgatorySize", text, "delayedOperation", waiting)
    sessions = manager.sessions
    yield gauge(f"{SESSIONS}_NumIncrementalFetchSessions", "Fetch sessions (KIP-227).", len(sessions.sessions))
    text = "Partitions in all fetch sessions."
    yield gauge(f"{SESSIONS}_NumIncrementalFetchPartitionsCached", text, sessions.num_partitions)
    text = "Fetch sessions that were evicted for other sessions."
    yield counter("kcore_fetch_session_evictions", text, sessions.evictions)


def _of_quotas(server: KraftBrokerServer) -> Iterable[Family]:
    quotas, throttles = server.handlers.quotas, server.runtime.manager.quotas
    at_ms = quotas.requests.now_ms()
    of_clients = {"Produce": quotas.produce, "Fetch": quotas.fetch, "Request": quotas.requests.rates}
    for kind, rates in of_clients.items():
        name, unit = ("request_time", "percent") if kind == "Request" else ("byte_rate", "bytes a second")
        text = f"The rate of clients with a quota, in {unit}: the {CLIENTS} most recently counted ones."
        shown = {(user[:NAME], client[:NAME]): rate for (user, client), rate in rates.rates(at_ms, CLIENTS).items()}
        yield client_gauges(f"{SERVER}_{kind}_{name}", text, shown)
    text = "Requests whose client the quota throttled."
    yield counters(
        "kcore_throttled_requests", text, "quota", {kind: each.throttled for kind, each in of_clients.items()}
    )
    text = "The throttle times of these requests."
    times_s = {kind: each.throttled_ms / 1000 for kind, each in of_clients.items()}
    yield counters("kcore_throttle_time_seconds", text, "quota", times_s)
    of_replicas = {
        "LeaderReplication": throttles.leader,
        "FollowerReplication": throttles.follower,
        "AlterLogDirsReplication": throttles.alter_log_dirs,
    }
    for kind, throttle in of_replicas.items():
        yield gauge(f"{SERVER}_{kind}_byte_rate", "Bytes a second of throttled replicas.", throttle.rate)
