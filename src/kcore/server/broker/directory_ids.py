"""Checks that log directories belong to this broker, and reads or creates their ids (KIP-858).

Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble of 4.3.1.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from kcore.errors import StorageError
from kcore.storage.files import is_there
from kcore.storage.log.live_log import disk_failures
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.meta_properties import META_PROPERTIES, MetaProperties, verify_directories, with_directory_ids
from kcore.storage.raft.raft_dir import METADATA_FOLDER, random_directory_id


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
