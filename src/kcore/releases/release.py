"""A release of Kafka as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from kcore.constants import METADATA_VERSION
from kcore.releases.rules import Rules
from kcore.releases.settings import GroupBounds, TopicConfigs

Bounds: TypeAlias = tuple[int, int]  # The lowest and the highest.
RaftLevel: TypeAlias = Literal["3.9", "4.3"]  # The protocol of raft's requests; 3.9 has no pre-votes.
LogLevel: TypeAlias = Literal["3.9.1", "4.1.2"]  # The first known release with the rules for a metadata log.

FIRST_KRAFT: Final = "3.0-IV1"  # Feature level 1; the next names have the next levels.
NEWEST_LOG_LEVEL: Final[LogLevel] = "4.1.2"
SNAPSHOTS_WITHIN_BATCHES: Final[LogLevel] = "3.9.1"  # A snapshot may end within a batch.
LOG_LEVELS: Final[Mapping[str, LogLevel]] = {"4.3": NEWEST_LOG_LEVEL, "3.9": SNAPSHOTS_WITHIN_BATCHES}
"""By level of raft's requests."""


class KnownVersions(NamedTuple):
    """The levels that a release's MetadataVersion has."""

    oldest: str
    newest: str
    default: str  # LATEST_PRODUCTION: levels after it need `unstable.feature.versions.enable`.


@dataclass(frozen=True, eq=False)
class Release:
    """The facts of one release that kcore's decisions and answers depend on."""

    name: str
    version_names: tuple[str, ...]  # From the first with KIP-380 to the release's newest, unstable names included.
    oldest_version: str
    default_version: str  # LATEST_PRODUCTION.
    changed_metadata: frozenset[str]  # The metadata.versions that change records (didMetadataChange).
    features: Mapping[str, Bounds]  # The levels that nodes support, without metadata.version.
    features_since: Mapping[str, Sequence[str]]  # The metadata.versions at which levels 1, 2, ... become the default.
    known_features: Mapping[str, int]  # Highest levels by Feature.featureFromName, released or not.
    apis: Mapping[str, Bounds]  # The versions of a controller's APIs (ApiMessageType's listeners).
    raft_level: RaftLevel
    rules: Rules
    topic_configs: TopicConfigs  # In the order in which Kafka checks them.
    setting_names: frozenset[str]  # All names that server.properties may have, without prefixes.
    broker_lists: Mapping[str, str]  # A broker's settings that are lists, with their defaults.
    broker_defaults: Mapping[str, str | None]  # Empty if DescribeConfigs shows only settings that have a value.
    group_configs: TopicConfigs  # In the order of parsing; empty if groups have no settings.
    group_bounds: tuple[GroupBounds, ...]  # In the order in which Kafka checks them.
    dynamic_broker_configs: frozenset[str] = frozenset()  # Those that older releases lack (ALL_DYNAMIC_CONFIGS).

    @property
    def versions(self) -> KnownVersions:
        """The oldest, the newest and the default metadata.version."""
        return KnownVersions(self.oldest_version, self.version_names[-1], self.default_version)

    @property
    def supported_features(self) -> Mapping[str, Bounds]:
        """The levels that nodes support (QuorumFeatures.defaultSupportedFeatureMap)."""
        versions = self._level(self.oldest_version), self._level(self.default_version)
        return dict(sorted({**self.features, METADATA_VERSION: versions}.items()))

    @property
    def log_level(self) -> LogLevel:
        """The rules of raft that a node of this release follows for its metadata log."""
        return LOG_LEVELS[self.raft_level]

    def _level(self, version: str) -> int:
        return self.version_names.index(version) - self.version_names.index(FIRST_KRAFT) + 1
