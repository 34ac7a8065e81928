"""When each broker was last heard of, and what it said then: in no record (BrokerHeartbeatManager)."""

from dataclasses import dataclass

from kcore.metadata.broker_registration import BrokerRegistration
from kcore.metadata.image import ClusterImage
from kcore.schema.structure import MetadataRecord


@dataclass(slots=True)
class BrokerHeartbeat:
    """Of one registered broker."""

    fenced: bool
    last_contact_ms: int
    metadata_offset: int = -1  # That the broker has applied, by its last heartbeat.
    controlled_shutdown_offset: int = -1  # That must be applied everywhere before it may stop; -1 if it does not leave.


class BrokerHeartbeats:
    """Of all brokers, by id."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.brokers: dict[int, BrokerHeartbeat] = {}

    def touch(self, broker: BrokerRegistration, now_ms: int) -> None:
        """It was heard of now."""
        self.brokers[broker.id] = BrokerHeartbeat(broker.fenced, now_ms)

    def on_record(self, record: MetadataRecord, image: ClusterImage, now_ms: int) -> None:
        """A record was applied to the image that may register, fence or forget a broker."""
