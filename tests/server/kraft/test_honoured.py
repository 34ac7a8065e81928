"""Every setting of the default release of Kafka is honoured, or refused, or named by a log line at the start."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kcore
from config_facts import config_facts
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.metadata.image.image import ClusterImage
from kcore.node.kraft.config_kinds import check_group, group_values
from kcore.node.kraft.effective_configs import EffectiveConfigs, synonyms
from kcore.node.kraft.group_configs import ASSIGNOR
from kcore.node.kraft.node_config import NodeConfig
from kcore.node.topic_configs import TOPIC_CONFIGS_OF
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.server.broker.topic_configs import settings_of as topic_settings_of
from kcore.server.kraft_broker import kraft_broker_settings as of_broker
from kcore.server.kraft_controller import kraft_controller_settings as of_controller
from kcore.server.properties import values
from kcore.server.properties.definitions import KNOWN_NAMES
from kcore.server.properties.honoured import (
    BY_BROKERS,
    BY_CONTROLLERS,
    READ_OF_TOPICS,
    plain_name,
    warn_of_others,
    without_effect,
)
from kcore.server.properties.nodes import OF_AUTHORIZER
from kcore.server.properties.values import SettingsError
from server.kraft.test_config_defs import BROKER, CONTROLLER

SOURCES = Path(kcore.__file__).parent
READ_BY_NAME = {  # Settings that are read while the node runs, and the file that reads them.
    "delete.topic.enable": "controller/kraft/topics/deletion.py",
    "remote.log.storage.system.enable": "controller/kraft/admin/config_changes.py",
    "unstable.feature.versions.enable": "cli/servers/kraft_format.py",
    "cordoned.log.dirs": "server/kraft_broker/kraft_configs.py",
}


class Watched(dict[str, str]):
    """Notes the names that are looked up."""

    def __init__(self, given: Mapping[str, str], seen: set[str]) -> None:
        super().__init__(given)
        self.seen = seen

    def __getitem__(self, name: str) -> str:
        self.seen.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)


SECURE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/nowhere",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/nowhere",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


def names_read(
    monkeypatch: pytest.MonkeyPatch, module: Any, read: Callable[[Mapping[str, str]], Any], given: Any
) -> set[str]:
    """By one kind of node when it starts, without and with TLS and SASL."""
    seen: set[str] = set()
    monkeypatch.setattr(module, "checked", lambda *given, **options: Watched(values.checked(*given, **options), seen))
    read(given)
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
    for protocol in ("SASL_PLAINTEXT", "SSL"):
        listener = "CONTROLLER" if module is of_controller else "PLAINTEXT"
        jaas = {f"listener.name.{each}.plain.sasl.jaas.config": login for each in ("controller", "plaintext")}
        protocols = {"listener.security.protocol.map": f"CONTROLLER:{protocol},{listener}:{protocol}"}
        try:
            read(given | SECURE | protocols | jaas)
        except SettingsError as error:
            assert "/nowhere" in str(error)  # There is no such keystore, which is read last.
    return {plain_name(name) for name in seen}


def names_read_of_topics(config: NodeConfig, seen: set[str]) -> None:
    """By a controller, of what stands behind the settings of topics and groups."""
    EffectiveConfigs(config, ClusterImage()).base_values()
    group_values("4.3.1", {}, config.static_configs)
    check_group("4.3.1", "a group", {name: value for name, value in assignments()}, config.static_configs)
    given = {name: each.default or "" for name, each in RELEASES[DEFAULT_RELEASE].group_configs.items()}
    check_group(DEFAULT_RELEASE, "a group", given | {ASSIGNOR: "sticky"}, config.static_configs)


def assignments() -> Iterator[tuple[str, str]]:
    for kind in ("consumer", "share", "streams"):
        yield f"{kind}.assignment.interval.ms", "1000"


def test_a_controller_reads_what_it_honours(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = names_read(monkeypatch, of_controller, of_controller.settings_of, CONTROLLER)
    config = NodeConfig(7, "a cluster", static_configs=Watched({}, seen))
    names_read_of_topics(config, seen)
    assert seen & KNOWN_NAMES <= BY_CONTROLLERS
    check_names_in_files(BY_CONTROLLERS - seen)


def test_a_broker_reads_what_it_honours(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = names_read(monkeypatch, of_broker, of_broker.broker_settings_of, BROKER)
    of_topics: set[str] = set()
    for codec in ("gzip", "lz4", "zstd"):
        topic_settings_of("a topic", Watched({"compression.type": codec}, of_topics), BrokerConfig(7))
    assert of_topics - {"message.timestamp.difference.max.ms"} == {*READ_OF_TOPICS.split()}
    known = TOPIC_CONFIGS_OF[DEFAULT_RELEASE]
    seen |= {server for name in READ_OF_TOPICS.split() for server, _ in synonyms(known[name])}
    check_names_in_files(BY_BROKERS - seen)


def check_names_in_files(names: set[str] | frozenset[str]) -> None:
    """Settings that are read later stand in the file that does."""
    for name in names:
        assert f'"{name}"' in (SOURCES / READ_BY_NAME[name]).read_text(), name


@pytest.mark.parametrize("role", ["controller", "broker"])
def test_each_setting_is_honoured_or_refused_or_named(role: str, caplog: pytest.LogCaptureFixture) -> None:
    is_controller = role == "controller"
    read: Callable[[Mapping[str, str]], Any] = (
        of_controller.settings_of if is_controller else of_broker.broker_settings_of
    )
    honoured, least = (BY_CONTROLLERS, CONTROLLER) if is_controller else (BY_BROKERS, BROKER)
    groups: dict[str, set[str]] = {"honoured": set(), "refused": set(), "named": set()}
    for name, fact in config_facts(DEFAULT_RELEASE, "server").items():
        value = next(
            text for text in (fact.default, *fact.takes) if text and (text == fact.default or fact.takes[text])
        )
        if name in honoured:
            groups["honoured"].add(name)
            continue
        try:
            read(least | {name: value})
        except SettingsError as error:
            assert str(error).startswith(name)
            groups["refused"].add(name)
        else:
            assert without_effect(least | {name: value}, honoured) == [name]
            groups["named"].add(name)
    assert set().union(*groups.values()) == KNOWN_NAMES
    assert all(len(group) > 10 for group in groups.values())
    with caplog.at_level(logging.WARNING):
        warn_of_others(least | {"log.cleaner.threads": "2", "metric.reporters": "x.Y"}, honoured)
    assert caplog.messages == [
        "kcore ignores settings whose features it does not have: log.cleaner.threads, metric.reporters"
    ]


def test_nothing_is_said_of_a_file_that_is_honoured_whole(caplog: pytest.LogCaptureFixture) -> None:
    own = {"listener.name.controller.max.connections": "5", "listener.name.controller.plain.sasl.jaas.config": "x"}
    with caplog.at_level(logging.WARNING):
        warn_of_others(CONTROLLER | own | {"super.users": "User:a"}, BY_CONTROLLERS, OF_AUTHORIZER)
        warn_of_others(BROKER, BY_BROKERS)
    assert caplog.messages == []
