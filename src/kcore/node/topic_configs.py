"""The settings of a topic: which values are valid, and how Kafka prints them (LogConfig).

A value is text, as on the wire. An invalid value raises Kafka's InvalidConfigurationException.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kcore.constants import JAVA_BLANKS
from kcore.java_hash import hash_map_order
from kcore.protocol_errors import Errors, InvalidConfigurationException
from kcore.releases.known import OLDEST, RELEASES
from kcore.releases.settings import TopicConfig, TopicConfigs
from kcore.schema.configs import ConfigSource, ConfigType

INTEGERS: Final[Mapping[int, tuple[str, int]]] = {
    ConfigType.SHORT: ("SHORT", 2**15),
    ConfigType.INT: ("INT", 2**31),
    ConfigType.LONG: ("LONG", 2**63),
}
# Characters above this one are not digits: Java parses numbers by UTF-16 unit, and sees two surrogates instead.
_LARGEST_UNIT: Final = "\uffff"
TRUE: Final = "true"
_JAVA_DOUBLE: Final = r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)"
_THROTTLED: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_RELEASES: Final = (  # MetadataVersion.VERSIONS: each release with its last -IV level.
    "0.8.0 0.8.1 0.8.2 0.9.0 0.10.0:1 0.10.1:2 0.10.2:0 0.11.0:2 1.0:0 1.1:0 2.0:1 2.1:2 2.2:1 2.3:1 2.4:1 2.5:0 2.6:0 "
    "2.7:2 2.8:1 3.0:1 3.1:0 3.2:0 3.3:3 3.4:0 3.5:2 3.6:2 3.7:4 3.8:0 3.9:0"
)
_UNSTABLE: Final = ("4.0-IV0", "4.0-IV1")  # Levels of 4.0 that 3.9.1 accepts, although it does not accept "4.0".


TOPIC_CONFIGS_OF: Final[Mapping[str, TopicConfigs]] = {name: each.topic_configs for name, each in RELEASES.items()}
"""The settings of a topic by release. A topic's settings are checked in this order."""

TOPIC_CONFIGS: Final = OLDEST.topic_configs


def topic_config_values(
    configs: Mapping[str, str], known: TopicConfigs = TOPIC_CONFIGS, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All settings of a topic with these overrides, as Kafka prints the values; raises for an invalid override.

    `base`: the settings without overrides, from callers that have other defaults or call often.
    """
    for name in hash_map_order(configs) if len(configs) > 1 else configs:
        if name not in known:
            Errors.INVALID_CONFIG.raise_for(f"Unknown topic config name: {name}")
    values = dict(base_values(known) if base is None else base)
    for name in configs if len(configs) == 1 else [name for name in known if name in configs]:
        values[name] = _printed(known[name], configs[name])
    least, most = (int(values[f"{which}.compaction.lag.ms"]) for which in ("min", "max"))
    if least > most:
        Errors.INVALID_CONFIG.raise_for(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    return values


def base_values(known: TopicConfigs, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings of a topic without overrides. Valid `defaults` take precedence over the defaults in `known`."""
    given = defaults or {}
    return {name: _printed(each, given.get(name, each.default)) for name, each in known.items() if not each.is_internal}


def check_value(config: TopicConfig, text: str) -> str:
    """The value as Kafka prints it after parsing; raises for an invalid value."""
    return _printed(config, text)


def is_valid(config: TopicConfig, text: str) -> bool:
    """True if a topic may have this value."""
    try:
        _printed(config, text)
    except InvalidConfigurationException:
        return False
    return True


def check_remote_storage(values: Mapping[str, str]) -> None:
    """InvalidConfigurationException if the topic uses tiered storage, which kcore's brokers do not have."""
    if values["remote.storage.enable"] == TRUE:
        Errors.INVALID_CONFIG.raise_for(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def source_of(name: str, configs: Mapping[str, str]) -> int:
    """The source of a setting, for a topic with these overrides."""
    return ConfigSource.TOPIC_CONFIG if name in configs else ConfigSource.DEFAULT_CONFIG


def _printed(config: TopicConfig, text: str) -> str:
    """The value as ConfigDef prints it after parsing; raises for an invalid value."""
    trimmed = text.strip(JAVA_BLANKS)
    if not trimmed and not config.may_be_empty:
        Errors.INVALID_CONFIG.raise_for(f"Configuration '{config.name}' must not be empty.")
    if config.kind == ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            _refuse(config, text, "Expected value to be either true or false")
        return trimmed.lower()
    if config.kind in INTEGERS:
        return str(_integer(config, trimmed))
    if config.kind == ConfigType.DOUBLE:
        return _double(config, trimmed)
    if config.kind == ConfigType.LIST:
        members = re.split(r"\s*,\s*", trimmed, flags=re.ASCII) if trimmed else []
        members = list(dict.fromkeys(members)) if config.is_set else members
        _check_list(config, members)
        return ",".join(members)
    if config.among and (trimmed.upper() if config.ignores_case else trimmed) not in config.among:
        _refuse(config, trimmed, f"String must be one of: {', '.join(config.among)}")
    if config.name == "message.format.version" and not is_metadata_version(trimmed):
        _refuse(config, trimmed, f"Version {trimmed} is not a valid version")
    return trimmed


def _integer(config: TopicConfig, text: str) -> int:
    kind, limit = INTEGERS[config.kind]
    is_number = re.fullmatch(r"[+-]?\d{1,4000}", text) and max(text) <= _LARGEST_UNIT
    if not is_number or not -limit <= int(text) < limit:
        _refuse(config, text, f"Not a number of type {kind}")
    value = int(text)
    if config.name == "compression.gzip.level":
        if value != -1 and not 1 <= value <= 9:
            _refuse(config, text, "Value must be between 1 and 9 or equal to -1")
        return value
    _check_range(config, value)
    return value


def _double(config: TopicConfig, text: str) -> str:
    if not re.fullmatch(_JAVA_DOUBLE, text, re.ASCII):
        _refuse(config, text, "Not a number of type DOUBLE")
    value = float(text.rstrip("fFdD"))
    _check_range(config, value)
    return str(value)


def _check_range(config: TopicConfig, value: float) -> None:
    if config.at_least is not None and value < config.at_least:
        _refuse(config, str(value), f"Value must be at least {config.at_least}")
    if config.at_most is not None and value > config.at_most:
        _refuse(config, str(value), f"Value must be no more than {config.at_most}")


def _check_list(config: TopicConfig, members: Sequence[str]) -> None:
    for member in members:
        if config.is_set and not member:
            Errors.INVALID_CONFIG.raise_for(f"Configuration '{config.name}' values must not be empty.")
        if config.among and member not in config.among:
            _refuse(config, member, f"String must be one of: {', '.join(config.among)}")
    pairs = all(re.fullmatch(r"([0-9]+:[0-9]+)?", member) for member in members)
    if config.name.endswith("throttled.replicas") and "".join(members) != "*" and not pairs:
        form = f"must be the literal '*' or a list of replicas in the following format: {_THROTTLED}"
        _refuse(config, f"[{', '.join(members)}]", f"{config.name} {form}")


def _refuse(config: TopicConfig, value: str, reason: str) -> None:
    """Raise with the message of ConfigException."""
    Errors.INVALID_CONFIG.raise_for(f"Invalid value {value} for configuration {config.name}: {reason}")


def is_metadata_version(text: str) -> bool:
    """True if MetadataVersion.fromVersionString accepts the text: a release, one of its levels or bug-fix releases."""
    known = {*_UNSTABLE}
    for release, _, last in (each.partition(":") for each in _RELEASES.split()):
        known.add(release)
        known.update(f"{release}-IV{level}" for level in range(int(last or -1) + 1))
    return ".".join(text.split(".")[: 3 if text.startswith("0.") else 2]) in known
