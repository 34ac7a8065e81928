"""Keeps the quotas of IP addresses equal to ZooKeeper: the connections a second that a node accepts from an address.

Source: IpConfigHandler of 3.9.1.
"""

import logging
from typing import Final

from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT, desanitized, is_znode_name
from kcore.server.zk_controller.notification_follower import Notification, NotificationFollower
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
IPS: Final = f"{znodes.CONFIG}/ips"
RATE: Final = "connection_creation_rate"
LOOPBACK: Final = {"localhost": "127.0.0.1"}  # The only host name with a quota.


class AddressQuotasFollower(NotificationFollower):
    """Reads changed quotas of addresses."""

    subject = "quotas of addresses"
    made_paths = (znodes.CONFIG_CHANGES, IPS)
    parents = (znodes.CONFIG_CHANGES,)

    def __init__(self, zookeeper: ZookeeperClient) -> None:
        super().__init__(zookeeper)
        self._rates: dict[str, float] = {}  # By address, and by DEFAULT.

    def rate_of(self, address: str) -> float | None:
        """The quota of an address, or the default quota; None: connections are unlimited."""
        return self._rates.get(address, self._rates.get(DEFAULT))

    async def _read_all(self) -> None:
        [names] = await self._zookeeper.read_children([IPS])
        self._rates.clear()
        await self._read(names or [])

    async def _read_changed(self, notifications: list[Notification]) -> None:
        names: dict[str, None] = {}
        for each in notifications:
            try:
                kind, _, name = znodes.decode_config_change(each.path, each.data).partition("/")
            except TableError as error:
                logger.warning("skipped an unreadable notification: %s", error)
                continue
            if kind == "ips" and is_znode_name(name):
                names[name] = None
        await self._read([*names])

    async def _read(self, names: list[str]) -> None:
        paths = [f"{IPS}/{each}" for each in names]
        for name, path, node in zip(names, paths, await self._zookeeper.read_nodes(paths), strict=True):
            address = name if name == DEFAULT else desanitized(name)
            address = LOOPBACK.get(address, address)
            self._rates.pop(address, None)
            try:
                text = "" if node is None else znodes.decode_config(path, node.data).get(RATE, "")
                if text:
                    self._rates[address] = float(text)
            except (TableError, ValueError) as error:
                logger.warning("%s: %s; the address has no quota", path, error)
