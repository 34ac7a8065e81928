"""Reads the cluster in a running ZooKeeper: the znodes of brokers, topics, partitions and settings, and no others."""

import logging
from collections.abc import Sequence
from typing import Final

from kcore.errors import TableError, ZookeeperError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_image import CONFIG_TYPES, image_of_znodes
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.connect_string import check_connect_string

CONNECT_S: Final = 10.0
_SILENT: Final = logging.Logger("refused", logging.CRITICAL + 1)  # kazoo logs every refused connection.


async def image_of_zookeeper(connect: str) -> ClusterImage:
    """The cluster below the chroot of HOST:PORT,.../CHROOT. ZookeeperError without a session or without Kafka's znodes.

    The cluster may change meanwhile: partitions of a topic that is deleted have no leader.
    """
    check_connect_string(connect)
    async with ZookeeperClient(connect, connect_timeout_s=CONNECT_S, logger=_SILENT) as client:
        nodes = await _below(client, znodes.BROKER_IDS)
        topics = await _below(client, znodes.TOPICS)
        assignments = {path: node for path, node in topics.items() if path != znodes.TOPICS}
        names = {path: path.removeprefix(f"{znodes.TOPICS}/") for path in assignments}
        states = [
            znodes.state_path(names[path], partition)
            for path, node in assignments.items()
            for partition in znodes.decode_topic(names[path], node.data).partitions
        ]
        nodes |= topics | await _read(client, states)
        for kind in CONFIG_TYPES:
            nodes |= await _below(client, f"{znodes.CONFIG}/{kind}")
    try:
        return image_of_znodes(nodes)
    except TableError as error:
        raise ZookeeperError(str(error)) from None


async def _below(client: ZookeeperClient, parent: str) -> dict[str, Node]:
    """A znode and its children by path; empty without the znode."""
    [children] = await client.read_children([parent])
    if children is None:
        return {}
    return await _read(client, [parent, *(f"{parent}/{name}" for name in sorted(children))])


async def _read(client: ZookeeperClient, paths: Sequence[str]) -> dict[str, Node]:
    found = await client.read_nodes(paths)
    return {path: node for path, node in zip(paths, found, strict=True) if node is not None}
