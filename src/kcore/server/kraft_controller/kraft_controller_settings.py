"""Reads server.properties into the settings of a KRaft controller.

Source: AbstractKafkaConfig, KafkaConfig, QuorumConfig, MetadataLogConfig, DelegationTokenManagerConfigs of 4.3.1.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import ListenerSecurity
from kcore.raft.membership.replicas import Address, Voter
from kcore.releases.broker_defaults import DEFAULT_LOG_DIR
from kcore.releases.known import DEFAULT_RELEASE
from kcore.server.properties.limits import limits_of
from kcore.server.properties.nodes import OF_AUTHORIZER, node_config, node_fields
from kcore.server.properties.security import security_of
from kcore.server.properties.values import (
    ADVERTISED,
    EVERYWHERE,
    LISTENERS,
    SettingsError,
    checked,
    places_of,
    quorum_of,
    read_all,
    value_of,
)
from kcore.server.quorum_node.quorum_request_handlers import LIMITS
from kcore.storage.log.segmented_log import Settings

_OF_CONTROLLER: Final = (
    "default.replication.factor",
    "num.partitions",
    "broker.session.timeout.ms",
    "auto.leader.rebalance.enable",
    "leader.imbalance.check.interval.seconds",
    "unclean.leader.election.interval.ms",
    "delegation.token.max.lifetime.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.expiry.check.interval.ms",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "metadata.max.idle.interval.ms",
)


class KraftSettings(NamedTuple):
    """The settings of a KRaft controller's process."""

    node_id: int
    directory: Path  # metadata.log.dir
    listener: str
    listen: Address
    advertised: Address
    voters: tuple[Voter, ...]
    bootstrap: tuple[Address, ...]
    raft: dict[str, Any]  # Fields of RaftConfig.
    metadata_log: Settings
    node: dict[str, Any]  # Fields of NodeConfig.
    controller: dict[str, Any]  # Fields of KraftControllerConfig.
    security: ListenerSecurity
    limits: Limits

    def __repr__(self) -> str:
        """Omits the settings, because they may contain passwords."""
        return f"KraftSettings(node_id={self.node_id}, listener={self.listener}, listen={self.listen})"

    def controller_config(self, cluster_id: str, release: str, kafka_way: frozenset[str]) -> KraftControllerConfig:
        """The settings of the controller of a cluster with this id."""
        node = node_config(self.node_id, cluster_id, release, self.node)
        return KraftControllerConfig(node, kafka_way=kafka_way, **self.controller)


def settings_of(properties: Mapping[str, str], release: str = DEFAULT_RELEASE) -> KraftSettings:
    """The settings; SettingsError with a message of one line for an invalid value, or a name not in the release."""
    given = checked(properties, OF_AUTHORIZER, has_security=True, release=release)
    if given.get("process.roles") != "controller":
        raise SettingsError(f"process.roles={given.get('process.roles', '')}: kcore runs only a controller")
    if "node.id" not in given:
        raise SettingsError("node.id is missing")
    node_id = value_of("node.id", given["node.id"])
    listener, voters, bootstrap, raft, metadata_log = quorum_of(given)
    own = {each.key.id: each for each in voters}.get(node_id)
    if voters and own is None:
        raise SettingsError(
            f"controller.quorum.voters={given['controller.quorum.voters']}: node.id {node_id} is not among them"
        )
    listen, advertised = _addresses_of(given, listener, own)
    return KraftSettings(
        node_id,
        Path(_log_dir(given)),
        *(listener, listen, advertised, voters, bootstrap),
        *(raft, metadata_log),
        node_fields(given),
        read_all(given, _OF_CONTROLLER),
        security_of(given, listener),
        limits_of(given, listener, LIMITS),
    )


def _log_dir(given: Mapping[str, str]) -> str:
    first = (given.get("log.dirs") or given.get("log.dir") or DEFAULT_LOG_DIR).split(",")[0].strip()
    return given.get("metadata.log.dir") or first


def _addresses_of(given: Mapping[str, str], listener: str, voter: Voter | None) -> tuple[Address, Address]:
    """The addresses to listen at and to advertise; default of the latter: the former's host, or the static voter's."""
    places = places_of(LISTENERS, given)
    if listener not in places:
        raise SettingsError(f"{LISTENERS}={given.get(LISTENERS, '')}: {listener} is missing")
    if len(places) > 1:
        raise SettingsError(f"{LISTENERS}={given[LISTENERS]}: kcore has only {listener}")
    listen = places[listener]
    if advertised := places_of(ADVERTISED, given).get(listener):
        return listen, advertised if advertised.host else Address("localhost", advertised.port)
    if listen.host not in EVERYWHERE:
        return listen, listen
    return listen, Address("localhost", listen.port) if voter is None else voter.endpoints[listener]
