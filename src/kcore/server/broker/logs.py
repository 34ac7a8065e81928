"""The logs of one broker's replicas, and DescribeLogDirs (LogManager of 3.9.1)."""

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kcore.broker.directories.placing import least_used
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica import Key
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcore.server.broker.log_directories import LogDirectories
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.log_directory import LogDirectory
from kcore.types import ZERO_UUID, Uuid

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
        self.directories = LogDirectories(paths, settings, node_id, metadata_dir, in_background)
        self._refusing: dict[Key, LogDirectory] = {}  # The directory that failed to create or delete a partition's log.

    def keys(self) -> Iterable[Key]:
        return [key for directory in self.directories.online for key in directory.logs]

    def topic_id(self, key: Key) -> Uuid:
        directory = self._directory(key)
        return ZERO_UUID if directory is None else directory.topic_id(TopicPartition(*key))

    def hold(self, key: Key, topic_id: Uuid, *, is_new: bool) -> LiveLog:
        return self._hold_in(self._directory(key) or self._place_for(key, is_new), key, topic_id)

    def create(self, key: Key, topic_id: Uuid, directory_id: Uuid) -> None:
        """Creates the partition's log in the directory; in KRaft mode called before `hold`. ApiException."""
        directory = self.directories.with_id(directory_id)
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
        if (
            self.directories.are_formatted
            or not self.directories.online
            or (not is_new and len(self.directories.online) < len(self.directories))
        ):
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key}: a log directory is offline: it may have the log")
        return least_used(self.directories.online, (), lambda each: len(each.logs))

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
        return None if directory is None else self.directories.fail(directory, why)

    def checkpoint(self) -> list[Key] | None:
        """Writes high watermark checkpoints. Returns the partitions of directories that failed; None if none failed."""
        failed: list[Key] | None = None
        for directory in self.directories.online:
            try:
                directory.checkpoint()
            except ApiException as error:
                failed = [*(failed or ()), *(self.directories.fail(directory, str(error)) or ())]
        return failed

    def delete_old(self, settings_of: Callable[[str], TopicSettings], date_ms: int) -> list[Key]:
        """Deletes segments by the topics' retention settings. Returns the partitions of directories that failed."""
        failed: list[Key] = []
        for directory in self.directories.online:
            for key, log in [*directory.logs.items()]:
                settings = settings_of(key.topic)
                if not settings.deletes:
                    continue
                oldest_ms = None if settings.retention_ms < 0 else date_ms - settings.retention_ms
                most_bytes = None if settings.retention_bytes < 0 else settings.retention_bytes
                try:
                    log.delete_old(oldest_ms, most_bytes)
                except ApiException as error:
                    failed += self.directories.fail(directory, str(error)) or ()
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
        for directory in self.directories.online:
            try:
                directory.close(broker_epoch)
            except ApiException as error:
                logger.error("log directory %s was not closed: %s", directory.path, error)

    def _directory(self, key: Key) -> LogDirectory | None:
        return next((each for each in self.directories.online if key in each.logs), None)


INVALID_OFFSET_LAG: Final = -1  # The lag of a future log whose current log is offline.


def describe_log_dirs(
    logs: BrokerLogs, request: DescribeLogDirsRequest, cordoned: Collection[Uuid] = ()
) -> DescribeLogDirsResponse:
    """The directories with the requested partitions. `cordoned`: ids of directories that get no new replicas."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    current = {key: log for each in logs.directories.online for key, log in each.logs.items()}
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
