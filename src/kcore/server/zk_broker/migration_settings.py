"""Reads a ZooKeeper-mode broker's settings of the quorum to which it migrates (KafkaConfig of 3.9.1)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kcore.errors import LevelError
from kcore.metadata.metadata_version import VERSIONS, MetadataVersion
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.server.properties.security import protocol_of
from kcore.server.properties.values import (
    PLAIN,
    QuorumSettings,
    SettingsError,
    boolean_of,
    listener_name_of,
    quorum_of,
    read_all,
)

ENABLE: Final = "zookeeper.metadata.migration.enable"
NAMES: Final = (
    *("controller.", "listener.security.protocol.map", "metadata.log.", "broker.heartbeat.interval.ms"),
    ENABLE,
)
"""The prefixes of the settings that a migrating broker reads."""
HEARTBEAT_INTERVAL_MS: Final = 2_000
OLDEST: Final = "3.4-IV0"
OLDEST_JBOD: Final = "3.7-IV2"


class MigrationSettings(NamedTuple):
    """The settings of a migration to a quorum."""

    quorum: QuorumSettings
    metadata_dir: Path | None  # metadata.log.dir; None: the first log directory.
    heartbeat_interval_ms: int  # broker.heartbeat.interval.ms


def migration_settings_of(given: Mapping[str, str]) -> MigrationSettings | None:
    """The settings; None unless zookeeper.metadata.migration.enable is true. SettingsError."""
    if not boolean_of(ENABLE, given.get(ENABLE, "false")):
        return None
    listener = listener_name_of(given)
    if (protocol := protocol_of(given, listener)) != "PLAINTEXT":
        raise SettingsError(f"listener.security.protocol.map: {listener} is {protocol}: {PLAIN}")
    interval = read_all(given, ("broker.heartbeat.interval.ms",))
    metadata_dir = given.get("metadata.log.dir")
    return MigrationSettings(
        quorum_of(given),
        None if not metadata_dir else Path(metadata_dir),
        interval.get("broker_heartbeat_interval_ms", HEARTBEAT_INTERVAL_MS),
    )


def feature_level(protocol: str, directories: int) -> int:
    """The metadata.version that the broker registers with. SettingsError for a protocol that cannot migrate."""
    try:
        name = next(each for each in reversed(VERSIONS) if each == protocol or each.startswith(f"{protocol}-"))
        version = MetadataVersion.parse(f"{name}@{ZOOKEEPER_RELEASE}")
    except (LevelError, StopIteration):
        raise SettingsError(f"inter.broker.protocol.version={protocol}: it cannot migrate from ZooKeeper") from None
    oldest = OLDEST if directories == 1 else OLDEST_JBOD
    if not version.is_at_least(oldest):
        more = "" if directories == 1 else " with several log directories"
        raise SettingsError(f"inter.broker.protocol.version={protocol}: a migration{more} needs {oldest} or newer")
    return version.feature_level
