"""A ZooKeeper-mode broker as a process: registers in ZooKeeper, and handles control requests of the controller.

Source: KafkaServer of 3.9.1.
"""

import logging
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.zk_control.control_requests import ControlRequests
from kcore.node.zk.admin.configs import settings_of
from kcore.node.zk.admin.tokens import TokenNode
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.server.broker.background_tasks import BackgroundTasks, until_first
from kcore.server.broker.broker_connections import ControllerClient, Dialer
from kcore.server.broker.broker_listening import BrokerListening
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers
from kcore.server.broker.broker_runtime import BrokerRuntime, new_replicas
from kcore.server.broker.cluster_link import controller_client
from kcore.server.broker.forwarding import ControllerForwarding, forwarded_apis
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.topic_creation import OrdinaryTopics
from kcore.server.clock import now_ms, wall_ms
from kcore.server.pipeline import Route
from kcore.server.security.audit import AuditLog
from kcore.server.zk_broker.broker_throttles import BrokerThrottles
from kcore.server.zk_broker.control_request_receiver import ControlRequestReceiver
from kcore.server.zk_broker.controlled_shutdown import controlled_shutdown
from kcore.server.zk_broker.document_forwarding import DocumentForwarding
from kcore.server.zk_broker.isr_writes import settle_isrs
from kcore.server.zk_broker.migration import BrokerMigration
from kcore.server.zk_broker.migration import Node as MigratingNode
from kcore.server.zk_broker.migration_settings import MigrationSettings
from kcore.server.zk_broker.node_admin import NodeAdmin
from kcore.server.zk_broker.topic_settings import ZkTopicSettings
from kcore.server.zk_broker.zk_broker_listener_settings import OPEN, ZkBrokerListenerSettings
from kcore.server.zk_broker.zk_broker_request_handlers import (
    APIS,
    ZkBrokerRequestHandlers,
    with_apis,
)
from kcore.server.zk_broker.zk_link import ZkLink
from kcore.server.zk_broker.zk_registration import ZkRegistration, cluster_id_in
from kcore.server.zk_broker.zk_security_requests import SecurityAdmin
from kcore.server.zk_node.document_routing import DocumentRouting, with_bumped
from kcore.server.zk_node.relay import BrokerRelay
from kcore.server.zk_node.watched_settings import WatchedSettings
from kcore.storage.log.live_log import Settings
from kcore.types import Uuid
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.session import SessionEvent

logger = logging.getLogger(__name__)


class ZkBrokerServer:
    """A ZooKeeper-mode broker; within `async with` it is registered and serves. `wait_failed` returns at its end."""

    def __init__(
        self,
        config: BrokerConfig,
        zookeeper: str,
        log_dirs: Sequence[Path],
        *,
        session_timeout_ms: int = 18_000,
        listener_settings: ZkBrokerListenerSettings = OPEN,
        routing: DocumentRouting | None = None,
        migration: MigrationSettings | None = None,
        rack: str | None = None,
        settings: Settings | None = None,
        ordinary_topics: OrdinaryTopics | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """`listener_settings`: listeners and authorizer. `routing`: forwards mutations as KIP-590's document describes.

        `migration`: the quorum to which the broker migrates (KIP-866). `settings`: of the logs. `ordinary_topics`: see
        TopicCreation. `audit`: gets a line for each request.
        """
        self._settings, self._migration = listener_settings, migration
        self._is_routed = routing is not None and routing.is_on(config.inter_broker_protocol)
        session_s = session_timeout_ms / 1000
        # Logs first: recovery may outlast a session, and a broker with unusable directories needs no session.
        with ExitStack() as opened:
            logs = BrokerLogs(log_dirs, settings, in_background=True)
            opened.callback(logs.close)
            self._zookeeper = ZookeeperClient(
                zookeeper, session_timeout_s=session_s, connect_timeout_s=session_s, on_session=self._session_changed
            )
            manager = new_replicas(config, logs)
            self.control = ControlRequests(manager)
            topics = ZkTopicSettings(self._zookeeper, manager, now_ms, lambda: self.runtime.perform())
            self.watched = WatchedSettings(
                *(self._zookeeper, topics, BrokerThrottles(self._zookeeper, manager)),
                settings=listener_settings.authorizer,
                secret_key=listener_settings.tokens.secret_key,
                has_users=listener_settings.has_users,
            )
            self.link, self.runtime = self._new_runtime(manager, logs, topics, ordinary_topics)
            self.handlers = self._new_handlers(log_dirs)
            self.listening = BrokerListening(listener_settings.listeners, self.handlers, self.link, audit)
            self._registration = ZkRegistration(*(self._zookeeper, manager, self.listening), rack, session_s)
            self._closing = AsyncExitStack()
            self._closing.enter_context(opened.pop_all())

    def _new_runtime(
        self,
        manager: ReplicaManager,
        logs: BrokerLogs,
        topics: ZkTopicSettings,
        ordinary_topics: OrdinaryTopics | None,
    ) -> tuple[ZkLink, BrokerRuntime]:
        zookeeper, listeners, tasks = self._zookeeper, self._settings.listeners, BackgroundTasks()
        dialer, listener = Dialer(listeners.of_brokers.security.outgoing()), listeners.inter_broker
        link = ZkLink(
            *(zookeeper, logs, self.control, manager, self.watched, topics, tasks), dialer=dialer, listener=listener
        )
        runtime = BrokerRuntime(
            *(manager, logs, link, tasks),
            dialer=dialer,
            listener=listener,
            ordinary_topics=ordinary_topics,
            write_isrs=None if manager.config.has_alter_partition else partial(settle_isrs, zookeeper, manager),
        )
        return link, runtime

    def _new_handlers(self, log_dirs: Sequence[Path]) -> BrokerRequestHandlers[ZkBrokerRequestHandlers]:
        manager, listeners = self.runtime.manager, self._settings.listeners
        # The broker's own settings that DescribeConfigs shows.
        dirs = {"log.dirs": ",".join(str(path.absolute()) for path in log_dirs)}
        shown = {**settings_of(manager.config, ["protocol"]), **dirs}
        admin = NodeAdmin(manager, self._zookeeper, listeners.inter_broker, shown)
        of_brokers = listeners.of_brokers.security.outgoing()
        relay = BrokerRelay(admin.addresses_of_coordinators, frozenset, lambda: None, only=(), security=of_brokers)
        parts = self.runtime.handler_parts()
        mode = ZkBrokerRequestHandlers(
            *(parts, admin, self._security(admin), relay.forward), is_migrated=lambda: self.control.is_kraft
        )
        return BrokerRequestHandlers(parts, mode, self.watched.authorizer)

    def _security(self, admin: NodeAdmin) -> SecurityAdmin:
        watched = self.watched
        acls = None if watched.authorizer is None else watched.acls
        tokens = TokenNode(self._settings.tokens, lambda: Uuid(uuid.uuid4().bytes), set())
        return SecurityAdmin(admin.perform, acls, tokens, watched.authorizer, wall_ms, self._migration is not None)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(self._closing.pop_all())
            await stack.enter_async_context(self._zookeeper)
            stack.push_async_exit(opened.pop_all())  # Logs are closed before the session and its znode end.
            await self.watched.make_paths()
            self.runtime.logs.directories.claim(self.runtime.manager.broker_id, await cluster_id_in(self._zookeeper))
            if self._migration is not None:
                self.runtime.logs.directories.identify_migrating(self._metadata_dir)
            await self.watched.open()
            forwarding = None
            if self._migration is not None:
                forwarding = controller_client(self.link, self.runtime.manager.broker_id, "forwarding")
            await self._serve(stack, forwarding)
            await self._registration.register()
            await self._migrate(stack)
            if forwarding is not None:
                stack.callback(forwarding.close)
            tasks = self.runtime.tasks
            self.runtime.begin()
            for watcher in self.watched:
                tasks.begin(watcher.follow(), watcher.data.subject)
            stack.push_async_callback(self.runtime.close)
            self._closing = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Waits for the controlled shutdown, unless the disks failed. Then closes the logs, and deletes the znode."""
        if not self.runtime.tasks.failed.is_set() and self.runtime.manager.cluster.controller_id >= 0:
            await self._controlled_shutdown()
        await self._closing.aclose()

    async def _controlled_shutdown(self) -> None:
        """A quorum's controller gets the request in heartbeats, a ZooKeeper-mode controller as ControlledShutdown."""
        if not await self.link.leave_quorum():
            await controlled_shutdown(self.runtime.requests.channel, self.runtime.manager, self._registration.session_s)

    async def wait_failed(self) -> None:
        """Returns when the broker must stop because log directories failed. Raises an error of the metadata log."""
        migration = self.link.migration
        await until_first(self.runtime.tasks.wait_failed(), *([] if migration is None else [migration.wait_failed()]))

    @property
    def port(self) -> int:
        """The port of the inter-broker listener."""
        return self.listening.port

    # Requests.

    async def _serve(self, stack: AsyncExitStack, forwarding: ControllerClient | None) -> None:
        """Opens the listeners, all with the same APIs."""
        receiver = ControlRequestReceiver(
            *(self.control, self.runtime, self.link.topics, self._zookeeper),
            *(self.watched.authorizer, self._settings.control_plane),
        )
        routes = [Route(receiver.takes, receiver.ask, is_of_nodes=True)]
        if forwarding is not None:  # The migrating broker forwards requests once the quorum controls the brokers.
            policy = ControllerForwarding(forwarding, self.watched.authorizer, ZOOKEEPER_RELEASE)
            takes = partial(self._is_forwarded, policy)
            routes.insert(0, Route(takes, policy.ask, policy.refuse))
        if self._is_routed:
            document = DocumentForwarding(self.link.controller, self.handlers.is_node, self.link.dialer)
            routes.insert(0, Route(document.takes, document.ask))
        await self.listening.open(stack, APIS, routes, self._advertised)

    def _is_forwarded(self, policy: ControllerForwarding, api_key: int, version: int) -> bool:
        return self.control.is_kraft and policy.takes(api_key, version)

    def _advertised(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        if self._migration is not None:
            answer = with_apis(answer, forwarded_apis(ZOOKEEPER_RELEASE))
        return with_bumped(answer) if self._is_routed else answer

    # ZooKeeper, and the migration to KRaft.

    @property
    def _metadata_dir(self) -> Path:
        given = None if self._migration is None else self._migration.metadata_dir
        return given or self.runtime.logs.directories[0].path

    async def _migrate(self, stack: AsyncExitStack) -> None:
        """Registers with the quorum, too."""
        if self._migration is None:
            return
        directories, own = self.runtime.logs.directories, self._registration
        ids = {each.path: each.directory_id for each in directories if each.directory_id is not None}
        config, metadata_dir = self.runtime.manager.config, self._metadata_dir
        node = MigratingNode(config, directories.cluster_id, own.endpoints, own.rack, ids, metadata_dir)
        await self.link.begin_migration(BrokerMigration(self._migration, node, now_ms), stack)

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self.watched.session_lost()
            if len(self.runtime.tasks):
                logger.warning("the ZooKeeper session has expired; registering again")
                self.runtime.tasks.begin(self._registration.register_again(), "registering again")
