"""Topics' configurations, as far as a broker needs them: read from ZooKeeper, and again when they change.

Source: DynamicConfigManager, ZkConfigManager and TopicConfigHandler of 3.9.1.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kcore.broker.replicas.config import BrokerConfig
from kcore.broker.replicas.log_validator import NO_LIMIT_MS, PRODUCER_CHOOSES, UNCOMPRESSED, LogConfig
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import KcoreError, ZookeeperError
from kcore.metadata import znodes
from kcore.metadata.topic_names import reason_invalid
from kcore.wire.record_building import CODECS, LEVELS
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
AGAIN_S: Final = 0.3
INT32_END: Final = 2**31
TOPICS: Final = "topics/"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_COMPRESSION_TYPES: Final = (PRODUCER_CHOOSES, UNCOMPRESSED, *CODECS[1:])


class TopicSettingsWatch:
    """The settings of the topics that the broker has replicas of."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        manager: ReplicaManager,
        now_ms: Callable[[], int],
        perform: Callable[[], None],
    ) -> None:
        self._zookeeper, self._manager, self._now_ms, self._perform = zookeeper, manager, now_ms, perform
        self._known: set[str] = set()
        self._seen: set[str] = set()  # Notifications that were read.
        self._changed = asyncio.Event()

    async def learn(self, topics: Iterable[str]) -> None:
        """Reads what is not known yet; returns when it is. Names that no topic may have are passed over."""
        wanted = {name for name in topics if reason_invalid(name) is None}
        while new := sorted(wanted - self._known):  # `keep_only` may have forgotten others during the read.
            await self._read(new)
            self._known |= {*new}

    def keep_only(self, topics: Collection[str]) -> None:
        """Other topics are forgotten: they are deleted, or were never held."""
        self._known.intersection_update(topics)
        settings = self._manager.settings
        for topic in settings.keys() - {*topics}:
            del settings[topic]

    async def begin(self) -> None:
        """In a new session: reads and watches everything again."""
        await self._read(sorted(self._known))
        self._changed.set()

    async def follow_changes(self) -> None:
        """For ever: what was changed is read."""
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
                logger.info("topics' configurations: %s", error)
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
                logger.warning("%s; topic %s keeps the settings that it had", error, topic)
                continue
            self._manager.set_settings(topic, settings_of(topic, config, self._manager.config), self._now_ms())
        self._perform()


def settings_of(topic: str, config: Mapping[str, str], defaults: BrokerConfig) -> TopicSettings:
    """A topic's configuration, as its znode has it. A value that AlterConfigs would refuse is logged and left out."""
    read = _Reader(topic, config)
    # message.timestamp.difference.max.ms is both limits until they have their own settings (LogConfig of 3.6 to 3.9).
    difference_ms = read.integer("message.timestamp.difference.max.ms", NO_LIMIT_MS)
    before_ms, after_ms = (
        read.integer(f"message.timestamp.{side}.max.ms", NO_LIMIT_MS) for side in ("before", "after")
    )
    compression = read.choice("compression.type", _COMPRESSION_TYPES)
    policies = [each.strip() for each in config.get("cleanup.policy", "delete").split(",")]
    return TopicSettings(
        read.integer("min.insync.replicas", defaults.min_insync_replicas, range(1, INT32_END)),
        LogConfig(
            read.integer("max.message.bytes", defaults.message_max_bytes, range(INT32_END)),
            compression,
            read.level(compression),
            "compact" in policies,
            read.choice("message.timestamp.type", ("CreateTime", "LogAppendTime")) == "LogAppendTime",
            difference_ms if before_ms == NO_LIMIT_MS else before_ms,
            difference_ms if after_ms == NO_LIMIT_MS else after_ms,
        ),
        deletes="delete" in policies,
        retention_ms=read.integer("retention.ms", -1, range(-1, NO_LIMIT_MS + 1)),
        retention_bytes=read.integer("retention.bytes", -1, range(-1, NO_LIMIT_MS + 1)),
        segment_bytes=read.integer("segment.bytes", 0, range(14, INT32_END)) or None,
    )


class _Reader:
    """The values of one topic's configuration."""

    def __init__(self, topic: str, config: Mapping[str, str]) -> None:
        self._topic, self._config = topic, config

    def integer(self, name: str, default: int, among: range = range(NO_LIMIT_MS + 1)) -> int:
        """The default for what is no number, or none of `among`."""
        text = self._config.get(name)
        if text is None:
            return default
        if (number := _number(text)) is not None and number in among:
            return number
        logger.warning("topic %s: %s is %.40r; %s holds, the broker's default", self._topic, name, text, default)
        return default

    def level(self, compression: str) -> int | None:
        """None: the codec's default, which is -1 for gzip."""
        text = self._config.get(f"compression.{compression}.level", "")
        level = _number(text)
        return level if level and level in LEVELS.get(compression, ()) else None

    def choice(self, name: str, among: tuple[str, ...]) -> str:
        """The first of `among` is the default."""
        value = self._config.get(name, among[0])
        if value not in among:
            logger.warning("topic %s: %s is %.40r, which is none of %s", self._topic, name, value, ", ".join(among))
            return among[0]
        return value


def _number(text: str) -> int | None:
    """As ConfigDef.parseType reads an INT or a LONG, of any size."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
