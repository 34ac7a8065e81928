"""Keeps the replication throttles of a broker equal to ZooKeeper: its own settings, and those of all brokers.

Source: BrokerConfigHandler of 3.9.1.
"""

import logging
from collections.abc import Mapping
from typing import Final

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT
from kcore.server.zk_node.notification_watcher import Notification, changed_entities
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
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
        layers: list[Mapping[str, str]] = []
        for path, node in zip(paths, await self._zookeeper.read_nodes(paths), strict=True):
            try:
                layers.append({} if node is None else znodes.decode_config(path, node.data))
            except TableError as error:
                logger.warning("%s; until the znode is repaired, the broker has no throttle from it", error)
        self._manager.quotas.set_limits(*layers)

    async def read_changed(self, notifications: list[Notification]) -> None:
        if {f"brokers/{each}" for each in self._names} & {*changed_entities(notifications)}:
            await self.read_all()
