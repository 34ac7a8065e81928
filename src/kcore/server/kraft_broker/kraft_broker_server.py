"""A broker of a KRaft cluster as a process: follows the metadata log, and registers with the active controller.

Source: BrokerServer of 4.3.1.
"""

import asyncio
import logging
from contextlib import AsyncExitStack, ExitStack
from random import SystemRandom
from typing import Self

from kcore.broker.directories.assignments import ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import HeartbeatNow
from kcore.broker.lifecycle.machine import (
    BrokerLifecycle,
    BrokerState,
    LifecycleConfig,
    Registered,
    Started,
    StateChanged,
)
from kcore.broker.lifecycle.registration_fields import features_of, listeners_of
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.releases.known import RELEASES
from kcore.schema.api_versions import ApiVersionsResponse, SupportedFeatureKey
from kcore.schema.broker_lifecycle import Listener
from kcore.server.broker.background_tasks import BackgroundTasks, until_first
from kcore.server.broker.broker_connections import Dialer
from kcore.server.broker.broker_listening import BrokerListening
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers
from kcore.server.broker.broker_runtime import BrokerRuntime, new_replicas
from kcore.server.broker.cluster_link import controller_client
from kcore.server.broker.forwarding import ControllerForwarding
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.replica_moves import MoveHooks, ReplicaMoves
from kcore.server.clock import now_ms, wall_ms
from kcore.server.kraft_broker.directory_tasks import DirectoryHooks, DirectoryTasks
from kcore.server.kraft_broker.image_follower import ImageFollower
from kcore.server.kraft_broker.kraft_broker_request_handlers import KraftBrokerRequestHandlers, apis
from kcore.server.kraft_broker.kraft_broker_settings import KraftBrokerSettings
from kcore.server.kraft_broker.kraft_link import KraftLink
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks
from kcore.server.kraft_broker.metadata_observer import open_log
from kcore.server.pipeline import Route
from kcore.server.security.audit import AuditLog
from kcore.storage.raft.raft_dir import random_directory_id

logger = logging.getLogger(__name__)


class KraftBrokerServer:
    """A KRaft broker; within `async with` it registers, and serves once it has caught up.

    `until_running` waits until it is unfenced. `wait_failed` returns when it must stop.
    """

    def __init__(self, settings: KraftBrokerSettings, audit: AuditLog | None = None) -> None:
        """Opens the logs. StorageError for directories that are not formatted for this node.

        `audit`: gets a line for each request.
        """
        self._settings = settings
        with ExitStack() as opened:
            logs = BrokerLogs(
                *(settings.log_dirs, settings.logs),
                node_id=settings.node_id,
                metadata_dir=settings.metadata_dir,
                in_background=True,
            )
            manager = new_replicas(settings.replicas, logs)
            opened.callback(_close_logs, logs, manager)
            previous_epoch = logs.directories.take_clean_shutdown()
            metadata = open_log(
                *(
                    settings.metadata_dir,
                    settings.node_id,
                    logs.directories.cluster_id,
                    settings.quorum,
                    settings.release,
                ),
                set_aside=settings.logs.set_aside,
            )
            opened.callback(metadata.log.close)
            self.link = KraftLink(
                *(settings, logs.directories.cluster_id, manager, metadata),
                lambda changed: self._follower.follow(is_new=changed.is_new),
                lambda: self.directories.follow_failures(),
            )
            self._compose(manager, logs, previous_epoch, audit)
            self._closing = AsyncExitStack()
            self._closing.enter_context(opened.pop_all())
        self._is_stopping = False

    def _compose(self, manager: ReplicaManager, logs: BrokerLogs, previous_epoch: int, audit: AuditLog | None) -> None:
        settings, link = self._settings, self.link
        self.runtime = BrokerRuntime(
            *(manager, logs, link, BackgroundTasks()),
            dialer=Dialer(settings.listeners.of_brokers.security.outgoing()),
            listener=settings.listeners.inter_broker,
            ordinary_topics=settings.ordinary_topics,
        )
        self.directories, moves = self._new_directories()
        parts = self.runtime.handler_parts()
        mode = KraftBrokerRequestHandlers(
            *(parts, link.config, lambda: link.image, moves, link.configs, link.authorizer)
        )
        self.handlers = BrokerRequestHandlers(parts, mode, link.authorizer)
        identity = logs.directories.cluster_id, settings.node_id
        self.listening = BrokerListening(settings.listeners, self.handlers, link, audit, identity=identity)
        self._registered: list[Listener] = []  # Filled when the ports are known, before the broker registers.
        self.lifecycle = self._new_lifecycle(previous_epoch)
        self._follower = ImageFollower(link, self.runtime, self.directories, self.lifecycle, self.listening.servers)

    async def __aenter__(self) -> Self:
        """OSError for an address in use."""
        tasks, observer = self.runtime.tasks, self.link.observer
        async with self._closing.pop_all() as stack:
            stack.push_async_callback(self.directories.requests.close)
            forwarding = controller_client(self.link, self._settings.node_id, "forwarding")
            policy = ControllerForwarding(forwarding, self.link.authorizer, self._settings.release)
            routes = [Route(policy.takes, policy.ask, policy.refuse)]
            await self.listening.open(stack, apis(self._settings.release), routes, self._with_features)
            self._registered += listeners_of(self._settings.listeners.endpoints(self.listening.ports))
            await stack.enter_async_context(observer.runtime)
            self.runtime.begin()
            tasks.begin(observer.write_snapshots(), "snapshots of the metadata")
            tasks.begin(self._delete_old_segments(), "retention")
            tasks.begin(self.handlers.mode.moves.run(), "moves of replicas")
            stack.callback(forwarding.close)
            stack.push_async_callback(self.runtime.close)
            stack.callback(self._follower.close)
            stack.push_async_callback(self.lifecycle.requests.close)
            self.lifecycle.take(Started())
            self._closing = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Waits until the controller has moved the leaderships away, unless the disks failed; then closes the logs."""
        self._is_stopping = True
        if not self.runtime.tasks.failed.is_set():
            await self.lifecycle.shut_down()
        await self._closing.aclose()

    # Parts.

    def _with_features(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        answer.supported_features = [
            SupportedFeatureKey(name=each, min_version=lowest, max_version=highest)
            for each, (lowest, highest) in sorted(RELEASES[self._settings.release].supported_features.items())
        ]
        return answer

    def _new_directories(self) -> tuple[DirectoryTasks, ReplicaMoves]:
        own, runtime, logs, image = self._settings, self.runtime, self.runtime.logs, self.link.loader.image
        by_path = {each.path.absolute(): each.directory_id for each in logs.directories.online}
        failures = DirectoryFailures(
            [each for each in by_path.values() if each is not None],
            len(logs.directories),
            timeout_ms=own.directory_failure_timeout_ms,
            metadata_directory=by_path.get(own.metadata_dir.absolute()),
        )
        placements = ImagePlacements(image, own.node_id)
        random = SystemRandom()
        machine = BrokerDirectories(own.node_id, failures, placements, lambda: random.uniform(0.98, 1.02))
        channel = controller_client(self.link, own.node_id, "directory-assignments")
        failed, stop = runtime.directories_failed, runtime.tasks.stop
        hooks = DirectoryHooks(now_ms, failed, lambda: self.lifecycle.take(HeartbeatNow()), stop)
        moves = ReplicaMoves(logs, self.runtime.manager, machine, self._move_hooks())
        return DirectoryTasks(machine, logs, placements, channel, hooks, moves), moves

    def _move_hooks(self) -> MoveHooks:
        return MoveHooks(
            lambda: self.link.loader.image,
            lambda directory, why: self.directories.fail(directory, why),
            lambda: self.directories.perform(),
            now_ms,
        )

    def _new_lifecycle(self, previous_epoch: int) -> LifecycleTasks:
        own, logs = self._settings, self.runtime.logs
        config = LifecycleConfig(
            own.node_id,
            logs.directories.cluster_id,
            random_directory_id(),
            self._registered,
            features_of(RELEASES[own.release].supported_features),
            [each.directory_id for each in logs.directories.online if each.directory_id is not None],
            rack=own.rack,
            previous_broker_epoch=previous_epoch,
            **own.lifecycle,
        )
        failures = self.directories.machine.failures
        machine = BrokerLifecycle(config, lambda: self.link.loader.end_offset - 1, failures)
        channel = controller_client(self.link, own.node_id, "heartbeat")
        return LifecycleTasks(machine, channel, now_ms, self._on_lifecycle)

    async def wait_failed(self) -> None:
        """Returns when log directories or the registration failed. Raises the error if the metadata log failed."""
        metadata = self.link.observer.runtime.lifetime
        await until_first(self.runtime.tasks.wait_failed(), self.lifecycle.ended.wait(), metadata.wait_failed())

    async def until_running(self) -> None:
        """Returns when the controller has unfenced the broker."""
        await self.lifecycle.running.wait()

    @property
    def port(self) -> int:
        """The port of the inter-broker listener."""
        return self.listening.port

    # Metrics.

    @property
    def applied_offset(self) -> int:
        """The offset of the last metadata record in the image."""
        return self.link.loader.end_offset - 1

    @property
    def state(self) -> BrokerState:
        return self.lifecycle.machine.state

    # The lifecycle.

    def _on_lifecycle(self, effect: Registered | StateChanged) -> None:
        broker_id = self._settings.node_id
        match effect:
            case Registered(broker_epoch):
                self.runtime.manager.broker_epoch = broker_epoch
                self.directories.registered(broker_epoch)
                logger.info("broker %s is registered with epoch %s", broker_id, broker_epoch)
                self._follower.follow(is_new=False)
            case StateChanged(BrokerState.SHUTTING_DOWN) if not self._is_stopping:
                logger.critical("no controller has registered broker %s in time", broker_id)

    async def _delete_old_segments(self) -> None:
        """Periodically applies the topics' settings of segments, and deletes old segments by retention."""
        runtime, manager, logs = self.runtime, self.runtime.manager, self.runtime.logs
        while True:
            await asyncio.sleep(self._settings.retention_check_ms / 1000)
            if self.link.image is not None:
                for key in [*manager.partitions]:
                    logs.configure(key, manager.settings_of(key[0]))
                failed = logs.delete_old(manager.settings_of, wall_ms())
                runtime.directories_failed(failed or None)
                runtime.perform()


def _close_logs(logs: BrokerLogs, manager: ReplicaManager) -> None:
    epoch = manager.broker_epoch
    logs.close(epoch if epoch >= 0 else None)
