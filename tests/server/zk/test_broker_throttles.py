"""The throttles of a ZooKeeper-mode broker: its own settings and the defaults, read again when they change."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.memory_log import MemoryLogs
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.replicas.replication_quota import FOLLOWER_RATE, LEADER_RATE
from kcore.metadata.zookeeper import znodes
from kcore.server.zk_broker.broker_throttles import BrokerThrottles
from kcore.server.zk_node.notification_watcher import NotificationWatcher
from net.loops import story


class Tree:
    """Znodes by path, and the paths that were read."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes] = {}
        self.reads: list[str] = []

    def set(self, name: str, **rates: str) -> None:
        """Sets the rates of a broker, and creates the notification."""
        names = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE}
        config = znodes.encode_config({names[side]: rate for side, rate in rates.items()})
        self.nodes[f"/config/brokers/{name}"] = config
        change = f"{znodes.CONFIG_CHANGES}/config_change_{len(self.nodes):010}"
        self.nodes[change] = znodes.encode_config_change(f"brokers/{name}")

    async def read_children(self, paths: list[str], on_watch: Any = None) -> list[list[str]]:
        return [[each.rpartition("/")[2] for each in self.nodes if each.startswith(f"{path}/")] for path in paths]

    async def read_nodes(self, paths: list[str]) -> list[Any]:
        self.reads += [each for each in paths if each.startswith("/config/brokers/")]
        return [SimpleNamespace(data=self.nodes[each]) if each in self.nodes else None for each in paths]

    async def make_path(self, path: str) -> None:
        pass


@story
async def test_the_limits_are_those_of_the_broker_and_then_of_all() -> None:
    tree: Any = Tree()
    manager = ReplicaManager(BrokerConfig(7), 1, MemoryLogs())
    leader, follower = manager.quotas.leader, manager.quotas.follower
    tree.set("7", leader="10")
    tree.set("<default>", leader="20", follower="30")
    watcher = NotificationWatcher(tree, BrokerThrottles(tree, manager))
    await watcher.open()
    assert (leader.limit, follower.limit) == (10, 30)
    tree.set("7")
    await watcher._update()
    assert (leader.limit, follower.limit) == (20, 30)
    tree.set("<default>", follower="40")
    await watcher._update()
    assert (leader.limit, follower.limit) == (None, 40)
    tree.reads.clear()
    tree.set("8", leader="5")
    await watcher._update()
    assert (leader.limit, follower.limit, tree.reads) == (None, 40, [])


@story
async def test_an_unreadable_znode_sets_no_limit(caplog: pytest.LogCaptureFixture) -> None:
    tree: Any = Tree()
    manager = ReplicaManager(BrokerConfig(7), 1, MemoryLogs())
    tree.set("<default>", leader="20")
    tree.nodes["/config/brokers/7"] = b"{"
    await BrokerThrottles(tree, manager).read_all()
    assert manager.quotas.leader.limit == 20
    assert "/config/brokers/7" in caplog.text
