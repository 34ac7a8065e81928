"""Reads a topic's configuration into the settings of its replicas.

Source: TopicConfigHandler, LogConfig of 3.9.1.
"""

import logging
import re
from collections.abc import Container, Mapping
from typing import Final

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.log_validator import (
    MAX_DECOMPRESSED_BYTES,
    NO_LIMIT_MS,
    PRODUCER_CHOOSES,
    UNCOMPRESSED,
    LogConfig,
)
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replication_quota import ALL_REPLICAS
from kcore.wire.record_building import CODECS, LEVELS

logger = logging.getLogger(__name__)
INT32_END: Final = 2**31
_REPLICAS: Final = re.compile(r"(\d{1,10}):(\d{1,10})")
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")


def settings_of(topic: str, config: Mapping[str, str], defaults: BrokerConfig) -> TopicSettings:
    """The settings of a topic. A value that AlterConfigs would refuse is logged and ignored."""
    read = _Reader(topic, config)
    # message.timestamp.difference.max.ms sets both limits that have no setting of their own (LogConfig of 3.6 to 3.9).
    difference_ms = read.integer("message.timestamp.difference.max.ms", NO_LIMIT_MS)
    before_ms, after_ms = (
        read.integer(f"message.timestamp.{side}.max.ms", NO_LIMIT_MS) for side in ("before", "after")
    )
    compression = read.choice("compression.type", (PRODUCER_CHOOSES, UNCOMPRESSED, *CODECS[1:]))
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
            read.integer(
                "max.decompressed.message.bytes", MAX_DECOMPRESSED_BYTES, range(1, MAX_DECOMPRESSED_BYTES + 1)
            ),
        ),
        deletes="delete" in policies,
        retention_ms=read.integer("retention.ms", -1, range(-1, NO_LIMIT_MS + 1)),
        retention_bytes=read.integer("retention.bytes", -1, range(-1, NO_LIMIT_MS + 1)),
        segment_bytes=read.integer("segment.bytes", 0, range(14, INT32_END)) or None,
        segment_ms=read.integer("segment.ms", 0, range(1, NO_LIMIT_MS + 1)) or None,
        leader_throttled=read.throttled("leader.replication.throttled.replicas", defaults.broker_id),
        follower_throttled=read.throttled("follower.replication.throttled.replicas", defaults.broker_id),
    )


class _Reader:
    """The values of one topic's configuration."""

    def __init__(self, topic: str, config: Mapping[str, str]) -> None:
        self._topic, self._config = topic, config

    def integer(self, name: str, default: int, among: range = range(NO_LIMIT_MS + 1)) -> int:
        """The number; the default if the value is missing, not a number or not in `among`."""
        text = self._config.get(name)
        if text is None:
            return default
        if (number := _number(text)) is not None and number in among:
            return number
        logger.warning("topic %s: %s=%.40r is invalid; using the default %s", self._topic, name, text, default)
        return default

    def level(self, compression: str) -> int | None:
        """The compression level; None for the codec's default. -1 is gzip's default."""
        text = self._config.get(f"compression.{compression}.level", "")
        level = _number(text)
        return level if level and level in LEVELS.get(compression, ()) else None

    def throttled(self, name: str, broker_id: int) -> Container[int]:
        """The partitions in a list of PARTITION:BROKER whose replica is on this broker; `*` lists all partitions."""
        text = self._config.get(name, "").strip()
        if text == "*":
            return ALL_REPLICAS
        replicas = [_REPLICAS.fullmatch(each.strip()) for each in text.split(",")] if text else []
        found = [each for each in replicas if each is not None]
        if len(found) < len(replicas):
            logger.warning("topic %s: %s=%.40r is no list of replicas; none is throttled", self._topic, name, text)
            return frozenset()
        return frozenset(int(each[1]) for each in found if int(each[2]) == broker_id)

    def choice(self, name: str, among: tuple[str, ...]) -> str:
        """The value; the first of `among` if the value is missing or invalid."""
        value = self._config.get(name, among[0])
        if value not in among:
            logger.warning("topic %s: %s=%.40r is none of %s", self._topic, name, value, ", ".join(among))
            return among[0]
        return value


def _number(text: str) -> int | None:
    """The integer that ConfigDef.parseType would read for an INT or a LONG, of any size; None for other text."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
