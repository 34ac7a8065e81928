"""Reads server.properties into the settings of a KRaft broker (KafkaConfig, BrokerServer of 4.3.1)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcore.broker.directories.failures import LOG_DIR_FAILURE_TIMEOUT_MS
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.net.security.listener_security import ListenerSecurity
from kcore.node.kraft.node_config import NodeConfig
from kcore.releases.broker_defaults import DEFAULT_LOG_DIR
from kcore.releases.known import DEFAULT_RELEASE
from kcore.server.broker.topic_creation import OrdinaryTopics, ordinary_topics_of
from kcore.server.properties.listeners import BrokerListeners, listeners_of
from kcore.server.properties.nodes import OF_AUTHORIZER, node_config, node_fields
from kcore.server.properties.security import outgoing_of
from kcore.server.properties.values import (
    AUTO_JOIN,
    QuorumSettings,
    SettingsError,
    checked,
    quorum_of,
    read_all,
    value_of,
)
from kcore.storage.log.live_log import Settings

RETENTION_CHECK_MS: Final = 300_000
ALL: Final = "*"  # In cordoned.log.dirs: every log directory.
_OF_REPLICAS: Final = (
    "replica.lag.time.max.ms",
    "replica.fetch.wait.max.ms",
    "replica.fetch.min.bytes",
    "replica.fetch.max.bytes",
    "replica.fetch.response.max.bytes",
    "replica.fetch.backoff.ms",
    "fetch.max.bytes",
    "max.incremental.fetch.session.cache.slots",
    "min.insync.replicas",
    "message.max.bytes",
    "producer.id.expiration.ms",
    "producer.id.expiration.check.interval.ms",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.segment.bytes",
)
_OF_LIFECYCLE: Final = {  # The fields of LifecycleConfig by Kafka's names.
    "broker.heartbeat.interval.ms": "heartbeat_interval_ms",
    "initial.broker.registration.timeout.ms": "registration_timeout_ms",
}
_OF_LOGS: Final = {"log.segment.bytes": "segment_bytes", "log.index.interval.bytes": "index_interval_bytes"}
_DIRECTORY_FAILURE: Final = "log.dir.failure.timeout.ms"
_RETENTION_CHECK: Final = "log.retention.check.interval.ms"


class KraftBrokerSettings(NamedTuple):
    """The settings of a KRaft broker's process."""

    node_id: int
    log_dirs: tuple[Path, ...]
    metadata_dir: Path  # metadata.log.dir
    listeners: BrokerListeners
    quorum: QuorumSettings
    controllers: ListenerSecurity  # The security of connections to controllers.
    rack: str | None
    replicas: BrokerConfig
    lifecycle: dict[str, Any]  # Fields of LifecycleConfig.
    directory_failure_timeout_ms: int  # log.dir.failure.timeout.ms
    logs: Settings
    retention_check_ms: int
    ordinary_topics: OrdinaryTopics
    static: dict[str, str]  # All given settings, by Kafka's names.
    release: str = DEFAULT_RELEASE  # The release of Kafka whose features and APIs the broker has.

    def __repr__(self) -> str:
        """Omits the settings, because they may contain passwords."""
        return f"KraftBrokerSettings(node_id={self.node_id}, log_dirs={self.log_dirs})"

    def node_config(self, cluster_id: str) -> NodeConfig:
        """The settings that the rules for settings, quotas and the authorizer use."""
        return node_config(self.node_id, cluster_id, self.release, node_fields(self.static))


def broker_settings_of(properties: Mapping[str, str], release: str = DEFAULT_RELEASE) -> KraftBrokerSettings:
    """The settings; SettingsError with a message of one line for an invalid value, or a name not in the release."""
    given = checked(properties, OF_AUTHORIZER, has_security=True, release=release)
    if given.get("process.roles") != "broker":
        raise SettingsError(f"process.roles={given.get('process.roles', '')}: it must be broker for kcore's broker")
    if "node.id" not in given:
        raise SettingsError("node.id is missing")
    node_id = value_of("node.id", given["node.id"])
    quorum = quorum_of(given)
    if node_id in {each.key.id for each in quorum.voters}:
        raise SettingsError(f"controller.quorum.voters: node.id {node_id} must not be that of a controller")
    if AUTO_JOIN in given and value_of(AUTO_JOIN, given[AUTO_JOIN]):
        raise SettingsError(f"{AUTO_JOIN}=true: only a controller may be a voter, and this node is a broker")
    node_fields(given)  # For its SettingsError.
    log_dirs = _log_dirs(given)
    return KraftBrokerSettings(
        node_id,
        log_dirs,
        Path(given.get("metadata.log.dir") or log_dirs[0]),
        listeners_of(given, quorum.controller_listener),
        quorum,
        outgoing_of(given, quorum.controller_listener),
        given.get("broker.rack"),
        BrokerConfig(node_id, **read_all(given, _OF_REPLICAS)),
        _fields(given, _OF_LIFECYCLE),
        value_of(_DIRECTORY_FAILURE, given.get(_DIRECTORY_FAILURE, str(LOG_DIR_FAILURE_TIMEOUT_MS))),
        Settings(**_fields(given, _OF_LOGS)),
        value_of(_RETENTION_CHECK, given.get(_RETENTION_CHECK, str(RETENTION_CHECK_MS))),
        ordinary_topics_of(given),
        given,
        release,
    )


def _log_dirs(given: Mapping[str, str]) -> tuple[Path, ...]:
    text = given.get("log.dirs") or given.get("log.dir") or DEFAULT_LOG_DIR
    paths = [Path(each.strip()) for each in text.split(",") if each.strip()]
    if len({path.absolute() for path in paths}) < len(paths):
        raise SettingsError(f"log.dirs={text}: a directory is listed twice")
    return tuple(paths)


def _fields(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Any]:
    """The values of the given settings, by field name."""
    return {field: value_of(name, given[name]) for name, field in names.items() if name in given}
