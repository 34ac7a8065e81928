"""The effective settings of a topic.

The topic's own value takes precedence; then that of the node, of all nodes, of server.properties, and the default.

Source: KafkaConfigSchema.resolveEffectiveTopicConfigs, ServerTopicConfigSynonyms, KafkaConfig.extractLogConfigMap.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcore.metadata.image.image import ClusterImage
from kcore.node.kraft.node_config import NodeConfig
from kcore.node.topic_configs import base_values, is_valid
from kcore.releases.known import RELEASES
from kcore.releases.settings import TopicConfig
from kcore.schema.configs import ConfigResourceType, ConfigSource
from kcore.schema.topics import CreatableTopicConfigs

_MINUTE: Final = 60_000
_FURTHER: Final = {  # A topic setting's further synonyms, each with the factor to milliseconds; 0: no conversion.
    "segment.ms": (("log.roll.hours", 60 * _MINUTE),),
    "segment.jitter.ms": (("log.roll.jitter.hours", 60 * _MINUTE),),
    "flush.ms": (("log.flush.scheduler.interval.ms", 0),),
    "retention.ms": (("log.retention.minutes", _MINUTE), ("log.retention.hours", 60 * _MINUTE)),
}


class Effective(NamedTuple):
    """A value and its ConfigSource."""

    value: str | None
    source: int


def synonyms(config: TopicConfig) -> tuple[tuple[str, int], ...]:
    """The broker's settings that give a topic's setting its default, in their order of precedence.

    Each has the factor that converts its value to milliseconds, such as 3,600,000 for hours; 0: no conversion.
    """
    if config.server is None:
        return ()
    return (config.server, 0), *_FURTHER.get(config.name, ())


class EffectiveConfigs:
    """The effective settings of topics in an image's present state; made once per request."""

    def __init__(self, config: NodeConfig, image: ClusterImage) -> None:
        self.known = RELEASES[config.release].topic_configs
        self._layers: tuple[tuple[int, Mapping[str, str]], ...] = (
            (
                ConfigSource.DYNAMIC_BROKER_CONFIG,
                image.configs.get((ConfigResourceType.BROKER, str(config.node_id)), {}),
            ),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, image.configs.get((ConfigResourceType.BROKER, ""), {})),
            (ConfigSource.STATIC_BROKER_CONFIG, config.static_configs),
        )
        self._of_all: dict[str, Effective] = {name: self._of(self.known[name]) for name in sorted(self.known)}
        self._shared: dict[str, CreatableTopicConfigs] | None = None

    def _of(self, config: TopicConfig) -> Effective:
        for source, settings in self._layers:
            for name, unit in synonyms(config):
                if name in settings:
                    return Effective(_converted(settings[name], unit), source)
        return Effective(None if config.is_internal else config.default, ConfigSource.DEFAULT_CONFIG)

    def of(self, configs: Mapping[str, str]) -> dict[str, Effective]:
        """The effective settings of a topic with these overrides, by name in alphabetic order."""
        return {
            name: Effective(configs[name], ConfigSource.TOPIC_CONFIG) if name in configs else effective
            for name, effective in self._of_all.items()
            if name in configs or not self.known[name].is_internal
        }

    def created(self, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """The effective settings of a topic with these overrides, as entries of a CreateTopicsResponse.

        Topics share the entries of settings that they do not override.
        """
        if self._shared is None:
            self._shared = {name: _entry(name, each) for name, each in self.of({}).items()}
        if not configs:
            return list(self._shared.values())
        own = {name: _entry(name, Effective(each, ConfigSource.TOPIC_CONFIG)) for name, each in configs.items()}
        all_entries = self._shared | own
        names = all_entries if len(all_entries) == len(self._shared) else sorted(all_entries)
        return [all_entries[name] for name in names]

    def base_values(self) -> dict[str, str]:
        """The settings of a topic without overrides, as Kafka prints them.

        Invalid values of brokers' settings are ignored, because Kafka stores these values without a check. Source:
        KafkaConfig.extractLogConfigMap.
        """
        found: dict[str, str] = {}
        for name, config in self.known.items():
            value, source = self._of_all[name]
            if source != ConfigSource.DEFAULT_CONFIG and value is not None and is_valid(config, value):
                found[name] = value
        return base_values(self.known, found)


def _entry(name: str, effective: Effective) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(name=name, value=effective.value, config_source=effective.source)


def _converted(text: str, unit: int) -> str:
    """The value in milliseconds (ConfigSynonym's converters). A text that is not a number becomes 0."""
    if not unit:
        return text
    try:
        return str(int(text) * unit)
    except ValueError:
        return "0"
