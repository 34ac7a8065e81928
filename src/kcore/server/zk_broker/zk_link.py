"""The link of a ZooKeeper-mode broker to its controller, also while the broker migrates to KRaft (KIP-866)."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Final

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.zk_control.control_requests import ControlRequests
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import ZookeeperError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.server.broker.background_tasks import BackgroundTasks
from kcore.server.broker.broker_connections import Dialer
from kcore.server.broker.broker_request_handlers import is_exempt
from kcore.server.broker.broker_runtime import endpoint_of
from kcore.server.broker.controller_requests import AGAIN_S
from kcore.server.broker.logs import BrokerLogs
from kcore.server.clock import now_ms
from kcore.server.security.request_throttle import RequestThrottle
from kcore.server.zk_broker.migration import BrokerMigration
from kcore.server.zk_broker.topic_settings import ZkTopicSettings
from kcore.server.zk_node.watched_settings import WatchedSettings
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)


class ZkLink:
    """Implements ClusterLink. After `begin_migration` it changes to a quorum's controller when this one takes over."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        logs: BrokerLogs,
        control: ControlRequests,
        manager: ReplicaManager,
        watched: WatchedSettings,
        topics: ZkTopicSettings,
        tasks: BackgroundTasks,
        *,
        dialer: Dialer,
        listener: str,
    ) -> None:
        """`dialer`: for the inter-broker `listener`."""
        self.dialer: Final = dialer
        self.credentials: Final = watched.users
        self.throttle: Final = RequestThrottle(watched.quotas, now_ms, is_exempt)
        self.migration: BrokerMigration | None = None
        self._zookeeper, self._logs, self._control, self._manager = zookeeper, logs, control, manager
        self.topics, self._tasks, self._listener = topics, tasks, listener

    async def begin_migration(self, migration: BrokerMigration, stack: AsyncExitStack) -> None:
        """Registers with the quorum, too; `stack` ends the registration.

        Fetches then have no broker epoch: the quorum's epoch differs (KIP-903).
        """
        await stack.enter_async_context(migration)
        self.migration = migration
        self._control.kraft_broker_epoch = lambda: migration.broker_epoch
        self._manager.fetch_epoch = lambda: UNKNOWN_BROKER_EPOCH
        if len(self._logs.directories.online) < len(self._logs.directories):
            self.report_failed_directories()

    @property
    def _quorum(self) -> BrokerMigration | None:
        """The migration, once a quorum's controller controls the brokers."""
        return self.migration if self._control.is_kraft else None

    def controller(self) -> Endpoint | None:
        if self._quorum is not None:
            return self._quorum.controller()
        return endpoint_of(self._manager, self._listener, self._manager.cluster.controller_id)

    def knows_envelopes(self) -> bool:
        return self._control.is_kraft

    def broker_epoch(self) -> int:
        return self._manager.broker_epoch if self._quorum is None else self._quorum.broker_epoch

    def has_states(self) -> bool:
        return self._control.received_leader_and_isr

    def keep_settings(self, topics: Collection[str]) -> None:
        self.topics.keep_only(topics)

    def report_failed_directories(self) -> None:
        failed = [each.path for each in self._logs.directories if each.failed is not None]
        if self.migration is not None and (why := self.migration.why_failed(failed)) is not None:
            self._tasks.stop(why)
        elif self._logs.directories.online:
            self._tasks.begin(self._notify_controller_of_failure(), "notification of a log directory failure")
        else:
            self._tasks.stop("no log directory is left")

    async def _notify_controller_of_failure(self) -> None:
        path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}"
        event = Create(path, znodes.encode_log_dir_event(self._manager.broker_id), sequential=True)
        while True:  # A repeated notification does no harm; a missing one leaves these partitions without leaders.
            try:
                await self._zookeeper.write([event])
                return
            except ZookeeperError as error:
                logger.warning("notifying the controller of a failed log directory failed: %s; retrying", error)
                await asyncio.sleep(AGAIN_S)

    async def leave_quorum(self) -> bool:
        """Requests a controlled shutdown in heartbeats; False if no quorum's controller controls the brokers."""
        if self._quorum is None:
            return False
        await self._quorum.lifecycle.shut_down()
        return True
