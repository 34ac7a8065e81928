"""The configuration of a ZooKeeper-mode controller; the fields have the names of Kafka's settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcore.metadata.table.broker_table import Endpoint
from kcore.node.tokens import EXPIRY_TIME_MS, MAX_LIFETIME_MS
from kcore.node.zk.acls import AclAuthorizerSettings


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The settings that a ZooKeeper-mode controller reads (KafkaConfig of 3.9.1)."""

    broker_id: int
    endpoints: tuple[Endpoint, ...] = ()  # Where brokers and clients connect; the controller has no broker znode.
    rack: str | None = None
    inter_broker_protocol: str = "3.9"
    inter_broker_listener_name: str = "PLAINTEXT"
    control_plane_listener_name: str | None = None  # The brokers' listener for control requests; None: inter-broker.
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_ms: int = 300_000
    delete_topic_enable: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    supported_features: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # 3.9.1 has no features in ZooKeeper mode.
    authorizer: AclAuthorizerSettings | None = None  # None: every client may do everything.
    delegation_token_secret_key: str | None = field(default=None, repr=False)  # None: no delegation tokens.
    delegation_token_max_lifetime_ms: int = MAX_LIFETIME_MS
    delegation_token_expiry_time_ms: int = EXPIRY_TIME_MS
    delegation_token_expiry_check_interval_ms: int = 3600 * 1000
    controller_quota_window_num: int = 11  # A burst may use the mutation quota of this many windows at once.
    controller_quota_window_size_seconds: int = 1
    quota_window_num: int = 11  # Request times are averaged over this many windows.
    quota_window_size_seconds: int = 1
    acknowledgement_timeout_ms: int = 30_000  # A LeaderAndIsr without a response for longer raises an alarm.
