"""The cluster as a ZooKeeper-mode controller shows it to clients, and the brokers that it relays requests to."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from kcore.controller.zk.active import ActiveController
from kcore.errors import TableError
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.zookeeper import znodes
from kcore.server.cluster_view import ClusterView
from kcore.server.zk_node.relay import Address, registered_brokers
from kcore.zookeeper.client import ZookeeperClient


class ControlledCluster:
    """Reads the table of an active controller, and ZooKeeper on a standby."""

    def __init__(self, active: ActiveController, zookeeper: ZookeeperClient) -> None:
        self._active, self._zookeeper = active, zookeeper
        self._cluster_id: str | None = None

    async def read_id(self) -> None:
        """Reads the cluster id, which the first broker of a cluster writes, until it is known."""
        if self._cluster_id is not None:
            return
        [node] = await self._zookeeper.read_nodes([znodes.CLUSTER_ID])
        with suppress(TableError):  # It was readable at the start; an unreadable id is not sent to clients.
            self._cluster_id = znodes.decode_cluster_id(node.data) if node is not None else None

    def view(self) -> ClusterView | None:
        """The cluster for clients; None on a standby."""
        active, config = self._active, self._active.config
        if not active.is_active:
            return None
        listed = LiveBroker(config.broker_id, config.endpoints, config.rack)
        name = config.inter_broker_listener_name
        failed = active.offline_dirs

        def offline(row: int) -> list[int]:
            return [broker_id for broker_id, rows in failed.items() if row in rows]

        return ClusterView(active.table, name, listed, self._cluster_id, active.topics_to_be_deleted, offline)

    async def addresses(self) -> Sequence[Address]:
        """Endpoints of live brokers, from the table or, on a standby, from ZooKeeper.

        Brokers that coordinate groups come first: these are Kafka's own, and serve all requests.
        """
        listener = self._active.config.inter_broker_listener_name
        if self._active.is_active:
            brokers = self._active.table.brokers
            last = np.isin(brokers.ids, [*self._active.not_coordinating])
            rows = [*np.flatnonzero(brokers.live & ~last).tolist(), *np.flatnonzero(brokers.live & last).tolist()]
            lists = [brokers.endpoints[row] for row in rows]
        else:
            found = await registered_brokers(self._zookeeper)
            lists = [tuple(each.endpoints) for each in sorted(found, key=lambda each: not each.coordinates)]
        return [Address(each.host, each.port) for endpoints in lists for each in endpoints if each.listener == listener]
