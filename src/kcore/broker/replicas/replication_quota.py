"""Replication throttles: limits on the bytes a second of some replicas, so that a reassignment leaves room for clients.

A limit never throttles a member of the ISR, but the bytes of all throttled replicas count: the others then get less.

Source: ReplicationQuotaManager and QuotaFactory of 4.3.1 (KIP-73, KIP-113).
"""

from collections.abc import Callable, Container, Mapping
from typing import Final

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica import Key
from kcore.sampled_rate import WINDOW_MS, WINDOWS, SampledRate

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
ALTER_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
ALL_REPLICAS: Final = range(1 << 31)  # The indexes of all partitions, which `*` stands for.
Throttled = Callable[[str], Container[int]]
"""Returns the indexes of a topic's partitions whose replica on this broker is throttled."""


class ReplicationQuota:
    """One limit, and the rate that counts against it. `set_time` must be called before the other methods."""

    def __init__(self, throttled: Throttled, windows: int = WINDOWS, window_ms: int = WINDOW_MS) -> None:
        self.limit: float | None = None  # In bytes a second; None: no limit.
        self.bytes = 0  # The recorded bytes since the start.
        self._throttled = throttled
        self._rate = SampledRate(windows, window_ms, allows_burst=False)
        self._now_ms = 0

    def set_time(self, now_ms: int) -> None:
        """Sets the time of later calls; an earlier time than that of the last call is ignored."""
        self._now_ms = max(self._now_ms, now_ms)

    def is_throttled(self, key: Key) -> bool:
        """Whether the limit applies to this broker's replica of a partition."""
        topic, index = key
        return index in self._throttled(topic)

    @property
    def is_exceeded(self) -> bool:
        """Whether the rate is above the limit, so that replicas out of sync must wait."""
        return self.limit is not None and self.rate > self.limit

    @property
    def rate(self) -> float:
        """Bytes a second over the last windows."""
        return self._rate.measure(self._now_ms)

    def record(self, size: int) -> None:
        """Counts the bytes of a throttled replica, also of one in sync."""
        self.bytes += size
        self._rate.record(size, self._now_ms)


class ReplicationQuotas:
    """The limits of one broker, which its dynamic settings change."""

    def __init__(self, config: BrokerConfig, settings: Mapping[str, TopicSettings]) -> None:
        """`settings`: the settings of the topics whose replicas the broker has; they may change."""
        windows = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        none = TopicSettings()
        # Responses to followers.
        self.leader = ReplicationQuota(lambda topic: settings.get(topic, none).leader_throttled, *windows)
        # Records that this broker fetches from leaders.
        self.follower = ReplicationQuota(lambda topic: settings.get(topic, none).follower_throttled, *windows)
        # Copies between log directories of this broker.
        windows = (
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        )
        self.alter_log_dirs = ReplicationQuota(lambda topic: ALL_REPLICAS, *windows)

    def set_limits(self, *layers: Mapping[str, str]) -> None:
        """Applies dynamic settings of brokers; an earlier layer takes precedence.

        A value that is not a number counts as no limit. Source: BrokerConfigHandler.
        """
        quotas = {LEADER_RATE: self.leader, FOLLOWER_RATE: self.follower, ALTER_LOG_DIRS_RATE: self.alter_log_dirs}
        for name, quota in quotas.items():
            text = next((layer[name] for layer in layers if name in layer), "")
            quota.limit = float(text) if text.strip().isdecimal() else None

    def set_time(self, now_ms: int) -> None:
        """Sets the time of all limits."""
        for each in (self.leader, self.follower, self.alter_log_dirs):
            each.set_time(now_ms)
