"""Writes ISR changes to ZooKeeper, as brokers do before KIP-497."""

import logging

from kcore.broker.replicas.isr_changes import StateWrite
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, OperationResult, SetData
from kcore.server.clock import now_ms
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)


async def settle_isrs(zookeeper: ZookeeperClient, manager: ReplicaManager) -> None:
    """Writes all waiting ISR changes, and passes the versions of the znodes to the replicas."""
    versions = await write_isrs(zookeeper, manager.isr_changes.next_writes())
    manager.on_states_written(versions, now_ms())


async def write_isrs(zookeeper: ZookeeperClient, writes: list[StateWrite]) -> dict[Key, int | None]:
    """Writes the states. Returns the new version of each znode; None if the znode had an unexpected version.

    The result lacks writes that were not tried. A notification informs the controller. A state that the znode already
    has counts as written, because the response to an earlier try may have been lost.
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
        logger.warning("writing the ISRs of %s partitions failed: %s; retrying", len(writes), error)
    return versions
