"""The settings in the metadata log that a KRaft broker applies: those of topics, its throttles, cordoned directories.

Source: TopicConfigHandler, BrokerConfigHandler, DynamicConfigPublisher, KafkaConfig.cordonedLogDirs of 4.3.1.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.image.delta import MetadataDelta
from kcore.metadata.image.image import ClusterImage
from kcore.node.kraft.effective_configs import EffectiveConfigs
from kcore.node.kraft.node_config import NodeConfig
from kcore.schema.configs import ConfigResourceType
from kcore.server.broker.topic_configs import settings_of
from kcore.server.kraft_broker.kraft_broker_settings import ALL
from kcore.storage.log.log_directory import LogDirectory
from kcore.types import Uuid

CONFIGS: Final = "configs"
CORDONED: Final = "cordoned.log.dirs"


class BrokerConfigs:
    """The settings of one broker. Call `follow` after each change of the image, before the replicas follow it."""

    def __init__(self, config: NodeConfig, manager: ReplicaManager, now_ms: Callable[[], int]) -> None:
        self._config, self._manager, self._now_ms = config, manager, now_ms
        self._base: dict[str, str] = {}

    def follow(self, image: ClusterImage, delta: MetadataDelta | None) -> None:
        """Applies changed settings to the held topics; `delta`: None if all settings may have changed."""
        brokers = [(ConfigResourceType.BROKER, name) for name in (str(self._config.node_id), "")]
        self._manager.quotas.set_limits(*(image.configs.get(each, {}) for each in brokers))
        known = self._manager.settings
        changed = set(known)
        if delta is not None:
            touched = delta.touched(CONFIGS)
            if touched.isdisjoint(brokers):
                changed = {name for kind, name in touched if kind == ConfigResourceType.TOPIC and name in known}
            elif touched:
                self._base.clear()
        else:
            self._base.clear()
        for topic in changed:
            self._manager.set_settings(topic, self._settings_of(image, topic), self._now_ms())

    def learn(self, image: ClusterImage, topic: str) -> None:
        """Loads the topic's settings, before a replica of the topic leads."""
        if topic not in self._manager.settings:
            self._manager.settings[topic] = self._settings_of(image, topic)

    def _settings_of(self, image: ClusterImage, topic: str) -> TopicSettings:
        if not self._base:
            self._base = EffectiveConfigs(self._config, image).base_values()
        own = image.configs.get((ConfigResourceType.TOPIC, topic), {})
        return settings_of(topic, {**self._base, **own}, self._manager.config)

    def keep_only(self, topics: Collection[str]) -> None:
        """Drops the settings of other topics, which are deleted or no longer held."""
        for topic in self._manager.settings.keys() - {*topics}:
            del self._manager.settings[topic]

    def cordoned(self, image: ClusterImage, directories: Iterable[LogDirectory], default: str = ALL) -> list[Uuid]:
        """The ids of the cordoned directories, which get no new replicas (KIP-1066).

        By default all are cordoned, so that internal topics are placed on other brokers: this broker coordinates no
        groups and no transactions. Kafka's default is none. With "" as `default`, only directories that an
        administrator has cordoned are returned; no replica may be moved into them.
        """
        own: Mapping[str, str] = image.configs.get((ConfigResourceType.BROKER, str(self._config.node_id)), {})
        of_all: Mapping[str, str] = image.configs.get((ConfigResourceType.BROKER, ""), {})
        layers = (own, of_all, self._config.static_configs)
        text = next((each[CORDONED] for each in layers if CORDONED in each), default)
        named = {each.strip() for each in text.split(",")}
        return [
            each.directory_id
            for each in directories
            if each.directory_id is not None and not named.isdisjoint((ALL, str(each.path), str(each.path.absolute())))
        ]
