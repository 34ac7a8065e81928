"""The ZooKeeper-mode controller as a process: joins the listener, the loop over events and the ZooKeeper session.

Source: KafkaController of 3.9.1.
"""

import asyncio
import logging
import uuid
from contextlib import AsyncExitStack
from typing import Self

from kcore.controller.zk.active import ActiveController
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.schema.structure import Message
from kcore.server.clock import now_ms, wall_ms
from kcore.server.security.audit import AuditLog
from kcore.server.security.request_throttle import RequestThrottle
from kcore.server.zk_controller import eligibility
from kcore.server.zk_controller.broker_channel import BrokerChannels, event_of_answer
from kcore.server.zk_controller.controlled_cluster import ControlledCluster
from kcore.server.zk_controller.effect_performer import EffectPerformer
from kcore.server.zk_controller.election import Election
from kcore.server.zk_controller.event_manager import ControllerEventManager
from kcore.server.zk_controller.event_queue import EventQueue, Reelect
from kcore.server.zk_controller.periodic_events import check_time_outs, elect_preferred, expire_tokens
from kcore.server.zk_controller.zk_controller_listener_settings import OPEN, ZkControllerListenerSettings, endpoints_at
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_controller.zk_controller_request_handlers import ZkControllerRequestHandlers, is_exempt
from kcore.server.zk_node.client_quotas import ZkAddressQuotas
from kcore.server.zk_node.document_routing import DocumentRouting
from kcore.server.zk_node.watched_settings import WatchedSettings
from kcore.types import Uuid
from kcore.wire.columns import Columns
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.session import SessionEvent

logger = logging.getLogger(__name__)


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
        self.port, self.metrics = port, ControllerMetrics()
        self._host, self._listener_settings = host, listener_settings
        queue, session_s = EventQueue(self.metrics), session_timeout_ms / 1000
        self._zookeeper = ZookeeperClient(
            zookeeper, session_timeout_s=session_s, connect_timeout_s=session_s, on_session=self._session_changed
        )
        self._address_quotas = ZkAddressQuotas(self._zookeeper)
        self._watched = WatchedSettings(
            *(self._zookeeper, self._address_quotas),
            settings=config.authorizer,
            secret_key=config.delegation_token_secret_key,
            has_users=listener_settings.has_users,
        )
        self.active = ActiveController(config, random_topic_id, self._watched.acls)
        cluster = ControlledCluster(self.active, self._zookeeper)
        self._handlers = self._new_handlers(queue, cluster, audit, routing)
        self._channels = BrokerChannels(
            str(config.broker_id),
            config.control_plane_listener_name or config.inter_broker_listener_name,
            self._answered,
            self.metrics,
            config.acknowledgement_timeout_ms / 1000,
            listener_settings.to_brokers.outgoing(),
        )
        performer = EffectPerformer(
            *(self.active, self._zookeeper, self._channels, queue, self._handlers.answer, self.metrics)
        )
        election = Election(self._zookeeper, performer, queue, session_s, takes_over=take_over)
        self._events = ControllerEventManager(
            *(queue, performer, election, cluster, self._zookeeper, self._handlers.brokers_changed, self.metrics)
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _new_handlers(
        self, queue: EventQueue, cluster: ControlledCluster, audit: AuditLog | None, routing: DocumentRouting | None
    ) -> ZkControllerRequestHandlers:
        config, watched = self.active.config, self._watched
        return ZkControllerRequestHandlers(
            *(queue.put, cluster.view, cluster.addresses, self.metrics, watched.authorizer, wall_ms, audit),
            routes_as_documented=routing is not None and routing.is_on(config.inter_broker_protocol),
            outgoing=self._listener_settings.security.outgoing(),
            throttle=RequestThrottle(
                *(watched.quotas, now_ms, is_exempt), config.quota_window_num, config.quota_window_size_seconds
            ),
        )

    async def __aenter__(self) -> Self:
        config, security = self.active.config, self._listener_settings.security
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._handlers.close)
            self.port = await self._handlers.open(
                *(self._host, self.port, config.inter_broker_listener_name),
                tls=security.server_tls(),
                sasl=security.server_sasl(self._watched.users, wall_ms),
                limits=self._listener_settings.limits,
                rate_of=self._address_quotas.rate_of,
            )
            if not config.endpoints:
                self.active.listen_at(endpoints_at(self._host, self.port, config, security.protocol))
            await stack.enter_async_context(self._zookeeper)
            await self._open(config)
            stack.pop_all()
        return self

    async def _open(self, config: ControllerConfig) -> None:
        """Checks the cluster, reads the settings, and begins to handle events."""
        await eligibility.check_chroot(self._zookeeper)
        await eligibility.check_may_control(self._zookeeper, config.broker_id)
        await eligibility.check_cluster(self._zookeeper)
        await self._watched.make_paths()
        await self._watched.open()
        queue = self._events.queue
        queue.put(Reelect())
        tasks = (
            *(watcher.follow() for watcher in self._watched),
            self._events.run(),
            check_time_outs(self.active, self._channels, queue),
            elect_preferred(config, queue),
            self._handlers.keep_learning(),
            expire_tokens(config, queue),
        )
        self._tasks += map(asyncio.create_task, tasks)

    async def __aexit__(self, *_: object) -> None:
        """Answers waiting requests, deletes `/controller` and closes all connections (KafkaController.shutdown)."""
        await self._events.stop()
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

    def _session_changed(self, change: SessionEvent) -> None:
        logger.info("the ZooKeeper session is %s", change.value)
        if change is SessionEvent.EXPIRED:
            self._events.queue.session_lost()
            self._watched.session_lost()

    def _answered(
        self, request: ControlRequest, broker_id: int, broker_epoch: int, response: Message | Columns
    ) -> None:
        if isinstance(response, Columns):  # No handler needs a response to UpdateMetadata.
            self._events.queue.put(event_of_answer(request, broker_id, broker_epoch, response))
