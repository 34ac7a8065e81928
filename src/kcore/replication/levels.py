"""Feature levels: the release whose rules a decision follows.

Kafka changed its rules between versions, so every decision takes a level. A level as text:

- `"3.9.1"`: the ZooKeeper-mode controller of that release, at its default inter.broker.protocol.version;
  `"zookeeper:3.1-IV0"`: the same controller at this inter.broker.protocol.version.
- `"3.6-IV0"`: the KRaft controller at this metadata.version, by the rules of the newest release that has it;
  `"3.6-IV0@3.9.1"`: by the rules of 3.9.1; `"4.1.2"`: KRaft at the default metadata.version of that release.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, Self

from kcore.errors import LevelError
from kcore.metadata.metadata_version import PLACES, VERSIONS, VERSIONS_BY_RELEASE, MetadataVersion
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.releases.rules import Rules


@dataclass(frozen=True)
class Level:
    """The mode, the release whose classes decide, and the inter.broker.protocol.version or metadata.version."""

    zookeeper: bool
    release: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the forms that the module docstring lists; LevelError for any other."""
        version, _, release = text.partition("@")
        if not release and version.startswith("zookeeper:"):
            return cls._zookeeper(version.removeprefix("zookeeper:"))
        if not release and version == ZOOKEEPER_RELEASE:
            return cls._zookeeper(VERSIONS_BY_RELEASE[version].default)
        if not release and version in VERSIONS_BY_RELEASE:
            return cls(False, version, VERSIONS_BY_RELEASE[version].default)
        return cls._kraft(version, release)

    @classmethod
    def _zookeeper(cls, version: str) -> Self:
        newest = VERSIONS_BY_RELEASE[ZOOKEEPER_RELEASE].default
        if version not in VERSIONS[: VERSIONS.index(newest) + 1]:
            raise LevelError(f"no inter.broker.protocol.version {version!r} from {VERSIONS[0]} to {newest}")
        return cls(True, ZOOKEEPER_RELEASE, version)

    @classmethod
    def _kraft(cls, version: str, release: str) -> Self:
        if version not in VERSIONS:
            raise LevelError(
                f"no level {version!r}: neither a release of {[*VERSIONS_BY_RELEASE]} nor a metadata.version"
            )
        if release and release not in VERSIONS_BY_RELEASE:
            raise LevelError(f"no rules of release {release!r} here, only of {[*VERSIONS_BY_RELEASE]}")
        for name in [release] if release else reversed(VERSIONS_BY_RELEASE):
            oldest, newest, _ = VERSIONS_BY_RELEASE[name]
            if VERSIONS.index(oldest) <= VERSIONS.index(version) <= VERSIONS.index(newest):
                return cls(False, name, version)
        raise LevelError(f"{release or 'no release'} has no KRaft controller at metadata.version {version}")

    def is_at_least(self, version: str) -> bool:
        """True if this level's version is `version` or newer."""
        return PLACES[self.version] >= PLACES[version]

    @cached_property
    def _version(self) -> MetadataVersion:
        return MetadataVersion(self.version, self.release)

    @property
    def rules(self) -> Rules:
        """The rules of the release."""
        return self._version.rules

    @cached_property
    def leader_recovery_supported(self) -> bool:
        """An unclean election marks the partition as recovering (KIP-704)."""
        return self._version.leader_recovery_supported

    @cached_property
    def epoch_bump_on_isr_shrink(self) -> bool:
        """KRaft: until KAFKA-15021, a smaller ISR alone raises the leader epoch."""
        return self._version.epoch_bump_on_isr_shrink

    @cached_property
    def directory_assignment_supported(self) -> bool:
        """KRaft: partitions record each replica's log directory (KIP-858)."""
        return self._version.directories_supported

    @cached_property
    def elr_supported(self) -> bool:
        """KRaft: partitions may have eligible leader replicas (KIP-966)."""
        return self._version.elr_supported

    @cached_property
    def knows_no_clean_shutdown(self) -> bool:
        """KRaft: 3.9.1 treats every restart of a broker as unclean, if it supports ELR at all."""
        return self.rules.knows_no_clean_shutdown

    @cached_property
    def elects_dead_last_known_leader(self) -> bool:
        """KRaft: 3.9.1 elects the last known leader without checking that it may lead."""
        return self.rules.elects_dead_last_known_leader

    @cached_property
    def last_known_leader_of_empty_isr(self) -> bool:
        """KRaft: 3.9.1 stores the last leader when the ISR becomes empty, later releases when the leader leaves."""
        return self.rules.last_known_leader_of_empty_isr

    @cached_property
    def skips_cordoned_brokers(self) -> bool:
        """KRaft: a broker whose directories are all cordoned gets no new replicas (KIP-1066)."""
        return self.rules.has_cordoned_directories

    @cached_property
    def assignments_clear_elr(self) -> bool:
        """KRaft: before 4.3.1, AssignReplicasToDirs clears a partition's ELR, as if ELR were disabled."""
        return self.rules.assignments_clear_elr

    @cached_property
    def reassignment_awaits_all_replicas(self) -> bool:
        """KRaft: a reassignment completes when all its replicas are in sync; in 4.3.1, when all added replicas are."""
        return self.rules.reassignment_awaits_all_replicas


def level_of(level: Level | str) -> Level:
    """The level itself, or parsed from text; LevelError for anything else."""
    if isinstance(level, Level):
        return level
    if not isinstance(level, str):
        raise LevelError(f"a level is a text such as '4.3.1' or '3.9-IV0', not {level!r}")
    return _parse(level)


_parse: Final = cache(Level.parse)


def _parsed() -> tuple[Level, ...]:
    """Every level that has a name, parsed at import to save time in the first election."""
    forms = ("{}", "zookeeper:{}", *("{}@" + release for release in VERSIONS_BY_RELEASE))
    texts = [form.format(name) for name in VERSIONS for form in forms]
    levels: dict[Level, None] = {}
    for text in texts:
        with suppress(LevelError):
            levels[level_of(text)] = None
    return tuple(levels)


LEVELS: Final = _parsed()
