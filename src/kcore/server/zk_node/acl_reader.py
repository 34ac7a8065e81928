"""Keeps a node's copy of the ACLs equal to ZooKeeper.

Source: AclAuthorizer.configure, loadCache and AclChangedNotificationHandler of 3.9.1.
"""

import logging
from typing import Final

from kcore.errors import TableError
from kcore.metadata.zookeeper.znode_acls import (
    CHANGES,
    PERSISTENT_PATHS,
    Resource,
    decode_acl_change,
    decode_acls,
    resource_path,
    types_and_paths,
)
from kcore.metadata.zookeeper.znode_names import is_znode_name
from kcore.node.zk.acls import ZkAcls
from kcore.server.zk_node.notification_watcher import Notification
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
_PATTERN_TYPES: Final = {parent: pattern_type for pattern_type, parent in CHANGES.items()}


class AclReader:
    """Reads changed ACLs into a ZkAcls."""

    subject = "ACLs"
    made_paths = PERSISTENT_PATHS
    parents = tuple(_PATTERN_TYPES)

    def __init__(self, zookeeper: ZookeeperClient, acls: ZkAcls) -> None:
        self._zookeeper = zookeeper
        self._acls = acls

    async def read_all(self) -> None:
        with self._acls.changes() as changed:  # By requests, too: the list lacks a resource that one creates meanwhile.
            resources = await self._resources()
            await self._read(resources)
        self._acls.keep_only([*resources, *changed])
        self._acls.is_read = True

    async def read_changed(self, notifications: list[Notification]) -> None:
        resources: dict[Resource, None] = {}
        for each in notifications:
            try:
                resource = decode_acl_change(each.path, _PATTERN_TYPES[each.parent], each.data)
            except TableError as error:
                logger.warning("skipped an unreadable notification: %s", error)
                continue
            if is_znode_name(resource[2]):
                resources[resource] = None
        await self._read([*resources])

    async def _resources(self) -> list[Resource]:
        """The resources that have a znode."""
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
                logger.warning("%s; until the znode is repaired, only super users may use the resource", error)
                self._acls.update(resource, None)
