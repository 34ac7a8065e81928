"""server.properties: what a KRaft controller of kcore makes of Kafka's settings.

Source: AbstractKafkaConfig, KafkaConfig, QuorumConfig, MetadataLogConfig, DelegationTokenManagerConfigs of 4.3.1.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcore.controller.kraft.admin.broker_defaults import DEFAULT_LOG_DIR
from kcore.controller.kraft.config import KraftControllerConfig
from kcore.errors import KcoreError
from kcore.net.address import address_flaw
from kcore.raft.replicas import Address, ReplicaKey, Voter
from kcore.server.kraft.apis import FEATURES
from kcore.server.kraft.known_names import KNOWN_NAMES, PREFIXES

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
VOTER: Final = re.compile(r"(\d+)@(.+):(\d+)")
LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*):(\d+)")
MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1


class SettingsError(KcoreError):
    """A line of server.properties that cannot be."""


class KraftSettings(NamedTuple):
    """What the process needs."""

    node_id: int
    directory: Path  # metadata.log.dir
    listener: str
    listen: Address
    advertised: Address
    voters: tuple[Voter, ...]
    bootstrap: tuple[Address, ...]
    raft: dict[str, Any]  # Fields of RaftConfig.
    controller: dict[str, Any]  # Fields of KraftControllerConfig.

    def controller_config(self, cluster_id: str, release: str, kafka_way: frozenset[str]) -> KraftControllerConfig:
        """Of a cluster with this id."""
        return KraftControllerConfig(
            node_id=self.node_id,
            cluster_id=cluster_id,
            release=release,
            supported_features=dict(FEATURES[release]),
            kafka_way=kafka_way,
            **self.controller,
        )


def _number(lowest: int, highest: int = MOST_INT) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,19}", text) or not lowest <= int(text) <= highest:
            raise SettingsError(f"{name}={text}: give a number from {lowest:,} to {highest:,}")
        return int(text)

    return read


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{name}={text}: give true or false")
    return text.lower() == "true"


def _text(name: str, text: str) -> str:
    return text


_COUNT, _LONG, _LIMIT = _number(1), _number(1, MOST_LONG), _number(-1, MOST_LONG)
_OF_RAFT: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "controller.quorum.election.timeout.ms": _COUNT,
    "controller.quorum.fetch.timeout.ms": _COUNT,
    "controller.quorum.election.backoff.max.ms": _COUNT,
    "controller.quorum.request.timeout.ms": _COUNT,
    "controller.quorum.retry.backoff.ms": _COUNT,
    "controller.quorum.append.linger.ms": _number(0),
    "controller.quorum.auto.join.enable": _boolean,
    "controller.quorum.fetch.max.bytes": _COUNT,
    "controller.quorum.fetch.snapshot.max.bytes": _COUNT,
    "metadata.max.retention.bytes": _LIMIT,
    "metadata.max.retention.ms": _LIMIT,
}
_OF_CONTROLLER: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "default.replication.factor": _number(1, 2**15 - 1),
    "num.partitions": _COUNT,
    "broker.session.timeout.ms": _COUNT,
    "auto.leader.rebalance.enable": _boolean,
    "leader.imbalance.check.interval.seconds": _LONG,
    "unclean.leader.election.interval.ms": _LONG,
    "delegation.token.secret.key": _text,
    "delegation.token.max.lifetime.ms": _LONG,
    "delegation.token.expiry.time.ms": _LONG,
    "delegation.token.expiry.check.interval.ms": _LONG,
    "metadata.max.idle.interval.ms": _number(0),
    "metadata.log.max.record.bytes.between.snapshots": _LONG,
    "metadata.log.max.snapshot.interval.ms": _number(0, MOST_LONG),
    "allow.everyone.if.no.acl.found": _boolean,
}
_OF_AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")


def settings_of(properties: Mapping[str, str]) -> KraftSettings:
    """SettingsError, one line, for a setting that Kafka does not know, or whose value cannot be."""
    given = {name: value.strip() for name, value in properties.items()}
    for name in given:
        if name not in KNOWN_NAMES and name not in _OF_AUTHORIZER and not name.startswith(PREFIXES):
            raise SettingsError(f"{name}: Kafka 4.3.1 has no such setting")
    if given.get("process.roles") != "controller":
        raise SettingsError(f"process.roles={given.get('process.roles', '')}: kcore is a controller alone")
    if "node.id" not in given:
        raise SettingsError("node.id is missing")
    listener, listen, advertised = _listeners(given)
    voters = _voters(given.get("controller.quorum.voters", ""), listener)
    bootstrap = _addresses("controller.quorum.bootstrap.servers", given)
    if bool(voters) == bool(bootstrap):
        raise SettingsError("give either controller.quorum.voters or controller.quorum.bootstrap.servers")
    prefix = "controller.quorum."
    raft = {
        name.removeprefix(prefix).replace(".", "_"): read(name, given[name])
        for name, read in _OF_RAFT.items()
        if name in given
    }
    return KraftSettings(
        _number(0)("node.id", given["node.id"]),
        Path(_log_dir(given)),
        *(listener, listen, advertised, voters, bootstrap),
        {"append_linger_ms": None, **raft},
        _controller(given),
    )


def _controller(given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name.replace(".", "_"): read(name, given[name]) for name, read in _OF_CONTROLLER.items() if name in given
    }
    if authorizer := given.get("authorizer.class.name"):
        if authorizer != AUTHORIZER:
            raise SettingsError(f"authorizer.class.name={authorizer}: kcore has {AUTHORIZER} alone")
        found["has_authorizer"] = True
    found["super_users"] = tuple(each.strip() for each in given.get("super.users", "").split(";") if each.strip())
    found["static_configs"] = dict(given)
    return found


def _log_dir(given: Mapping[str, str]) -> str:
    first = (given.get("log.dirs") or given.get("log.dir") or DEFAULT_LOG_DIR).split(",")[0].strip()
    return given.get("metadata.log.dir") or first


def _listeners(given: Mapping[str, str]) -> tuple[str, Address, Address]:
    """The first of controller.listener.names: where it listens, and what others are told."""
    listener = given.get("controller.listener.names", "").split(",")[0].strip()
    if not listener:
        raise SettingsError("controller.listener.names is missing")
    protocols = dict(
        each.strip().split(":", 1) for each in _list(given, "listener.security.protocol.map") if ":" in each
    )
    protocol = protocols.get(listener, "PLAINTEXT" if listener in ("CONTROLLER", "PLAINTEXT") else "")
    if protocol != "PLAINTEXT":
        raise SettingsError(f"listener.security.protocol.map: {listener} must be PLAINTEXT, which kcore serves alone")
    listen = _listener("listeners", given, listener)
    if listen is None:
        raise SettingsError(f"listeners={given.get('listeners', '')}: {listener} is missing")
    advertised = _listener("advertised.listeners", given, listener) or listen
    return listener, listen, advertised if advertised.host else Address("localhost", advertised.port)


def _list(given: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in given.get(name, "").split(",") if each.strip()]


def _listener(name: str, given: Mapping[str, str], wanted: str) -> Address | None:
    for each in _list(given, name):
        found = LISTENER.fullmatch(each)
        if found is None or int(found[3]) > 65535:
            raise SettingsError(f"{name}={each}: give NAME://HOST:PORT")
        if found[1] == wanted:
            return Address(found[2].strip("[]"), int(found[3]))
    return None


def _voters(text: str, listener: str) -> tuple[Voter, ...]:
    found = [VOTER.fullmatch(each.strip()) for each in text.split(",") if each.strip()]
    voters = tuple(
        Voter(ReplicaKey(int(each[1])), {listener: Address(each[2].strip("[]"), int(each[3]))})
        for each in found
        if each
    )
    if None in found or len({each.key.id for each in voters}) < len(found):
        raise SettingsError(f"controller.quorum.voters={text}: give ID@HOST:PORT,..., each id once")
    for voter in voters:
        if flaw := address_flaw(*voter.endpoints[listener]):
            raise SettingsError(f"controller.quorum.voters={text}: {flaw}")
    return voters


def _addresses(name: str, given: Mapping[str, str]) -> tuple[Address, ...]:
    addresses = []
    for each in _list(given, name):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or address_flaw(host.strip("[]"), int(port)):
            raise SettingsError(f"{name}={each}: give HOST:PORT,...")
        addresses.append(Address(host.strip("[]"), int(port)))
    return tuple(addresses)
