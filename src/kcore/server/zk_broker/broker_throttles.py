"""Keeps the replication throttles of a broker equal to ZooKeeper: its own settings, and those of all brokers.

Source: BrokerConfigHandler of 3.9.1.
"""

from typing import Final

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT
from kcore.server.zk_node.notification_watcher import Notification, changed_entities, read_configs
from kcore.zookeeper.client import ZookeeperClient

BROKERS: Final = f"{znodes.CONFIG}/brokers"


class BrokerThrottles:
    """Follows the settings of one broker, and applies its limits to the throttled replicas."""

    subject = "throttles of brokers"
    made_paths = (znodes.CONFIG_CHANGES, BROKERS)
    parents = (znodes.CONFIG_CHANGES,)

    def __init__(self, zookeeper: ZookeeperClient, manager: ReplicaManager) -> None:
        self._zookeeper = zookeeper
        self._manager = manager
        self._names = str(manager.broker_id), DEFAULT

    async def read_all(self) -> None:
        paths = [f"{BROKERS}/{each}" for each in self._names]
        layers = await read_configs(self._zookeeper, paths, "the broker has no throttle from it")
        self._manager.quotas.set_limits(*(each for each in layers if each is not None))

    async def read_changed(self, notifications: list[Notification]) -> None:
        if {f"brokers/{each}" for each in self._names} & {*changed_entities(notifications)}:
            await self.read_all()
