"""The registration of a broker in ZooKeeper (KafkaServer, KafkaZkClient.registerBroker of 3.9.1)."""

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from pathlib import PurePosixPath

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import ZookeeperError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.server.broker.broker_listening import BrokerListening
from kcore.server.broker.controller_requests import AGAIN_S
from kcore.server.clock import wall_ms
from kcore.types import Uuid
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.registration import register_broker

logger = logging.getLogger(__name__)


class ZkRegistration:
    """Creates the znode of one broker, in each session."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        manager: ReplicaManager,
        listening: BrokerListening,
        rack: str | None,
        session_s: float,
    ) -> None:
        """`listening` is open before the broker registers. `session_s`: the time-out of the session in seconds."""
        self._zookeeper, self._manager = zookeeper, manager
        self._listening, self.rack, self.session_s = listening, rack, session_s

    @property
    def endpoints(self) -> list[Endpoint]:
        """The advertised endpoints of the broker."""
        return self._listening.listeners.endpoints(self._listening.ports)

    async def register(self) -> None:
        """Creates the broker's znode, whose czxid is the broker epoch (KIP-380).

        Waits until the znode of an earlier session has expired; Kafka's broker exits in this case.
        """
        config, endpoints = self._manager.config, self.endpoints
        version = 5 if config.has_alter_partition else 4
        data = encode_broker(BrokerNode(endpoints, self.rack, version=version, coordinates=False), wall_ms())
        give_up_s = time.monotonic() + self.session_s + 5.0
        while True:
            try:
                epoch = await register_broker(self._zookeeper, config.broker_id, data)
                break
            except ZookeeperError as error:
                if time.monotonic() > give_up_s:
                    raise
                logger.info("not registered yet: %s", error)
                await asyncio.sleep(AGAIN_S)
        self._manager.broker_epoch = epoch
        addresses = ", ".join(f"{each.listener} {each.host}:{each.port}" for each in endpoints)
        logger.info("broker %s is registered with epoch %s at %s", config.broker_id, epoch, addresses)

    async def register_again(self) -> None:
        """Registers in a new session."""
        while True:
            with suppress(ZookeeperError):
                await self.register()
                return
            await asyncio.sleep(AGAIN_S)


async def cluster_id_in(zookeeper: ZookeeperClient) -> str:
    """The cluster id in ZooKeeper, which the first broker of a cluster creates."""
    made = str(Uuid(uuid.uuid4().bytes))
    await zookeeper.make_path(str(PurePosixPath(znodes.CLUSTER_ID).parent))
    await zookeeper.write([Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(made))])
    [node] = await zookeeper.read_nodes([znodes.CLUSTER_ID])
    assert node is not None
    return znodes.decode_cluster_id(node.data)
