"""The topics' settings that elections need, as columns: min.insync.replicas and unclean.leader.election.enable.

The setting of a topic takes precedence. Then follow the settings of the controller's node, of all nodes, and of
server.properties.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kcore.constants import MIN_ISR, UNCLEAN_ELECTION
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import KeyChanges
from kcore.releases.known import DEFAULT_RELEASE
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.levels import Level
from kcore.replication.topic_settings import kraft_settings
from kcore.schema.configs import ConfigResourceType


class _Basis(NamedTuple):
    """The inputs of the computed settings, which are computed again when an input changes."""

    level: Level
    elr: bool
    version: int  # Incremented by each change of a topic's override or a node's setting.
    topics: int  # Rows of the topic table; 0 if no topic has an override.


class ElectionSettings:
    """The election settings of an image. If `of` is called with another image, it collects them again."""

    def __init__(self, config: KraftControllerConfig) -> None:
        self._config = config
        self._changes = KeyChanges("configs")
        self._version = 0
        self._overrides: dict[str, dict[str, str]] = {MIN_ISR: {}, UNCLEAN_ELECTION: {}}  # Values by topic.
        self._basis: _Basis | None = None
        self._made = KraftSettings(Level.parse(DEFAULT_RELEASE))

    def of(self, image: ClusterImage, level: Level, elr: bool) -> KraftSettings:
        """The settings of the image's present state."""
        self._catch_up(image)
        has_overrides = any(self._overrides.values())
        basis = _Basis(level, elr, self._version, len(image.topics) if has_overrides else 0)
        if basis != self._basis:
            self._made, self._basis = self._settings(image, level, elr), basis
            if any(topic not in image.topics for by_topic in self._overrides.values() for topic in by_topic):
                self._basis = None  # Compute again: a topic that has an override may be created before the next call.
        return self._made

    def _catch_up(self, image: ClusterImage) -> None:
        changed, is_other = self._changes.since_last(image)
        if is_other:
            self._overrides = {MIN_ISR: {}, UNCLEAN_ELECTION: {}}
            self._version += 1
        for kind, name in changed:
            if kind == ConfigResourceType.TOPIC:
                self._refresh(name, image.configs.get((kind, name), {}))
            else:
                self._version += 1

    def _refresh(self, topic: str, settings: Mapping[str, str]) -> None:
        for name, by_topic in self._overrides.items():
            value = settings.get(name)
            if value is not None:
                by_topic[topic] = value
            elif by_topic.pop(topic, None) is None:
                continue
            self._version += 1  # Also if the value is equal: a topic that was created again has another row.

    def _settings(self, image: ClusterImage, level: Level, elr: bool) -> KraftSettings:
        of_nodes = [*settings_of_nodes(image, self._config), self._config.node.static_configs]
        return kraft_settings(image.topics, level, elr, of_nodes, self._overrides)


def settings_of_nodes(image: ClusterImage, config: KraftControllerConfig) -> list[Mapping[str, str]]:
    """The dynamic settings of the controller's own node, and those of all nodes."""
    return [image.configs.get((ConfigResourceType.BROKER, name), {}) for name in (str(config.node.node_id), "")]
