"""The figures that a ZooKeeper-mode controller counts, named after Kafka's JMX beans."""

from collections import defaultdict
from dataclasses import dataclass, field

from kcore.net.durations import Duration


def _durations() -> defaultdict[str, Duration]:
    return defaultdict(Duration)


@dataclass(slots=True)
class ControllerMetrics:
    """The figures of one process since its start; a gauge is the current value."""

    active_controller_count: int = 0  # gauge: 1 or 0
    controller_epoch: int = 0  # gauge, while active
    event_queue_size: int = 0  # gauge
    event_queue_time: Duration = field(default_factory=Duration)  # EventQueueTimeMs: in the queue
    events: defaultdict[str, Duration] = field(default_factory=_durations)  # handling, by kind of event
    requests: defaultdict[str, Duration] = field(
        default_factory=_durations
    )  # from sending to the broker's response, by API and version
    request_queue_time: Duration = field(default_factory=Duration)  # RequestRateAndQueueTimeMs
    request_retries: int = 0
    unacknowledged_brokers: int = 0  # gauge: brokers that have not responded to a LeaderAndIsr in time
    alarms: int = 0  # How often a broker did not respond to LeaderAndIsr in time.
    relayed: int = 0  # Requests that were relayed to a broker.

    def count_relayed(self) -> None:
        """Counts a relayed request."""
        self.relayed += 1
