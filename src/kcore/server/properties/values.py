"""How values of server.properties are read, for controllers and for brokers of KRaft.

Source: AbstractKafkaConfig, KafkaConfig, QuorumConfig of 4.3.1.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcore.errors import KcoreError
from kcore.net.address import address_flaw
from kcore.raft.replicas import Address, Voter
from kcore.server.properties.known_names import KNOWN_NAMES, PREFIXES
from kcore.server.quorum.static_voters import static_voters

LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*):(\d+)")
MOST_SHORT: Final = 2**15 - 1
MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1


class SettingsError(KcoreError):
    """An invalid line of server.properties."""


def number(lowest: int, highest: int = MOST_INT) -> Callable[[str, str], int]:
    """What reads a number in that range."""

    def read(name: str, text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,19}", text) or not lowest <= int(text) <= highest:
            raise SettingsError(f"{name}={text}: give a number from {lowest:,} to {highest:,}")
        return int(text)

    return read


def boolean(name: str, text: str) -> bool:
    """true or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{name}={text}: give true or false")
    return text.lower() == "true"


def text_value(name: str, text: str) -> str:
    """As it is."""
    return text


COUNT, LONG, LIMIT = number(1), number(1, MOST_LONG), number(-1, MOST_LONG)
_OF_RAFT: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "controller.quorum.election.timeout.ms": COUNT,
    "controller.quorum.fetch.timeout.ms": COUNT,
    "controller.quorum.election.backoff.max.ms": COUNT,
    "controller.quorum.request.timeout.ms": COUNT,
    "controller.quorum.retry.backoff.ms": COUNT,
    "controller.quorum.append.linger.ms": number(0),
    "controller.quorum.auto.join.enable": boolean,
    "controller.quorum.fetch.max.bytes": COUNT,
    "controller.quorum.fetch.snapshot.max.bytes": COUNT,
    "metadata.max.retention.bytes": LIMIT,
    "metadata.max.retention.ms": LIMIT,
}
PLAIN: Final = "kcore's listener is plaintext, without TLS and SASL"
_NO_JAVA: Final = "kcore runs no classes of Java"
_NOT_DONE: Final = {  # Beginnings of names of settings that would be wrong to pass over.
    "principal.builder.class": _NO_JAVA,
    "create.topic.policy.class.name": _NO_JAVA,
    "alter.config.policy.class.name": _NO_JAVA,
    "client.quota.callback.class": _NO_JAVA,
}
_SECURITY: Final = {"ssl.": PLAIN, "sasl.": PLAIN}  # Such, of a server that has neither.
_OF_LISTENER: Final = "listener.name."
EVERYWHERE: Final = ("", "0.0.0.0", "::")


def checked(
    properties: Mapping[str, str],
    besides: tuple[str, ...] = (),
    *,
    has_security: bool = False,
    knows_all: bool = True,
) -> dict[str, str]:
    """The settings without the space around them.

    SettingsError for a name that neither Kafka knows nor `besides` has, unless the server does not claim that it
    `knows_all`; and for one that would be wrong to pass over: of TLS and SASL, too, unless the server `has_security`.
    """
    not_done = _NOT_DONE if has_security else {**_NOT_DONE, **_SECURITY}
    given = {name: value.strip() for name, value in properties.items()}
    for name in given:
        if knows_all and name not in KNOWN_NAMES and name not in besides and not name.startswith(PREFIXES):
            raise SettingsError(f"{name}: Kafka 4.3.1 has no such setting")
        for beginning, why in not_done.items():
            if name.startswith(beginning) or (name.startswith(_OF_LISTENER) and f".{beginning}" in name):
                raise SettingsError(f"{name}: {why}")
    return given


def read_all(
    given: Mapping[str, str], readers: Mapping[str, Callable[[str, str], Any]], prefix: str = ""
) -> dict[str, Any]:
    """Those settings that are given, by their names without the prefix and with `_` for `.`."""
    return {
        name.removeprefix(prefix).replace(".", "_"): read(name, given[name])
        for name, read in readers.items()
        if name in given
    }


def raft_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """Fields of RaftConfig."""
    return {"append_linger_ms": None, **read_all(given, _OF_RAFT, "controller.quorum.")}


def listener_name_of(given: Mapping[str, str]) -> str:
    """The one of controller.listener.names."""
    names = listed(given, "controller.listener.names")
    if not names:
        raise SettingsError("controller.listener.names is missing")
    if len(names) > 1:
        raise SettingsError(f"controller.listener.names={','.join(names)}: kcore has one listener")
    return names[0]


def listed(given: Mapping[str, str], name: str) -> list[str]:
    """The items of a list."""
    return items(given.get(name, ""))


def items(text: str | None) -> list[str]:
    """Those of a list's text."""
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def listener_of(name: str, given: Mapping[str, str], wanted: str) -> Address | None:
    """The address of one listener in `listeners` or `advertised.listeners`; None if it is not there."""
    for each in listed(given, name):
        found = LISTENER.fullmatch(each)
        if found is None or int(found[3]) > 65535:
            raise SettingsError(f"{name}={each}: give NAME://HOST:PORT")
        if found[1] == wanted:
            return Address(found[2].strip("[]"), int(found[3]))
    return None


def static_voters_of(text: str, listener: str) -> tuple[Voter, ...]:
    """controller.quorum.voters"""
    try:
        return static_voters((each for each in text.split(",") if each.strip()), listener)
    except ValueError as error:
        raise SettingsError(f"controller.quorum.voters={text}: {error}") from None


def addresses(name: str, given: Mapping[str, str]) -> tuple[Address, ...]:
    """A list of HOST:PORT."""
    found = []
    for each in listed(given, name):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or address_flaw(host.strip("[]"), int(port)):
            raise SettingsError(f"{name}={each}: give HOST:PORT,...")
        found.append(Address(host.strip("[]"), int(port)))
    return tuple(found)
