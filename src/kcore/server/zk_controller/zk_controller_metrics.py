"""What an operator watches of a controller in ZooKeeper mode; names as those of Kafka's JMX beans."""

from collections import defaultdict
from dataclasses import dataclass, field

from kcore.net.durations import Duration


def _durations() -> defaultdict[str, Duration]:
    return defaultdict(Duration)


@dataclass(slots=True)
class ControllerMetrics:
    """Of one controller process, since it was started; a gauge is as it is now."""

    active_controller_count: int = 0  # gauge: 1 or 0
    controller_epoch: int = 0  # gauge, while active
    event_queue_size: int = 0  # gauge
    event_queue_time: Duration = field(default_factory=Duration)  # EventQueueTimeMs: before it was an event's turn
    events: defaultdict[str, Duration] = field(default_factory=_durations)  # by the event's class: its handling
    requests: defaultdict[str, Duration] = field(
        default_factory=_durations
    )  # by API and version: sent to a broker, answered
    request_queue_time: Duration = field(default_factory=Duration)  # RequestRateAndQueueTimeMs
    request_retries: int = 0
    unacknowledged_brokers: int = 0  # gauge: brokers that have not responded to a LeaderAndIsr in time
    alarms: int = 0  # Times that a broker left leadership unacknowledged for longer than it may.
    relayed: int = 0  # Clients' requests that a broker answered.

    def count_relayed(self) -> None:
        """One more of those."""
        self.relayed += 1
