"""One frame of `kcore top`: everything that it shows at one moment, as data. Its fields are those of `--json`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, name_of_level
from kcore.net.address import address_text
from kcore.schema.describe_quorum import ReplicaState
from kcore.server.quorum_node.describe import QuorumDescription

Samples: TypeAlias = Mapping[tuple[str, str], float]
"""The values on a page of metrics, by name and the value of the only label ("" without a label)."""
MS: Final = 1000.0
EVENTS: Final = "kafka_controller_ControllerEventManager_EventQueueProcessingTimeMs_count"
IDLE: Final = "kafka_controller_ControllerEventManager_AvgIdleRatio"
COMMIT: Final = "kafka_server_raft_metrics_commit_latency"
SNAPSHOT: Final = "kafka_server_SnapshotEmitter_LatestSnapshotGenerated"
HEARTBEAT: Final = "BrokerHeartbeat"


@dataclass(slots=True)
class Replica:
    """A voter or an observer, from the leader's answer to DescribeQuorum; ages are relative to this answer."""

    id: int
    role: str  # leader, voter, observer
    address: str | None  # Only of a voter, and only if the leader's answer has it.
    log_end_offset: int
    lag: int  # Records behind the leader's log.
    fetched_ms_ago: int | None  # None: the replica has not fetched from this leader.
    caught_up_ms_ago: int | None


@dataclass(slots=True)
class Broker:
    """A registered broker."""

    id: int
    state: str  # active, fenced, shutting down
    rack: str | None
    leaders: int
    replicas: int


@dataclass(slots=True)
class Partitions:
    """The cluster's partitions, counted in the metadata log."""

    topics: int
    partitions: int
    offline: int  # Without a leader.
    under_replicated: int
    not_preferred: int  # The first replica is not the leader.
    metadata_version: str | None


@dataclass(slots=True)
class Rates:
    """Changes in the log per second since the previous frame."""

    records: float
    partition_changes: float
    isr_changes: float


@dataclass(slots=True)
class Measured:
    """The metrics of one controller, from its page; None for a metric that the page does not have."""

    url: str
    events_per_s: float | None
    busy: float | None  # The share of recent time in which the event loop was busy.
    longest_event_ms: float | None  # The longest recent event.
    longest_event: str | None  # The kind of the longest event.
    longest_turn_ms: float | None  # The longest recent turn of the asyncio loop.
    commit_avg_ms: float | None
    commit_max_ms: float | None
    heartbeats_per_s: float | None
    heartbeat_ms: float | None  # Mean since the previous reading of the page.
    connections: float | None
    rss_bytes: float | None
    cpu: float | None  # In cores, since the previous reading of the page.
    snapshot_bytes: float | None
    snapshot_age_s: float | None


@dataclass(slots=True)
class Frame:
    """The state at one moment. Unknown values are None or empty; `problems` say what is wrong, one line each."""

    time_ms: int | None = None  # The leader's clock.
    age_s: float | None = None  # Age of the leader's answer; None before the first answer.
    cluster_id: str | None = None
    leader_id: int | None = None
    leader_address: str | None = None
    epoch: int | None = None
    high_watermark: int | None = None
    replicas: list[Replica] = field(default_factory=list)
    read_up_to: int | None = None  # The fields below include the log up to this offset.
    brokers: list[Broker] = field(default_factory=list)
    partitions: Partitions | None = None
    rates: Rates | None = None
    # The mean over the last 30 to 60 s: from the arrival of records in `kcore top` until it learns of their commit.
    commit_seen_ms: float | None = None
    measured: Measured | None = None
    problems: list[str] = field(default_factory=list)


def describe(frame: Frame, found: QuorumDescription) -> None:
    """Fills the leader's description of its quorum into the frame."""
    partition = found.partition
    endpoints = {
        node.node_id: address_text(node.listeners[0].host, node.listeners[0].port)
        for node in found.nodes
        if node.listeners
    }
    leader = next((each for each in partition.current_voters if each.replica_id == partition.leader_id), None)
    frame.cluster_id, frame.leader_id, frame.epoch = found.cluster_id, partition.leader_id, partition.leader_epoch
    frame.leader_address = None if found.leader is None else address_text(*found.leader)
    frame.high_watermark = partition.high_watermark
    frame.time_ms = None if leader is None else leader.last_fetch_timestamp
    roles = [("leader" if each is leader else "voter", each) for each in partition.current_voters]
    roles += [("observer", each) for each in partition.observers]
    frame.replicas = [_replica(each, role, leader, endpoints.get(each.replica_id)) for role, each in roles]


def _replica(state: ReplicaState, role: str, leader: ReplicaState | None, address: str | None) -> Replica:
    def ago(timestamp_ms: int) -> int | None:
        return None if leader is None or timestamp_ms < 0 else max(0, leader.last_fetch_timestamp - timestamp_ms)

    lag = 0 if leader is None else max(0, leader.log_end_offset - state.log_end_offset)
    times = ago(state.last_fetch_timestamp), ago(state.last_caught_up_timestamp)
    return Replica(state.replica_id, role, address, state.log_end_offset, lag, *times)


def brokers_of(image: ClusterImage) -> list[Broker]:
    """The registered brokers in order of ids, with the numbers of partitions that each leads and replicates."""
    table, brokers = image.table, image.brokers
    count = len(brokers.ids)
    leaders = np.bincount(table.leader__p[table.leader__p >= 0], minlength=count).tolist()
    replicas = np.bincount(table.replicas__ps[table.replicas__ps >= 0], minlength=count).tolist()
    fenced, leaving = brokers.fenced__b.tolist(), brokers.in_controlled_shutdown__b.tolist()
    rows = np.flatnonzero(brokers.registered__b).tolist()
    found = []
    for row in rows:
        state = "fenced" if fenced[row] else "shutting down" if leaving[row] else "active"
        found.append(Broker(int(brokers.ids[row]), state, brokers.racks[row], leaders[row], replicas[row]))
    return sorted(found, key=lambda each: each.id)


def partitions_of(image: ClusterImage) -> Partitions:
    """Counts the topics and partitions of the whole cluster."""
    table, level = image.table, image.features.get(FEATURE_NAME)
    leader__p, preferred__p = table.leader__p, table.replicas__ps[:, :1].ravel()
    is_partition__p = preferred__p >= 0
    return Partitions(
        topics=image.topics.count,
        partitions=table.partition_count,
        offline=int(np.count_nonzero(is_partition__p & (leader__p < 0))),
        under_replicated=len(table.under_replicated()),
        not_preferred=int(np.count_nonzero(is_partition__p & (leader__p != preferred__p))),
        metadata_version=None if level is None else name_of_level(level),
    )


def measured(url: str, now: Samples, before: Samples | None, elapsed_s: float) -> Measured:
    """Compares two readings of a page, `elapsed_s` apart; rates are None after the first reading."""

    def value(name: str, label: str = "", scale: float = 1.0) -> float | None:
        found = now.get((name, label))
        return None if found is None or found != found else found * scale

    def change(name: str, label: str = "") -> float | None:
        newer, older = now.get((name, label)), None if before is None else before.get((name, label))
        return None if newer is None or older is None or newer < older else newer - older

    def rate(name: str, label: str = "") -> float | None:
        changed = change(name, label)
        return None if changed is None or elapsed_s <= 0 else changed / elapsed_s

    def named(*names: str) -> Sequence[tuple[float, str]]:
        return [(seconds, label) for (name, label), seconds in now.items() if name in names]

    idle, longest = value(IDLE), max(named("kcore_event_longest_recent_seconds"), default=None)
    beats, beats_s = change("kcore_request_seconds_count", HEARTBEAT), change("kcore_request_seconds_sum", HEARTBEAT)
    return Measured(
        url=url,
        events_per_s=rate(EVENTS),
        busy=None if idle is None else 1 - idle,
        longest_event_ms=None if longest is None else longest[0] * MS,
        longest_event=None if longest is None else longest[1],
        longest_turn_ms=value("kcore_loop_turn_longest_recent_seconds", scale=MS),
        commit_avg_ms=value(f"{COMMIT}_avg"),
        commit_max_ms=value(f"{COMMIT}_max"),
        heartbeats_per_s=rate("kcore_request_seconds_count", HEARTBEAT),
        heartbeat_ms=None if not beats or beats_s is None else beats_s / beats * MS,
        connections=value("kcore_connections"),
        rss_bytes=value("process_resident_memory_bytes"),
        cpu=rate("process_cpu_seconds_total"),
        snapshot_bytes=value(f"{SNAPSHOT}Bytes"),
        snapshot_age_s=value(f"{SNAPSHOT}AgeMs", scale=1 / MS),
    )
