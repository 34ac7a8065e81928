"""Checks whether a controller may take over the cluster in ZooKeeper, and reads which node holds `/controller`.

A check only reads; it raises an ElectionRefusedError that says what the operator should do. When the process starts,
it checks everything that a failover reads. Before each election it checks only for changes that would give the cluster
two controllers. A znode that becomes unreadable later is skipped (`controller/zk/znode_reading.py`).
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from kcore.controller.zk.topics.assignments import arrays_of
from kcore.controller.zk.znode_reading import read_topics, sound_states
from kcore.errors import ElectionRefusedError, TableError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import read_broker
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.session import OnWatch

MOST_SHOWN: Final = 3  # Unreadable znodes that the error names.
_NOT_KRAFT: Final = (None, -1)
# Znodes that are read at every failover or by clients, with their decoders.
_SINGLE: Final[dict[str, Callable[[bytes], object]]] = {
    znodes.CONTROLLER_EPOCH: znodes.decode_controller_epoch,
    znodes.FEATURE: znodes.decode_feature,
    znodes.CLUSTER_ID: znodes.decode_cluster_id,
    znodes.LATEST_PRODUCER_ID_BLOCK: znodes.decode_producer_id_block,
}


async def check_chroot(zookeeper: ZookeeperClient) -> None:
    """Refuses a chroot that does not exist, so that a mistyped chroot does not create another cluster."""
    chroot = zookeeper.session.chroot
    if chroot and await zookeeper.stat("/") is None:
        raise ElectionRefusedError(
            f"ZooKeeper has no {chroot}: no broker of that cluster has started yet, or --zookeeper names another path "
            "than the brokers' zookeeper.connect"
        )


async def check_id(zookeeper: ZookeeperClient, broker_id: int) -> None:
    """Raises ElectionRefusedError if a broker has this controller's id: `/controller` would then name that broker."""
    [node] = await zookeeper.read_nodes([znodes.broker_path(broker_id)])
    if node is not None:
        raise ElectionRefusedError(
            f"broker {broker_id} is registered in ZooKeeper: give this controller an id that no broker has "
            "(--broker-id)"
        )


async def check_may_control(zookeeper: ZookeeperClient, broker_id: int) -> None:
    """Raises ElectionRefusedError for a broker with this id, a KRaft quorum that controls the cluster, or unreadable
    znodes of `_SINGLE`.
    """
    await check_id(zookeeper, broker_id)
    controller, migration, *single = await zookeeper.read_nodes([znodes.CONTROLLER, znodes.MIGRATION, *_SINGLE])
    try:
        for node, decode in zip(single, _SINGLE.values(), strict=True):
            if node is not None:
                decode(node.data)
        holder = znodes.decode_controller(controller.data) if controller is not None else None
        state = znodes.decode_migration(migration.data) if migration is not None else None
    except TableError as error:
        raise ElectionRefusedError(f"{error}; repair the znode, or delete it if nothing uses it") from error
    if holder is not None and holder.kraft_controller_epoch not in _NOT_KRAFT:
        raise ElectionRefusedError(
            f"KRaft controller {holder.broker_id} (KRaft epoch {holder.kraft_controller_epoch}) controls this cluster, "
            f"by {znodes.CONTROLLER}: it is being migrated to KRaft, and must not have a ZooKeeper-mode controller"
        )
    if state is not None and state.kraft_controller_id >= 0:
        raise ElectionRefusedError(
            f"{znodes.MIGRATION}: KRaft controller {state.kraft_controller_id} (KRaft epoch "
            f"{state.kraft_controller_epoch}) is migrating this cluster; if the migration was reverted, delete the "
            "znode, as Kafka's instructions say"
        )


async def check_cluster(zookeeper: ZookeeperClient) -> None:
    """Refuses unreadable registrations of brokers, topics and partition states."""
    faults: list[TableError] = []
    [ids] = await zookeeper.read_children([znodes.BROKER_IDS])
    nodes = await zookeeper.read_nodes([f"{znodes.BROKER_IDS}/{name}" for name in ids or ()])
    for name, node in zip(ids or (), nodes, strict=True):
        try:
            _ = node and read_broker(name, node.data)
        except TableError as error:
            faults.append(error)
    [names] = await zookeeper.read_children([znodes.TOPICS])
    nodes = await zookeeper.read_nodes([znodes.topic_path(name) for name in names or ()])
    found = {name: node.data for name, node in zip(names or (), nodes, strict=True) if node is not None}
    topics, errors = read_topics(found)
    faults += errors
    table = PartitionTable.from_arrays(**arrays_of(topics, BrokerTable.from_arrays(np.empty(0, np.int32))))
    states = await zookeeper.read_states(table, np.arange(len(table), dtype=np.int32))
    faults += sound_states(table, states)[1]
    if faults:
        texts = "; ".join(map(str, faults[:MOST_SHOWN]))
        more = f"; and {len(faults) - MOST_SHOWN:,} more" if len(faults) > MOST_SHOWN else ""
        raise ElectionRefusedError(f"{texts}{more}; repair the znodes, or delete those that nothing uses")


logger = logging.getLogger(__name__)
GRACE_S: Final = 5.0  # ZooKeeper expires sessions only at its ticks, and waits for at least two.


class Holder(NamedTuple):
    """The content of `/controller`."""

    broker_id: int | None  # None: the znode is unreadable.
    session: int  # The session that created the znode; 0: the znode is persistent.
    is_here: bool  # True if this process's session created the znode.


async def read_holder(zookeeper: ZookeeperClient, on_watch: OnWatch) -> Holder | None:
    """Reads and watches `/controller`; None if there is no controller."""
    [node] = await zookeeper.read_nodes([znodes.CONTROLLER], on_watch)
    stat = await zookeeper.stat(znodes.CONTROLLER) if node is not None else None
    if node is None or stat is None:  # If the znode was deleted between the two reads, the watch fires.
        return None
    try:
        broker_id: int | None = znodes.decode_controller(node.data).broker_id
    except TableError as error:
        logger.warning("the controller is unknown until this znode changes: %s", error)
        broker_id = None
    session = stat.ephemeralOwner
    return Holder(broker_id, session, bool(session) and session == zookeeper.session.id)


class DuplicateController:
    """Detects another controller that runs with this controller's id.

    Another session may hold `/controller` with this id because its process died without closing it: the session then
    expires. So the session is given twice this controller's time-out. If it still exists then, its process runs.
    """

    def __init__(self, broker_id: int, session_timeout_s: float) -> None:
        self.wait_s = 2 * session_timeout_s + GRACE_S
        self._broker_id = broker_id
        self._session, self._until_s = 0, 0.0

    def is_new(self, session: int, now_s: float) -> bool:
        """True if the session is seen for the first time; then check again after `wait_s`.

        ElectionRefusedError if the session still exists after that time.
        """
        if session == self._session:
            if now_s < self._until_s:
                return False
            raise ElectionRefusedError(
                f"another controller runs under id {self._broker_id}, in ZooKeeper session {session:#x}: give this one "
                "another id (--broker-id)"
            )
        self._session, self._until_s = session, now_s + self.wait_s
        logger.warning(
            "controller %s is active in another session, %#x: another controller runs with this id, or it died "
            "without closing its session; waiting %.0f s for the session to expire",
            *(self._broker_id, session, self.wait_s),
        )
        return True
