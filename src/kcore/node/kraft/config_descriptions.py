"""The settings of one resource in a response to DescribeConfigs (ConfigHelper.describeConfigs).

A node describes its own settings: from release 4.3.1 on all of them, in older releases only those
that have a value. Its responses contain no documentation of settings. They have no entries for BROKER_LOGGER, because
the node has none of Kafka's loggers.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kcore.java_hash import hash_map_order, java_int, string_hash
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.topic_names import validate_topic_name
from kcore.node.error_responses import message_of
from kcore.node.kraft.config_kinds import METRICS_CONFIGS, group_values
from kcore.node.kraft.effective_configs import EffectiveConfigs
from kcore.node.kraft.group_configs import ASSIGNOR, ASSIGNORS
from kcore.node.kraft.node_config import NodeConfig
from kcore.node.topic_configs import check_value, is_valid, topic_config_values
from kcore.protocol_errors import ApiException, Errors
from kcore.releases.broker_settings import DYNAMIC, TYPES, is_sensitive
from kcore.releases.known import RELEASES
from kcore.releases.settings import TopicConfig
from kcore.schema import configs as schema
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
    if found == ConfigType.LIST and name not in RELEASES[release].broker_lists:
        return ConfigType.STRING
    return found


def is_dynamic(release: str, name: str) -> bool:
    """True if a node applies a change of the setting at run time (DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS)."""
    known = RELEASES[release]
    if name == "advertised.listeners":
        return known.rules.advertised_listeners_are_dynamic
    return name in DYNAMIC or name in known.dynamic_broker_configs


def dynamic_settings(release: str, image: ClusterImage, name: str) -> Settings:
    """The settings that a node applies from a BROKER resource: its own, or the one of all nodes if `name` is empty.

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

    def __init__(self, config: NodeConfig, image: ClusterImage) -> None:
        self.release = config.release
        self.of_node = dynamic_settings(config.release, image, str(config.node_id))
        self.of_all = dynamic_settings(config.release, image, "")
        # KafkaConfig sets node.id and broker.id to the same value.
        own_id = {"node.id": str(config.node_id), "broker.id": str(config.node_id)}
        self._defaults = RELEASES[config.release].broker_defaults
        self.static = {**own_id, **config.static_configs} if self._defaults else config.static_configs

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
        """All settings of this node, as Kafka prints them; with defaults if the release describes them."""
        given = {**self.static, **self.of_all, **self.of_node}
        printed = {name: _printed(self.release, name, value) for name, value in given.items()}
        return {**self._defaults, **printed}

    def entry(
        self, name: str, value: str | None, *, includes_synonyms: bool, only_of_all: bool
    ) -> DescribeConfigsResourceResult:
        """The response's entry of a setting of this node.

        `only_of_all`: True for the BROKER resource with the empty name. The entry then has only the synonyms that are
        set there (DYNAMIC_DEFAULT_BROKER_CONFIG).
        """
        kind = type_of(self.release, name)
        default = self._defaults.get(name)
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
    """The response's entry of one setting; the first synonym says where the value comes from."""
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
    """The names that are in `keys`, or all names if `keys` is empty, in the order of the response.

    The order is that of Java's HashMap, and before 4.3 that of Scala's HashMap.

    Source: ConfigHelper.createResponseConfig, ConfigHelperUtils.toDescribeConfigsResult.
    """
    wanted = {*(keys or ())}
    if RELEASES[release].rules.describes_in_java_order:
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


_OWN_DEFAULTS: Final = frozenset(  # Settings of groups for which nodes have no setting.
    {
        *("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"),
        *("errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"),
    }
)
Entries = list[schema.DescribeConfigsResourceResult]


class Describing:
    """Describes the resources of one request."""

    def __init__(self, config: NodeConfig, image: ClusterImage, *, includes_synonyms: bool) -> None:
        self._config, self._image = config, image
        self._release = config.release
        self._includes_synonyms = includes_synonyms
        self._effective = EffectiveConfigs(self._config, self._image)
        self._brokers = BrokerSettings(self._config, self._image)

    def result(self, resource: schema.DescribeConfigsResource) -> schema.DescribeConfigsResult:
        """The settings of one resource (ConfigHelper.describeConfigs)."""
        try:
            found = self._entries[resource.resource_type](self, resource)
        except ApiException as error:
            if error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                return result_of(resource, error.error, "")
            return result_of(resource, error.error, message_of(error))
        return result_of(resource, Errors.NONE, "", found)

    def _own_settings(self, kind: int, name: str) -> Mapping[str, str]:
        return self._image.configs.get((kind, name), {})

    def _topic(self, resource: schema.DescribeConfigsResource) -> Entries:
        name = resource.resource_name
        validate_topic_name(name)
        if name not in self._image.topics:
            Errors.UNKNOWN_TOPIC_OR_PARTITION.raise_for()
        own, known = self._own_settings(ConfigResourceType.TOPIC, name), self._effective.known
        values = topic_config_values(own, known, self._effective.base_values())
        return [
            self._topic_entry(known[each], values[each], own)
            for each in listed(self._release, values, resource.configuration_keys)
        ]

    def _topic_entry(
        self, config: TopicConfig, value: str, own: Mapping[str, str]
    ) -> schema.DescribeConfigsResourceResult:
        synonyms: list[schema.DescribeConfigsSynonym] = []
        if config.server is not None:
            synonyms = self._brokers.synonyms(config.server, config.default if config.server_default else None)
        if config.name in own:
            synonyms.insert(
                0, schema.DescribeConfigsSynonym(name=config.name, value=value, source=ConfigSource.TOPIC_CONFIG)
            )
        return entry(config.name, value, config.kind, synonyms, self._includes_synonyms)

    def _broker(self, resource: schema.DescribeConfigsResource) -> Entries:
        name, own = resource.resource_name, self._config.node_id
        if name and _node_id(name) != own:
            Errors.INVALID_REQUEST.raise_for(
                f"Unexpected broker id, expected {own} or empty string, but received {name}"
            )
        brokers = self._brokers
        values = brokers.values() if name else brokers.of_all
        return [
            brokers.entry(each, values[each], includes_synonyms=self._includes_synonyms, only_of_all=not name)
            for each in listed(self._release, values, resource.configuration_keys)
        ]

    def _broker_logger(self, resource: schema.DescribeConfigsResource) -> Entries:
        """No entries, because this node has none of Kafka's loggers."""
        name, own = resource.resource_name, self._config.node_id
        if not name:
            Errors.INVALID_REQUEST.raise_for("Broker id must not be empty")
        if _node_id(name) != own:
            Errors.INVALID_REQUEST.raise_for(f"Unexpected broker id, expected {own} but received {name}")
        return []

    def _client_metrics(self, resource: schema.DescribeConfigsResource) -> Entries:
        name = resource.resource_name
        if not name:
            Errors.INVALID_REQUEST.raise_for("Client metrics subscription name must not be empty")
        own = self._own_settings(ConfigResourceType.CLIENT_METRICS, name)
        if self._config.rules.describes_raw_client_metrics:
            return [_raw_metrics_entry(each, own[each]) for each in listed(self._release, own, None)]
        found = []
        for each in listed(self._release, METRICS_CONFIGS, resource.configuration_keys):
            config = METRICS_CONFIGS[each]
            value = check_value(config, own.get(each, config.default))
            synonyms = [_synonym(each, value, ConfigSource.CLIENT_METRICS_CONFIG)] if each in own else []
            found.append(entry(each, value, config.kind, synonyms, self._includes_synonyms))
        return found

    def _group(self, resource: schema.DescribeConfigsResource) -> Entries:
        name = resource.resource_name
        if not name:
            Errors.INVALID_REQUEST.raise_for("Group name must not be empty")
        own = self._own_settings(ConfigResourceType.GROUP, name)
        values = group_values(self._release, own, self._config.static_configs)
        found, known = [], RELEASES[self._release].group_configs
        names = listed(self._release, values, resource.configuration_keys)
        for each in sorted(names, key=lambda name: not known[name].is_internal):  # Internal settings come first.
            config = known[each]
            synonyms = self._synonyms_of_group(config, values[each], is_own=each in own)
            found.append(entry(each, values[each], config.kind, synonyms, self._includes_synonyms))
        return found

    def _synonyms_of_group(
        self, config: TopicConfig, value: str, *, is_own: bool
    ) -> list[schema.DescribeConfigsSynonym]:
        if not self._config.rules.describes_synonyms_of_groups:
            return [_synonym(config.name, value, ConfigSource.GROUP_CONFIG if is_own else ConfigSource.DEFAULT_CONFIG)]
        if config.name in _OWN_DEFAULTS:
            behind = [_synonym(config.name, config.default, ConfigSource.DEFAULT_CONFIG)]
        elif config.name == ASSIGNOR:
            behind = self._brokers.synonyms(ASSIGNORS, RELEASES[self._release].broker_lists[ASSIGNORS])
        else:
            behind = self._brokers.synonyms(f"group.{config.name}", config.default)
        return [_synonym(config.name, value, ConfigSource.GROUP_CONFIG), *behind] if is_own else behind

    _entries: Final[Mapping[int, Callable[["Describing", schema.DescribeConfigsResource], Entries]]] = {
        ConfigResourceType.TOPIC: _topic,
        ConfigResourceType.BROKER: _broker,
        ConfigResourceType.BROKER_LOGGER: _broker_logger,
        ConfigResourceType.CLIENT_METRICS: _client_metrics,
        ConfigResourceType.GROUP: _group,
    }


def _synonym(name: str, value: str, source: int) -> schema.DescribeConfigsSynonym:
    return schema.DescribeConfigsSynonym(name=name, value=value, source=source)


def _raw_metrics_entry(name: str, value: str) -> schema.DescribeConfigsResourceResult:
    """The entry of 3.9.1, whose fields do not depend on the request."""
    return schema.DescribeConfigsResourceResult(
        name=name, value=value, config_source=ConfigSource.CLIENT_METRICS_CONFIG, synonyms=[], documentation=""
    )


def _node_id(name: str) -> int:
    if (found := java_int(name)) is None:
        Errors.INVALID_REQUEST.raise_for(f"Broker id must be an integer, but it is: {name}")
        raise AssertionError
    return found


def result_of(
    resource: schema.DescribeConfigsResource, error: Errors, message: str | None, entries: Entries | None = None
) -> schema.DescribeConfigsResult:
    """The response's result of one resource. `entries`: None for an error."""
    return schema.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries or [],
    )
