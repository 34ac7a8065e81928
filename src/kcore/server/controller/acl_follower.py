"""The ACLs of a node of ZooKeeper mode, kept as they are in ZooKeeper.

Source: AclAuthorizer.configure, loadCache and AclChangedNotificationHandler of 3.9.1. While ZooKeeper cannot be reached
the entries that were read last decide.
"""

import asyncio
import logging
from typing import Final

from kcore.controller.zk.acls import ZkAcls
from kcore.errors import TableError, ZookeeperError
from kcore.metadata.znode_acls import (
    CHANGES,
    PERSISTENT_PATHS,
    Resource,
    decode_acl_change,
    decode_acls,
    resource_path,
    types_and_paths,
)
from kcore.metadata.znode_names import is_znode_name
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
AGAIN_S: Final = 0.3


class AclFollower:
    """Reads `acls` when it is opened and in each new session, and then what notifications name."""

    def __init__(self, zookeeper: ZookeeperClient, acls: ZkAcls) -> None:
        self._zookeeper, self._acls = zookeeper, acls
        self._seen: set[str] = set()  # Paths of notifications.
        self._is_read = False
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Makes the znodes above all ACLs, and reads the ACLs: nobody is to be served before."""
        for path in PERSISTENT_PATHS:
            await self._zookeeper.make_path(path)
        await self._look()

    def session_lost(self) -> None:
        """All is to be read again: watches are gone, and notifications may be."""
        self._is_read = False
        self._changed.set()

    async def follow(self) -> None:
        """For ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._look()
            except ZookeeperError as error:
                logger.info("ACLs: %s", error)
                self._changed.set()
                await asyncio.sleep(AGAIN_S)

    async def _look(self) -> None:
        """Watches for notifications, then reads all ACLs, or those that new notifications name."""
        found = await self._zookeeper.read_children([*CHANGES.values()], self._fired)
        places = {
            f"{parent}/{name}": pattern_type
            for (pattern_type, parent), names in zip(CHANGES.items(), found, strict=True)
            for name in names or ()
        }
        if self._is_read:
            await self._read(await self._named(places))
        else:
            resources = await self._resources()
            await self._read(resources)
            self._acls.keep_only(resources)
            self._is_read = self._acls.is_read = True
        self._seen = {*places}

    def _fired(self, path: str, kind: str) -> None:
        self._changed.set()

    async def _named(self, places: dict[str, int]) -> list[Resource]:
        """The resources that new notifications name."""
        new = sorted(places.keys() - self._seen)
        resources: dict[Resource, None] = {}
        for path, node in zip(new, await self._zookeeper.read_nodes(new), strict=True):
            if node is None:
                continue
            try:
                resource = decode_acl_change(path, places[path], node.data)
            except TableError as error:
                logger.warning("skipped: %s", error)
                continue
            if is_znode_name(resource[2]):
                resources[resource] = None
        return [*resources]

    async def _resources(self) -> list[Resource]:
        """All that have a znode."""
        kinds = types_and_paths()
        names = await self._zookeeper.read_children([path for _, _, path in kinds])
        return [
            (resource_type, pattern_type, name)
            for (resource_type, pattern_type, _), found in zip(kinds, names, strict=True)
            for name in found or ()
        ]

    async def _read(self, resources: list[Resource]) -> None:
        nodes = await self._zookeeper.read_nodes([resource_path(each) for each in resources])
        for resource, node in zip(resources, nodes, strict=True):
            try:
                self._acls.update(resource, () if node is None else decode_acls(resource, node.data))
            except TableError as error:
                logger.warning("%s; the resource is denied to all but super users", error)
                self._acls.update(resource, None)
