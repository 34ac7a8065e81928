"""One setting in a DescribeConfigsResponse: its value, its source and its synonyms (ConfigHelper)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kcore.controller.kraft.admin.broker_defaults import DEFAULTS
from kcore.controller.kraft.admin.broker_settings import DYNAMIC, TYPES
from kcore.controller.kraft.admin.config_kinds import LISTS_OF_BROKERS
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.rules.topic_configs import TopicConfig, check_value, is_valid
from kcore.java_hash import hash_map_order, string_hash
from kcore.metadata.image.image import ClusterImage
from kcore.schema.configs import (
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

_NUMBERS: Final[Mapping[int, int]] = {ConfigType.INT: 2**31, ConfigType.SHORT: 2**15, ConfigType.LONG: 2**63}
_PER_BROKER: Final = re.compile(
    r"(ssl|sasl)\..*|(advertised\.)?listeners|listener\..*|principal\.builder\.class|cordoned\.log\.dirs"
)
_FAMILIES: Final = (  # Settings for the same value in several units.
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
Settings = Mapping[str, str]


def type_of(release: str, name: str) -> int:
    """The type of a broker's setting (KafkaConfig.configType)."""
    found = TYPES.get(name, ConfigType.UNKNOWN)
    if found == ConfigType.LIST and name not in LISTS_OF_BROKERS[release]:
        return ConfigType.STRING
    return found


def is_dynamic(release: str, name: str) -> bool:
    """True if a node applies a change of the setting at run time (DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS)."""
    return name in DYNAMIC and not (name == "advertised.listeners" and release != "3.9.1")


def is_sensitive(kind: int) -> bool:
    """True if the value is withheld: of passwords and unknown settings (KafkaConfig.maybeSensitive)."""
    return kind in (ConfigType.PASSWORD, ConfigType.UNKNOWN)


def dynamic_settings(release: str, image: ClusterImage, name: str) -> Settings:
    """The dynamic settings that a node applies from its own, or from all nodes', configuration.

    Source: DynamicBrokerConfig.fromPersistentProps.
    """
    return {
        setting: value
        for setting, value in image.configs.get((ConfigResourceType.BROKER, name), {}).items()
        if (is_dynamic(release, setting) or setting not in TYPES)
        and not (not name and _PER_BROKER.fullmatch(setting))
        and _is_of_type(type_of(release, setting), value)
    }


def _is_of_type(kind: int, text: str) -> bool:
    text = text.strip()
    try:
        if kind in _NUMBERS:
            return -_NUMBERS[kind] <= int(text) < _NUMBERS[kind]
        if kind == ConfigType.DOUBLE:
            float(text)
    except ValueError:
        return False
    return kind != ConfigType.BOOLEAN or text.lower() in ("true", "false")


class BrokerSettings:
    """The settings of this node by source, in an image's present state; made once per request."""

    def __init__(self, config: KraftControllerConfig, image: ClusterImage) -> None:
        self.release = config.release
        self.of_node = dynamic_settings(config.release, image, str(config.node_id))
        self.of_all = dynamic_settings(config.release, image, "")
        # KafkaConfig sets both to the same value.
        own_id = {"node.id": str(config.node_id), "broker.id": str(config.node_id)}
        self.static = {**own_id, **config.static_configs} if config.release == "4.3.1" else config.static_configs

    def synonyms(self, name: str, default: str | None) -> list[DescribeConfigsSynonym]:
        """All values that are set for the setting, the effective one first. Source: ConfigHelper.configSynonyms."""
        names = next((family for family in _FAMILIES if name in family), (name,))
        hides = is_sensitive(type_of(self.release, name))
        found = [
            DescribeConfigsSynonym(name=each, value=None if hides else settings[each], source=source)
            for source, settings in (
                (ConfigSource.DYNAMIC_BROKER_CONFIG, self.of_node),
                (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.of_all),
                (ConfigSource.STATIC_BROKER_CONFIG, self.static),
            )
            for each in names
            if each in settings
        ]
        while found and found[0].name != name:
            del found[0]
        if default is not None:
            found.append(DescribeConfigsSynonym(name=name, value=default, source=ConfigSource.DEFAULT_CONFIG))
        return found

    def values(self) -> dict[str, str | None]:
        """All settings of this node, as Kafka prints them; with defaults only at 4.3.1."""
        given = {**self.static, **self.of_all, **self.of_node}
        printed = {name: _printed(self.release, name, value) for name, value in given.items()}
        return {**DEFAULTS, **printed} if self.release == "4.3.1" else {**printed}

    def entry(
        self, name: str, value: str | None, *, includes_synonyms: bool, only_of_all: bool
    ) -> DescribeConfigsResourceResult:
        """The entry of a setting of this node, or of all nodes."""
        kind = type_of(self.release, name)
        default = DEFAULTS.get(name) if self.release == "4.3.1" else None
        found = self.synonyms(name, default)
        synonyms = [
            each for each in found if not only_of_all or each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ]
        shown = None if is_sensitive(kind) else value
        return entry(name, shown, kind, synonyms, includes_synonyms, not is_dynamic(self.release, name))


def _printed(release: str, name: str, text: str) -> str:
    """The value as ConfigDef prints it after parsing; unchanged if its type is unknown or the value is invalid."""
    config = TopicConfig(name, type_of(release, name), "")
    return check_value(config, text) if name in TYPES and is_valid(config, text) else text


def entry(
    name: str,
    value: str | None,
    kind: int,
    synonyms: list[DescribeConfigsSynonym],
    includes_synonyms: bool,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    """The response's entry; the first synonym gives its source."""
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=is_sensitive(kind),
        synonyms=synonyms if includes_synonyms else [],
        config_type=kind,
        documentation=None,
    )


def listed(release: str, names: Iterable[str], keys: Iterable[str] | None) -> list[str]:
    """The requested names, in the order of Java's HashMap; before 4.3 in the order of Scala's.

    Source: ConfigHelper.createResponseConfig, ConfigHelperUtils.toDescribeConfigsResult.
    """
    wanted = {*(keys or ())}
    if release == "4.3.1":
        return [name for name in hash_map_order(hash_map_order(names)) if not wanted or name in wanted]
    return _scala_order([name for name in names if not wanted or name in wanted])


def _scala_order(names: list[str]) -> list[str]:
    """The order of scala.collection.mutable.HashMap: by bucket, and within a bucket by hash."""
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2

    def place(name: str) -> tuple[int, int]:
        hashed = string_hash(name)
        hashed ^= hashed >> 16
        return hashed & buckets - 1, hashed - ((hashed >> 31) << 32)

    return sorted(names, key=place)
