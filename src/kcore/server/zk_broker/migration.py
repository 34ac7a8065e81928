"""A broker of ZooKeeper mode that migrates to KRaft: registered with the quorum, too, whose log it follows (KIP-866).

It stays in ZooKeeper, and obeys whoever `/controller` names: first a controller of ZooKeeper mode, then the quorum's,
when all brokers are registered there. Source: KafkaServer, BrokerLifecycleManager (isZkBroker) of 3.9.1. Otherwise than
there: a directory that cannot be used at the start stops the broker, too, as KIP-858's document has it.
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
    LifecycleConfig,
    ReadyToUnfence,
    Registered,
    ShutdownAsked,
    Started,
    StateChanged,
)
from kcore.broker.lifecycle.states import BrokerState
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.constants import METADATA_TOPIC
from kcore.errors import StorageError
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.broker_table import Endpoint
from kcore.schema.broker_lifecycle import Feature, Listener
from kcore.server.broker.controller_client import ControllerClient
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks
from kcore.server.kraft_broker.metadata_observer import BrokerObserver, LogEnd, open_log
from kcore.server.kraft_controller.apis import FEATURES
from kcore.server.zk_broker.migration_settings import RELEASE, MigrationSettings, feature_level
from kcore.storage.checkpoints import read_offsets, write_offsets
from kcore.storage.files import is_there
from kcore.storage.raft.file_raft_log import RECOVERY_POINTS
from kcore.storage.raft.raft_dir import METADATA_FOLDER, random_directory_id
from kcore.types import Uuid

logger = logging.getLogger(__name__)


class Node(NamedTuple):
    """The broker that migrates, as it is in ZooKeeper."""

    config: BrokerConfig
    cluster_id: str
    listeners: Sequence[Endpoint]
    rack: str | None
    directory_ids: Mapping[Path, Uuid]  # Of all log directories.
    metadata_dir: Path


class BrokerMigration:
    """Within `async with` it is registered with the quorum, or tries to be. The log of a run before is deleted."""

    def __init__(self, settings: MigrationSettings, node: Node, now_ms: Callable[[], int]) -> None:
        self._settings, self._node, self._now_ms = settings, node, now_ms
        self._failures = DirectoryFailures(node.directory_ids.values(), len(node.directory_ids), is_migrating=True)

    async def __aenter__(self) -> Self:
        """StorageError for a directory of the metadata log that is of no use."""
        node = self._node
        async with AsyncExitStack() as stack:
            _delete_metadata_log(node.metadata_dir)
            metadata = open_log(node.metadata_dir, node.config.broker_id, node.cluster_id, self._settings, RELEASE)
            stack.callback(metadata.log.close)
            self._log_end = LogEnd()
            self._observer = BrokerObserver(*metadata, self._log_end)
            self._lifecycle = self._new_lifecycle()
            await stack.enter_async_context(self._observer)
            stack.push_async_callback(self._lifecycle.close)
            self._lifecycle.take(Started())
            self._closing = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    async def wait_failed(self) -> None:
        """For ever, or until there is a fault of the metadata log: it is raised."""
        await self._observer.wait_failed()

    def controller(self) -> Endpoint | None:
        """The quorum's active controller, whether or not it controls the brokers already."""
        return self._observer.controller()

    @property
    def broker_epoch(self) -> int:
        """Of the registration with the quorum; -1 before."""
        return self._lifecycle.machine.broker_epoch

    async def controlled_shutdown(self) -> None:
        """Until the quorum's controller has moved the leaders away."""
        self._lifecycle.take(ShutdownAsked())
        await self._lifecycle.ended.wait()

    def why_failed(self, failed: Sequence[Path]) -> str | None:
        """Why the broker cannot go on without these directories; None without any."""
        outputs = [
            each for path in failed for each in self._failures.on_failed(self._node.directory_ids[path], self._now_ms())
        ]
        return next((each.reason for each in outputs if isinstance(each, ShutDown)), None)

    def _new_lifecycle(self) -> LifecycleTasks:
        node = self._node
        level = feature_level(node.config.inter_broker_protocol, len(node.directory_ids))
        # Not what the broker could do, but what its protocol is: the controller begins when all have the same.
        features = {**FEATURES[RELEASE], FEATURE_NAME: (level, level)}
        config = LifecycleConfig(
            node.config.broker_id,
            node.cluster_id,
            random_directory_id(),
            [
                Listener(name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol)
                for each in node.listeners
            ],
            [
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in sorted(features.items())
            ],
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
            case StateChanged(BrokerState.RECOVERY):  # Its replicas are what the controller in ZooKeeper said.
                self._lifecycle.take(ReadyToUnfence())


def _delete_metadata_log(metadata_dir: Path) -> None:
    """A log of an attempt before may be of a quorum that is no more (KafkaRaftManager.maybeDeleteMetadataLogDir).

    Its recovery point, beside it, goes first: a log that does not reach its recovery point is refused.
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
