"""The log directories of one broker: their state, their owner and their ids (KIP-858).

Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble of 4.3.1; LogManager of 3.9.1.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kcore.broker.replicas.replica import Key
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import StorageError
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.files import is_there
from kcore.storage.log.live_log import LiveLog, Settings, disk_failures
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.meta_properties import META_PROPERTIES, MetaProperties, verify_directories, with_directory_ids
from kcore.storage.raft.raft_dir import METADATA_FOLDER, random_directory_id
from kcore.types import Uuid

logger = logging.getLogger(__name__)


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


class LogDirectories:
    """All log directories of one broker, online and offline."""

    def __init__(
        self,
        paths: Sequence[Path],
        settings: Settings | None,
        node_id: int | None,
        metadata_dir: Path | None,
        in_background: bool,
    ) -> None:
        """Opens every log; the arguments are those of BrokerLogs."""
        self._directories = [LogDirectory(path, settings, in_background=in_background) for path in paths]
        self.cluster_id = ""  # In ZooKeeper mode, `claim` sets it.
        self.are_formatted = node_id is not None  # True in KRaft mode.
        if node_id is not None:
            self.cluster_id = identify(self._directories, node_id, metadata_dir or paths[0], self._at_start)
        self._at_start(lambda directory: directory.open())
        if node_id is not None:
            check_metadata_dir(self._directories, metadata_dir or paths[0])

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def __len__(self) -> int:
        return len(self._directories)

    def __getitem__(self, at: int) -> LogDirectory:
        return self._directories[at]

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self._directories if each.failed is None]

    def with_id(self, directory_id: Uuid) -> LogDirectory | None:
        """The online directory with the id; None if there is none."""
        return next((each for each in self.online if each.directory_id == directory_id), None)

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
            identify_migrating(self._directories, metadata_dir)
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
                self.fail(directory, str(error))
        if not self.online:
            failures = "; ".join(str(each.failed) for each in self._directories)
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"no log directory can be used: {failures}")

    def take_clean_shutdown(self) -> int:
        """The broker epoch of the last run if it closed all directories cleanly; -1 otherwise.

        Source: LogManager.readBrokerEpochFromCleanShutdownFiles.
        """
        epochs: set[int] = set()
        self._at_start(lambda directory: epochs.add(directory.take_clean_shutdown()))
        return epochs.pop() if len(epochs) == 1 and len(self.online) == len(self._directories) else UNKNOWN_BROKER_EPOCH

    def fail(self, directory: LogDirectory, why: str) -> list[Key] | None:
        """Takes a directory offline. Returns the partitions of the directory; None if it was offline."""
        if directory.failed is not None:
            return None
        logger.error("log directory %s goes offline: %s", directory.path, why)
        return [tuple(each) for each in directory.fail(why)]  # type: ignore[misc]
