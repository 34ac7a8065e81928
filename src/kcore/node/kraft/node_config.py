"""The settings that the rules of every node of a KRaft cluster read, by Kafka's names with `_` for `.`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.releases.release import Bounds
from kcore.releases.rules import Rules


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings of a broker or a controller. Times are in milliseconds. `release`: whose rules apply."""

    node_id: int
    cluster_id: str
    release: str = DEFAULT_RELEASE
    supported_features: Mapping[str, Bounds] = field(default_factory=dict)  # Lowest and highest supported level.
    delegation_token_secret_key: str | None = field(default=None, repr=False)
    has_authorizer: bool = False
    super_users: tuple[str, ...] = ()
    allow_everyone_if_no_acl_found: bool = False
    quota_window_num: int = 11  # Windows over which request_percentage is averaged.
    quota_window_size_seconds: int = 1
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3600 * 1000  # 0: snapshots depend on bytes only.
    # Other settings of server.properties, by Kafka's names. Passwords may be among them.
    static_configs: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def rules(self) -> Rules:
        """The rules of the release."""
        return RELEASES[self.release].rules
