"""A broker of a KRaft cluster as a process: follows the metadata log, and registers with the active controller.

Source: BrokerServer, BrokerMetadataPublisher, BrokerRegistrationTracker of 4.3.1.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from random import SystemRandom
from typing import Final, Self

from kcore.broker.directories.assignments import ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import HeartbeatNow
from kcore.broker.lifecycle.machine import (
    BrokerLifecycle,
    BrokerState,
    DirectoriesCordoned,
    LifecycleConfig,
    ReadyToUnfence,
    RegisterAgain,
    Registered,
    ShutdownRequested,
    Started,
    StateChanged,
)
from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader
from kcore.broker.metadata_delta.publisher import MetadataPublisher
from kcore.broker.replicas.replica import Key, Replica
from kcore.constants import KRAFT_VERSION
from kcore.errors import DisconnectedError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connection_metrics import Metrics
from kcore.node.kraft.image_indexes import ImageAuthorizer
from kcore.node.kraft.snapshot_slices import SnapshotNeed
from kcore.releases.known import RELEASES
from kcore.schema.api_versions import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from kcore.server.broker.broker_connections import Dialer
from kcore.server.broker.broker_request_handlers import is_exempt
from kcore.server.broker.broker_server import BrokerServer, until_first
from kcore.server.broker.forwarding import ControllerRelay
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.replica_moves import Hooks as MoveHooks
from kcore.server.broker.replica_moves import ReplicaMoves
from kcore.server.clock import now_ms, wall_ms
from kcore.server.kraft_broker.directory_tasks import DirectoryTasks, Hooks
from kcore.server.kraft_broker.kraft_broker_request_handlers import NOT_YET, KraftBrokerRequestHandlers, apis
from kcore.server.kraft_broker.kraft_broker_settings import KraftBrokerSettings
from kcore.server.kraft_broker.kraft_configs import BrokerConfigs
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks, features_of, listeners_of
from kcore.server.kraft_broker.metadata_observer import MetadataObserver, controller_endpoint, open_log
from kcore.server.security.log_credentials import LogCredentials
from kcore.server.security.request_throttle import KnownByImage, RequestThrottle
from kcore.storage.raft.raft_dir import random_directory_id
from kcore.types import Uuid

logger = logging.getLogger(__name__)
CORDONED_BY_DEFAULT: Final = (
    "all log directories are cordoned, because this broker coordinates no groups and no transactions: controllers "
    "place no replicas here, and from 4.4.0 on refuse manual assignments; to get replicas, set cordoned.log.dirs to an "
    "empty list"
)
SHUTDOWN_S: Final = 30.0  # The time-out of a controlled shutdown; Kafka waits for five minutes.


class KraftBrokerServer(BrokerServer):
    """A KRaft broker; within `async with` it registers, and serves once it has caught up.

    `until_running` waits until it is unfenced. `wait_failed` returns when it must stop.
    """

    def __init__(self, settings: KraftBrokerSettings) -> None:
        self._kraft = settings
        self._to_controllers = Dialer(settings.controllers.outgoing())
        super().__init__(
            settings.replicas,
            settings.log_dirs,
            listeners=settings.listeners,
            rack=settings.rack,
            settings=settings.logs,
            ordinary_topics=settings.ordinary_topics,
        )
        self.network = Metrics()  # The metrics of the listeners.
        self._running = asyncio.Event()
        self._is_ready = False  # True once the broker has asked to be unfenced.
        self._is_stopping = False
        self._is_following = True  # False once the logs are about to be closed.

    async def __aenter__(self) -> Self:
        """StorageError for directories that are not formatted for this node, OSError for an address in use."""
        own = self._kraft
        self.logs = BrokerLogs(own.log_dirs, own.logs, node_id=own.node_id, metadata_dir=own.metadata_dir)
        async with AsyncExitStack() as stack:
            stack.callback(self._close_logs)
            previous_epoch = self.logs.take_clean_shutdown()
            metadata = open_log(
                *(own.metadata_dir, own.node_id, self.logs.cluster_id, own.quorum, own.release),
                set_aside=own.logs.set_aside,
            )
            stack.callback(metadata.log.close)
            self._loader = MetadataLoader(RELEASES[own.release])
            self._node_config = own.node_config(self.logs.cluster_id)
            self._authorizer = (
                ImageAuthorizer(self._node_config, self._known) if self._node_config.has_authorizer else None
            )
            need = SnapshotNeed(self._node_config)
            self._observer = MetadataObserver(
                metadata, self._loader, self._on_image, need, own.controllers, own.release
            )
            self._compose()
            self.directories = self._new_directories()
            stack.push_async_callback(self.directories.close)
            self._open_handlers()
            await self._serve(stack)
            self._lifecycle = self._new_lifecycle(previous_epoch)
            await stack.enter_async_context(self._observer.runtime)
            self._begin_work()
            self._begin(self._observer.write_snapshots(), "snapshots of the metadata")
            self._begin(self._delete_old_segments(), "retention")
            self._begin(self._moves.run(), "moves of replicas")
            stack.push_async_callback(self._end_work)
            stack.push_async_callback(self._lifecycle.close)
            self._lifecycle.take(Started())
            self._closing = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Waits until the controller has moved the leaderships away, unless the disks failed; then closes the logs."""
        self._is_stopping = True
        if not self._failed.is_set():
            self._lifecycle.take(ShutdownRequested())
            with suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_S):
                    await self._lifecycle.ended.wait()
                    logger.info("controlled shutdown: all leaders are moved")
            if not self._lifecycle.ended.is_set():
                logger.warning("controlled shutdown did not succeed within %s s", SHUTDOWN_S)
        await self._closing.aclose()

    def _close_logs(self) -> None:
        epoch = self.manager.broker_epoch if hasattr(self, "manager") else -1
        self.logs.close(epoch if epoch >= 0 else None)

    # Parts.

    def _open_handlers(self) -> None:
        self._configs = BrokerConfigs(self._node_config, self.manager, now_ms)
        self._publisher: MetadataPublisher | None = None
        self._image: ClusterImage | None = None  # The image that the replicas follow.
        self._published = 0  # The replicas have all records below this offset.
        handlers = self.handlers = KraftBrokerRequestHandlers(
            *(self.manager, self.logs, self._node_config, lambda: self._image),
            authorizer=self._authorizer,
            **self._callbacks(),
        )
        handlers.moves, handlers.configs = self._moves, self._configs

    async def _serve(self, stack: AsyncExitStack) -> None:
        self._forwarding, release = self._to_controller("forwarding"), self._kraft.release
        relay = ControllerRelay(self._forwarding, self._authorizer, release)
        await self._listen(stack, apis(release), relay, self._with_features, self.network)

    def _with_features(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        answer.supported_features = [
            SupportedFeatureKey(name=each, min_version=lowest, max_version=highest)
            for each, (lowest, highest) in sorted(RELEASES[self._kraft.release].supported_features.items())
        ]
        return answer

    def _controller_dialer(self) -> Dialer:
        return self._to_controllers

    def _credentials(self) -> LogCredentials:
        return LogCredentials(self._known, self._node_config.delegation_token_secret_key, lambda: True)

    def _throttle(self) -> RequestThrottle:
        config = self._node_config
        windows = config.quota_window_num, config.quota_window_size_seconds
        return RequestThrottle(KnownByImage(lambda: self._image), now_ms, is_exempt, *windows)

    def _identity(self) -> tuple[str, int]:
        return self.logs.cluster_id, self.config.broker_id

    def _known(self) -> ClusterImage:
        """The image; DisconnectedError until it is complete, because clients do not retry a failed authentication."""
        if self._image is None:
            raise DisconnectedError(NOT_YET)
        return self._loader.image

    def _new_directories(self) -> DirectoryTasks:
        own, by_path = self._kraft, {each.path.absolute(): each.directory_id for each in self.logs.online}
        failures = DirectoryFailures(
            [each for each in by_path.values() if each is not None],
            len(self.logs.directories),
            timeout_ms=own.directory_failure_timeout_ms,
            metadata_directory=by_path.get(own.metadata_dir.absolute()),
        )
        placements = ImagePlacements(self._loader.image, own.node_id)
        random = SystemRandom()
        machine = BrokerDirectories(own.node_id, failures, placements, lambda: random.uniform(0.98, 1.02))
        channel = self._to_controller("directory-assignments")
        hooks = Hooks(now_ms, self._directories_failed, lambda: self._lifecycle.take(HeartbeatNow()), self._stop)
        tasks = DirectoryTasks(machine, self.logs, placements, channel, hooks)
        tasks.moves = self._moves = ReplicaMoves(
            self.logs, self.manager, machine, MoveHooks(lambda: self._loader.image, tasks.fail, tasks.perform, now_ms)
        )
        return tasks

    def _new_lifecycle(self, previous_epoch: int) -> LifecycleTasks:
        config = LifecycleConfig(
            self.config.broker_id,
            self.logs.cluster_id,
            random_directory_id(),
            listeners_of(self.listeners.endpoints(self.ports)),
            features_of(RELEASES[self._kraft.release].supported_features),
            [each.directory_id for each in self.logs.online if each.directory_id is not None],
            rack=self._rack,
            previous_broker_epoch=previous_epoch,
            **self._kraft.lifecycle,
        )
        failures = self.directories.machine.failures
        machine = BrokerLifecycle(config, lambda: self._loader.end_offset - 1, failures)
        channel = self._to_controller("heartbeat")
        return LifecycleTasks(machine, channel, now_ms, self._on_lifecycle)

    async def _end_work(self) -> None:
        """Stops following the metadata log before the replicas' logs are closed."""
        self._is_following = False
        await super()._end_work()
        self._forwarding.close()

    async def wait_failed(self) -> None:
        """Returns when log directories or the registration failed. Raises the error if the metadata log failed."""
        metadata = self._observer.runtime.lifetime
        await until_first(super().wait_failed(), self._lifecycle.ended.wait(), metadata.wait_failed())

    async def until_running(self) -> None:
        """Returns when the controller has unfenced the broker."""
        await self._running.wait()

    # Metrics.

    @property
    def image(self) -> ClusterImage | None:
        """The image that the replicas follow; None before the broker is registered."""
        return self._image

    @property
    def applied_offset(self) -> int:
        """The offset of the last metadata record in the image."""
        return self._loader.end_offset - 1

    @property
    def state(self) -> BrokerState:
        return self._lifecycle.machine.state

    # The lifecycle.

    def _on_lifecycle(self, effect: Registered | StateChanged) -> None:
        match effect:
            case Registered(broker_epoch):
                self.manager.broker_epoch = broker_epoch
                self.directories.registered(broker_epoch)
                logger.info("broker %s is registered with epoch %s", self.config.broker_id, broker_epoch)
                self._follow_image(is_new=False)
            case StateChanged(state):
                if state is BrokerState.RUNNING:
                    self._running.set()
                elif state is BrokerState.SHUTTING_DOWN and not self._is_stopping:
                    logger.critical("no controller has registered broker %s in time", self.config.broker_id)

    def _report_failed_directories(self) -> None:
        self.directories.follow_failures()

    # The metadata log.

    def _controller(self) -> Endpoint | None:
        return controller_endpoint(self._observer.runtime, self._kraft.controllers)

    def _may_checkpoint(self) -> bool:
        return self._image is not None

    def _checkpointed(self) -> None:
        self._configs.keep_only({topic for topic, _ in self.manager.partitions})

    async def _delete_old_segments(self) -> None:
        """Periodically applies the topics' settings of segments, and deletes old segments by retention."""
        while True:
            await asyncio.sleep(self._kraft.retention_check_ms / 1000)
            if self._image is not None:
                for key in [*self.manager.partitions]:
                    self.logs.configure(key, self.manager.settings_of(key[0]))
                failed = self.logs.delete_old(self.manager.settings_of, wall_ms())
                self._directories_failed(failed or None)
                self.perform()

    def _on_image(self, changed: ImageChanged) -> None:
        self._follow_image(is_new=changed.is_new)

    def _follow_image(self, *, is_new: bool) -> None:
        """Applies the image to the replicas, once it has this incarnation's registration.

        An older image may lack partitions of this broker, which would then be deleted.
        """
        if not self._is_following:
            return
        image, publisher = self._loader.image, self._publisher
        if publisher is None:
            if not self._has_own_registration(image):
                return
            publisher = self._publisher = MetadataPublisher(
                self.manager, image, self._learn, self._on_held, self.directories
            )
            is_new = True
        elif is_new:
            publisher.begin_anew(image)
        delta = None
        if is_new:
            image.keep_deltas(image.end_offset)
        else:
            delta = image.changes_between(self._published, image.end_offset)
        self._published, self._image = image.end_offset, image
        self._configs.follow(image, delta)
        version, cordoned = self._version_of(image), self._configs.cordoned(image, self.logs.directories)
        is_supported = version is not None and version.directories_supported
        named = self._configs.cordoned(image, self.logs.directories, default="")
        self.directories.follow(image, named, is_supported=is_supported)
        publisher.publish(now_ms())
        self.perform()
        self._warn_of_internal_topics()
        if version is not None:
            self._follow_features(image, version, cordoned)
        if not self._is_ready and self.directories.are_migrated():
            self._is_ready = True
            self._lifecycle.take(ReadyToUnfence())
            if version is not None and version.cordoned_directories_supported and cordoned and not named:
                logger.warning(CORDONED_BY_DEFAULT)

    def _has_own_registration(self, image: ClusterImage) -> bool:
        machine = self._lifecycle.machine
        own = image.brokers.get(machine.config.broker_id)
        return own is not None and own.incarnation_id == machine.config.incarnation_id and machine.is_registered

    def _learn(self, key: Key, replica: Replica) -> None:
        assert self._image is not None
        self._configs.learn(self._image, key[0])

    def _on_held(self, key: Key, replica: Replica) -> None:
        """Applies the topic's settings to the log of a replica that has followed the image without an error."""
        self.logs.configure(key, self.manager.settings_of(key[0]))

    def _version_of(self, image: ClusterImage) -> MetadataVersion | None:
        level = image.features.get(FEATURE_NAME)
        return None if level is None else MetadataVersion.of_level(level, self._kraft.release)

    def _follow_features(self, image: ClusterImage, version: MetadataVersion, cordoned: Sequence[Uuid]) -> None:
        """Publishes the finalized features to clients, and updates the broker's registration if needed.

        Raft's records have kraft.version (KRaftMetadataCache.features).
        """
        kraft_version = self._observer.runtime.node.voter_history.kraft_version
        levels = {**image.features, **({KRAFT_VERSION: kraft_version} if kraft_version else {})}
        features = [
            FinalizedFeatureKey(name=name, min_version_level=each, max_version_level=each)
            for name, each in sorted(levels.items())
            if each > 0
        ]
        for server in self._servers:
            server.apis.versions_answer.finalized_features_epoch = image.end_offset - 1
            server.apis.versions_answer.finalized_features = features
        self._lifecycle.take(DirectoriesCordoned(cordoned if version.cordoned_directories_supported else None))
        own = image.brokers.get(self.config.broker_id)
        if own is not None and not own.directories and version.directories_supported and self._running.is_set():
            self._lifecycle.take(RegisterAgain())
