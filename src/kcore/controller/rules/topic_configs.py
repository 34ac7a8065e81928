"""The settings of a topic: names, types, defaults and valid values (LogConfig of 3.9.1, 4.1.2 and 4.3.1).

A value is text, as on the wire. An invalid value raises Kafka's InvalidConfigurationException.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kcore.constants import INT64_MAX, JAVA_BLANKS
from kcore.java_hash import hash_map_order
from kcore.protocol_errors import Errors, InvalidConfigurationException
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
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_RELEASES: Final = (  # MetadataVersion.VERSIONS: each release with its last -IV level.
    "0.8.0 0.8.1 0.8.2 0.9.0 0.10.0:1 0.10.1:2 0.10.2:0 0.11.0:2 1.0:0 1.1:0 2.0:1 2.1:2 2.2:1 2.3:1 2.4:1 2.5:0 2.6:0 "
    "2.7:2 2.8:1 3.0:1 3.1:0 3.2:0 3.3:3 3.4:0 3.5:2 3.6:2 3.7:4 3.8:0 3.9:0"
)
_UNSTABLE: Final = ("4.0-IV0", "4.0-IV1")  # Levels of 4.0 that 3.9.1 accepts, although it does not accept "4.0".


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One setting. `at_least`, `at_most`: bounds of a number. `among`: valid values of a text or of a list's member."""

    name: str
    kind: int  # A ConfigType of DescribeConfigs.
    default: str
    at_least: float | None = None
    at_most: float | None = None
    among: tuple[str, ...] = ()
    server: str | None = None  # The broker's setting that is the default of the topic's setting.
    server_default: bool = True  # True if the broker's setting has a default.
    is_internal: bool = False  # DescribeConfigs shows the setting only if the topic sets it.
    is_set: bool = False  # A list of distinct members that are not empty.
    ignores_case: bool = False  # `among` is compared without case.
    may_be_empty: bool = True


_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST = ConfigType.DOUBLE, ConfigType.LIST
_MOST: Final = str(INT64_MAX)
TOPIC_CONFIGS: Final = {
    each.name: each
    for each in (
        TopicConfig("segment.bytes", _INT, "1073741824", 14, server="log.segment.bytes"),
        TopicConfig("segment.ms", _LONG, "604800000", 1, server="log.roll.ms", server_default=False),
        TopicConfig("segment.jitter.ms", _LONG, "0", 0, server="log.roll.jitter.ms", server_default=False),
        TopicConfig("segment.index.bytes", _INT, "10485760", 4, server="log.index.size.max.bytes"),
        TopicConfig("flush.messages", _LONG, _MOST, 1, server="log.flush.interval.messages"),
        TopicConfig("flush.ms", _LONG, _MOST, 0, server="log.flush.interval.ms", server_default=False),
        TopicConfig("retention.bytes", _LONG, "-1", server="log.retention.bytes"),
        TopicConfig("retention.ms", _LONG, "604800000", -1, server="log.retention.ms", server_default=False),
        TopicConfig("max.message.bytes", _INT, "1048588", 0, server="message.max.bytes"),
        TopicConfig("index.interval.bytes", _INT, "4096", 0, server="log.index.interval.bytes"),
        TopicConfig("delete.retention.ms", _LONG, "86400000", 0, server="log.cleaner.delete.retention.ms"),
        TopicConfig("min.compaction.lag.ms", _LONG, "0", 0, server="log.cleaner.min.compaction.lag.ms"),
        TopicConfig("max.compaction.lag.ms", _LONG, _MOST, 1, server="log.cleaner.max.compaction.lag.ms"),
        TopicConfig("file.delete.delay.ms", _LONG, "60000", 0, server="log.segment.delete.delay.ms"),
        TopicConfig("min.cleanable.dirty.ratio", _DOUBLE, "0.5", 0, 1, server="log.cleaner.min.cleanable.ratio"),
        TopicConfig("cleanup.policy", _LIST, "delete", among=("compact", "delete"), server="log.cleanup.policy"),
        TopicConfig("unclean.leader.election.enable", _BOOLEAN, "false", server="unclean.leader.election.enable"),
        TopicConfig("min.insync.replicas", _INT, "1", 1, server="min.insync.replicas"),
        TopicConfig("compression.type", _STRING, "producer", among=_CODECS, server="compression.type"),
        # -1 is valid for gzip too (`_integer`).
        TopicConfig("compression.gzip.level", _INT, "-1", 1, 9, server="compression.gzip.level"),
        TopicConfig("compression.lz4.level", _INT, "9", 1, 17, server="compression.lz4.level"),
        TopicConfig("compression.zstd.level", _INT, "3", -131072, 22, server="compression.zstd.level"),
        TopicConfig("preallocate", _BOOLEAN, "false", server="log.preallocate"),
        TopicConfig("message.format.version", _STRING, "3.0-IV1", server="log.message.format.version"),
        TopicConfig(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            among=("CreateTime", "LogAppendTime"),
            server="log.message.timestamp.type",
        ),
        TopicConfig(
            "message.timestamp.difference.max.ms", _LONG, _MOST, 0, server="log.message.timestamp.difference.max.ms"
        ),
        TopicConfig("message.timestamp.before.max.ms", _LONG, _MOST, 0, server="log.message.timestamp.before.max.ms"),
        TopicConfig("message.timestamp.after.max.ms", _LONG, _MOST, 0, server="log.message.timestamp.after.max.ms"),
        TopicConfig("leader.replication.throttled.replicas", _LIST, ""),
        TopicConfig("follower.replication.throttled.replicas", _LIST, ""),
        TopicConfig("message.downconversion.enable", _BOOLEAN, "true", server="log.message.downconversion.enable"),
        TopicConfig("remote.storage.enable", _BOOLEAN, "false"),
        TopicConfig("local.retention.ms", _LONG, "-2", -2, server="log.local.retention.ms"),
        TopicConfig("local.retention.bytes", _LONG, "-2", -2, server="log.local.retention.bytes"),
        TopicConfig("remote.log.copy.disable", _BOOLEAN, "false"),
        TopicConfig("remote.log.delete.on.disable", _BOOLEAN, "false"),
    )
}


TopicConfigs = Mapping[str, TopicConfig]


def _of_4_1() -> dict[str, TopicConfig]:
    gone = "message.format.version", "message.timestamp.difference.max.ms", "message.downconversion.enable"
    known = {name: each for name, each in TOPIC_CONFIGS.items() if name not in gone}
    known["segment.bytes"] = replace(known["segment.bytes"], at_least=1024 * 1024)
    after = "message.timestamp.after.max.ms"
    known[after] = replace(known[after], default="3600000")
    known["internal.segment.bytes"] = TopicConfig("internal.segment.bytes", ConfigType.INT, "", is_internal=True)
    return known


def _of_4_3() -> dict[str, TopicConfig]:
    known = _of_4_1()
    return known | {"cleanup.policy": replace(known["cleanup.policy"], is_set=True)}


TOPIC_CONFIGS_OF: Final[Mapping[str, TopicConfigs]] = {
    "3.9.1": TOPIC_CONFIGS,
    "4.1.2": _of_4_1(),
    "4.3.1": _of_4_3(),
}
"""The settings of a topic by release. A topic's settings are checked in this order."""


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
