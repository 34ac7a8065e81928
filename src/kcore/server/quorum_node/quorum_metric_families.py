"""Converts a quorum node's counters to families of the metrics page, with Kafka's names where Kafka has them.

Source: KafkaRaftMetrics, QuorumControllerMetrics, SnapshotEmitterMetrics, UnifiedLog's LogFlushStats.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from kcore.net.connection_metrics import Metrics
from kcore.raft.node import RaftNode
from kcore.raft.states import Candidate, Follower, Leader, Prospective
from kcore.server.metrics import metric_families
from kcore.server.metrics.metric_families import Collect, Family, counter, gauge, gauges, histogram
from kcore.server.metrics.watched_loop import current_watched_loop
from kcore.server.quorum_node.directory_watch import DirectoryWatch
from kcore.server.quorum_node.quorum_metrics import EventMetrics, QuorumMetrics, SnapshotMetrics
from kcore.server.quorum_node.quorum_runtime import QuorumRuntime
from kcore.server.quorum_node.quorum_server import QuorumServer

RAFT: Final = "kafka_server_raft_metrics"
STATES: Final = (
    *("leader", "follower", "observer", "candidate", "prospective", "prospective-voted"),
    *("unattached", "unattached-voted"),
)


def quorum_families(runtime: QuorumRuntime, network: Metrics, *, is_ready: bool) -> list[Family]:
    """All families of a node; called on the node's event loop. `network`: the metrics of its listener."""
    at_s, loop = time.monotonic(), current_watched_loop()
    return [
        *_of_node(runtime.node),
        *_of_records(runtime.metrics, at_s),
        *_of_events(runtime.metrics.events, at_s),
        *_of_snapshots(runtime.metrics.snapshots, at_s),
        *_of_directory(runtime.directory),
        metric_families.ready(is_ready),
        *metric_families.of_loop(loop, at_s),
        *metric_families.of_network(network),
    ]


def _of_directory(directory: DirectoryWatch | None) -> list[Family]:
    """The family of the log directory; none for a node without one."""
    if directory is None:
        return []
    what = "Whether the log directory is where it was when the node started."
    return [gauge("kcore_log_directory_in_place", what, directory.problem is None)]


def collector(server: QuorumServer) -> Collect:
    """A function that collects the metrics of one node."""

    async def collect() -> Sequence[Family]:
        return quorum_families(server.runtime, server.network, is_ready=server.runtime.is_ready)

    return collect


def kafkas_state(node: RaftNode) -> str:
    """The node's state, as Kafka's metric current-state names it."""
    state = node.quorum.state
    voted = "" if state.voted is None else "-voted"
    if isinstance(state, Leader):
        return "leader"
    if isinstance(state, Candidate):
        return "candidate"
    if isinstance(state, Prospective):
        return f"prospective{voted}"
    if isinstance(state, Follower):
        return "follower" if node.voters.is_voter(node.local) else "observer"
    return f"unattached{voted}"


def _of_node(node: RaftNode) -> Iterable[Family]:
    state, quorum, log = kafkas_state(node), node.quorum.state, node.log
    is_now = {each: float(each == state) for each in STATES}
    yield gauges(f"{RAFT}_current_state", "1 for the state of this node.", "state", is_now)
    yield gauge(f"{RAFT}_current_leader", "The leader's id, -1 if unknown.", node.leader_id)
    voted_id = node.local.id if isinstance(quorum, Leader) else -1 if quorum.voted is None else quorum.voted.id
    yield gauge(f"{RAFT}_current_vote", "The candidate that the node voted for in this epoch, -1 for none.", voted_id)
    yield gauge(f"{RAFT}_current_epoch", "The current epoch.", quorum.epoch)
    known = node.quorum.high_watermark
    yield gauge(f"{RAFT}_high_watermark", "The high watermark, -1 if unknown.", -1 if known is None else known)
    yield gauge(f"{RAFT}_log_end_offset", "The end offset of the log.", log.end_offset)
    yield gauge(f"{RAFT}_log_end_epoch", "The epoch of the log's last record.", log.last_epoch)
    yield gauge(f"{RAFT}_number_of_voters", "The number of voters.", len(node.voters.voters))
    if node.leads:
        yield gauge(
            f"{RAFT}_number_of_observers", "Observers that fetch from this leader.", len(node.leading.observers)
        )
    yield gauge("kcore_raft_log_start_offset", "The start offset of the log.", log.start_offset)


def _of_records(metrics: QuorumMetrics, at_s: float) -> Iterable[Family]:
    for kind, what, records in (
        ("append", "appended as the leader", metrics.log.appended),
        ("fetch", "fetched from the leader", metrics.log.fetched),
    ):
        text = f"Records a second {what}, of the last 30 to 60 s."
        yield gauge(f"{RAFT}_{kind}_records_rate", text, records.recent.rate(at_s))
        yield counter(f"kcore_raft_{kind}_records", f"Records {what}.", records.count)
    for kind, what, duration in (
        ("commit", "from an append of this leader to its commit", metrics.log.commits),
        ("election", "from this node's candidacy until a leader was known", metrics.elections.latency),
    ):
        text = f"Time in ms {what}, of the last 30 to 60 s"
        yield gauge(
            f"{RAFT}_{kind}_latency_avg", f"{text}: the mean.", duration.recent.average(at_s) * metric_families.MS
        )
        yield gauge(
            f"{RAFT}_{kind}_latency_max", f"{text}: the longest.", duration.recent.longest(at_s) * metric_families.MS
        )
        yield histogram(f"kcore_raft_{kind}_seconds", f"Time {what}.", duration)
    text = "Flushes of the log, in ms."
    yield histogram("kafka_log_LogFlushStats_LogFlushRateAndTimeMs", text, metrics.log.flushes, metric_families.MS)


def _of_events(events: EventMetrics, at_s: float) -> Iterable[Family]:
    manager = "kafka_controller_ControllerEventManager"
    text = "From the start of the event loop's turn to the handling of an event, in ms."
    yield histogram(f"{manager}_EventQueueTimeMs", text, events.queue_time, metric_families.MS)
    text = "Handling of events, in ms."
    yield histogram(f"{manager}_EventQueueProcessingTimeMs", text, events.processing_time, metric_families.MS)
    loop = current_watched_loop()
    if loop is not None:
        text = "Share of the last 30 to 60 s that the event loop waited."
        yield gauge(f"{manager}_AvgIdleRatio", text, loop.idle_ratio)
    what = "How long an event blocked the event loop, by kind"
    yield metric_families.histograms("kcore_event_seconds", f"{what}.", "kind", events.by_kind)
    yield from metric_families.longest("kcore_event", what, "kind", events.by_kind, at_s)
    text = "How long the state machine blocked the event loop in an event: applied records, performed outputs."
    yield histogram("kcore_state_machine_seconds", text, events.state_machine)


def _of_snapshots(snapshots: SnapshotMetrics, at_s: float) -> Iterable[Family]:
    emitter = "kafka_server_SnapshotEmitter"
    text = "Bytes of the latest snapshot that this process wrote."
    yield gauge(f"{emitter}_LatestSnapshotGeneratedBytes", text, snapshots.latest_bytes)
    if snapshots.latest_s is not None:
        age_ms = (at_s - snapshots.latest_s) * metric_families.MS
        yield gauge(f"{emitter}_LatestSnapshotGeneratedAgeMs", "The age of the latest snapshot in ms.", age_ms)
    text = "Snapshots: from the first slice until the snapshot is durable; other events run in between."
    yield histogram("kcore_snapshot_seconds", text, snapshots.written)
