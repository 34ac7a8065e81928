"""Reads values of server.properties, for controllers and for brokers of KRaft.

Source: AbstractKafkaConfig, KafkaConfig, QuorumConfig of 4.3.1.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kcore.constants import JAVA_BLANKS
from kcore.errors import KcoreError
from kcore.net.address import address_flaw
from kcore.node.topic_configs import INTEGERS, TRUE, check_value
from kcore.protocol_errors import InvalidConfigurationException
from kcore.raft.membership.replicas import Address, Voter
from kcore.releases.known import RELEASES
from kcore.schema.configs import ConfigType
from kcore.server.properties.definitions import DEFINITIONS, PREFIXES
from kcore.server.quorum_node.static_voters import static_voters
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import SEGMENT_BYTES as METADATA_SEGMENT_BYTES

LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*):(\d+)")
MOST_INT: Final = 2**31 - 1


class SettingsError(KcoreError):
    """An invalid line of server.properties."""


def value_of(name: str, text: str, shown: str | None = None) -> Any:
    """The value of Kafka's setting `name`, in the type of its ConfigDef; SettingsError for an invalid value.

    `shown`: its name in the file, if it has a listener's prefix there.
    """
    config = DEFINITIONS[name]
    try:
        printed = check_value(config, text)
    except InvalidConfigurationException as error:
        if config.kind == ConfigType.BOOLEAN:
            reason = "give true or false"
        elif config.kind in INTEGERS:
            limit = INTEGERS[config.kind][1]
            lowest = -limit if config.at_least is None else config.at_least
            highest = limit - 1 if config.at_most is None else config.at_most
            reason = f"give a number from {lowest:,} to {highest:,}"
        elif config.among and text:
            reason = f"give {', '.join(sorted(config.among))}"
        else:
            reason = str(error).rpartition(f"for configuration {name}: ")[2] if text else "give a value"
        raise SettingsError(f"{shown or name}={text}: {reason}") from None
    if config.kind == ConfigType.BOOLEAN:
        return printed == TRUE
    return int(printed) if config.kind in INTEGERS else printed


def boolean_of(name: str, text: str) -> bool:
    """The value of a setting that Kafka does not define; SettingsError."""
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{name}={text}: give true or false")
    return text.lower() == TRUE


def count_of(name: str, text: str) -> int:
    """A number of 0 or more that is part of a setting; SettingsError."""
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > MOST_INT:
        raise SettingsError(f"{name}={text}: give a number from 0 to {MOST_INT:,}")
    return int(text)


_OF_RAFT: Final = (
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.election.backoff.max.ms",
    "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.ms",
    "controller.quorum.append.linger.ms",
    "controller.quorum.fetch.max.bytes",
    "controller.quorum.fetch.snapshot.max.bytes",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
)
_METADATA_SEGMENT_BYTES: Final = ("internal.metadata.log.segment.bytes", "metadata.log.segment.bytes")
_METADATA_SEGMENT_MS: Final = "metadata.log.segment.ms"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
PLAIN: Final = "kcore's listener is plaintext, without TLS and SASL"
_NO_JAVA: Final = "kcore runs no classes of Java"
_NOT_DONE: Final = {  # Prefixes of settings that kcore must not ignore.
    "principal.builder.class": _NO_JAVA,
    "create.topic.policy.class.name": _NO_JAVA,
    "alter.config.policy.class.name": _NO_JAVA,
    "client.quota.callback.class": _NO_JAVA,
    "config.providers": "kcore does not use configuration providers",
}
_SECURITY: Final = {"ssl.": PLAIN, "sasl.": PLAIN}  # Further such prefixes, for a server without TLS and SASL.
_ZOOKEEPER: Final = {"zookeeper.": "kcore's KRaft controllers and brokers do not use ZooKeeper"}
LISTENER_PREFIX: Final = "listener.name."
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
CONTROL_PLANE: Final = "control.plane.listener.name"
TOKEN_KEY: Final = "delegation.token.secret.key"
EVERYWHERE: Final = ("", "0.0.0.0", "::")


def checked(
    properties: Mapping[str, str],
    besides: tuple[str, ...] = (),
    *,
    has_security: bool = False,
    release: str | None = None,
) -> dict[str, str]:
    """The settings, without white space around their values.

    A name that is neither in the `release` nor in `besides` raises SettingsError; None: other programs' settings may be
    there, too, and are not checked. A setting that the server cannot honour and must not ignore also raises: TLS and
    SASL settings, too, unless the server `has_security`.
    """
    not_done = _NOT_DONE | ({} if has_security else _SECURITY) | ({} if release is None else _ZOOKEEPER)
    given = {name: value.strip(JAVA_BLANKS) for name, value in properties.items()}
    known = {*given} if release is None else {*RELEASES[release].setting_names, *besides}
    for name in given:
        if name not in known and not name.startswith(PREFIXES):
            raise SettingsError(f"{name}: Kafka {release} has no such setting")
        for beginning, why in not_done.items():
            if name.startswith(beginning) or (name.startswith(LISTENER_PREFIX) and f".{beginning}" in name):
                raise SettingsError(f"{name}: {why}")
    for name, text in given.items() if release is not None else ():
        plain = name.split(".", 3)[-1] if name.startswith(LISTENER_PREFIX) else name
        if plain in DEFINITIONS:
            value_of(plain, text, name)
    return given


def read_all(given: Mapping[str, str], names: Iterable[str], prefix: str = "") -> dict[str, Any]:
    """The values of the given settings, by their names without the prefix and with `_` for `.`."""
    return {name.removeprefix(prefix).replace(".", "_"): value_of(name, given[name]) for name in names if name in given}


def raft_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """The given settings of raft, as fields of RaftConfig."""
    found = {"append_linger_ms": None, **read_all(given, _OF_RAFT, "controller.quorum.")}
    if AUTO_JOIN in given:
        found["auto_join"] = value_of(AUTO_JOIN, given[AUTO_JOIN])
    return found


def metadata_log_of(given: Mapping[str, str]) -> Settings:
    """The settings of the metadata log's segments (MetadataLogConfig, KafkaRaftLog)."""
    name = next((each for each in _METADATA_SEGMENT_BYTES if each in given), None)
    segment_ms = given.get(_METADATA_SEGMENT_MS)
    return Settings(
        METADATA_SEGMENT_BYTES if name is None else value_of(name, given[name]),
        segment_ms=None if segment_ms is None else value_of(_METADATA_SEGMENT_MS, segment_ms),
    )


class QuorumSettings(NamedTuple):
    """A node's settings of the metadata quorum."""

    controller_listener: str  # The name of the controllers' listener.
    voters: tuple[Voter, ...]  # controller.quorum.voters
    bootstrap: tuple[Address, ...]  # controller.quorum.bootstrap.servers
    raft: dict[str, Any]  # Further fields of RaftConfig.
    metadata_log: Settings


def quorum_of(given: Mapping[str, str]) -> QuorumSettings:
    """The settings; SettingsError, also unless exactly one of static voters and bootstrap servers is given."""
    listener = listener_name_of(given)
    voters = static_voters_of(given.get("controller.quorum.voters", ""), listener)
    bootstrap = addresses("controller.quorum.bootstrap.servers", given)
    if bool(voters) == bool(bootstrap):
        raise SettingsError("give either controller.quorum.voters or controller.quorum.bootstrap.servers")
    return QuorumSettings(listener, voters, bootstrap, raft_settings(given), metadata_log_of(given))


def listener_name_of(given: Mapping[str, str]) -> str:
    """The listener in controller.listener.names."""
    names = listed(given, "controller.listener.names")
    if not names:
        raise SettingsError("controller.listener.names is missing")
    if len(names) > 1:
        raise SettingsError(f"controller.listener.names={','.join(names)}: kcore has one listener")
    return names[0]


def listed(given: Mapping[str, str], name: str) -> list[str]:
    """The items of a setting that is a list."""
    return items(given.get(name, ""))


def items(text: str | None) -> list[str]:
    """The items of a list with commas, without white space."""
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def places_of(name: str, given: Mapping[str, str]) -> dict[str, Address]:
    """Addresses in `listeners` or `advertised.listeners`, by the listener's name in capitals, as Kafka has it."""
    found: dict[str, Address] = {}
    for each in listed(given, name):
        parts = LISTENER.fullmatch(each)
        if parts is None or int(parts[3]) > 65535:
            raise SettingsError(f"{name}={each}: give NAME://HOST:PORT")
        if parts[1].upper() in found:
            raise SettingsError(f"{name}={given[name]}: {parts[1].upper()} is there twice")
        found[parts[1].upper()] = Address(parts[2].strip("[]"), int(parts[3]))
    ports = [each.port for each in found.values() if each.port]
    if name == LISTENERS and len({*ports}) < len(ports):
        raise SettingsError(f"{name}={given[name]}: each listener must have a different port")
    if name == ADVERTISED and any(each.host == "0.0.0.0" for each in found.values()):
        raise SettingsError(f"{name}={given[name]}: nobody can connect to 0.0.0.0")
    return found


def static_voters_of(text: str, listener: str) -> tuple[Voter, ...]:
    """The voters in controller.quorum.voters; SettingsError."""
    try:
        return static_voters((each for each in text.split(",") if each.strip()), listener)
    except ValueError as error:
        raise SettingsError(f"controller.quorum.voters={text}: {error}") from None


def addresses(name: str, given: Mapping[str, str]) -> tuple[Address, ...]:
    """The addresses in a list of HOST:PORT; SettingsError."""
    found = []
    for each in listed(given, name):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or address_flaw(host.strip("[]"), int(port)):
            raise SettingsError(f"{name}={each}: give HOST:PORT,...")
        found.append(Address(host.strip("[]"), int(port)))
    return tuple(found)
