"""A topic's configuration in its znode; invalid values are ignored."""

from typing import Any

import pytest

from broker.memory_log import MemoryLogs
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.log_validator import NO_LIMIT_MS, LogConfig
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.replicas.replication_quota import ALL_REPLICAS
from kcore.metadata.zookeeper import znodes
from kcore.server.broker.topic_configs import settings_of
from kcore.server.zk_broker.topic_settings import ZkTopicSettings
from kcore.server.zk_node.notification_watcher import NotificationWatcher
from net.loops import story
from server.zookeepers import Client, Zookeeper

DEFAULTS = BrokerConfig(1, min_insync_replicas=2, message_max_bytes=5000)


def log_config(**config: str) -> LogConfig:
    return settings_of("t", {name.replace("_", "."): value for name, value in config.items()}, DEFAULTS).log


def test_what_is_not_set_is_the_brokers() -> None:
    assert settings_of("t", {}, DEFAULTS) == TopicSettings(2, LogConfig(max_message_bytes=5000))


def test_every_setting() -> None:
    config = {
        "min.insync.replicas": "3",
        "max.message.bytes": "77",
        "compression.type": "zstd",
        "compression.zstd.level": "-5",
        "compression.gzip.level": "9",
        "cleanup.policy": "delete, compact",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "10",
        "message.timestamp.after.max.ms": "20",
    }
    assert settings_of("t", config, DEFAULTS) == TopicSettings(3, LogConfig(77, "zstd", -5, True, True, 10, 20))


def test_the_difference_holds_where_neither_limit_is_set() -> None:
    both = log_config(message_timestamp_difference_max_ms="7")
    assert (both.timestamp_before_max_ms, both.timestamp_after_max_ms) == (7, 7)
    one = log_config(message_timestamp_difference_max_ms="7", message_timestamp_after_max_ms="9")
    assert (one.timestamp_before_max_ms, one.timestamp_after_max_ms) == (7, 9)
    assert log_config().timestamp_before_max_ms == NO_LIMIT_MS


@pytest.mark.parametrize(
    ("compression", "level", "taken"),
    [("gzip", "-1", None), ("gzip", "9", 9), ("gzip", "10", None), ("zstd", "23", None), ("lz4", "3", None)],
)
def test_levels(compression: str, level: str, taken: int | None) -> None:
    config = {"compression.type": compression, f"compression.{compression}.level": level}
    assert settings_of("t", config, DEFAULTS).log.compression_level == taken


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*", ALL_REPLICAS),
        (" * ", ALL_REPLICAS),
        ("", frozenset()),
        ("0:1,2:1,3:2", frozenset({0, 2})),
        (" 0:1, 5:1 ", frozenset({0, 5})),
        ("0:2", frozenset()),
        ("0:1,many", frozenset()),
        ("0", frozenset()),
        ("*,0:1", frozenset()),
    ],
)
def test_throttled_replicas_are_those_of_this_broker(text: str, found: object) -> None:
    """TopicConfigHandler.parseThrottledPartitions."""
    for side in ("leader", "follower"):
        settings = settings_of("t", {f"{side}.replication.throttled.replicas": text}, DEFAULTS)
        other = {"leader": settings.follower_throttled, "follower": settings.leader_throttled}[side]
        assert (getattr(settings, f"{side}_throttled"), other) == (found, frozenset())


@pytest.mark.parametrize("number", ["-1", "2147483648", "1_0", "9" * 5000, "", "1.5"])
@pytest.mark.parametrize("name", ["min.insync.replicas", "max.message.bytes"])
def test_invalid_numbers_of_settings_are_ignored(name: str, number: str) -> None:
    assert settings_of("t", {name: number}, DEFAULTS) == settings_of("t", {}, DEFAULTS)


@pytest.mark.parametrize(
    ("name", "most"), [("min.insync.replicas", 2**31 - 1), ("message.timestamp.after.max.ms", 2**63 - 1)]
)
def test_the_largest_numbers(name: str, most: int) -> None:
    settings = settings_of("t", {name: f" {most} "}, DEFAULTS)
    assert most in (settings.min_insync_replicas, settings.log.timestamp_after_max_ms)


@story
async def test_settings_forgotten_while_others_are_read_are_read_again() -> None:
    """A topic that was deleted and created again is in one event with a new topic."""
    reads: list[list[str]] = []

    class Reads:
        async def read_nodes(self, paths: list[str]) -> list[None]:
            reads.append([path.rpartition("/")[2] for path in paths])
            if len(reads) == 2:
                watch.keep_only(())
            return [None] * len(paths)

    manager = ReplicaManager(DEFAULTS, 1, MemoryLogs())
    watch = ZkTopicSettings(Reads(), manager, lambda: 0, lambda: None)  # type: ignore[arg-type]
    await watch.learn(["old"])
    await watch.learn(["new", "old", "../x"])
    assert reads == [["old"], ["new"], ["old"]]


@story
async def test_changed_settings_of_known_topics_are_read_again() -> None:
    zookeeper = Zookeeper()
    client: Any = Client(zookeeper, on_session=lambda event: None)
    manager = ReplicaManager(DEFAULTS, 1, MemoryLogs())
    topics = ZkTopicSettings(client, manager, lambda: 0, lambda: None)
    watcher = NotificationWatcher(client, topics)
    await watcher.open()
    await topics.learn(["known"])
    for name in ("known", "unknown"):
        config, change = znodes.encode_config({"retention.ms": "5"}), znodes.encode_config_change(f"topics/{name}")
        zookeeper.tree.create(f"{znodes.CONFIG}/topics/{name}", config, parents=True)
        zookeeper.tree.create_sequential(f"{znodes.CONFIG_CHANGES}/change_", change)
    await watcher._update()
    assert {name: each.retention_ms for name, each in manager.settings.items()} == {"known": 5}
    zookeeper.tree.set_data(f"{znodes.CONFIG}/topics/known", znodes.encode_config({"retention.ms": "6"}))
    watcher.session_lost()
    await watcher._update()
    assert manager.settings["known"].retention_ms == 6


def test_invalid_settings_are_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    config = {"max.message.bytes": "many", "compression.type": "none", "message.timestamp.type": "?"}
    assert settings_of("t", config, DEFAULTS).log == LogConfig(max_message_bytes=5000)
    assert [record.getMessage().partition("=")[0] for record in caplog.records] == [
        "topic t: compression.type",
        "topic t: max.message.bytes",
        "topic t: message.timestamp.type",
    ]


@pytest.mark.parametrize(("name", "least"), [("min.insync.replicas", 1), ("segment.bytes", 14), ("segment.ms", 1)])
def test_the_least_number_of_a_setting(name: str, least: int) -> None:
    field = name.replace(".", "_")
    assert getattr(settings_of("t", {name: str(least)}, DEFAULTS), field) == least
    assert settings_of("t", {name: str(least - 1)}, DEFAULTS) == settings_of("t", {}, DEFAULTS)
