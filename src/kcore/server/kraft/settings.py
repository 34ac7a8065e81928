"""Reads server.properties into the settings of a KRaft controller.

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
from kcore.raft.replicas import Address, Voter
from kcore.server.kraft.apis import FEATURES
from kcore.server.kraft.known_names import KNOWN_NAMES, PREFIXES
from kcore.server.quorum.static_voters import static_voters

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*):(\d+)")
MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1


class SettingsError(KcoreError):
    """An invalid line of server.properties."""


class KraftSettings(NamedTuple):
    """The settings of the process."""

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
        """The settings of the controller of a cluster with this id."""
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
    "controller.quota.window.num": _COUNT,
    "controller.quota.window.size.seconds": _COUNT,
    "metadata.max.idle.interval.ms": _number(0),
    "metadata.log.max.record.bytes.between.snapshots": _LONG,
    "metadata.log.max.snapshot.interval.ms": _number(0, MOST_LONG),
    "allow.everyone.if.no.acl.found": _boolean,
}
_OF_AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")
_PLAIN: Final = "kcore's listener is plaintext, without TLS and SASL"
_NOT_DONE: Final = {  # Beginnings of names of settings that would be wrong to pass over.
    "ssl.": _PLAIN,
    "sasl.": _PLAIN,
    "principal.builder.class": _PLAIN,
    "create.topic.policy.class.name": "kcore runs no classes of Java",
    "alter.config.policy.class.name": "kcore runs no classes of Java",
}
_OF_LISTENER: Final = "listener.name."
_SECURITY: Final = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")  # Names of listeners that say what they are.
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def settings_of(properties: Mapping[str, str]) -> KraftSettings:
    """The settings; SettingsError, one line, for a name that Kafka does not know or an invalid value."""
    given = {name: value.strip() for name, value in properties.items()}
    for name in given:
        if name not in KNOWN_NAMES and name not in _OF_AUTHORIZER and not name.startswith(PREFIXES):
            raise SettingsError(f"{name}: Kafka 4.3.1 has no such setting")
        for beginning, why in _NOT_DONE.items():
            if name.startswith(beginning) or (name.startswith(_OF_LISTENER) and f".{beginning}" in name):
                raise SettingsError(f"{name}: {why}")
    if given.get("process.roles") != "controller":
        raise SettingsError(f"process.roles={given.get('process.roles', '')}: kcore is a controller alone")
    if "node.id" not in given:
        raise SettingsError("node.id is missing")
    node_id = _number(0)("node.id", given["node.id"])
    listener = _listener_name(given)
    voters = _voters(given.get("controller.quorum.voters", ""), listener, node_id)
    listen, advertised = _addresses_of(given, listener, {each.key.id: each for each in voters}.get(node_id))
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
        node_id,
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


def _listener_name(given: Mapping[str, str]) -> str:
    """The one of controller.listener.names, which must be of plain text."""
    names = _list(given, "controller.listener.names")
    if not names:
        raise SettingsError("controller.listener.names is missing")
    if len(names) > 1:
        raise SettingsError(f"controller.listener.names={','.join(names)}: kcore has one listener")
    [listener] = names
    protocols = dict(each.split(":", 1) for each in _list(given, "listener.security.protocol.map") if ":" in each)
    # Kafka's default map has the names of protocols; it takes any other name of a controller's listener for plaintext.
    default = "" if listener in _SECURITY or (protocols and listener != "PLAINTEXT") else "PLAINTEXT"
    if protocols.get(listener, default).strip() != "PLAINTEXT":
        raise SettingsError(f"listener.security.protocol.map: {listener} must be PLAINTEXT: {_PLAIN}")
    return listener


def _addresses_of(given: Mapping[str, str], listener: str, voter: Voter | None) -> tuple[Address, Address]:
    """Where it listens, and what others are told: without a host of its own, what it is as a static voter."""
    listen = _listener("listeners", given, listener)
    if listen is None:
        raise SettingsError(f"listeners={given.get('listeners', '')}: {listener} is missing")
    if len(_list(given, "listeners")) > 1:
        raise SettingsError(f"listeners={given['listeners']}: kcore has {listener} alone")
    if advertised := _listener("advertised.listeners", given, listener):
        return listen, advertised if advertised.host else Address("localhost", advertised.port)
    if listen.host not in _EVERYWHERE:
        return listen, listen
    return listen, Address("localhost", listen.port) if voter is None else voter.endpoints[listener]


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


def _voters(text: str, listener: str, node_id: int) -> tuple[Voter, ...]:
    try:
        voters = static_voters((each for each in text.split(",") if each.strip()), listener)
    except ValueError as error:
        raise SettingsError(f"controller.quorum.voters={text}: {error}") from None
    if voters and node_id not in {each.key.id for each in voters}:
        raise SettingsError(f"controller.quorum.voters={text}: node.id {node_id} is not among them")
    return voters


def _addresses(name: str, given: Mapping[str, str]) -> tuple[Address, ...]:
    addresses = []
    for each in _list(given, name):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or address_flaw(host.strip("[]"), int(port)):
            raise SettingsError(f"{name}={each}: give HOST:PORT,...")
        addresses.append(Address(host.strip("[]"), int(port)))
    return tuple(addresses)
