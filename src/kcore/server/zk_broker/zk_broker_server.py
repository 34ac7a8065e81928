"""A ZooKeeper-mode broker as a process: registers in ZooKeeper, and handles control requests of the controller.

Source: KafkaServer of 3.9.1.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.isr_changes import StateWrite
from kcore.broker.replicas.replica import Key
from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS, ControlRequests, KnownController
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import ZookeeperError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znode_tokens, znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.zookeeper.znode_operations import Create, OperationResult, SetData
from kcore.net.security.sasl_mechanisms import Credentials
from kcore.net.server import Relay
from kcore.node.zk.acls import AclAuthorizer, ZkAcls
from kcore.node.zk.admin.configs import settings_of
from kcore.node.zk.admin.tokens import TokenNode
from kcore.protocol_errors import Errors
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.schema import LeaderAndIsrRequest
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.controlled_shutdown import ControlledShutdownRequest
from kcore.schema.structure import Message
from kcore.server.broker.broker_request_handlers import is_exempt
from kcore.server.broker.broker_server import AGAIN_S, BrokerServer, until_first
from kcore.server.broker.forwarding import ControllerRelay, forwarded_apis
from kcore.server.broker.logs import BrokerLogs
from kcore.server.clock import now_ms, wall_ms
from kcore.server.security.request_throttle import RequestThrottle
from kcore.server.zk_broker.broker_throttles import BrokerThrottlesWatcher
from kcore.server.zk_broker.control_request_authorization import ControlRequestAuthorization
from kcore.server.zk_broker.document_relay import DocumentRelay
from kcore.server.zk_broker.migration import BrokerMigration
from kcore.server.zk_broker.migration import Node as MigratingNode
from kcore.server.zk_broker.migration_settings import MigrationSettings
from kcore.server.zk_broker.node_admin import NodeAdmin
from kcore.server.zk_broker.topic_settings import TopicSettingsWatch
from kcore.server.zk_broker.zk_broker_listener_settings import OPEN, ZkBrokerListenerSettings
from kcore.server.zk_broker.zk_broker_request_handlers import (
    APIS,
    ControlPath,
    Forwarded,
    Frames,
    ZkBrokerRequestHandlers,
    with_apis,
)
from kcore.server.zk_broker.zk_security_requests import SecurityAdmin
from kcore.server.zk_node.acl_watcher import AclWatcher
from kcore.server.zk_node.client_quotas import ClientQuotasWatcher
from kcore.server.zk_node.credentials import CredentialsWatcher
from kcore.server.zk_node.document_routing import DocumentRouting, with_bumped
from kcore.server.zk_node.notification_watcher import NotificationWatcher
from kcore.server.zk_node.relay import BrokerRelay
from kcore.types import Uuid
from kcore.wire.column_codec import decode_columns
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.registration import register_broker
from kcore.zookeeper.session import SessionEvent

logger = logging.getLogger(__name__)
SHUTDOWN_TRIES: Final = 3  # controlled.shutdown.max.retries
SHUTDOWN_BACKOFF_S: Final = 5.0  # controlled.shutdown.retry.backoff.ms
KRAFT_SHUTDOWN_S: Final = 30.0  # The time-out with a quorum's controller; Kafka waits for five minutes.


class ZkBrokerServer(BrokerServer):
    """A ZooKeeper-mode broker; within `async with` it is registered and serves."""

    _of_nodes = frozenset(CONTROL_REQUESTS)

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
        **options: Any,
    ) -> None:
        """`listener_settings`: listeners and authorizer. `routing`: forwards mutations as KIP-590's document describes.

        `migration`: the quorum to which the broker migrates (KIP-866). `options`: see BrokerServer.
        """
        super().__init__(config, log_dirs, listeners=listener_settings.listeners, **options)
        self._acls, self._listener_settings = ZkAcls(), listener_settings
        self._authorizer = (
            None if listener_settings.authorizer is None else AclAuthorizer(listener_settings.authorizer, self._acls)
        )
        self._is_routed = routing is not None and routing.is_on(config.inter_broker_protocol)
        self._session_s = session_timeout_ms / 1000
        self._zookeeper = ZookeeperClient(
            zookeeper,
            session_timeout_s=self._session_s,
            connect_timeout_s=self._session_s,
            on_session=self._session_changed,
        )
        self._users = CredentialsWatcher(self._zookeeper, listener_settings.tokens.secret_key)
        self._quotas = ClientQuotasWatcher(self._zookeeper)
        self._watchers: list[NotificationWatcher] = [
            self._quotas,
            *([self._users] if listener_settings.has_users else []),
        ]
        if self._authorizer is not None:
            self._watchers.append(AclWatcher(self._zookeeper, self._acls))
        self._migration_settings = migration
        self._migration: BrokerMigration | None = None

    async def __aenter__(self) -> Self:
        # Logs first: recovery may outlast a session, and a broker with unusable directories needs no session.
        self.logs = BrokerLogs(self._log_dirs, self._settings)
        async with AsyncExitStack() as stack:
            opened = stack.enter_context(ExitStack())
            opened.callback(self.logs.close)
            await stack.enter_async_context(self._zookeeper)
            stack.callback(opened.pop_all().close)  # Logs are closed before the session and its znode end.
            has_tokens = self._listener_settings.tokens.secret_key is not None
            for path in (*znodes.PERSISTENT_PATHS, *(znode_tokens.PERSISTENT_PATHS if has_tokens else ())):
                await self._zookeeper.make_path(path)
            cluster_id = await self._cluster_id()
            self.logs.claim(self.config.broker_id, cluster_id)
            if self._migration_settings is not None:
                self.logs.identify_migrating(self._metadata_dir)
            self._compose()
            self._watchers.append(BrokerThrottlesWatcher(self._zookeeper, self.manager))
            self._open_handlers(cluster_id)
            for watcher in self._watchers:
                await watcher.open()
            await self._serve(stack)
            await self._register()
            await self._migrate(stack, cluster_id)
            self._begin_work()
            self._begin(self._topics.follow_changes(), "topics' configurations")
            for watcher in self._watchers:
                self._begin(watcher.follow(), watcher.subject)
            stack.push_async_callback(self._end_work)
            self._closing = stack.pop_all()
        return self

    def _open_handlers(self, cluster_id: str) -> None:
        manager = self.manager
        self.control = ControlRequests(manager)
        self._control_authorization = ControlRequestAuthorization(
            self._current_controller,
            self._zookeeper,
            authorizer=self._authorizer,
            listener=self._listener_settings.control_plane,
        )
        admin = NodeAdmin(manager, self._zookeeper, self.listeners.inter_broker, self._advertised_settings())
        of_brokers = self.listeners.of_brokers.security.outgoing()
        relay = BrokerRelay(admin.addresses_of_coordinators, frozenset, lambda: None, only=(), security=of_brokers)
        handlers = self.handlers = ZkBrokerRequestHandlers(
            *(manager, self.logs, cluster_id, admin, self._security(admin), relay.forward),
            authorizer=self._authorizer,
            **self._callbacks(),
        )
        handlers.is_migrated = lambda: self.control.is_kraft
        self._topics = TopicSettingsWatch(self._zookeeper, manager, now_ms, self.perform)

    def _security(self, admin: NodeAdmin) -> SecurityAdmin:
        acls = None if self._authorizer is None else self._acls
        tokens = TokenNode(self._listener_settings.tokens, lambda: Uuid(uuid.uuid4().bytes), set())
        is_migrating = self._migration_settings is not None
        return SecurityAdmin(admin.perform, acls, tokens, self._authorizer, wall_ms, is_migrating)

    def _advertised_settings(self) -> dict[str, str]:
        """The broker's own settings that DescribeConfigs shows."""
        dirs = {"log.dirs": ",".join(str(path.absolute()) for path in self._log_dirs)}
        return {**settings_of(self.config, ["protocol"]), **dirs}

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Opens the listeners, all with the same APIs; control requests are checked later."""
        frames: Relay = Frames(ControlPath(self._control), self._forwarded())
        if self._is_routed:
            frames = DocumentRelay(self._controller, frames, self._dialer, self.handlers.is_node)
        await self._listen(stack, APIS, frames, self._advertised)

    def _advertised(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        if self._migration_settings is not None:
            answer = with_apis(answer, forwarded_apis(ZOOKEEPER_RELEASE))
        return with_bumped(answer) if self._is_routed else answer

    def _forwarded(self) -> Forwarded | None:
        """The relay to the quorum's controller, used once it controls the brokers; None unless the broker migrates."""
        if self._migration_settings is None:
            return None
        self._forwarding = self._to_controller("forwarding")
        relay = ControllerRelay(self._forwarding, self._authorizer, ZOOKEEPER_RELEASE)
        return Forwarded(relay, lambda: self.control.is_kraft)

    async def __aexit__(self, *_: object) -> None:
        """Waits for the controlled shutdown, unless the disks failed. Then closes the logs, and deletes the znode."""
        if not self._failed.is_set() and self.manager.cluster.controller_id >= 0:
            await self._controlled_shutdown()
        await self._closing.aclose()

    # The migration to KRaft.

    @property
    def _metadata_dir(self) -> Path:
        given = None if self._migration_settings is None else self._migration_settings.metadata_dir
        return given or self._log_dirs[0]

    async def _migrate(self, stack: AsyncExitStack, cluster_id: str) -> None:
        """Registers with the quorum, too. Fetches then have no broker epoch: the quorum's epoch differs (KIP-903)."""
        if self._migration_settings is None:
            return
        ids = {each.path: each.directory_id for each in self.logs.directories if each.directory_id is not None}
        node = MigratingNode(
            self.config, cluster_id, self.listeners.endpoints(self.ports), self._rack, ids, self._metadata_dir
        )
        made = self._migration = BrokerMigration(self._migration_settings, node, now_ms)
        await stack.enter_async_context(made)
        self.control.kraft_broker_epoch = lambda: made.broker_epoch
        self.manager.fetch_epoch = lambda: UNKNOWN_BROKER_EPOCH
        stack.callback(self._forwarding.close)
        if len(self.logs.online) < len(self.logs.directories):
            self._report_failed_directories()

    def _broker_epoch(self) -> int:
        if self.control.is_kraft and self._migration is not None:
            return self._migration.broker_epoch
        return self.manager.broker_epoch

    async def wait_failed(self) -> None:
        """Returns when the broker must stop because log directories failed. Raises an error of the metadata log."""
        await until_first(super().wait_failed(), *([] if self._migration is None else [self._migration.wait_failed()]))

    # ZooKeeper.

    async def _cluster_id(self) -> str:
        """The cluster id in ZooKeeper, which the first broker of a cluster creates."""
        made = str(Uuid(uuid.uuid4().bytes))
        await self._zookeeper.make_path(str(PurePosixPath(znodes.CLUSTER_ID).parent))
        await self._zookeeper.write([Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(made))])
        [node] = await self._zookeeper.read_nodes([znodes.CLUSTER_ID])
        assert node is not None
        return znodes.decode_cluster_id(node.data)

    async def _register(self) -> None:
        """Creates the broker's znode, whose czxid is the broker epoch (KIP-380).

        Waits until the znode of an earlier session has expired; Kafka's broker exits in this case.
        """
        endpoints = self.listeners.endpoints(self.ports)
        version = 5 if self.config.has_alter_partition else 4
        node = BrokerNode(endpoints, self._rack, version=version, coordinates=False)
        data = encode_broker(node, wall_ms())
        give_up_s = time.monotonic() + self._session_s + 5.0
        while True:
            try:
                epoch = await register_broker(self._zookeeper, self.config.broker_id, data)
                break
            except ZookeeperError as error:
                if time.monotonic() > give_up_s:
                    raise
                logger.info("not registered yet: %s", error)
                await asyncio.sleep(AGAIN_S)
        self.manager.broker_epoch = epoch
        addresses = ", ".join(f"{each.listener} {each.host}:{each.port}" for each in endpoints)
        logger.info("broker %s is registered with epoch %s at %s", self.config.broker_id, epoch, addresses)

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            for watcher in self._watchers:
                watcher.session_lost()
        if event is SessionEvent.EXPIRED and self._tasks:
            logger.warning("the ZooKeeper session has expired; registering again")
            self._begin(self._register_again(), "registering again")

    async def _register_again(self) -> None:
        while True:
            with suppress(ZookeeperError):
                await self._register()
                await self._topics.begin()
                return
            await asyncio.sleep(AGAIN_S)

    # The controller.

    def _controller(self) -> Endpoint | None:
        if self.control.is_kraft and self._migration is not None:
            return self._migration.controller()
        return self._endpoint(self.manager.cluster.controller_id)

    def _controller_knows_envelopes(self) -> bool:
        return self.control.is_kraft

    def _credentials(self) -> Credentials:
        return self._users

    def _throttle(self) -> RequestThrottle:
        return RequestThrottle(self._quotas, now_ms, is_exempt)

    def _current_controller(self) -> KnownController:
        controller_id = self.manager.cluster.controller_id
        if controller_id < 0:
            return KnownController(self.control.controller_epoch, None)
        return KnownController(self.control.controller_epoch, controller_id, self.control.is_kraft)

    def _may_checkpoint(self) -> bool:
        return self.control.received_leader_and_isr

    def _checkpointed(self) -> None:
        self._topics.keep_only({topic for topic, _ in self.manager.partitions})

    async def _control(self, message: type[Message], version: int, body: memoryview) -> bytes:
        self._control_authorization.check_size(message, len(body))
        request = decode_columns(message, version, body)
        refused = await self._control_authorization.refusal(request)
        if refused is not Errors.NONE:
            return self.control.answer_columns(message, version, request, now_ms(), refused)
        if message is LeaderAndIsrRequest:  # Read the topics' settings before a replica leads.
            await self._topics.learn({*request.topic_states.topic_name})
        answer = self.control.answer_columns(message, version, request, now_ms())
        self.perform()
        if message is LeaderAndIsrRequest:
            self._warn_of_internal_topics()
        return answer

    def _report_failed_directories(self) -> None:
        failed = [each.path for each in self.logs.directories if each.failed is not None]
        if self._migration is not None and (why := self._migration.why_failed(failed)) is not None:
            self._stop(why)
        elif self.logs.online:
            self._begin(self._notify_controller_of_failure(), "notification of a log directory failure")
        else:
            self._stop("no log directory is left")

    async def _notify_controller_of_failure(self) -> None:
        path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}"
        event = Create(path, znodes.encode_log_dir_event(self.config.broker_id), sequential=True)
        while True:  # A repeated notification does no harm; a missing one leaves these partitions without leaders.
            try:
                await self._zookeeper.write([event])
                return
            except ZookeeperError as error:
                logger.warning("notifying the controller of a failed log directory failed: %s; retrying", error)
                await asyncio.sleep(AGAIN_S)

    # Requests to the controller.

    async def _settle_isrs(self) -> None:
        """Sends AlterPartition; for a protocol before KIP-497, writes the partition states to ZooKeeper."""
        if self.config.has_alter_partition:
            await super()._settle_isrs()
            return
        versions = await write_isrs(self._zookeeper, self.manager.isr_changes.next_writes())
        self.manager.on_states_written(versions, now_ms())

    async def _controlled_shutdown(self) -> None:
        """Requests controlled shutdown, with the newest broker epoch in each try (KIP-380).

        A quorum's controller gets the request in heartbeats.
        """
        if self.control.is_kraft and self._migration is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(KRAFT_SHUTDOWN_S):
                    await self._migration.controlled_shutdown()
                    logger.info("controlled shutdown: all leaders are moved")
                    return
            logger.warning("controlled shutdown did not succeed within %s s", KRAFT_SHUTDOWN_S)
            return
        for tried in range(SHUTDOWN_TRIES):
            if tried:
                await asyncio.sleep(SHUTDOWN_BACKOFF_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session_s):
                    answer = await self._channel.ask(self._shutdown_request)
                    if answer.error_code == Errors.NONE and not answer.remaining_partitions:
                        logger.info("controlled shutdown: all leaders are moved")
                        return
                    left = len(answer.remaining_partitions)
                    logger.info("controlled shutdown: error %s, %s leaders left", answer.error_code, left)
        logger.warning("controlled shutdown did not succeed")

    def _shutdown_request(self, choose: Callable[[type[Message]], int]) -> tuple[Message, int]:
        request = ControlledShutdownRequest(broker_id=self.config.broker_id, broker_epoch=self.manager.broker_epoch)
        return request, choose(ControlledShutdownRequest)


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
