"""Applies the image of the metadata log to the replicas of a KRaft broker.

Source: BrokerMetadataPublisher, BrokerRegistrationTracker of 4.3.1.
"""

import logging
from collections.abc import Sequence
from typing import Final

from kcore.broker.lifecycle.machine import DirectoriesCordoned, ReadyToUnfence, RegisterAgain
from kcore.broker.metadata_delta.publisher import MetadataPublisher
from kcore.broker.replicas.replica import Key, Replica
from kcore.constants import KRAFT_VERSION
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.net.server import Server
from kcore.schema.api_versions import FinalizedFeatureKey
from kcore.server.broker.broker_runtime import BrokerRuntime
from kcore.server.clock import now_ms
from kcore.server.kraft_broker.directory_tasks import DirectoryTasks
from kcore.server.kraft_broker.kraft_link import KraftLink
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks
from kcore.types import Uuid

logger = logging.getLogger(__name__)
CORDONED_BY_DEFAULT: Final = (
    "all log directories are cordoned, because this broker coordinates no groups and no transactions: controllers "
    "place no replicas here, and from 4.4.0 on refuse manual assignments; to get replicas, set cordoned.log.dirs to an "
    "empty list"
)


class ImageFollower:
    """The replicas follow the image from `follow` to `close`. Asks to unfence the broker once they have caught up."""

    def __init__(
        self,
        link: KraftLink,
        runtime: BrokerRuntime,
        directories: DirectoryTasks,
        lifecycle: LifecycleTasks,
        servers: Sequence[Server],
    ) -> None:
        """`servers`: the open listeners, whose clients see the finalized features."""
        self._link, self._runtime, self._directories = link, runtime, directories
        self._lifecycle, self._servers = lifecycle, servers
        self._publisher: MetadataPublisher | None = None
        self._published = 0  # The replicas have all records below this offset.
        self._is_ready = False  # True once the broker has asked to be unfenced.
        self._is_following = True  # False once the logs are about to be closed.

    def close(self) -> None:
        """Stops following, before the replicas' logs are closed."""
        self._is_following = False

    def follow(self, *, is_new: bool) -> None:
        """Applies the image to the replicas, once it has this incarnation's registration.

        An older image may lack partitions of this broker, which would then be deleted.
        """
        if not self._is_following:
            return
        link, directories, manager = self._link, self._directories, self._runtime.manager
        image, publisher = link.loader.image, self._publisher
        if publisher is None:
            if not self._has_own_registration(image):
                return
            publisher = self._publisher = MetadataPublisher(manager, image, self._learn, self._on_held, directories)
            is_new = True
        elif is_new:
            publisher.begin_anew(image)
        delta = None
        if is_new:
            image.keep_deltas(image.end_offset)
        else:
            delta = image.changes_between(self._published, image.end_offset)
        self._published, link.image = image.end_offset, image
        link.configs.follow(image, delta)
        version, cordoned = self._version_of(image), link.configs.cordoned(image, self._runtime.logs.directories)
        is_supported = version is not None and version.directories_supported
        named = link.configs.cordoned(image, self._runtime.logs.directories, default="")
        directories.follow(image, named, is_supported=is_supported)
        publisher.publish(now_ms())
        self._runtime.perform()
        self._runtime.warn_of_internal_topics()
        if version is not None:
            self._follow_features(image, version, cordoned)
        if not self._is_ready and directories.are_migrated():
            self._is_ready = True
            self._lifecycle.take(ReadyToUnfence())
            if version is not None and version.cordoned_directories_supported and cordoned and not named:
                logger.warning(CORDONED_BY_DEFAULT)

    def _has_own_registration(self, image: ClusterImage) -> bool:
        machine = self._lifecycle.machine
        own = image.brokers.get(machine.config.broker_id)
        return own is not None and own.incarnation_id == machine.config.incarnation_id and machine.is_registered

    def _learn(self, key: Key, replica: Replica) -> None:
        assert self._link.image is not None
        self._link.configs.learn(self._link.image, key[0])

    def _on_held(self, key: Key, replica: Replica) -> None:
        """Applies the topic's settings to the log of a replica that has followed the image without an error."""
        self._runtime.logs.configure(key, self._runtime.manager.settings_of(key[0]))

    def _version_of(self, image: ClusterImage) -> MetadataVersion | None:
        level = image.features.get(FEATURE_NAME)
        return None if level is None else MetadataVersion.of_level(level, self._link.config.release)

    def _follow_features(self, image: ClusterImage, version: MetadataVersion, cordoned: Sequence[Uuid]) -> None:
        """Publishes the finalized features to clients, and updates the broker's registration if needed.

        Raft's records have kraft.version (KRaftMetadataCache.features).
        """
        kraft_version = self._link.observer.runtime.node.voter_history.kraft_version
        levels = {**image.features, **({KRAFT_VERSION: kraft_version} if kraft_version else {})}
        features = [
            FinalizedFeatureKey(name=name, min_version_level=each, max_version_level=each)
            for name, each in sorted(levels.items())
            if each > 0
        ]
        for server in self._servers:
            server.apis.versions_answer.finalized_features_epoch = image.end_offset - 1
            server.apis.versions_answer.finalized_features = features
        lifecycle = self._lifecycle
        lifecycle.take(DirectoriesCordoned(cordoned if version.cordoned_directories_supported else None))
        own = image.brokers.get(lifecycle.machine.config.broker_id)
        if own is not None and not own.directories and version.directories_supported and lifecycle.running.is_set():
            lifecycle.take(RegisterAgain())
