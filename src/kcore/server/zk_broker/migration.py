"""The migration of a ZooKeeper-mode broker to KRaft: it registers with the quorum, too, and follows its log (KIP-866).

The broker stays registered in ZooKeeper. It accepts the controller in `/controller`: first a ZooKeeper-mode controller,
then the quorum's, once all brokers have registered with the quorum. Source: KafkaServer, BrokerLifecycleManager
(isZkBroker) of 3.9.1. One departure: a directory that is unusable at the start also stops the broker, as KIP-858
describes.
"""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import NamedTuple, Self

from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import ShutDown
from kcore.broker.lifecycle.machine import (
    BrokerLifecycle,
    BrokerState,
    LifecycleConfig,
    ReadyToUnfence,
    Registered,
    Started,
    StateChanged,
)
from kcore.broker.lifecycle.registration_fields import features_of, listeners_of
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.constants import METADATA_TOPIC
from kcore.errors import StorageError
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.broker_table import Endpoint
from kcore.releases.known import RELEASES, ZOOKEEPER_RELEASE
from kcore.server.broker.broker_connections import ControllerClient
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks
from kcore.server.kraft_broker.metadata_observer import LogEnd, controller_endpoint, open_log
from kcore.server.quorum_node.quorum_runtime import QuorumRuntime
from kcore.server.zk_broker.migration_settings import MigrationSettings, feature_level
from kcore.storage.checkpoints import read_offsets, write_offsets
from kcore.storage.files import is_there
from kcore.storage.raft.file_raft_log import RECOVERY_POINTS
from kcore.storage.raft.raft_dir import METADATA_FOLDER, random_directory_id
from kcore.types import Uuid

logger = logging.getLogger(__name__)


class Node(NamedTuple):
    """The migrating broker as it is registered in ZooKeeper."""

    config: BrokerConfig
    cluster_id: str
    listeners: Sequence[Endpoint]
    rack: str | None
    directory_ids: Mapping[Path, Uuid]  # The ids of all log directories.
    metadata_dir: Path


class BrokerMigration:
    """Within `async with`: registers with the quorum, and retries."""

    def __init__(self, settings: MigrationSettings, node: Node, now_ms: Callable[[], int]) -> None:
        """Deletes an earlier run's metadata log, and opens a new one. StorageError for an unusable directory."""
        self._settings, self._node, self._now_ms = settings, node, now_ms
        self._failures = DirectoryFailures(node.directory_ids.values(), len(node.directory_ids), is_migrating=True)
        _delete_metadata_log(node.metadata_dir)
        own = open_log(node.metadata_dir, node.config.broker_id, node.cluster_id, settings.quorum, ZOOKEEPER_RELEASE)
        self._log_end = LogEnd()
        self._observer = QuorumRuntime(*own, self._log_end)
        self.lifecycle = self._new_lifecycle()
        self._closing = AsyncExitStack()
        self._closing.callback(own.log.close)

    async def __aenter__(self) -> Self:
        async with self._closing.pop_all() as stack:
            await stack.enter_async_context(self._observer)
            stack.push_async_callback(self.lifecycle.requests.close)
            self.lifecycle.take(Started())
            self._closing = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    async def wait_failed(self) -> None:
        """Raises a failure of the metadata log; never returns."""
        await self._observer.lifetime.wait_failed()

    def controller(self) -> Endpoint | None:
        """The endpoint of the quorum's active controller, which may not control the brokers yet."""
        return controller_endpoint(self._observer)

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration with the quorum; -1 before the registration."""
        return self.lifecycle.machine.broker_epoch

    def why_failed(self, failed: Sequence[Path]) -> str | None:
        """The reason why the broker must stop without these directories; None if it need not stop."""
        outputs = [
            each for path in failed for each in self._failures.on_failed(self._node.directory_ids[path], self._now_ms())
        ]
        return next((each.reason for each in outputs if isinstance(each, ShutDown)), None)

    def _new_lifecycle(self) -> LifecycleTasks:
        node = self._node
        level = feature_level(node.config.inter_broker_protocol, len(node.directory_ids))
        # The protocol's level, not the supported range: the migration begins when all brokers have the same level.
        features = {**RELEASES[ZOOKEEPER_RELEASE].supported_features, FEATURE_NAME: (level, level)}
        config = LifecycleConfig(
            node.config.broker_id,
            node.cluster_id,
            random_directory_id(),
            listeners_of(node.listeners),
            features_of(features),
            [*node.directory_ids.values()],
            rack=node.rack,
            is_migrating_zk_broker=True,
            registration_timeout_ms=None,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
        )
        machine = BrokerLifecycle(config, lambda: self._log_end.end_offset - 1, self._failures)
        channel = ControllerClient(f"broker-{node.config.broker_id}-heartbeat", self.controller)
        return LifecycleTasks(machine, channel, self._now_ms, self._on_lifecycle)

    def _on_lifecycle(self, effect: Registered | StateChanged) -> None:
        broker_id = self._node.config.broker_id
        match effect:
            case Registered(broker_epoch):
                logger.info("broker %s, which migrates, is registered in KRaft with epoch %s", broker_id, broker_epoch)
            case StateChanged(BrokerState.RECOVERY):  # The controller in ZooKeeper has set the replicas' states.
                self.lifecycle.take(ReadyToUnfence())


def _delete_metadata_log(metadata_dir: Path) -> None:
    """Deletes the log of an earlier attempt, maybe with another quorum (KafkaRaftManager.maybeDeleteMetadataLogDir).

    Its recovery point is deleted first, because a log that ends below its recovery point is refused.
    """
    folder, points = metadata_dir / METADATA_FOLDER, metadata_dir / RECOVERY_POINTS
    try:
        known = read_offsets(points) if is_there(points) else {}
        left: dict[tuple[str, int], int] = {key: offset for key, offset in known.items() if key[0] != METADATA_TOPIC}
        if len(left) < len(known):
            write_offsets(points, left)
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(f"{folder}: the old metadata log cannot be deleted: {error}") from None
