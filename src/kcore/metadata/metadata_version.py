"""metadata.version (KIP-778): the levels of Kafka's releases, and which records each level may hold.

`inter.broker.protocol.version` of ZooKeeper mode and `metadata.version` of KRaft are one sequence of names. From
3.0-IV1 on each name has a feature level, the number in a FeatureLevelRecord. Source: MetadataVersion of each release.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from kcore.constants import METADATA_VERSION
from kcore.errors import LevelError
from kcore.java_hash import java_split
from kcore.releases.known import NEWEST, RELEASES
from kcore.releases.release import FIRST_KRAFT
from kcore.releases.rules import Rules

FEATURE_NAME: Final = METADATA_VERSION
MINIMUM_KRAFT_VERSION: Final = 1  # 3.0-IV1: the default of 3.9.1 if a log or a broker names no level.

VERSIONS: Final = NEWEST.version_names
"""From the first that includes KIP-380, in order; versions before 3.0-IV1 are only for ZooKeeper mode."""

PLACES: Final = {version: place for place, version in enumerate(VERSIONS)}

VERSIONS_BY_RELEASE: Final = {name: each.versions for name, each in RELEASES.items()}
"""The versions of each release, oldest release first."""


def name_of_level(level: int) -> str:
    """The name of a feature level; the number as text if no known release has it."""
    place = PLACES[FIRST_KRAFT] + level - 1
    return VERSIONS[place] if level >= 1 and place < len(VERSIONS) else str(level)


@dataclass(frozen=True)
class MetadataVersion:
    """A metadata.version as the MetadataVersion of one release defines it."""

    name: str
    release: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a metadata.version or the name of a release; LevelError for any other text.

        `"3.7-IV2"` is as the newest release that has it defines it. `"3.7-IV2@3.9.1"` is as 3.9.1 defines it. `"3.9.1"`
        stands for the default metadata.version of this release.
        """
        name, _, release = text.partition("@")
        if not release and name in VERSIONS_BY_RELEASE:
            return cls(VERSIONS_BY_RELEASE[name].default, name)
        if release and release not in VERSIONS_BY_RELEASE:
            raise LevelError(f"no release {release!r} here, only {[*VERSIONS_BY_RELEASE]}")
        for each in [release] if release else reversed(VERSIONS_BY_RELEASE):
            oldest, newest, _default = VERSIONS_BY_RELEASE[each]
            if name in PLACES and PLACES[oldest] <= PLACES[name] <= PLACES[newest]:
                return cls(name, each)
        raise LevelError(f"{release or 'no release here'} knows no metadata.version {name!r}")

    @classmethod
    def of_level(cls, level: int, release: str | None = None) -> Self:
        """The metadata.version of a feature level, as defined by `release` or the newest release that has it.

        LevelError if there is none.
        """
        place = PLACES[FIRST_KRAFT] + level - 1
        if level < 1 or place >= len(VERSIONS):
            raise LevelError(f"no metadata.version has feature level {level}")
        return cls.parse(VERSIONS[place] if release is None else f"{VERSIONS[place]}@{release}")

    @classmethod
    def of_text(cls, text: str, release: str, *, is_unstable_allowed: bool = False) -> Self:
        """The version that `kafka-storage.sh format --release-version` reads from a text: `"3.7-IV2"`, `"4.0"` or
        `"4.0.1"`.

        `is_unstable_allowed`: unstable.feature.versions.enable. LevelError for a text that the release refuses. Source:
        MetadataVersion.fromVersionString, Formatter.verifyReleaseVersion.
        """
        oldest, newest, default = VERSIONS_BY_RELEASE[release]
        known = VERSIONS[PLACES[oldest] : PLACES[newest] + 1]
        parts = java_split(text, ".")
        key = ".".join(parts[:2]) if len(parts) > 2 else text
        by_text = {name: name for name in known}
        for name in known[: known.index(default) + 1]:  # A release stands for its last level, once that is stable.
            by_text[name.partition("-")[0]] = name
        found = by_text.get(key)
        if found is None:
            last = newest if is_unstable_allowed else default
            raise LevelError(f"Kafka {release} has no such metadata.version; give a level from {oldest} to {last}")
        if not is_unstable_allowed and PLACES[found] > PLACES[default]:
            raise LevelError(f"{found} is not yet stable in Kafka {release}; set unstable.feature.versions.enable=true")
        return cls(found, release)

    def __str__(self) -> str:
        return self.name

    @cached_property
    def rules(self) -> Rules:
        """The rules of the release."""
        return RELEASES[self.release].rules

    @cached_property
    def feature_level(self) -> int:
        """The level in a FeatureLevelRecord."""
        return PLACES[self.name] - PLACES[FIRST_KRAFT] + 1

    @cached_property
    def is_production(self) -> bool:
        """True if the release accepts it without `unstable.feature.versions.enable`."""
        return PLACES[self.name] <= PLACES[VERSIONS_BY_RELEASE[self.release].default]

    def is_at_least(self, name: str) -> bool:
        """True if this is the metadata.version of that name, or a newer one."""
        return PLACES[self.name] >= PLACES[name]

    @cached_property
    def leader_recovery_supported(self) -> bool:
        """An unclean election marks the partition as recovering (KIP-704)."""
        return self.is_at_least("3.2-IV0")

    @cached_property
    def feature_levels_in_log(self) -> bool:
        """FeatureLevelRecord exists (KIP-778)."""
        return self.is_at_least("3.3-IV0")

    @cached_property
    def no_op_records_supported(self) -> bool:
        """NoOpRecord exists (KIP-835)."""
        return self.is_at_least("3.3-IV1")

    @cached_property
    def broker_registration_changes_supported(self) -> bool:
        """BrokerRegistrationChangeRecord takes the place of FenceBrokerRecord and UnfenceBrokerRecord."""
        return self.is_at_least("3.3-IV2")

    @cached_property
    def controlled_shutdown_in_log(self) -> bool:
        """The log records which brokers are in controlled shutdown (KIP-841)."""
        return self.is_at_least("3.3-IV3")

    @cached_property
    def migration_supported(self) -> bool:
        """ZkMigrationStateRecord exists, and a registration says if the broker migrates from ZooKeeper (KIP-866)."""
        return self.is_at_least("3.4-IV0")

    @cached_property
    def scram_supported(self) -> bool:
        """SCRAM credentials are in the log (KIP-900)."""
        return self.is_at_least("3.5-IV2")

    @cached_property
    def epoch_bump_on_isr_shrink(self) -> bool:
        """A smaller ISR alone raises the leader epoch, until KAFKA-15021."""
        return not self.is_at_least("3.6-IV0")

    @cached_property
    def transactions_supported(self) -> bool:
        """Metadata transactions exist (KIP-868)."""
        return self.is_at_least("3.6-IV1")

    @cached_property
    def delegation_tokens_supported(self) -> bool:
        """Delegation tokens are in the log."""
        return self.is_at_least("3.6-IV2")

    @cached_property
    def controller_registration_supported(self) -> bool:
        """RegisterControllerRecord exists (KIP-919)."""
        return self.is_at_least("3.7-IV0")

    @cached_property
    def directories_supported(self) -> bool:
        """Partitions store the log directories of their replicas (KIP-858)."""
        return self.is_at_least("3.7-IV2")

    @cached_property
    def elr_supported(self) -> bool:
        """Partitions may have eligible leader replicas (KIP-966)."""
        return self.is_at_least(self.rules.elr_since)

    @cached_property
    def cordoned_directories_supported(self) -> bool:
        """Directories may be cordoned (KIP-1066)."""
        return self.is_at_least("4.3-IV0")

    @cached_property
    def cidr_acls_supported(self) -> bool:
        """The host of an ACL may be a range of addresses in CIDR notation."""
        return self.is_at_least("4.4-IV1")

    @cached_property
    def controller_unregistration_supported(self) -> bool:
        """UnregisterControllerRecord exists."""
        return self.is_at_least("4.4-IV2")

    @cached_property
    def partition_record_version(self) -> int:
        """The version of PartitionRecord and of PartitionChangeRecord."""
        return 2 if self.elr_supported else int(self.directories_supported)

    @cached_property
    def register_broker_record_version(self) -> int:
        """The version of RegisterBrokerRecord."""
        steps = self.controlled_shutdown_in_log, self.migration_supported, self.directories_supported
        return sum(steps) + self.cordoned_directories_supported
