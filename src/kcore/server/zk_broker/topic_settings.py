"""Keeps the settings of a broker's topics equal to ZooKeeper, which notifies of changes.

Source: DynamicConfigManager, ZkConfigManager and TopicConfigHandler of 3.9.1.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import KcoreError, ZookeeperError
from kcore.metadata.topic_names import reason_invalid
from kcore.metadata.zookeeper import znodes
from kcore.server.broker.topic_configs import settings_of
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
AGAIN_S: Final = 0.3
TOPICS: Final = "topics/"


class TopicSettingsWatch:
    """The settings of the topics whose replicas the broker has."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        manager: ReplicaManager,
        now_ms: Callable[[], int],
        perform: Callable[[], None],
    ) -> None:
        self._zookeeper, self._manager, self._now_ms, self._perform = zookeeper, manager, now_ms, perform
        self._known: set[str] = set()  # Topics whose settings were read.
        self._seen: set[str] = set()  # The names of the notifications that were read.
        self._changed = asyncio.Event()

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

    async def begin(self) -> None:
        """Reads and watches all settings again, in a new session."""
        await self._read(sorted(self._known))
        self._changed.set()

    async def follow_changes(self) -> None:
        """Reads changed settings until the task is cancelled."""
        while True:
            self._changed.clear()
            try:
                [names] = await self._zookeeper.read_children([znodes.CONFIG_CHANGES], self._fired)
                new = sorted({*(names or ())} - self._seen)
                nodes = await self._zookeeper.read_nodes([f"{znodes.CONFIG_CHANGES}/{name}" for name in new])
                paths = {self._entity(node.data) for node in nodes if node is not None}
                topics = {path.removeprefix(TOPICS) for path in paths if path.startswith(TOPICS)}
                await self._read(sorted(topics & self._known))
                self._seen = {*(names or ())}
                await self._changed.wait()
            except ZookeeperError as error:
                logger.info("reading changes of topics' configurations failed: %s; retrying", error)
                await asyncio.sleep(AGAIN_S)

    def _fired(self, path: str, kind: str) -> None:
        self._changed.set()

    def _entity(self, data: bytes) -> str:
        try:
            return znodes.decode_config_change(znodes.CONFIG_CHANGES, data)
        except KcoreError as error:
            logger.warning("%s", error)
            return ""

    async def _read(self, topics: list[str]) -> None:
        paths = [znodes.config_path("topics", topic) for topic in topics]
        for topic, path, node in zip(topics, paths, await self._zookeeper.read_nodes(paths), strict=True):
            try:
                config = znodes.decode_config(path, node.data) if node is not None else {}
            except KcoreError as error:
                logger.warning("%s; topic %s keeps its last settings", error, topic)
                continue
            self._manager.set_settings(topic, settings_of(topic, config, self._manager.config), self._now_ms())
        self._perform()
