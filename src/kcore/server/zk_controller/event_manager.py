"""Takes the events of a controller from its queue, one at a time (ControllerEventManager of 3.9.1)."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kcore.controller.zk import events
from kcore.errors import ElectionRefusedError, SessionExpiredError
from kcore.server.zk_controller import eligibility
from kcore.server.zk_controller.controlled_cluster import ControlledCluster
from kcore.server.zk_controller.effect_performer import EffectPerformer
from kcore.server.zk_controller.election import Election
from kcore.server.zk_controller.event_queue import EventQueue, Reelect, Stop
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
SLOW_S: Final = 0.1  # An event that takes longer is logged at the level INFO.
REELECT_AFTER_FAULT_S: Final = 1.0
STOP_S: Final = 5.0


class ControllerEventManager:
    """Passes events to their handlers or to the election. After an error the controller resigns."""

    def __init__(
        self,
        queue: EventQueue,
        performer: EffectPerformer,
        election: Election,
        cluster: ControlledCluster,
        zookeeper: ZookeeperClient,
        brokers_changed: Callable[[], None],
        metrics: ControllerMetrics,
    ) -> None:
        """`brokers_changed` is called after an election, and when a broker has started or ended."""
        self.queue, self._performer, self._election, self._cluster = queue, performer, election, cluster
        self._zookeeper, self._brokers_changed, self._metrics = zookeeper, brokers_changed, metrics
        self._stopped = asyncio.Event()  # The controller has resigned, and does not stand for election again.

    async def stop(self) -> None:
        """Resigns before all other events, and waits until waiting requests are answered and `/controller` is deleted.

        ZooKeeper may be unreachable; then the session expires later.
        """
        self.queue.put_first(Stop())
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._stopped.wait()

    async def run(self) -> None:
        """Handles events until the task is cancelled. ElectionRefusedError if the controller must not go on."""
        loop = asyncio.get_running_loop()
        while True:
            event, queued_s = await self.queue.take()
            begin_s = loop.time()
            try:
                await self._take(event)
            except SessionExpiredError as error:
                logger.warning("%s is not completed: %s", event.name, error)  # SessionLost is the next event.
            except ElectionRefusedError:
                await self._resign_for_good()
                raise
            except Exception:  # The event is only partly handled: the table may differ from ZooKeeper.
                logger.exception("%s failed: this controller resigns, and stands for election again", event.name)
                await self._election.resign()
                loop.call_later(REELECT_AFTER_FAULT_S, self.queue.put, Reelect())
            self._log_duration(event, queued_s, begin_s, loop.time())

    async def _take(self, event: events.Event) -> None:
        if isinstance(event, Stop):
            await self._resign_for_good()
        elif isinstance(event, Reelect):
            if not self._stopped.is_set():
                await self._cluster.read_id()
                if await self._election.stand():
                    self._brokers_changed()
        elif isinstance(event, events.BrokerChange):
            await eligibility.check_id(self._zookeeper, self._performer.active.config.broker_id)
            await self._performer.handle(event)
            self._brokers_changed()
            await self._cluster.read_id()
        else:
            await self._performer.handle(event)

    async def _resign_for_good(self) -> None:
        await self._election.resign()
        self._stopped.set()

    def _log_duration(self, event: events.Event, queued_s: float, begin_s: float, end_s: float) -> None:
        name, took_s = event.name, end_s - begin_s
        self._metrics.events[name].add(took_s, end_s)
        level = logging.INFO if took_s > SLOW_S else logging.DEBUG
        logger.log(level, "%s took %.1f ms, after %.1f ms in the queue", name, took_s * 1e3, (begin_s - queued_s) * 1e3)
