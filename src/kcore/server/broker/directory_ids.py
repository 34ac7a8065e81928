"""Whose the log directories of a broker are, and the id of each (KIP-858).

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
    """Sets the `directory_id` of those that can be read; returns the cluster id.

    `at_start` runs its argument in each directory that is online, and takes those offline that fail. A directory of a
    release before KIP-858 gets an id. StorageError if one is not formatted, is another node's or cluster's, has a
    reserved id or that of another one, or a metadata log that is not the configured one; or if the directory of the
    metadata log has failed.
    """
    found: dict[Path, MetaProperties] = {}

    def look(directory: LogDirectory) -> None:
        found[directory.path] = _read(directory.path)
        if directory.path.absolute() != metadata_dir.absolute():
            _check_no_metadata_log(directory.path, metadata_dir)

    at_start(look)
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
    """Sets the `directory_id` of a migrating broker's directories, which are claimed: those without an id get one.

    The files stay what they are, of version 0, and so does the one of a `metadata_dir` apart, which is made if need be.
    StorageError if a directory is offline, or has a reserved id or that of another one; KafkaStorageException. Source:
    KafkaServer.startup of 3.9.1.
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
    """StorageError if the directory is not formatted; KafkaStorageException if the disk does not say."""
    meta = LogDirectory(path).read_meta()
    if meta is None:
        raise StorageError(f"{path / META_PROPERTIES}: there is none: the directory is not formatted")
    if meta.node_id is None or meta.cluster_id is None:
        missing = "node.id" if meta.node_id is None else "cluster.id"
        raise StorageError(f"{path / META_PROPERTIES}: {missing} was not found")
    return meta


def _check_no_metadata_log(path: Path, metadata_dir: Path) -> None:
    with disk_failures(path):
        is_found = is_there(path / METADATA_FOLDER)
    if is_found:
        raise StorageError(f"{path / METADATA_FOLDER}: a metadata log, but metadata.log.dir is {metadata_dir}")


def check_metadata_dir(directories: Sequence[LogDirectory], metadata_dir: Path) -> None:
    """StorageError if it has failed: without the metadata log no broker can begin."""
    for each in directories:
        if each.failed is not None and each.path.absolute() == metadata_dir.absolute():
            raise StorageError(f"the directory of the metadata log cannot be used: {each.failed}")
