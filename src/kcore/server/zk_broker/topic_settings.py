"""Keeps the settings of a broker's topics equal to ZooKeeper, which notifies of changes.

Source: DynamicConfigManager, ZkConfigManager and TopicConfigHandler of 3.9.1.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.topic_names import reason_invalid
from kcore.metadata.zookeeper import znodes
from kcore.server.broker.topic_configs import settings_of
from kcore.server.zk_node.notification_watcher import Notification, changed_entities, read_configs
from kcore.zookeeper.client import ZookeeperClient

TOPICS: Final = "topics/"


class ZkTopicSettings:
    """The settings of the topics whose replicas the broker has."""

    subject = "settings of topics"
    made_paths = parents = (znodes.CONFIG_CHANGES,)

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        manager: ReplicaManager,
        now_ms: Callable[[], int],
        perform: Callable[[], None],
    ) -> None:
        self._zookeeper, self._manager, self._now_ms, self._perform = zookeeper, manager, now_ms, perform
        self._known: set[str] = set()  # Topics whose settings were read.

    async def learn(self, topics: Iterable[str]) -> None:
        """Reads the settings of these topics that are not known yet. Invalid names are ignored."""
        wanted = {name for name in topics if reason_invalid(name) is None}
        while new := sorted(wanted - self._known):  # `keep_only` may have dropped some during the read.
            await self._read(new)
            self._known |= {*new}

    def keep_only(self, topics: Collection[str]) -> None:
        """Drops the settings of all other topics: they are deleted, or the broker never had a replica of them."""
        self._known.intersection_update(topics)
        settings = self._manager.settings
        for topic in settings.keys() - {*topics}:
            del settings[topic]

    async def read_all(self) -> None:
        """Reads the settings of all known topics."""
        await self._read(sorted(self._known))

    async def read_changed(self, notifications: list[Notification]) -> None:
        """Reads the settings of the known topics that these notifications name."""
        paths = changed_entities(notifications)
        topics = {path.removeprefix(TOPICS) for path in paths if path.startswith(TOPICS)}
        await self._read(sorted(topics & self._known))

    async def _read(self, topics: list[str]) -> None:
        if not topics:
            return
        paths = [znodes.config_path("topics", topic) for topic in topics]
        found = await read_configs(self._zookeeper, paths, "the topic keeps its last settings")
        for topic, config in zip(topics, found, strict=True):
            if config is not None:
                self._manager.set_settings(topic, settings_of(topic, config, self._manager.config), self._now_ms())
        self._perform()
