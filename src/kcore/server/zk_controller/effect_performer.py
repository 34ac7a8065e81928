"""Runs the handlers of events, and performs the effects that they yield: in ZooKeeper, at brokers and for clients."""

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from kcore.controller.zk import events
from kcore.controller.zk.active import ActiveController
from kcore.controller.zk.effects import Effect, HandleLater, Send, SendResponse
from kcore.errors import ControllerMovedError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import (
    DeletePartitions,
    ReadChildren,
    ReadNodes,
    ReadStates,
    WriteNodes,
    WriteStates,
)
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.work_in_parts import next_turn
from kcore.node.zk.notices import Level, Notice, TextNotice
from kcore.node.zk.znode_steps import LogNotice, Pause
from kcore.server.clock import now_ms
from kcore.server.zk_controller.broker_channel import BrokerChannels
from kcore.server.zk_controller.event_queue import EventQueue
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
_LEVELS: Final[dict[Level, int]] = {"detail": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


class EffectPerformer:
    """Handles one event at a time. After an event, the metrics and the channels to brokers follow the state."""

    def __init__(
        self,
        active: ActiveController,
        zookeeper: ZookeeperClient,
        channels: BrokerChannels,
        queue: EventQueue,
        answer: Callable[[SendResponse], None],
        metrics: ControllerMetrics,
    ) -> None:
        """`answer` sends the response to a waiting request."""
        self.active = active
        self._zookeeper, self._channels, self._queue = zookeeper, channels, queue
        self._answer, self._metrics = answer, metrics
        self._of_requests = defaultdict[str, BoundedLog](
            lambda: BoundedLog(logger)
        )  # Log lines that requests cause, by API.

    async def handle(self, event: events.Event) -> None:
        """Runs the handler of an event, and performs its effects."""
        was_active = self.active.is_active
        steps = self.active.handle(event, now_ms())  # Deadlines use the monotonic clock.
        try:
            effect = next(steps)
            while True:
                try:
                    result = await self._perform(effect)
                except ControllerMovedError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration:
            pass
        finally:
            steps.close()
            self._settle(was_active)

    def _settle(self, was_active: bool) -> None:
        """After an event: updates metrics, and closes channels to brokers that are not live."""
        active = self.active
        self._metrics.active_controller_count = int(active.is_active)
        self._metrics.controller_epoch = active.decisions.controller_epoch if active.is_active else 0
        if active.is_active:
            self._channels.keep_only(active.table.brokers)
        else:
            self._channels.close()
        if was_active and not active.is_active:
            logger.info("controller %s has resigned", active.config.broker_id)

    async def _perform(self, effect: Effect) -> object:
        zookeeper, active = self._zookeeper, self.active
        fence = (znodes.CONTROLLER_EPOCH, active.epoch_version)
        match effect:
            case ReadNodes(paths, watch):
                return await zookeeper.read_nodes(paths, self._queue.watch_fired if watch else None)
            case ReadChildren(paths, watch):
                return await zookeeper.read_children(paths, self._queue.watch_fired if watch else None)
            case ReadStates(rows):
                return await zookeeper.read_states(active.table, rows)
            case WriteNodes(operations, atomic):
                return await zookeeper.write(operations, atomic=atomic, fence=fence)
            case WriteStates(changes):
                epoch = active.decisions.controller_epoch
                return await zookeeper.write_states(active.table, changes, epoch, fence=fence)
            case DeletePartitions(rows):
                await zookeeper.delete_partitions(active.table, rows, fence=fence)
            case Send(requests):
                for request in requests:
                    self._channels.send(request, active.table.brokers)
            case SendResponse():
                self._answer(effect)
            case HandleLater(event):
                self._queue.put(event)
            case LogNotice(notice):
                self._log(notice)
            case Pause():
                await next_turn()
        return None

    def _log(self, notice: Notice) -> None:
        """Logs a notice; with --verbose also a line for each partition or topic in it."""
        if isinstance(notice, TextNotice) and notice.request:
            self._of_requests[notice.request].info("%s", notice)
            return
        logger.log(_LEVELS[notice.level], "%s", notice)
        if logger.isEnabledFor(logging.DEBUG):
            for line in notice.details():
                logger.debug("%s", line)
