"""Reads and changes settings and users in ZooKeeper, for administrators' requests to a ZooKeeper-mode broker."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import KcoreError
from kcore.metadata.zookeeper.znode_brokers import BrokerNode
from kcore.metadata.zookeeper.znode_operations import ReadChildren, ReadNodes
from kcore.net.limits.work_in_parts import next_turn
from kcore.node.zk.admin.broker_configs import ConfigNode
from kcore.node.zk.znode_steps import LogNotice, Pause, ZnodeSteps
from kcore.server.zk_node.relay import Address, registered_brokers
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
T = TypeVar("T")
# Seconds for which the list of registered brokers is cached: a client without a coordinator retries every 0.1 s.
KNOWN_S: Final = 2.0


class NodeAdmin:
    """Reads and writes settings in ZooKeeper. NetworkError, which closes the client's connection, if that fails."""

    def __init__(
        self,
        manager: ReplicaManager,
        zookeeper: ZookeeperClient,
        listener: str,
        settings: Mapping[str, str],
    ) -> None:
        """`settings`: the broker's static settings, by Kafka's names. `listener`: the inter-broker listener."""
        self._zookeeper, self._listener = zookeeper, listener
        self.node = ConfigNode(
            manager.broker_id,
            is_broker=True,
            has_topic=lambda name: name in manager.cluster.table.topics,
            settings=settings,
        )
        self._coordinators: list[BrokerNode] = []
        self._read_s = -KNOWN_S

    async def has_coordinators(self) -> bool:
        """Whether a coordinating broker is registered; True while ZooKeeper is unavailable, so that clients retry."""
        try:
            return bool(await self._registered())
        except KcoreError:
            return True

    async def addresses_of_coordinators(self) -> Sequence[Address]:
        """The endpoints of coordinating brokers; none while ZooKeeper is unavailable."""
        try:
            endpoints = [endpoint for each in await self._registered() for endpoint in each.endpoints]
        except KcoreError:
            return []
        return [Address(each.host, each.port) for each in endpoints if each.listener == self._listener]

    async def _registered(self) -> list[BrokerNode]:
        """The registered brokers that coordinate groups and transactions.

        These are Kafka's brokers; brokers of kcore register with `coordinates` False. The list is at most KNOWN_S
        seconds old.
        """
        if time.monotonic() - self._read_s >= KNOWN_S:
            found = await registered_brokers(self._zookeeper)
            self._coordinators = [each for each in found if each.coordinates]
            self._read_s = time.monotonic()
        return self._coordinators

    async def perform(self, steps: ZnodeSteps[T]) -> T:
        """Performs the effects of the steps and returns their result. Writes are not fenced, unlike a controller's."""
        try:
            effect = next(steps)
            while True:
                if isinstance(effect, ReadNodes):
                    effect = steps.send(await self._zookeeper.read_nodes(effect.paths))
                elif isinstance(effect, ReadChildren):
                    effect = steps.send(await self._zookeeper.read_children(effect.paths))
                elif isinstance(effect, LogNotice):
                    logger.log(
                        logging.WARNING if effect.notice.level == "warning" else logging.INFO, "%s", effect.notice
                    )
                    effect = steps.send(None)
                elif isinstance(effect, Pause):
                    await next_turn()
                    effect = steps.send(None)
                else:
                    effect = steps.send(await self._zookeeper.write(effect.operations, atomic=effect.atomic))
        except StopIteration as done:
            result: T = done.value
            return result
