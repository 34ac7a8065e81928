"""The log directories of one broker, as its machine asks for logs (LogManager of 3.9.1)."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kcore.broker.directories.choosing import least_used
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica import Key
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import StorageError
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.server.broker.directory_ids import check_metadata_dir, identify, identify_migrating
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.log_directory import LogDirectory
from kcore.types import ZERO_UUID, Uuid

logger = logging.getLogger(__name__)


class BrokerLogs:
    """Each partition is in one directory. In KRaft mode `create` says in which, in ZooKeeper mode the fewest logs."""

    def __init__(
        self,
        paths: Sequence[Path],
        settings: Settings | None = None,
        *,
        node_id: int | None = None,
        metadata_dir: Path | None = None,
    ) -> None:
        """Opens every log. A directory that does not do it is offline; KafkaStorageException if all are (KIP-112).

        `node_id`: in KRaft mode, where directories are formatted before, and the one with the metadata log, by default
        the first, must be online. StorageError as of `identify`.
        """
        self.directories = [LogDirectory(path, settings) for path in paths]
        self.cluster_id = ""  # In KRaft mode.
        self._refusing: dict[Key, LogDirectory] = {}  # Which could not make or remove the log of a partition.
        self._is_kraft = node_id is not None
        if node_id is not None:
            self.cluster_id = identify(self.directories, node_id, metadata_dir or paths[0], self._at_start)
        self._at_start(lambda directory: directory.open())
        if node_id is not None:
            check_metadata_dir(self.directories, metadata_dir or paths[0])

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failed is None]

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """StorageError if a directory is another broker's, or two have the same partition (LogManager.loadLog).

        One with an unreadable meta.properties goes offline.
        """
        self._at_start(lambda directory: directory.claim(broker_id, cluster_id))
        found: dict[TopicPartition, LiveLog] = {}
        for directory in self.online:
            for key, log in directory.logs.items():
                if (other := found.setdefault(key, log)) is not log:
                    raise StorageError(f"{other.folder} and {log.folder} are of the same replica: delete one")

    def identify_migrating(self, metadata_dir: Path) -> None:
        """Behind `claim`, while the broker migrates to KRaft: each directory has an id. StorageError."""
        try:
            identify_migrating(self.directories, metadata_dir)
        except ApiException as error:
            raise StorageError(str(error)) from None

    def _at_start(self, use: Callable[[LogDirectory], object]) -> None:
        """Runs it in all online directories; those that fail go offline.

        The responses to LeaderAndIsr show it to the controller. Source: LogManager.createAndValidateLogDirs, loadLogs;
        MetaPropertiesEnsemble.Loader.
        """
        for directory in self.online:
            try:
                use(directory)
            except ApiException as error:
                self._fail(directory, str(error))
        if not self.online:
            failures = "; ".join(str(each.failed) for each in self.directories)
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"no log directory can be used: {failures}")

    def keys(self) -> Iterable[Key]:
        return [key for directory in self.online for key in directory.logs]

    def topic_id(self, key: Key) -> Uuid:
        directory = self._directory(key)
        return ZERO_UUID if directory is None else directory.topic_id(TopicPartition(*key))

    def hold(self, key: Key, topic_id: Uuid, *, is_new: bool) -> LiveLog:
        return self._hold_in(self._directory(key) or self._place_for(key, is_new), key, topic_id)

    def create(self, key: Key, topic_id: Uuid, directory_id: Uuid) -> None:
        """In KRaft mode: the partition's log, in that directory, where `hold` finds it. ApiException."""
        directory = self.directory(directory_id)
        if directory is None:
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key}: log directory {directory_id} is offline")
        self._hold_in(directory, key, topic_id)

    def _hold_in(self, directory: LogDirectory, key: Key, topic_id: Uuid) -> LiveLog:
        with self._used(directory, key):
            log = directory.create(TopicPartition(*key))
            directory.assign_topic_id(TopicPartition(*key), topic_id)
        return log

    def _place_for(self, key: Key, is_new: bool) -> LogDirectory:
        """Only a replica that never was may be begun while a directory is offline that might have it (KIP-112).

        In KRaft mode `broker/directories/` decides that, and `create` makes the log.
        """
        if self._is_kraft or not self.online or (not is_new and len(self.online) < len(self.directories)):
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key}: a log directory is offline: it may have the log")
        return least_used(self.online, (), lambda each: len(each.logs))

    def directory(self, directory_id: Uuid) -> LogDirectory | None:
        """Of those that are online."""
        return next((each for each in self.online if each.directory_id == directory_id), None)

    def take_clean_shutdown(self) -> int:
        """The broker epoch at the end of the last run, if all directories were closed cleanly then; else -1.

        Source: LogManager.readBrokerEpochFromCleanShutdownFiles.
        """
        epochs: set[int] = set()
        self._at_start(lambda directory: epochs.add(directory.take_clean_shutdown()))
        return epochs.pop() if len(epochs) == 1 and len(self.online) == len(self.directories) else UNKNOWN_BROKER_EPOCH

    def delete(self, key: Key) -> None:
        if (directory := self._directory(key)) is not None:
            with self._used(directory, key):
                directory.delete(TopicPartition(*key))

    def set_stray(self, key: Key) -> None:
        if (directory := self._directory(key)) is not None:
            with self._used(directory, key):
                directory.set_stray(TopicPartition(*key))

    @contextmanager
    def _used(self, directory: LogDirectory, key: Key) -> Iterator[None]:
        """Who refuses something is remembered: the log may not be in it, not yet or not any more."""
        try:
            yield
        except ApiException:
            self._refusing[key] = directory
            raise

    def fail(self, key: Key, why: str) -> list[Key] | None:
        """Takes the directory of that log offline, with all its logs. None if it is offline already."""
        directory = self._directory(key) or self._refusing.get(key)
        return None if directory is None else self.fail_directory(directory, why)

    def fail_directory(self, directory: LogDirectory, why: str) -> list[Key] | None:
        """As `fail`, of a directory that has refused something else."""
        return None if directory.failed is not None else self._fail(directory, why)

    def _fail(self, directory: LogDirectory, why: str) -> list[Key]:
        logger.error("log directory %s goes offline: %s", directory.path, why)
        return [tuple(each) for each in directory.fail(why)]  # type: ignore[misc]

    def checkpoint(self) -> list[Key] | None:
        """Writes high watermark checkpoints. Returns the partitions in directories that fail, None if none does."""
        failed: list[Key] | None = None
        for directory in self.online:
            try:
                directory.checkpoint()
            except ApiException as error:
                failed = [*(failed or ()), *self._fail(directory, str(error))]
        return failed

    def delete_old(self, settings_of: Callable[[str], TopicSettings], date_ms: int) -> list[Key]:
        """Deletes segments by time and size, as topics have it; the partitions in directories that failed at it."""
        failed: list[Key] = []
        for directory in self.online:
            for key, log in [*directory.logs.items()]:
                settings = settings_of(key.topic)
                if not settings.deletes:
                    continue
                oldest_ms = None if settings.retention_ms < 0 else date_ms - settings.retention_ms
                most_bytes = None if settings.retention_bytes < 0 else settings.retention_bytes
                try:
                    log.delete_old(oldest_ms, most_bytes)
                except ApiException as error:
                    failed += self._fail(directory, str(error))
                    break
        return failed

    def configure(self, key: Key, settings: TopicSettings) -> None:
        """The log rolls as its topic's settings say."""
        directory = self._directory(key)
        if directory is None:
            return
        log = directory.logs[TopicPartition(*key)]
        log.set_segment_ms(settings.segment_ms)
        if settings.segment_bytes is not None:
            log.set_segment_bytes(settings.segment_bytes)

    def close(self, broker_epoch: int | None = None) -> None:
        """Everything is on the disks that take it. In KRaft mode a file with the broker epoch says so (KIP-966)."""
        for directory in self.online:
            try:
                directory.close(broker_epoch)
            except ApiException as error:
                logger.error("log directory %s was not closed: %s", directory.path, error)

    def _directory(self, key: Key) -> LogDirectory | None:
        return next((each for each in self.online if key in each.logs), None)
