"""Stands for election as controller, and resigns.

Source: KafkaController of 3.9.1 (elect, maybeResign, triggerControllerMove, onControllerFailover).
"""

import asyncio
import logging

from kcore.controller.zk import events
from kcore.errors import ControllerMovedError, NetworkError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete
from kcore.server.clock import wall_ms
from kcore.server.zk_controller import eligibility
from kcore.server.zk_controller.effect_performer import EffectPerformer
from kcore.server.zk_controller.eligibility import DuplicateController, Holder, read_holder
from kcore.server.zk_controller.event_queue import EventQueue, Reelect
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.registration import ControllerEpoch, elect, take_over

logger = logging.getLogger(__name__)


class Election:
    """The elections of one controller. ElectionRefusedError if it must not control the cluster any more."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        performer: EffectPerformer,
        queue: EventQueue,
        session_s: float,
        *,
        takes_over: bool,
    ) -> None:
        """`takes_over`: the controller replaces a broker that is controller, but not another kcore controller."""
        self._zookeeper, self._performer, self._queue = zookeeper, performer, queue
        self._active, self._takes_over = performer.active, takes_over
        self._broker_id = performer.active.config.broker_id
        self._duplicate = DuplicateController(self._broker_id, session_s)

    async def stand(self) -> bool:
        """Resigns if the controller has lost `/controller`, and stands for election. True if it was elected."""
        holder = await read_holder(self._zookeeper, self._queue.watch_fired)
        if self._active.is_active and not (holder and holder.is_here):
            await self._performer.handle(events.ControllerChange(-1))
        if holder is not None and not await self._may_be_replaced(holder):
            await self._stand_by(holder)
            return False
        await eligibility.check_may_control(self._zookeeper, self._broker_id)
        try:
            get_it = elect if holder is None else take_over
            elected = await get_it(self._zookeeper, self._broker_id, wall_ms())
        except ControllerMovedError as error:
            logger.info("not elected: %s", error)
            self._queue.put(Reelect())  # The elected node may have lost its session since.
            return False
        await self._begin(elected)
        return True

    async def _begin(self, elected: ControllerEpoch) -> None:
        """Runs the failover and logs it (KafkaController.onControllerFailover)."""
        begin_s = asyncio.get_running_loop().time()
        await self._performer.handle(events.Elected(*elected))
        took_s = asyncio.get_running_loop().time() - begin_s
        table = self._active.table
        logger.info(
            "controller %s is active, epoch %s: %s live brokers, %s topics, %s partitions; failover took %.0f ms",
            *(self._broker_id, elected.epoch, int(table.brokers.live.sum())),
            *(len(table.topics), len(table), took_s * 1e3),
        )

    async def _may_be_replaced(self, holder: Holder) -> bool:
        """True if this process holds `/controller` but resigned after an error, or if it takes over from a broker."""
        if holder.is_here:
            return not self._active.is_active
        if not self._takes_over or holder.broker_id in (None, self._broker_id):
            return False
        [node] = await self._zookeeper.read_nodes([znodes.broker_path(holder.broker_id)])
        return node is not None

    async def _stand_by(self, holder: Holder) -> None:
        """Logs the active controller. ElectionRefusedError if another process with this id is the controller."""
        if holder.is_here or holder.broker_id is None:
            return
        loop = asyncio.get_running_loop()
        if holder.broker_id == self._broker_id:
            if self._duplicate.is_new(holder.session, loop.time()):
                loop.call_later(self._duplicate.wait_s, self._queue.put, Reelect())
            return
        [node] = await self._zookeeper.read_nodes([znodes.CONTROLLER_EPOCH])
        epoch = node.data.decode(errors="replace") if node is not None else "not known"
        logger.info("controller %s is active, epoch %s", holder.broker_id, epoch)

    async def resign(self) -> None:
        """Resigns and deletes `/controller` (KafkaController.triggerControllerMove)."""
        if not self._active.is_active:
            return
        epoch_version = self._active.epoch_version
        await self._performer.handle(events.ControllerChange(-1))
        try:
            await self._zookeeper.write([Delete(znodes.CONTROLLER)], fence=(znodes.CONTROLLER_EPOCH, epoch_version))
        except (ControllerMovedError, NetworkError) as error:
            logger.warning("/controller is not deleted; it stays until the ZooKeeper session expires: %s", error)
