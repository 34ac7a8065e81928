"""The settings of client metrics and groups with their valid values, and the settings of brokers that are lists.

Brokers check the values of their own settings, so the controller only needs to know which of these settings are lists.
Source: ControllerConfigurationValidator, ClientMetricsConfigs, GroupConfig, KafkaConfigSchema.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kcore.controller.rules.topic_configs import TOPIC_CONFIGS_OF, TopicConfig, check_value
from kcore.java_hash import hash_map_order, java_split
from kcore.protocol_errors import Errors
from kcore.schema.configs import ConfigResourceType, ConfigType

_SSL: Final = "TLSv1.2,TLSv1.3"
_LISTS: Final = {  # A broker's settings that are lists in all releases, with their defaults.
    "process.roles": "",
    "log.cleanup.policy": "delete",
    "controller.quorum.voters": "",
    "controller.quorum.bootstrap.servers": "",
    "kafka.metrics.reporters": "",
    "ssl.enabled.protocols": _SSL,
    "ssl.cipher.suites": "",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.oauthbearer.expected.audience": "",
}
_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor."
_SINCE_4_1: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.consumer.assignors": "uniform,range",
    "group.share.assignors": "simple",
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
}
LISTS_OF_BROKERS: Final[Mapping[str, Mapping[str, str]]] = {
    "3.9.1": _LISTS
    | {
        "group.coordinator.rebalance.protocols": "classic",
        "group.consumer.assignors": f"{_ASSIGNOR}UniformAssignor,{_ASSIGNOR}RangeAssignor",
        "metric.reporters": "",
        "zookeeper.ssl.enabled.protocols": "",
        "zookeeper.ssl.cipher.suites": "",
    },
    "4.1.2": _LISTS | _SINCE_4_1 | {"group.coordinator.rebalance.protocols": "classic,consumer"},
    "4.3.1": _LISTS
    | _SINCE_4_1
    | {
        "config.providers": "",
        "early.start.listeners": "",
        "controller.listener.names": "",
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "",
        "log.dir": "/tmp/kafka-logs",
        "log.dirs": "",
        "cordoned.log.dirs": "",
    },
}


def default_of_list(release: str, kind: int, name: str) -> str | None:
    """The default of a setting if the setting is a list, otherwise None (KafkaConfigSchema.isSplittable)."""
    if kind == ConfigResourceType.BROKER:
        return LISTS_OF_BROKERS[release].get(name)
    config = TOPIC_CONFIGS_OF[release].get(name) if kind == ConfigResourceType.TOPIC else None
    return config.default if config is not None and config.kind == ConfigType.LIST else None


# Client metrics (KIP-714).

INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
METRICS_CONFIGS: Final = {
    name: TopicConfig(name, kind, default)
    for name, kind, default in (
        ("metrics", ConfigType.LIST, ""),
        (INTERVAL, ConfigType.INT, "300000"),
        (MATCH, ConfigType.LIST, ""),
    )
}
_MATCHED: Final = frozenset(
    f"client_{name}"
    for name in ("instance_id", "id", "software_name", "software_version", "source_address", "source_port")
)


def check_client_metrics(release: str, name: str, configs: Mapping[str, str]) -> None:
    """InvalidRequestException or InvalidConfigurationException if the subscription is invalid."""
    if not name:
        Errors.INVALID_REQUEST.raise_for("Subscription name can't be empty")
    for each in hash_map_order(configs):
        if each not in METRICS_CONFIGS:
            Errors.INVALID_REQUEST.raise_for(f"Unknown client metrics configuration: {each}")
    for each, config in METRICS_CONFIGS.items():
        check_value(config, configs.get(each, config.default))
        if release == "4.3.1" and config.kind == ConfigType.LIST and "" in _members(configs.get(each, "")):
            Errors.INVALID_CONFIG.raise_for(f"Configuration '{each}' values must not be empty.")
    interval = int(check_value(METRICS_CONFIGS[INTERVAL], configs.get(INTERVAL, METRICS_CONFIGS[INTERVAL].default)))
    if not 100 <= interval <= 3_600_000:
        Errors.INVALID_REQUEST.raise_for(
            f"Invalid value {interval} for {INTERVAL}, interval must be between 100 and 3600000 (1 hour)"
        )
    for pattern in _members(configs.get(MATCH, "")):
        _check_pattern(pattern)


def _members(text: str) -> list[str]:
    return re.split(r"\s*,\s*", text.strip(), flags=re.ASCII) if text.strip() else []


def _check_pattern(pattern: str) -> None:
    """Check a pattern such as `client_id=.*` (ClientMetricsConfigs.parseMatchingPatterns)."""
    parts = java_split(pattern, "=")
    try:
        if len(parts) == 2 and parts[0].strip() in _MATCHED:
            re.compile(parts[1].strip())
            return
    except (re.error, RecursionError, OverflowError):
        pass
    Errors.INVALID_CONFIG.raise_for(f"Illegal client matching pattern: {pattern}")


# Groups (KIP-848, KIP-932, KIP-1071).


class _Bounds(NamedTuple):
    """The bounds of a group's setting. The settings `lowest` and `highest` of server.properties replace the numbers."""

    name: str
    lowest: str
    at_least: int
    highest: str
    at_most: int


_SESSION: Final = "session.timeout.ms"
_HEARTBEAT: Final = "heartbeat.interval.ms"
_ASSIGNMENT: Final = "assignment.interval.ms"


def _bounds(kind: str, setting: str, at_least: int, at_most: int) -> _Bounds:
    group = f"group.{kind}"
    return _Bounds(f"{kind}.{setting}", f"{group}.min.{setting}", at_least, f"{group}.max.{setting}", at_most)


def _bounds_of_kind(kind: str) -> tuple[_Bounds, ...]:
    return _bounds(kind, _HEARTBEAT, 5000, 15000), _bounds(kind, _SESSION, 45000, 60000)


_LOCKS: Final = _bounds("share", "record.lock.duration.ms", 15000, 60000)
_STANDBYS: Final = _Bounds("streams.num.standby.replicas", "", 0, "group.streams.max.standby.replicas", 2)
_BOUNDS_OF_4_1: Final = (*_bounds_of_kind("consumer"), *_bounds_of_kind("share"), _LOCKS, *_bounds_of_kind("streams"))
_BOUNDS: Final = {  # In the order in which they are checked.
    "4.1.2": (*_BOUNDS_OF_4_1, _STANDBYS),
    "4.3.1": (
        *_bounds_of_kind("consumer"),
        _bounds("consumer", _ASSIGNMENT, 0, 15000),
        *_bounds_of_kind("share"),
        _LOCKS,
        _bounds("share", "delivery.count.limit", 2, 10),
        _bounds("share", "partition.max.record.locks", 100, 4000),
        _bounds("share", _ASSIGNMENT, 0, 15000),
        *_bounds_of_kind("streams"),
        _STANDBYS,
        _bounds("streams", _ASSIGNMENT, 0, 15000),
    ),
}


def _group_configs() -> dict[str, dict[str, TopicConfig]]:
    """The settings by release and name, in the order of parsing. A star marks settings of 4.3.1 only."""
    table = (
        "consumer.session.timeout.ms 45000 1,consumer.heartbeat.interval.ms 5000 1,*consumer.assignment.interval.ms "
        "1000 0,share.session.timeout.ms 45000 1,share.heartbeat.interval.ms 5000 1,share.record.lock.duration.ms "
        "30000 1000,*share.delivery.count.limit 5 2,*share.partition.max.record.locks 2000 100,"
        "share.auto.offset.reset,share.isolation.level,*share.renew.acknowledge.enable,"
        "*share.assignment.interval.ms 1000 0,streams.session.timeout.ms 45000 1,streams.heartbeat.interval.ms 5000 1,"
        "streams.num.standby.replicas 0 0,*streams.initial.rebalance.delay.ms 3000 0,"
        "*streams.assignment.interval.ms 1000 0"
    )
    others = {
        "share.auto.offset.reset": TopicConfig("share.auto.offset.reset", ConfigType.STRING, "latest"),
        "share.isolation.level": TopicConfig(
            "share.isolation.level", ConfigType.STRING, "read_uncommitted", among=("read_committed", "read_uncommitted")
        ),
        "share.renew.acknowledge.enable": TopicConfig("share.renew.acknowledge.enable", ConfigType.BOOLEAN, "true"),
    }
    known: dict[str, dict[str, TopicConfig]] = {"4.1.2": {}, "4.3.1": {}}
    for name, *numbers in (line.removeprefix("*").split() for line in table.split(",")):
        config = TopicConfig(name, ConfigType.INT, numbers[0], int(numbers[1])) if numbers else others[name]
        known["4.3.1"][name] = config
        if f"*{name}" not in table:
            known["4.1.2"][name] = config
    return known


GROUP_CONFIGS: Final[Mapping[str, Mapping[str, TopicConfig]]] = _group_configs()
_DURATION: Final = re.compile(
    r"by_duration:[+]?P(?=.)([-+]?\d+D)?(T(?=.)([-+]?\d+H)?([-+]?\d+M)?([-+]?\d+([.,]\d{0,9})?S)?)?", re.IGNORECASE
)


def group_values(release: str, configs: Mapping[str, str], static: Mapping[str, str]) -> dict[str, str]:
    """All settings of a group with these overrides, as Kafka prints them; raises for an invalid value.

    `static`: server.properties, whose settings such as `group.consumer.session.timeout.ms` are the defaults.
    """
    known = GROUP_CONFIGS[release]
    for each in hash_map_order(configs):
        if each not in known:
            Errors.INVALID_CONFIG.raise_for(f"Unknown group config name: {each}")
    values = {name: check_value(config, configs.get(name, _default(config, static))) for name, config in known.items()}
    reset = values["share.auto.offset.reset"]
    if reset not in ("latest", "earliest") and not (reset.startswith("by_d") and _DURATION.fullmatch(reset)):
        name = "share.auto.offset.reset"
        Errors.INVALID_CONFIG.raise_for(
            f"Invalid value {reset} for configuration {name}: Invalid value `{reset}` for configuration {name}. The "
            "value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
    return values


def group_defaults(release: str) -> frozenset[str]:
    """The settings of server.properties that `check_group` reads."""
    bounds = (name for each in _BOUNDS[release] for name in (each.lowest, each.highest) if name)
    return frozenset([*bounds, *(f"group.{name}" for name in GROUP_CONFIGS[release])])


def _default(config: TopicConfig, static: Mapping[str, str]) -> str:
    return static.get(f"group.{config.name}", config.default)


def check_group(release: str, name: str, configs: Mapping[str, str], static: Mapping[str, str]) -> None:
    """InvalidRequestException or InvalidConfigurationException if a group may not have these settings."""
    if not name:
        Errors.INVALID_REQUEST.raise_for("Default group resources are not allowed.")
    values = group_values(release, configs, static)
    for bounds in _BOUNDS[release]:
        if bounds.name.endswith(_ASSIGNMENT) and bounds.name not in configs:
            continue
        value = int(values[bounds.name])
        if bounds.lowest and value < int(static.get(bounds.lowest, bounds.at_least)):
            Errors.INVALID_CONFIG.raise_for(f"{bounds.name} must be greater than or equal to {bounds.lowest}")
        if value > int(static.get(bounds.highest, bounds.at_most)):
            Errors.INVALID_CONFIG.raise_for(f"{bounds.name} must be less than or equal to {bounds.highest}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.{_SESSION}", f"{kind}.{_HEARTBEAT}"
        if int(values[session]) <= int(values[heartbeat]):
            Errors.INVALID_CONFIG.raise_for(f"{session} must be greater than {heartbeat}")
