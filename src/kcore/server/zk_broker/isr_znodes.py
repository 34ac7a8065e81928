"""ISRs that leaders write to ZooKeeper themselves, for an inter-broker protocol below 2.7.

Source: ZkAlterPartitionManager and ReplicationUtils of 3.9.1.
"""

import logging

from kcore.broker.replicas.isr_changes import StateWrite
from kcore.broker.replicas.replica import Key
from kcore.errors import ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, OperationResult, SetData
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)


async def write_isrs(zookeeper: ZookeeperClient, writes: list[StateWrite]) -> dict[Key, int | None]:
    """The new version of each znode, None where it had another than the expected one.

    Writes that were not tried are left out. A notification informs the controller. A state that is there already counts
    as written: the response to the first try was lost.
    """
    versions: dict[Key, int | None] = {}
    try:
        outcomes = await zookeeper.write([SetData(each.path, each.data, each.version) for each in writes])
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome is OperationResult.DONE:
                versions[write.change.key] = write.version + 1
            elif outcome is OperationResult.BAD_VERSION:
                [node] = await zookeeper.read_nodes([write.path])
                versions[write.change.key] = node.version if node is not None and node.data == write.data else None
        changed = [key for key, version in versions.items() if version is not None]
        if changed:
            path = f"{znodes.ISR_CHANGE_NOTIFICATION}/{znodes.ISR_CHANGE_PREFIX}"
            await zookeeper.write([Create(path, znodes.encode_isr_change(changed), sequential=True)])
    except ZookeeperError as error:
        logger.warning("the ISR of %s partitions: %s", len(writes), error)
    return versions
