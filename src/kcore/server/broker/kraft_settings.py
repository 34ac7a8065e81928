"""Reads server.properties into the settings of a KRaft broker (KafkaConfig, BrokerServer of 4.3.1)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcore.broker.directories.failures import LOG_DIR_FAILURE_TIMEOUT_MS
from kcore.broker.replicas.config import BrokerConfig
from kcore.controller.kraft.admin.broker_defaults import DEFAULT_LOG_DIR
from kcore.controller.kraft.config import DEFAULT_RELEASE, KraftControllerConfig
from kcore.net.listener_security import ListenerSecurity
from kcore.raft.replicas import Address, Voter
from kcore.server.broker.topic_creation import OrdinaryTopics, ordinary_topics_of
from kcore.server.kraft.apis import FEATURES
from kcore.server.kraft.settings import OF_AUTHORIZER, OF_QUOTAS, authorizer_fields
from kcore.server.properties.listeners import BrokerListeners, listeners_of
from kcore.server.properties.security import outgoing_of
from kcore.server.properties.values import (
    COUNT,
    LONG,
    MOST_LONG,
    MOST_SHORT,
    SettingsError,
    addresses,
    checked,
    listener_name_of,
    number,
    raft_settings,
    read_all,
    static_voters_of,
    text_value,
)
from kcore.storage.live_log import Settings

RETENTION_CHECK_MS: Final = 300_000
ALL: Final = "*"  # As cordoned.log.dirs: every log directory.
_OF_REPLICAS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "replica.lag.time.max.ms": COUNT,
    "replica.fetch.wait.max.ms": COUNT,
    "replica.fetch.min.bytes": COUNT,
    "replica.fetch.max.bytes": COUNT,
    "replica.fetch.response.max.bytes": COUNT,
    "replica.fetch.backoff.ms": COUNT,
    "fetch.max.bytes": number(1024),
    "max.incremental.fetch.session.cache.slots": number(0),
    "min.insync.replicas": COUNT,
    "message.max.bytes": number(0),
    "offsets.topic.num.partitions": COUNT,
    "offsets.topic.replication.factor": number(1, MOST_SHORT),
    "offsets.topic.segment.bytes": COUNT,
    "transaction.state.log.num.partitions": COUNT,
    "transaction.state.log.replication.factor": number(1, MOST_SHORT),
    "transaction.state.log.min.isr": COUNT,
    "transaction.state.log.segment.bytes": COUNT,
}
_OF_LIFECYCLE: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "broker.heartbeat.interval.ms": COUNT,
    "initial.broker.registration.timeout.ms": COUNT,
}
_OF_DIRECTORIES: Final[Mapping[str, Callable[[str, str], Any]]] = {"log.dir.failure.timeout.ms": COUNT}
_OF_NODE: Final[Mapping[str, Callable[[str, str], Any]]] = {  # Of the metadata log, and of quotas.
    "metadata.log.max.record.bytes.between.snapshots": LONG,
    "metadata.log.max.snapshot.interval.ms": number(0, MOST_LONG),
    **OF_QUOTAS,
}
_OF_TOKENS: Final[Mapping[str, Callable[[str, str], Any]]] = {"delegation.token.secret.key": text_value}
_OF_LOGS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "log.segment.bytes": number(1024 * 1024),
    "log.index.interval.bytes": number(0),
    "log.retention.check.interval.ms": COUNT,
}


class KraftBrokerSettings(NamedTuple):
    """The settings of the process."""

    node_id: int
    log_dirs: tuple[Path, ...]
    metadata_dir: Path  # metadata.log.dir
    listeners: BrokerListeners
    controller_listener: str
    controllers: ListenerSecurity  # Of connections to controllers.
    voters: tuple[Voter, ...]
    bootstrap: tuple[Address, ...]  # controller.quorum.bootstrap.servers
    rack: str | None
    raft: dict[str, Any]  # Fields of RaftConfig.
    replicas: BrokerConfig
    lifecycle: dict[str, Any]  # Fields of LifecycleConfig.
    directory_failure_timeout_ms: int  # log.dir.failure.timeout.ms
    logs: Settings
    retention_check_ms: int
    ordinary_topics: OrdinaryTopics
    static: dict[str, str]  # All that is given, by Kafka's names.
    release: str = DEFAULT_RELEASE  # Of Kafka: whose features and APIs the broker has.

    def __repr__(self) -> str:
        """Without the settings themselves: passwords are among them."""
        return f"KraftBrokerSettings(node_id={self.node_id}, log_dirs={self.log_dirs})"

    def node_config(self, cluster_id: str) -> KraftControllerConfig:
        """What the rules of configurations read: whose they are, and what server.properties says."""
        return KraftControllerConfig(
            node_id=self.node_id,
            cluster_id=cluster_id,
            release=self.release,
            supported_features=dict(FEATURES[self.release]),
            static_configs=self.static,
            **read_all(self.static, _OF_NODE),
            **_authorizer(self.static),
        )


def broker_settings_of(properties: Mapping[str, str]) -> KraftBrokerSettings:
    """The settings; SettingsError, one line, for a name that Kafka does not know or an invalid value."""
    given = checked(properties, OF_AUTHORIZER, has_security=True)
    if given.get("process.roles") != "broker":
        raise SettingsError(f"process.roles={given.get('process.roles', '')}: kcore's broker is a broker alone")
    if "node.id" not in given:
        raise SettingsError("node.id is missing")
    node_id = number(0)("node.id", given["node.id"])
    controllers = listener_name_of(given)
    voters = static_voters_of(given.get("controller.quorum.voters", ""), controllers)
    if node_id in {each.key.id for each in voters}:
        raise SettingsError(f"controller.quorum.voters: node.id {node_id} is a controller's")
    bootstrap = addresses("controller.quorum.bootstrap.servers", given)
    if bool(voters) == bool(bootstrap):
        raise SettingsError("give either controller.quorum.voters or controller.quorum.bootstrap.servers")
    read_all(given, _OF_NODE)  # Wrong values are refused here.
    _authorizer(given)
    log_dirs = _log_dirs(given)
    return KraftBrokerSettings(
        node_id,
        log_dirs,
        Path(given.get("metadata.log.dir") or log_dirs[0]),
        listeners_of(given, controllers),
        controllers,
        outgoing_of(given, controllers),
        *(voters, bootstrap),
        given.get("broker.rack"),
        raft_settings(given),
        BrokerConfig(node_id, **read_all(given, _OF_REPLICAS)),
        _lifecycle(given),
        read_all(given, _OF_DIRECTORIES).get("log_dir_failure_timeout_ms", LOG_DIR_FAILURE_TIMEOUT_MS),
        _logs(given),
        read_all(given, _OF_LOGS).get("log_retention_check_interval_ms", RETENTION_CHECK_MS),
        ordinary_topics_of(given),
        given,
    )


def _authorizer(given: Mapping[str, str]) -> dict[str, Any]:
    """Fields of KraftControllerConfig: who may do what, and tokens."""
    return {**authorizer_fields(given), **read_all(given, _OF_TOKENS)}


def _log_dirs(given: Mapping[str, str]) -> tuple[Path, ...]:
    text = given.get("log.dirs") or given.get("log.dir") or DEFAULT_LOG_DIR
    paths = [Path(each.strip()) for each in text.split(",") if each.strip()]
    if len({path.absolute() for path in paths}) < len(paths):
        raise SettingsError(f"log.dirs={text}: a directory is named twice")
    return tuple(paths)


def _lifecycle(given: Mapping[str, str]) -> dict[str, int]:
    """By LifecycleConfig's names."""
    found = read_all(given, _OF_LIFECYCLE)
    names = {
        "broker_heartbeat_interval_ms": "heartbeat_interval_ms",
        "initial_broker_registration_timeout_ms": "registration_timeout_ms",
    }
    return {names[name]: value for name, value in found.items()}


def _logs(given: Mapping[str, str]) -> Settings:
    found = read_all(given, _OF_LOGS, "log.")
    return Settings(**{name: found[name] for name in ("segment_bytes", "index_interval_bytes") if name in found})
