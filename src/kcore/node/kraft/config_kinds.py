"""The settings of client metrics and groups with their valid values, and the settings of brokers that are lists.

Brokers check the values of their own settings, so the controller only needs to know which of these settings are lists.
Source: ControllerConfigurationValidator, ClientMetricsConfigs, GroupConfig, KafkaConfigSchema.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from kcore.java_hash import hash_map_order, java_split
from kcore.node.kraft.group_configs import ASSIGNOR, ASSIGNORS, assignors, check_own, check_reset
from kcore.node.topic_configs import check_value
from kcore.protocol_errors import Errors
from kcore.releases.known import RELEASES
from kcore.releases.settings import TopicConfig, TopicConfigs
from kcore.schema.configs import ConfigResourceType, ConfigType


def known_kind(release: str, kind: int) -> bool:
    """True if the release has this ConfigResource.Type."""
    return kind in (
        ConfigResourceType.TOPIC,
        ConfigResourceType.BROKER,
        ConfigResourceType.BROKER_LOGGER,
        ConfigResourceType.CLIENT_METRICS,
    ) or (kind == ConfigResourceType.GROUP and bool(RELEASES[release].group_configs))


def default_of_list(release: str, kind: int, name: str) -> str | None:
    """The default of a setting if the setting is a list, otherwise None (KafkaConfigSchema.isSplittable)."""
    if kind == ConfigResourceType.BROKER:
        return RELEASES[release].broker_lists.get(name)
    config = RELEASES[release].topic_configs.get(name) if kind == ConfigResourceType.TOPIC else None
    return config.default if config is not None and config.kind == ConfigType.LIST else None


def known_names(release: str, kind: int) -> Collection[str] | None:
    """The settings that resources of a type may have; None if they may have any."""
    if kind == ConfigResourceType.TOPIC:
        return RELEASES[release].topic_configs
    if kind == ConfigResourceType.CLIENT_METRICS:
        return METRICS_CONFIGS
    return RELEASES[release].group_configs if kind == ConfigResourceType.GROUP else None


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
    rules = RELEASES[release].rules
    if not name:
        Errors.INVALID_REQUEST.raise_for("Subscription name can't be empty")
    for each in hash_map_order(configs):
        if each not in METRICS_CONFIGS:
            Errors.INVALID_REQUEST.raise_for(f"Unknown client metrics configuration: {each}")
    for each, config in METRICS_CONFIGS.items():
        check_value(config, configs.get(each, config.default))
        is_list = config.kind == ConfigType.LIST
        if is_list and rules.metrics_refuse_empty_members and "" in _members(configs.get(each, "")):
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


_SESSION: Final = "session.timeout.ms"
_HEARTBEAT: Final = "heartbeat.interval.ms"
_ASSIGNMENT: Final = "assignment.interval.ms"


def group_values(release: str, configs: Mapping[str, str], static: Mapping[str, str]) -> dict[str, str]:
    """All settings of a group with these overrides, as Kafka prints them; raises for an invalid value.

    `static`: server.properties, whose settings such as `group.consumer.session.timeout.ms` are the defaults.
    """
    known = RELEASES[release].group_configs
    _check_names(known, configs)
    values = {
        name: check_value(config, configs.get(name, _default(config, static)))
        for name, config in known.items()
        if not config.is_internal or name in configs or f"group.{name}" in static
    }
    check_reset(values)
    return values


def _check_names(known: TopicConfigs, configs: Mapping[str, str]) -> None:
    for each in hash_map_order(configs):
        if each not in known:
            Errors.INVALID_CONFIG.raise_for(f"Unknown group config name: {each}")


def group_defaults(release: str) -> frozenset[str]:
    """The settings of server.properties that `check_group` reads."""
    bounds = (name for each in RELEASES[release].group_bounds for name in (each.lowest, each.highest) if name)
    names = RELEASES[release].group_configs
    return frozenset([*bounds, *(ASSIGNORS if name == ASSIGNOR else f"group.{name}" for name in names)])


def _default(config: TopicConfig, static: Mapping[str, str]) -> str:
    return assignors(static)[0] if config.name == ASSIGNOR else static.get(f"group.{config.name}", config.default)


def check_group(release: str, name: str, configs: Mapping[str, str], static: Mapping[str, str]) -> None:
    """InvalidRequestException or InvalidConfigurationException if a group may not have these settings."""
    if not name:
        Errors.INVALID_REQUEST.raise_for("Default group resources are not allowed.")
    of_release = RELEASES[release]
    if of_release.rules.checks_own_group_configs:
        _check_names(of_release.group_configs, configs)
        check_own(of_release.group_configs, of_release.group_bounds, configs, static)
        return
    values = group_values(release, configs, static)
    for bounds in of_release.group_bounds:
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
