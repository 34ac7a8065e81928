"""The settings of a KRaft controller, by Kafka's names with `_` for `.`. `release`: the release whose rules apply."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcore.controller.rules.features import Supported
from kcore.controller.rules.tokens import EXPIRY_TIME_MS, MAX_LIFETIME_MS
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.releases.rules import Rules


@dataclass(frozen=True, slots=True)
class KraftControllerConfig:
    """The settings that the controller's rules read. Times are in milliseconds."""

    node_id: int
    cluster_id: str
    release: str = DEFAULT_RELEASE
    supported_features: Supported = field(default_factory=dict)  # Lowest and highest supported level.
    default_replication_factor: int = 1
    num_partitions: int = 1
    broker_session_timeout_ms: int = 9_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_interval_ms: int = 300_000
    delegation_token_secret_key: str | None = field(default=None, repr=False)
    delegation_token_max_lifetime_ms: int = MAX_LIFETIME_MS
    delegation_token_expiry_time_ms: int = EXPIRY_TIME_MS
    delegation_token_expiry_check_interval_ms: int = 3600 * 1000
    has_authorizer: bool = False
    super_users: tuple[str, ...] = ()
    allow_everyone_if_no_acl_found: bool = False
    controller_quota_window_num: int = 11  # Windows whose tokens fill the token bucket of a quota on mutations.
    controller_quota_window_size_seconds: int = 1
    quota_window_num: int = 11  # Windows over which request_percentage is averaged.
    quota_window_size_seconds: int = 1
    metadata_max_idle_interval_ms: int = 500  # Time between NoOpRecords; 0: none.
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3600 * 1000  # 0: snapshots depend on bytes only.
    # Other settings of server.properties, by Kafka's names. Passwords may be among them.
    static_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    kafka_way: frozenset[str] = frozenset()  # Departures from Kafka that are switched back; see `departures.py`.

    @property
    def rules(self) -> Rules:
        """The rules of the release."""
        return RELEASES[self.release].rules
