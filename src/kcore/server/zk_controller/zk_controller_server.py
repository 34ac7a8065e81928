"""The ZooKeeper-mode controller as a process: elections, events one at a time, and their effects.

Source: KafkaController of 3.9.1 (elect, maybeResign, triggerControllerMove) and ControllerEventManager.
"""

import asyncio
import logging
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Final, Self

import numpy as np

from kcore.controller.zk import events
from kcore.controller.zk.active import ActiveController
from kcore.controller.zk.effects import Effect, HandleLater, Send, SendResponse
from kcore.controller.zk.events import Kind, event_of
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import (
    ControllerMovedError,
    ElectionRefusedError,
    KcoreError,
    NetworkError,
    SessionExpiredError,
    TableError,
)
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.zookeeper import znode_tokens, znodes
from kcore.metadata.zookeeper.znode_brokers import read_broker
from kcore.metadata.zookeeper.znode_operations import (
    Delete,
    DeletePartitions,
    ReadChildren,
    ReadNodes,
    ReadStates,
    WriteNodes,
    WriteStates,
)
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.work_in_parts import next_turn
from kcore.node.zk.acls import AclAuthorizer, ZkAcls
from kcore.node.zk.notices import Level, Notice, TextNotice
from kcore.node.zk.znode_steps import LogNotice, Pause
from kcore.schema.structure import Message
from kcore.server.clock import now_ms, wall_ms
from kcore.server.cluster_view import ClusterView
from kcore.server.security.audit import AuditLog
from kcore.server.security.request_throttle import RequestThrottle
from kcore.server.zk_controller import eligibility
from kcore.server.zk_controller.broker_channel import BrokerChannels, event_of_answer
from kcore.server.zk_controller.eligibility import DuplicateController, Holder, read_holder
from kcore.server.zk_controller.event_queue import EventQueue, Reelect, Stop
from kcore.server.zk_controller.zk_controller_listener_settings import OPEN, ZkControllerListenerSettings, endpoints_at
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_controller.zk_controller_request_handlers import ZkControllerRequestHandlers, is_exempt
from kcore.server.zk_node.acl_reader import AclReader
from kcore.server.zk_node.client_quotas import ZkAddressQuotas, ZkClientQuotas
from kcore.server.zk_node.credentials import ZkCredentials
from kcore.server.zk_node.document_routing import DocumentRouting
from kcore.server.zk_node.notification_watcher import NotificationWatcher, NotifiedData
from kcore.server.zk_node.relay import Address
from kcore.types import Uuid
from kcore.wire.columns import Columns
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.registration import ControllerEpoch, elect, take_over
from kcore.zookeeper.session import SessionEvent

logger = logging.getLogger(__name__)
SLOW_S: Final = 0.1  # An event that takes longer is logged at the level INFO.
TICK_S: Final = 0.5
FIRST_REBALANCE_S: Final = 5.0  # After the failover, until the first preferred election, as in KafkaController.
REELECT_AFTER_FAULT_S: Final = 1.0
STOP_S: Final = 5.0


_LEVELS: Final[dict[Level, int]] = {"detail": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


def _log(notice: Notice, of_requests: Mapping[str, BoundedLog]) -> None:
    """Logs a notice; with --verbose also a line for each partition or topic in it."""
    if isinstance(notice, TextNotice) and notice.request:
        of_requests[notice.request].info("%s", notice)
        return
    logger.log(_LEVELS[notice.level], "%s", notice)
    if logger.isEnabledFor(logging.DEBUG):
        for line in notice.details():
            logger.debug("%s", line)


def _throttle(config: ControllerConfig, quotas: ZkClientQuotas) -> RequestThrottle:
    return RequestThrottle(quotas, now_ms, is_exempt, config.quota_window_num, config.quota_window_size_seconds)


def random_topic_id() -> Uuid:
    """A new random topic id whose text does not begin with a dash (Uuid.randomUuid)."""
    while str(found := Uuid(uuid.uuid4().bytes)).startswith("-"):
        pass
    return found


class ControllerServer:
    """A controller's process. Within `async with` it stands for election and serves; at the end it resigns."""

    def __init__(
        self,
        config: ControllerConfig,
        zookeeper: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        session_timeout_ms: int = 18_000,
        take_over: bool = False,
        audit: AuditLog | None = None,
        routing: DocumentRouting | None = None,
        listener_settings: ZkControllerListenerSettings = OPEN,
    ) -> None:
        """`zookeeper`: HOST:PORT,.../chroot. If `config` has no endpoints, brokers get the address of `host`.

        `take_over`: the controller replaces a broker that is controller, but not another kcore controller. `routing`:
        mutations by KIP-590's document. `listener_settings`: security of the listener and of connections to brokers.
        """
        self.config, self.port, self.metrics = config, port, ControllerMetrics()
        self._acls = ZkAcls()
        self._of_requests = defaultdict[str, BoundedLog](
            lambda: BoundedLog(logger)
        )  # Log lines that requests cause, by API.
        self.active = ActiveController(config, random_topic_id, self._acls)
        self._host, self._take_over, self._listener_settings = host, take_over, listener_settings
        self._queue = EventQueue(self.metrics)
        session_s = session_timeout_ms / 1000
        self._zookeeper = ZookeeperClient(
            zookeeper, session_timeout_s=session_s, connect_timeout_s=session_s, on_session=self._session_changed
        )
        authorizer = None if config.authorizer is None else AclAuthorizer(config.authorizer, self._acls)
        self._credentials = ZkCredentials(self._zookeeper, config.delegation_token_secret_key)
        self._address_quotas = ZkAddressQuotas(self._zookeeper)
        quotas = ZkClientQuotas(self._zookeeper)
        users = [self._credentials] if listener_settings.has_users else []
        followed: list[NotifiedData] = [self._address_quotas, quotas, *users]
        if authorizer is not None:
            followed.append(AclReader(self._zookeeper, self._acls))
        self._watchers = [NotificationWatcher(self._zookeeper, each) for each in followed]
        is_routed = routing is not None and routing.is_on(config.inter_broker_protocol)
        self._handlers = ZkControllerRequestHandlers(
            *(self._queue.put, self._view, self._addresses, self.metrics, authorizer, wall_ms, audit),
            routes_as_documented=is_routed,
            outgoing=listener_settings.security.outgoing(),
            throttle=_throttle(config, quotas),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._cluster_id: str | None = None
        self._duplicate = DuplicateController(config.broker_id, session_s)
        self._stopped = asyncio.Event()  # The controller has resigned, and does not stand for election again.

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._handlers.close)
            security = self._listener_settings.security
            self.port = await self._handlers.open(
                *(self._host, self.port, self.config.inter_broker_listener_name),
                tls=security.server_tls(),
                sasl=security.server_sasl(self._credentials, wall_ms),
                limits=self._listener_settings.limits,
                rate_of=self._address_quotas.rate_of,
            )
            await stack.enter_async_context(self._zookeeper)
            await self._open()
            stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Answers waiting requests, deletes `/controller` and closes all connections (KafkaController.shutdown)."""
        self._queue.put_first(Stop())
        with suppress(TimeoutError):  # ZooKeeper may be unreachable; then the session expires later.
            async with asyncio.timeout(STOP_S):
                await self._stopped.wait()
        self._channels.close()
        await self._channels.wait_closed()
        await self._handlers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._zookeeper.__aexit__()

    async def wait_failed(self) -> None:
        """Waits until the controller cannot go on, and raises the error."""
        await asyncio.gather(*self._tasks)

    async def _open(self) -> None:
        config = self.config
        if not config.endpoints:
            here = endpoints_at(self._host, self.port, config, self._listener_settings.security.protocol)
            self.config = config = replace(config, endpoints=here)
        self.active = ActiveController(config, random_topic_id, self._acls)
        self._channels = BrokerChannels(
            str(config.broker_id),
            config.control_plane_listener_name or config.inter_broker_listener_name,
            self._answered,
            self.metrics,
            config.acknowledgement_timeout_ms / 1000,
            self._listener_settings.to_brokers.outgoing(),
        )
        await eligibility.check_chroot(self._zookeeper)
        await eligibility.check_may_control(self._zookeeper, config.broker_id)
        await eligibility.check_cluster(self._zookeeper)
        has_tokens = config.delegation_token_secret_key is not None
        for path in (*znodes.PERSISTENT_PATHS, *(znode_tokens.PERSISTENT_PATHS if has_tokens else ())):
            await self._zookeeper.make_path(path)
        await self._read_cluster_id()
        for watcher in self._watchers:
            await watcher.open()
            self._tasks.append(asyncio.create_task(watcher.follow()))
        self._queue.put(Reelect())
        self._tasks += [
            asyncio.create_task(each)
            for each in (self._handle_events(), self._tick(), self._rebalance(), self._learn(), self._expire_tokens())
        ]

    async def _read_cluster_id(self) -> None:
        """Reads the cluster id, which the first broker of a cluster writes."""
        [node] = await self._zookeeper.read_nodes([znodes.CLUSTER_ID])
        with suppress(TableError):  # It was readable at the start; an unreadable id is not sent to clients.
            self._cluster_id = znodes.decode_cluster_id(node.data) if node is not None else None

    def _session_changed(self, change: SessionEvent) -> None:
        logger.info("the ZooKeeper session is %s", change.value)
        if change is SessionEvent.EXPIRED:
            self._queue.session_lost()
            for watcher in self._watchers:
                watcher.session_lost()

    def _watch_fired(self, path: str, kind: Kind) -> None:
        event = Reelect() if path == znodes.CONTROLLER else event_of(path, kind)
        if event is not None:
            self._queue.put(event)

    def _answered(
        self, request: ControlRequest, broker_id: int, broker_epoch: int, response: Message | Columns
    ) -> None:
        if isinstance(response, Columns):  # No handler needs a response to UpdateMetadata.
            self._queue.put(event_of_answer(request, broker_id, broker_epoch, response))

    async def _rebalance(self) -> None:
        """Queues preferred elections at intervals; a standby ignores them (KafkaController's auto-leader-rebalance)."""
        if not self.config.auto_leader_rebalance_enable:
            return
        await asyncio.sleep(FIRST_REBALANCE_S)
        while True:
            self._queue.put(events.AutoPreferredReplicaLeaderElection())
            await asyncio.sleep(self.config.leader_imbalance_check_interval_ms / 1000)

    async def _expire_tokens(self) -> None:
        """Queues the removal of expired tokens at intervals; a standby ignores it."""
        while self.config.delegation_token_secret_key is not None:
            self._queue.put(events.ExpireTokens(wall_ms()))
            await asyncio.sleep(self.config.delegation_token_expiry_check_interval_ms / 1000)

    async def _learn(self) -> None:
        while True:
            try:
                await self._handlers.keep_learning()
            except KcoreError as error:  # ZooKeeper is unreachable, or a broker's znode is unreadable.
                logger.info("cannot read the live brokers, trying again: %s", error)
                await asyncio.sleep(TICK_S)

    async def _tick(self) -> None:
        """At intervals checks the time-outs of waiting requests and of LeaderAndIsr responses."""
        while True:
            await asyncio.sleep(TICK_S)
            self._channels.check_acknowledgements(asyncio.get_running_loop().time())
            if self.active.waiting:
                self._queue.put(events.Tick())

    async def _handle_events(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            event, queued_s = await self._queue.take()
            begin_s = loop.time()
            try:
                await self._take(event)
            except SessionExpiredError as error:
                logger.warning("%s is not completed: %s", event.name, error)  # SessionLost is the next event.
            except ElectionRefusedError:
                await self._move()
                self._stopped.set()
                raise
            except Exception:  # The event is only partly handled: the table may differ from ZooKeeper.
                logger.exception("%s failed: this controller resigns, and stands for election again", event.name)
                await self._move()
                loop.call_later(REELECT_AFTER_FAULT_S, self._queue.put, Reelect())
            self._log_duration(event, queued_s, begin_s, loop.time())

    async def _take(self, event: events.Event) -> None:
        if isinstance(event, Stop):
            await self._move()
            self._stopped.set()
        elif isinstance(event, Reelect):
            if not self._stopped.is_set():
                await self._reelect()
        elif isinstance(event, events.BrokerChange):
            await eligibility.check_id(self._zookeeper, self.config.broker_id)
            await self._handle(event)
            await self._brokers_changed()
        else:
            await self._handle(event)

    async def _brokers_changed(self) -> None:
        self._handlers.brokers_changed()
        if self._cluster_id is None:
            await self._read_cluster_id()

    def _log_duration(self, event: events.Event, queued_s: float, begin_s: float, end_s: float) -> None:
        name, took_s = event.name, end_s - begin_s
        self.metrics.events[name].add(took_s, end_s)
        level = logging.INFO if took_s > SLOW_S else logging.DEBUG
        logger.log(level, "%s took %.1f ms, after %.1f ms in the queue", name, took_s * 1e3, (begin_s - queued_s) * 1e3)

    async def _handle(self, event: events.Event) -> None:
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
        self.metrics.active_controller_count = int(active.is_active)
        self.metrics.controller_epoch = active.decisions.controller_epoch if active.is_active else 0
        if active.is_active:
            self._channels.keep_only(active.table.brokers)
        else:
            self._channels.close()
        if was_active and not active.is_active:
            logger.info("controller %s has resigned", self.config.broker_id)

    async def _perform(self, effect: Effect) -> object:
        zookeeper, active = self._zookeeper, self.active
        fence = (znodes.CONTROLLER_EPOCH, active.epoch_version)
        match effect:
            case ReadNodes(paths, watch):
                return await zookeeper.read_nodes(paths, self._watch_fired if watch else None)
            case ReadChildren(paths, watch):
                return await zookeeper.read_children(paths, self._watch_fired if watch else None)
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
                self._handlers.answer(effect)
            case HandleLater(event):
                self._queue.put(event)
            case LogNotice(notice):
                _log(notice, self._of_requests)
            case Pause():
                await next_turn()
        return None

    async def _reelect(self) -> None:
        """Resigns if the controller has lost `/controller`, and stands for election (maybeResign, elect)."""
        broker_id = self.config.broker_id
        holder = await read_holder(self._zookeeper, self._watch_fired)
        if self.active.is_active and not (holder and holder.is_here):
            await self._handle(events.ControllerChange(-1))
        if holder is not None and not await self._may_be_replaced(holder):
            await self._stand_by(holder)
            return
        await eligibility.check_may_control(self._zookeeper, broker_id)
        try:
            get_it = elect if holder is None else take_over
            elected = await get_it(self._zookeeper, broker_id, wall_ms())
        except ControllerMovedError as error:
            logger.info("not elected: %s", error)
            self._queue.put(Reelect())  # The elected node may have lost its session since.
            return
        await self._begin(elected)

    async def _begin(self, elected: ControllerEpoch) -> None:
        """Runs the failover and logs it (KafkaController.onControllerFailover)."""
        begin_s = asyncio.get_running_loop().time()
        await self._handle(events.Elected(*elected))
        took_s = asyncio.get_running_loop().time() - begin_s
        table = self.active.table
        logger.info(
            "controller %s is active, epoch %s: %s live brokers, %s topics, %s partitions; failover took %.0f ms",
            *(self.config.broker_id, elected.epoch, int(table.brokers.live.sum())),
            *(len(table.topics), len(table), took_s * 1e3),
        )
        await self._brokers_changed()

    async def _may_be_replaced(self, holder: Holder) -> bool:
        """True if this process holds `/controller` but resigned after an error, or if `take_over` replaces a broker."""
        if holder.is_here:
            return not self.active.is_active
        if not self._take_over or holder.broker_id in (None, self.config.broker_id):
            return False
        [node] = await self._zookeeper.read_nodes([znodes.broker_path(holder.broker_id)])
        return node is not None

    async def _stand_by(self, holder: Holder) -> None:
        """Logs the active controller. ElectionRefusedError if another process with this id is the controller."""
        if holder.is_here or holder.broker_id is None:
            return
        loop = asyncio.get_running_loop()
        if holder.broker_id == self.config.broker_id:
            if self._duplicate.is_new(holder.session, loop.time()):
                loop.call_later(self._duplicate.wait_s, self._queue.put, Reelect())
            return
        [node] = await self._zookeeper.read_nodes([znodes.CONTROLLER_EPOCH])
        epoch = node.data.decode(errors="replace") if node is not None else "not known"
        logger.info("controller %s is active, epoch %s", holder.broker_id, epoch)

    async def _move(self) -> None:
        """Resigns and deletes `/controller` (KafkaController.triggerControllerMove)."""
        if not self.active.is_active:
            return
        epoch_version = self.active.epoch_version
        await self._handle(events.ControllerChange(-1))
        try:
            await self._zookeeper.write([Delete(znodes.CONTROLLER)], fence=(znodes.CONTROLLER_EPOCH, epoch_version))
        except (ControllerMovedError, NetworkError) as error:
            logger.warning("/controller is not deleted; it stays until the ZooKeeper session expires: %s", error)

    def _view(self) -> ClusterView | None:
        active, config = self.active, self.config
        if not active.is_active:
            return None
        listed = LiveBroker(config.broker_id, config.endpoints, config.rack)
        name = config.inter_broker_listener_name
        failed = active.offline_dirs

        def offline(row: int) -> list[int]:
            return [broker_id for broker_id, rows in failed.items() if row in rows]

        return ClusterView(active.table, name, listed, self._cluster_id, active.topics_to_be_deleted, offline)

    async def _addresses(self) -> Sequence[Address]:
        """Endpoints of live brokers, from the table or, on a standby, from ZooKeeper.

        Brokers that coordinate groups come first: these are Kafka's own, and serve all requests.
        """
        listener = self.config.inter_broker_listener_name
        if self.active.is_active:
            brokers = self.active.table.brokers
            last = np.isin(brokers.ids, [*self.active.not_coordinating])
            rows = [*np.flatnonzero(brokers.live & ~last).tolist(), *np.flatnonzero(brokers.live & last).tolist()]
            lists = [brokers.endpoints[row] for row in rows]
        else:
            [names] = await self._zookeeper.read_children([znodes.BROKER_IDS])
            nodes = await self._zookeeper.read_nodes([f"{znodes.BROKER_IDS}/{name}" for name in names or ()])
            found = []
            for name, node in zip(names or (), nodes, strict=True):
                with suppress(TableError):  # The active controller reports the unreadable znode.
                    found += [] if node is None else [read_broker(name, node.data)[1]]
            lists = [tuple(each.endpoints) for each in sorted(found, key=lambda each: not each.coordinates)]
        return [Address(each.host, each.port) for endpoints in lists for each in endpoints if each.listener == listener]
