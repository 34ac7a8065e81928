"""The log directories of one broker, which give its replicas their logs (LogManager of 3.9.1).

A directory must belong to this broker, and has an id (KIP-858). Source: KafkaRaftServer.initializeLogDirs,
MetaPropertiesEnsemble of 4.3.1.
"""

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kcore.broker.directories.placing import least_used
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica import Key
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import StorageError
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.files import is_there
from kcore.storage.log.live_log import LiveLog, Settings, disk_failures
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.meta_properties import META_PROPERTIES, MetaProperties, verify_directories, with_directory_ids
from kcore.storage.raft.raft_dir import METADATA_FOLDER, random_directory_id
from kcore.types import ZERO_UUID, Uuid


def identify(
    directories: Sequence[LogDirectory],
    node_id: int,
    metadata_dir: Path,
    at_start: Callable[[Callable[[LogDirectory], object]], None],
) -> str:
    """Sets the `directory_id` of each readable directory. Returns the cluster id.

    `at_start` calls its argument for each online directory, and takes failing directories offline. A directory from a
    release before KIP-858 gets an id. StorageError if a directory is not formatted, belongs to another node or cluster,
    has a reserved or repeated id, or has an unexpected metadata log. StorageError, too, if the directory of the
    metadata log has failed.
    """
    found: dict[Path, MetaProperties] = {}

    def read(directory: LogDirectory) -> None:
        found[directory.path] = _read(directory.path)
        if directory.path.absolute() != metadata_dir.absolute():
            _check_no_metadata_log(directory.path, metadata_dir)

    at_start(read)
    check_metadata_dir(directories, metadata_dir)
    apart = metadata_dir.absolute() not in {each.path.absolute() for each in directories}
    verify_directories(
        {**found, metadata_dir: _read(metadata_dir)} if apart else found, node_id=node_id, needs_directory_ids=False
    )
    changed = with_directory_ids(found, random_directory_id)

    def set_id(directory: LogDirectory) -> None:
        if directory.path in changed:
            directory.write_meta(changed[directory.path])
        directory.directory_id = (found | changed)[directory.path].directory_id

    at_start(set_id)
    return next(meta.cluster_id for meta in found.values() if meta.cluster_id is not None)


def identify_migrating(directories: Sequence[LogDirectory], metadata_dir: Path) -> None:
    """Sets the `directory_id` of a migrating broker's claimed directories, and creates missing ids.

    The files of meta.properties keep version 0. A separate `metadata_dir` is created if needed. StorageError if a
    directory is offline, or has a reserved or repeated id; KafkaStorageException. Source: KafkaServer.startup of 3.9.1.
    """
    if (failed := next((each for each in directories if each.failed is not None), None)) is not None:
        raise StorageError(f"{failed.path}: a broker that migrates needs all log directories: {failed.failed}")
    by_path = {each.path: each for each in directories}
    found = {path: _read(path) for path in by_path}
    if metadata_dir.absolute() not in {path.absolute() for path in by_path}:
        apart = by_path[metadata_dir] = LogDirectory(metadata_dir)
        with disk_failures(metadata_dir):
            metadata_dir.mkdir(parents=True, exist_ok=True)
        own = next(iter(found.values()))
        found[metadata_dir] = apart.read_meta() or MetaProperties(0, cluster_id=own.cluster_id, node_id=own.node_id)
    verify_directories(found, needs_directory_ids=False)
    changed = with_directory_ids(found, random_directory_id)
    for path, directory in by_path.items():
        if path in changed:
            directory.write_meta(changed[path])
        directory.directory_id = (found | changed)[path].directory_id


def _read(path: Path) -> MetaProperties:
    """The directory's meta.properties. StorageError if it is not formatted; KafkaStorageException if unreadable."""
    meta = LogDirectory(path).read_meta()
    if meta is None:
        raise StorageError(f"{path / META_PROPERTIES} does not exist: format the directory")
    if meta.node_id is None or meta.cluster_id is None:
        missing = "node.id" if meta.node_id is None else "cluster.id"
        raise StorageError(f"{path / META_PROPERTIES}: {missing} was not found")
    return meta


def _check_no_metadata_log(path: Path, metadata_dir: Path) -> None:
    with disk_failures(path):
        is_found = is_there(path / METADATA_FOLDER)
    if is_found:
        raise StorageError(f"{path / METADATA_FOLDER} is a metadata log, but metadata.log.dir is {metadata_dir}")


def check_metadata_dir(directories: Sequence[LogDirectory], metadata_dir: Path) -> None:
    """StorageError if the directory of the metadata log has failed: a broker cannot start without it."""
    for each in directories:
        if each.failed is not None and each.path.absolute() == metadata_dir.absolute():
            raise StorageError(f"the directory of the metadata log cannot be used: {each.failed}")


logger = logging.getLogger(__name__)


class BrokerLogs:
    """The broker's logs, each partition in one directory.

    In KRaft mode the caller of `create` chooses the directory; in ZooKeeper mode it is the one with the fewest logs.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        settings: Settings | None = None,
        *,
        node_id: int | None = None,
        metadata_dir: Path | None = None,
        in_background: bool = False,
    ) -> None:
        """Opens every log. Failing directories are offline; KafkaStorageException if all fail (KIP-112).

        `node_id`: given in KRaft mode, where directories must be formatted. `metadata_dir`: the directory of the
        metadata log, by default the first one; it must be online. StorageError as in `identify`. `in_background`: see
        LogDirectory.
        """
        self.directories = [LogDirectory(path, settings, in_background=in_background) for path in paths]
        self.cluster_id = ""  # In ZooKeeper mode, `claim` sets it.
        self._refusing: dict[Key, LogDirectory] = {}  # The directory that failed to create or delete a partition's log.
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
        """StorageError if a directory belongs to another broker, or if two directories have the same partition.

        A directory with an unreadable meta.properties goes offline.
        """
        self.cluster_id = cluster_id
        self._at_start(lambda directory: directory.claim(broker_id, cluster_id))
        found: dict[TopicPartition, LiveLog] = {}
        for directory in self.online:
            for key, log in directory.logs.items():
                if (other := found.setdefault(key, log)) is not log:
                    raise StorageError(f"{other.folder} and {log.folder} belong to the same replica: delete one")

    def identify_migrating(self, metadata_dir: Path) -> None:
        """Gives each directory of a broker that migrates to KRaft an id; call after `claim`. StorageError."""
        try:
            identify_migrating(self.directories, metadata_dir)
        except ApiException as error:
            raise StorageError(str(error)) from None

    def _at_start(self, use: Callable[[LogDirectory], object]) -> None:
        """Calls `use` for all online directories, and takes failing ones offline.

        Responses to LeaderAndIsr report the failures. Source: LogManager.createAndValidateLogDirs, loadLogs;
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
        """Creates the partition's log in the directory; in KRaft mode called before `hold`. ApiException."""
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
        """The directory of a new log. While a directory is offline, only new replicas are created (KIP-112).

        In KRaft mode `broker/directories/` chooses the directory, and `create` creates the log.
        """
        if self._is_kraft or not self.online or (not is_new and len(self.online) < len(self.directories)):
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key}: a log directory is offline: it may have the log")
        return least_used(self.online, (), lambda each: len(each.logs))

    def directory(self, directory_id: Uuid) -> LogDirectory | None:
        """The online directory with the id; None if there is none."""
        return next((each for each in self.online if each.directory_id == directory_id), None)

    def take_clean_shutdown(self) -> int:
        """The broker epoch of the last run if it closed all directories cleanly; -1 otherwise.

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
        """Stores the directory of a failed operation for `fail`, which may not find it by the partition's log."""
        try:
            yield
        except ApiException:
            self._refusing[key] = directory
            raise

    def fail(self, key: Key, why: str) -> list[Key] | None:
        """Takes the partition's directory offline. Returns the directory's partitions; None if it was offline."""
        directory = self._directory(key) or self._refusing.get(key)
        return None if directory is None else self.fail_directory(directory, why)

    def fail_directory(self, directory: LogDirectory, why: str) -> list[Key] | None:
        """As `fail`, for a known directory."""
        return None if directory.failed is not None else self._fail(directory, why)

    def _fail(self, directory: LogDirectory, why: str) -> list[Key]:
        logger.error("log directory %s goes offline: %s", directory.path, why)
        return [tuple(each) for each in directory.fail(why)]  # type: ignore[misc]

    def checkpoint(self) -> list[Key] | None:
        """Writes high watermark checkpoints. Returns the partitions of directories that failed; None if none failed."""
        failed: list[Key] | None = None
        for directory in self.online:
            try:
                directory.checkpoint()
            except ApiException as error:
                failed = [*(failed or ()), *self._fail(directory, str(error))]
        return failed

    def delete_old(self, settings_of: Callable[[str], TopicSettings], date_ms: int) -> list[Key]:
        """Deletes segments by the topics' retention settings. Returns the partitions of directories that failed."""
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
        """Applies the topic's segment settings to the log."""
        directory = self._directory(key)
        if directory is None:
            return
        log = directory.logs[TopicPartition(*key)]
        log.set_segment_ms(settings.segment_ms)
        if settings.segment_bytes is not None:
            log.set_segment_bytes(settings.segment_bytes)

    def close(self, broker_epoch: int | None = None) -> None:
        """Syncs and closes all logs. In KRaft mode a file with the broker epoch marks the clean shutdown (KIP-966)."""
        for directory in self.online:
            try:
                directory.close(broker_epoch)
            except ApiException as error:
                logger.error("log directory %s was not closed: %s", directory.path, error)

    def _directory(self, key: Key) -> LogDirectory | None:
        return next((each for each in self.online if key in each.logs), None)


INVALID_OFFSET_LAG: Final = -1  # The lag of a future log whose current log is offline.


def describe_log_dirs(
    logs: BrokerLogs, request: DescribeLogDirsRequest, cordoned: Collection[Uuid] = ()
) -> DescribeLogDirsResponse:
    """The directories with the requested partitions. `cordoned`: ids of directories that get no new replicas."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    current = {key: log for each in logs.online for key, log in each.logs.items()}
    results = [_described(each, wanted, current) for each in logs.directories]
    for directory, result in zip(logs.directories, results, strict=True):
        result.is_cordoned = result.error_code == Errors.NONE and directory.directory_id in cordoned
    return DescribeLogDirsResponse(results=results)


def _described(
    directory: LogDirectory, wanted: set[tuple[str, int]] | None, current: Mapping[TopicPartition, LiveLog]
) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    if directory.failed is not None:
        return DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    try:
        disk = shutil.disk_usage(directory.path)
        for key, log in [*directory.logs.items(), *directory.futures.items()]:
            if wanted is None or key in wanted:
                is_future = directory.futures.get(key) is log
                replica = DescribeLogDirsPartition(
                    partition_index=key.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(log, current.get(key), is_future=is_future),
                    is_future_key=is_future,
                )
                topics.setdefault(key.topic, []).append(replica)
    except (OSError, ApiException):
        return DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )


def _lag(log: LiveLog, current: LiveLog | None, *, is_future: bool) -> int:
    """How far the log's end is behind the high watermark; for a future log: behind the current log's end."""
    if not is_future:
        return max(log.high_watermark - log.end_offset, 0)
    return INVALID_OFFSET_LAG if current is None else current.end_offset - log.end_offset
