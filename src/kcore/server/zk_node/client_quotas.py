"""Keeps quotas equal to ZooKeeper: those of users and clients on request time and bytes, and the limits of new
connections a second from an address (connection_creation_rate).

Source: UserConfigHandler, ClientIdConfigHandler, QuotaConfigHandler and IpConfigHandler of 3.9.1.
"""

import logging
from collections.abc import Iterable
from typing import Final

from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT, desanitized, is_znode_name
from kcore.node.rate_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, ClientQuotas
from kcore.node.zk.admin.quotas import entity_of
from kcore.node.zk.znode_quotas import ZnodeQuotas
from kcore.server.zk_node.notification_watcher import Notification, changed_entities, read_configs
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
USERS: Final = f"{znodes.CONFIG}/users"
CLIENTS: Final = f"{znodes.CONFIG}/clients"


class ZkClientQuotas:
    """Follows the quotas of users and clients; implements `kcore.server.security.request_throttle.Known`."""

    subject = "quotas of users and clients"
    made_paths = (znodes.CONFIG_CHANGES, USERS, CLIENTS)
    parents = (znodes.CONFIG_CHANGES,)

    def __init__(self, zookeeper: ZookeeperClient) -> None:
        self._zookeeper = zookeeper
        self._kept = ZnodeQuotas(REQUEST_PERCENTAGE, PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
        self.changes = 0

    @property
    def quotas(self) -> ClientQuotas:
        """The quotas by entity."""
        return self._kept.of

    async def read_all(self) -> None:
        users, clients = await self._zookeeper.read_children([USERS, CLIENTS])
        places = [f"users/{user}/clients" for user in users or ()]
        below = await self._zookeeper.read_children([f"{znodes.CONFIG}/{each}" for each in places])
        paths = [*(f"users/{each}" for each in users or ()), *(f"clients/{each}" for each in clients or ())]
        paths += [f"{place}/{name}" for place, names in zip(places, below, strict=True) for name in names or ()]
        self._kept.of.clear()
        await self._read(paths)

    async def read_changed(self, notifications: list[Notification]) -> None:
        await self._read(changed_entities(notifications))

    async def _read(self, paths: Iterable[str]) -> None:
        """Reads the quotas at these paths under /config. Ignores paths that do not belong to a user or a client."""
        entities = {path: entity for path in paths if (entity := entity_of(path)) is not None}
        places = [f"{znodes.CONFIG}/{path}" for path in entities]
        found = await read_configs(self._zookeeper, places, "no quota applies")
        for entity, configs in zip(entities.values(), found, strict=True):
            self._kept.keep(entity, configs or {})
        self.changes += 1


IPS: Final = f"{znodes.CONFIG}/ips"
RATE: Final = "connection_creation_rate"
LOOPBACK: Final = {"localhost": "127.0.0.1"}  # The only host name with a quota.


class ZkAddressQuotas:
    """Follows the quotas of addresses."""

    subject = "quotas of addresses"
    made_paths = (znodes.CONFIG_CHANGES, IPS)
    parents = (znodes.CONFIG_CHANGES,)

    def __init__(self, zookeeper: ZookeeperClient) -> None:
        self._zookeeper = zookeeper
        self._rates: dict[str, float] = {}  # Connections a second, by address. The default quota has the key DEFAULT.

    def rate_of(self, address: str) -> float | None:
        """The quota of an address in connections a second, or else the default quota; None: unlimited."""
        return self._rates.get(address, self._rates.get(DEFAULT))

    async def read_all(self) -> None:
        [names] = await self._zookeeper.read_children([IPS])
        self._rates.clear()
        await self._read(names or [])

    async def read_changed(self, notifications: list[Notification]) -> None:
        parts = [each.partition("/") for each in changed_entities(notifications)]
        await self._read([name for kind, _, name in parts if kind == "ips" and is_znode_name(name)])

    async def _read(self, names: list[str]) -> None:
        paths = [f"{IPS}/{each}" for each in names]
        found = await read_configs(self._zookeeper, paths, "the address has no quota")
        for name, path, configs in zip(names, paths, found, strict=True):
            address = name if name == DEFAULT else desanitized(name)
            address = LOOPBACK.get(address, address)
            self._rates.pop(address, None)
            try:
                if text := (configs or {}).get(RATE, ""):
                    self._rates[address] = float(text)
            except ValueError as error:
                logger.warning("%s: %s; the address has no quota", path, error)
