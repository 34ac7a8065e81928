"""The settings in the metadata log that a broker follows: which topics get new settings, and what is cordoned."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replication_quota import FOLLOWER_RATE, LEADER_RATE, ReplicationQuotas
from kcore.schema.configs import ConfigResourceType
from kcore.server.kraft_broker import kraft_configs
from kcore.server.kraft_broker.kraft_configs import CORDONED, BrokerConfigs
from kcore.types import Uuid

NODE = 7
OF_ALL, OWN = (ConfigResourceType.BROKER, ""), (ConfigResourceType.BROKER, str(NODE))
ANOTHER, TOPIC = (ConfigResourceType.BROKER, "8"), (ConfigResourceType.TOPIC, "t")
NAME = "max.message.bytes"


class Followed:
    """A broker's settings with topics t and u, and the topics that got new ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        effective = lambda config, image: SimpleNamespace(base_values=lambda: image.base)  # noqa: E731
        monkeypatch.setattr(kraft_configs, "EffectiveConfigs", effective)
        self.image: Any = SimpleNamespace(base={NAME: "10"}, configs={})
        self.changed: dict[str, int] = {}
        settings = dict.fromkeys(("t", "u"), TopicSettings())
        self.quotas = ReplicationQuotas(BrokerConfig(NODE), settings)
        manager: Any = SimpleNamespace(
            settings=settings, config=BrokerConfig(NODE), set_settings=self._set, quotas=self.quotas
        )
        config: Any = SimpleNamespace(node_id=NODE, static_configs={})
        self.configs = BrokerConfigs(config, manager, lambda: 0)

    def _set(self, topic: str, settings: TopicSettings, now_ms: int) -> None:
        self.changed[topic] = settings.log.max_message_bytes

    def after(self, *touched: tuple[int, str]) -> dict[str, int]:
        """The topics with new settings after a delta that touches these resources, with their max.message.bytes."""
        self.changed = {}
        delta: Any = SimpleNamespace(touched=lambda kind: {*touched})
        self.configs.follow(self.image, delta)
        return self.changed


@pytest.mark.parametrize("touched", [OF_ALL, OWN])
def test_a_change_of_the_brokers_own_settings_is_one_of_all_topics(
    touched: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(monkeypatch)
    followed.configs.follow(followed.image, None)
    assert followed.changed == {"t": 10, "u": 10}
    followed.image.base = {NAME: "20"}
    assert followed.after(ANOTHER) == {}
    assert followed.after(touched) == {"t": 20, "u": 20}
    followed.image.configs[TOPIC] = {NAME: "30"}
    assert followed.after(TOPIC) == {"t": 30}


def test_throttles_are_dynamic_and_the_brokers_own_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Followed(monkeypatch)
    followed.configs._config.static_configs[LEADER_RATE] = "1"
    followed.image.configs |= {OF_ALL: {LEADER_RATE: "20", FOLLOWER_RATE: "30"}, ANOTHER: {LEADER_RATE: "40"}}
    followed.configs.follow(followed.image, None)
    assert (followed.quotas.leader.limit, followed.quotas.follower.limit) == (20, 30)
    followed.image.configs[OWN] = {LEADER_RATE: "10"}
    followed.after(OWN)
    assert (followed.quotas.leader.limit, followed.quotas.follower.limit) == (10, 30)
    followed.image.configs.clear()
    followed.after(OWN, OF_ALL)
    assert (followed.quotas.leader.limit, followed.quotas.follower.limit) == (None, None)


@pytest.mark.parametrize(
    ("own", "of_all", "static", "cordoned"),
    [
        (None, None, None, "ab"),
        (None, None, "/a", "a"),
        (None, "/b", "/a", "b"),
        ("/a", "/b", "/b", "a"),
        ("", "*", "*", ""),
    ],
)
def test_the_brokers_own_cordon_goes_before_that_of_all_brokers(
    own: str | None, of_all: str | None, static: str | None, cordoned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(monkeypatch)
    for key, text in ((OWN, own), (OF_ALL, of_all)):
        followed.image.configs[key] = {} if text is None else {CORDONED: text}
    followed.configs._config.static_configs.update({} if static is None else {CORDONED: static})
    directories: Any = [SimpleNamespace(directory_id=Uuid(name.encode() * 16), path=Path(f"/{name}")) for name in "ab"]
    found = followed.configs.cordoned(followed.image, directories)
    assert found == [Uuid(name.encode() * 16) for name in cordoned]
