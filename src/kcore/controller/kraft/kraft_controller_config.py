"""The settings of a KRaft controller, by Kafka's names with `_` for `.`."""

from dataclasses import dataclass

from kcore.node.kraft.node_config import NodeConfig
from kcore.node.tokens import EXPIRY_TIME_MS, MAX_LIFETIME_MS


@dataclass(frozen=True, slots=True)
class KraftControllerConfig:
    """The settings that the controller's rules read. Times are in milliseconds."""

    node: NodeConfig  # The settings that brokers have, too.
    default_replication_factor: int = 1
    num_partitions: int = 1
    broker_session_timeout_ms: int = 9_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_interval_ms: int = 300_000
    delegation_token_max_lifetime_ms: int = MAX_LIFETIME_MS
    delegation_token_expiry_time_ms: int = EXPIRY_TIME_MS
    delegation_token_expiry_check_interval_ms: int = 3600 * 1000
    controller_quota_window_num: int = 11  # Windows whose tokens fill the token bucket of a quota on mutations.
    controller_quota_window_size_seconds: int = 1
    metadata_max_idle_interval_ms: int = 500  # Time between NoOpRecords; 0: none.
    kafka_way: frozenset[str] = frozenset()  # Departures from Kafka that are switched back; see `departures.py`.
