"""The configuration of a broker; names and defaults are Kafka's."""

import re
from dataclasses import dataclass, field

from kcore.errors import UnsupportedVersionError


@dataclass(frozen=True)
class BrokerConfig:
    """The settings of Kafka that replicas use; times in milliseconds."""

    broker_id: int
    inter_broker_protocol: str = "3.9"  # inter.broker.protocol.version
    replica_lag_time_max_ms: int = 30_000
    replica_lag_max_offsets: int | None = None  # The article's lag in offsets, which Kafka removed in 0.9.
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 1_000
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000  # 0: no fetch sessions (KIP-227).
    min_insync_replicas: int = 1
    message_max_bytes: int = 1_048_588
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1
    # The coordinators' topics, for which brokers send the controller CreateTopics.
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 104_857_600
    protocol: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Parses inter.broker.protocol.version; raises UnsupportedVersionError if it is malformed."""
        object.__setattr__(self, "protocol", _parsed(self.inter_broker_protocol))

    @property
    def has_alter_partition(self) -> bool:
        """Whether leaders send AlterPartition; older leaders write the ISR to ZooKeeper (KIP-497)."""
        return self.protocol >= (2, 7)

    @property
    def truncates_on_fetch(self) -> bool:
        """Whether Fetch reports divergence; older followers send OffsetForLeaderEpoch first (KIP-595)."""
        return self.protocol >= (2, 7)

    @property
    def fetch_version(self) -> int:
        """The newest Fetch version for requests to other brokers; version 13 adds topic ids (KIP-516)."""
        return 17 if self.protocol >= (3, 1) else 12 if self.truncates_on_fetch else 11


def _parsed(protocol: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", protocol)
    if match is None:
        raise UnsupportedVersionError(f"inter.broker.protocol.version {protocol!r}")
    return int(match[1]), int(match[2])
