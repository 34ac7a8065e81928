"""The metric families of a ZooKeeper-mode controller, with Kafka's names where Kafka has the metric.

Source: KafkaController.newMetrics, ControllerEventManager, ControllerChannelManager of 3.9.1.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from kcore.server.metrics import metric_families
from kcore.server.metrics.metric_families import Collect, Family, counter, gauge, histogram, histograms
from kcore.server.metrics.watched_loop import current_watched_loop
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_controller.zk_controller_server import ControllerServer

CONTROLLER: Final = "kafka_controller_KafkaController"
MANAGER: Final = "kafka_controller_ControllerEventManager"


def collector(server: ControllerServer) -> Collect:
    """A function that collects the metrics of a controller."""

    async def collect() -> Sequence[Family]:
        at_s = time.monotonic()
        return [
            *_of_controller(server.metrics),
            *_of_state(server),
            *_of_events(server.metrics, at_s),
            *_of_brokers(server.metrics),
            *metric_families.of_loop(current_watched_loop(), at_s),
        ]

    return collect


def _of_controller(metrics: ControllerMetrics) -> Iterable[Family]:
    text = "1 on the active controller, otherwise 0."
    yield gauge(f"{CONTROLLER}_ActiveControllerCount", text, metrics.active_controller_count)
    yield gauge("kcore_controller_epoch", "The controller epoch while active, or else 0.", metrics.controller_epoch)


def _of_state(server: ControllerServer) -> Iterable[Family]:
    """The metrics of the cluster; none while the controller is not active."""
    if not server.active.is_active:
        return
    table = server.active.table
    yield gauge(f"{CONTROLLER}_ActiveBrokerCount", "Brokers that are live.", int(table.brokers.live.sum()))
    yield gauge(f"{CONTROLLER}_GlobalTopicCount", "Topics.", table.topics.count)
    yield gauge(f"{CONTROLLER}_GlobalPartitionCount", "Partitions.", table.partition_count)
    text = "Partitions without a leader, or whose leader's broker is not live."
    yield gauge(f"{CONTROLLER}_OfflinePartitionsCount", text, len(table.offline()))
    text = "Topics that are being deleted."
    yield gauge(f"{CONTROLLER}_TopicsToDeleteCount", text, len(server.active.topics_to_be_deleted))


def _of_events(metrics: ControllerMetrics, at_s: float) -> Iterable[Family]:
    yield gauge(f"{MANAGER}_EventQueueSize", "Events in the queue.", metrics.event_queue_size)
    text = "How long events were in the queue, in ms."
    yield histogram(f"{MANAGER}_EventQueueTimeMs", text, metrics.event_queue_time, metric_families.MS)
    what = "How long an event took, with its requests to ZooKeeper, by kind"
    yield histograms("kcore_event_seconds", f"{what}.", "kind", metrics.events)
    yield from metric_families.longest("kcore_event", what, "kind", metrics.events, at_s)


def _of_brokers(metrics: ControllerMetrics) -> Iterable[Family]:
    name = "kafka_controller_ControllerChannelManager_RequestRateAndQueueTimeMs"
    text = "How long requests to brokers waited to be sent, in ms."
    yield histogram(name, text, metrics.request_queue_time, metric_families.MS)
    text = "Requests to brokers, from the decision to the answer, by API and version."
    yield histograms("kcore_control_request_seconds", text, "api", metrics.requests)
    yield counter("kcore_control_request_retries", "Requests to brokers that were sent again.", metrics.request_retries)
    text = "Brokers that have not answered a LeaderAndIsr in time."
    yield gauge("kcore_unacknowledged_brokers", text, metrics.unacknowledged_brokers)
    yield counter("kcore_relayed_requests", "Clients' requests that a broker answered.", metrics.relayed)
