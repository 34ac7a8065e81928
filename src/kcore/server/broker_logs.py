"""The log directories of one broker, as its machine asks for logs (LogManager of 3.9.1)."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from kcore.broker.broker import Key
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.live_log import LiveLog, Settings
from kcore.storage.log_directory import LogDirectory
from kcore.types import ZERO_UUID, Uuid

logger = logging.getLogger(__name__)


class BrokerLogs:
    """Each partition lies in one directory; a new one goes where the fewest are."""

    def __init__(self, paths: Sequence[Path], settings: Settings | None = None) -> None:
        """Opens every log. KafkaStorageException if a directory does not do it."""
        self.directories = [LogDirectory(path, settings) for path in paths]

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failed is None]

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """StorageError if a directory is another broker's."""
        for directory in self.directories:
            directory.claim(broker_id, cluster_id)

    def keys(self) -> Iterable[Key]:
        return [key for directory in self.online for key in directory.logs]

    def topic_id(self, key: Key) -> Uuid:
        directory = self._directory(key)
        return ZERO_UUID if directory is None else directory.topic_id(TopicPartition(*key))

    def hold(self, key: Key, topic_id: Uuid) -> LiveLog:
        directory = self._directory(key)
        if directory is None:
            if len(self.online) < len(self.directories):  # It may lie in the one that failed.
                raise exception_of(Errors.KAFKA_STORAGE_ERROR)("a log directory is offline: it may have the log")
            directory = min(self.online, key=lambda each: len(each.logs))
        log = directory.create(TopicPartition(*key))
        directory.assign_topic_id(TopicPartition(*key), topic_id)
        return log

    def delete(self, key: Key) -> None:
        if (directory := self._directory(key)) is not None:
            directory.delete(TopicPartition(*key))

    def fail(self, key: Key, why: str) -> list[Key]:
        """The directory of that log goes offline, with all that lies in it."""
        directory = self._directory(key)
        if directory is None:
            return [key]
        logger.error("log directory %s goes offline: %s", directory.path, why)
        return [tuple(each) for each in directory.fail(why)]  # type: ignore[misc]

    def checkpoint(self) -> list[Key]:
        """Writes down how far logs are committed; what lies in a directory that fails at that."""
        failed: list[Key] = []
        for directory in self.online:
            try:
                directory.checkpoint()
            except ApiException as error:
                failed += [tuple(each) for each in directory.fail(str(error))]  # type: ignore[misc]
        return failed

    def close(self) -> None:
        """Everything is on the disks that take it."""
        for directory in self.online:
            try:
                directory.close()
            except ApiException:
                logger.exception("log directory %s was not closed", directory.path)

    def _directory(self, key: Key) -> LogDirectory | None:
        return next((each for each in self.online if key in each.logs), None)
