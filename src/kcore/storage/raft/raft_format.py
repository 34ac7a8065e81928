"""Formats metadata directories and brokers' log directories, as `kafka-storage format` (Formatter, StorageTool)."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcore.errors import StorageError
from kcore.metadata.metadata_version import FEATURE_NAME as METADATA_VERSION
from kcore.raft.membership.replicas import Voter
from kcore.raft.membership.voters import VoterSet
from kcore.schema.control_records import KRaftVersionRecord
from kcore.schema.metadata_records_security import UserScramCredentialRecord
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.storage.files import OS, FileSystem, is_there, sync_folder
from kcore.storage.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    verify_directories,
    with_directory_ids,
    write_meta_properties,
)
from kcore.storage.raft.file_raft_log import Refusals
from kcore.storage.raft.raft_dir import METADATA_FOLDER, RaftDirectory, random_directory_id
from kcore.storage.raft.snapshot import SnapshotId, write_bootstrap, write_snapshot
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record


def format_directory(
    path: Path,
    *,
    node_id: int,
    features: Mapping[str, int],
    cluster_id: str | None = None,
    without_cluster_id: bool = False,
    directory_id: Uuid | None = None,
    initial_voters: Sequence[Voter] = (),
    credentials: Sequence[UserScramCredentialRecord] = (),
    bootstraps_from_snapshot: bool = False,
    joins_dynamic_quorum: bool = False,
    now_ms: int | None = None,
    files: FileSystem = OS,
) -> RaftDirectory:
    """Formats a metadata directory for a new node; generates the ids that are not given.

    `without_cluster_id`: the first leader generates the cluster id (KIP-595), which Kafka's own nodes cannot do.
    `now_ms`: the timestamp of the written records; the present time if not given.
    `features`: levels by name, with `metadata.version`; level 0 is left out. `initial_voters`: the voters of a dynamic
    quorum, written as snapshot 0-0; if the node is among them, the directory gets the id that they name. Leave them
    empty for static voters, and for a node that joins a dynamic quorum later. `credentials`: SCRAM users of the new
    cluster. `bootstraps_from_snapshot`: as Kafka 4.4, write levels and users into snapshot 0-0, not into
    bootstrap.checkpoint; with `joins_dynamic_quorum` the snapshot has kraft.version 1. Raises StorageError for a
    directory that is already formatted, and for invalid ids and levels.
    """
    meta_path = path / META_PROPERTIES
    if node_id < 0:
        raise StorageError(f"{path}: node.id {node_id} is below 0")
    if METADATA_VERSION not in features:
        raise StorageError(f"{path}: no level of {METADATA_VERSION}")
    own_id = _directory_id(path, node_id, directory_id, initial_voters)
    new_id = None if without_cluster_id else cluster_id or str(random_directory_id())
    meta = MetaProperties(1, cluster_id=new_id, node_id=node_id, directory_id=own_id)
    with Refusals(path):
        if is_there(meta_path, files):
            raise StorageError(f"{path}: it is formatted already")
        files.mkdir(path)
        time_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        values = [*_feature_records(features), *(encode_metadata_record(each, 0) for each in credentials)]
        if not bootstraps_from_snapshot:
            write_bootstrap(path, values, time_ms=time_ms, files=files)
            values = []
        if initial_voters or bootstraps_from_snapshot:
            is_dynamic = bool(initial_voters) or joins_dynamic_quorum
            _write_first_snapshot(path, values, initial_voters, is_dynamic, time_ms, files)
        write_meta_properties(meta_path, meta, files)  # Written last: the directory counts as formatted from now on.
    return RaftDirectory(path, files=files)


def _directory_id(path: Path, node_id: int, given: Uuid | None, voters: Sequence[Voter]) -> Uuid:
    """The id that is given or that the voters name, or a new one; StorageError if the two differ."""
    named = next((voter.key.directory_id for voter in voters if voter.key.id == node_id), None)
    if given is not None and named not in (None, given):
        raise StorageError(f"{path}: directory.id {given} is not the {named} of the initial voters")
    return given or named or random_directory_id()


def format_log_directories(
    paths: Sequence[Path], *, node_id: int, cluster_id: str, passes_over_formatted: bool = False, files: FileSystem = OS
) -> dict[Path, Uuid]:
    """Formats the log directories of a broker: each gets a `meta.properties` with its own directory id (KIP-858).

    Returns the ids of the newly formatted directories. `passes_over_formatted`: skip directories that are already
    formatted for this node, as after a disk was replaced. Otherwise a formatted directory raises StorageError, as does
    always a directory of another node or cluster; then nothing is written.
    """
    formatted: dict[Path, MetaProperties] = {}
    for path in paths:
        with Refusals(path):
            if is_there(path / META_PROPERTIES, files):
                formatted[path] = read_meta_properties(path / META_PROPERTIES, files=files)
        if path in formatted and not passes_over_formatted:
            raise StorageError(f"{path}: it is formatted already")
    verify_directories(formatted, node_id=node_id, cluster_id=cluster_id, needs_directory_ids=False)
    blank = MetaProperties(1, cluster_id=cluster_id, node_id=node_id)
    new = {path: blank for path in paths if path not in formatted}
    made = with_directory_ids(new, random_directory_id)
    for path, meta in made.items():
        with Refusals(path):
            files.mkdir(path)
            write_meta_properties(path / META_PROPERTIES, meta, files)
    return {path: meta.directory_id for path, meta in made.items() if meta.directory_id is not None}


def _feature_records(features: Mapping[str, int]) -> list[bytes]:
    """The FeatureLevelRecords: `metadata.version` first, then the others by name (BootstrapMetadata.fromVersions)."""
    names = [METADATA_VERSION, *sorted(name for name in features if name != METADATA_VERSION and features[name])]
    return [encode_metadata_record(FeatureLevelRecord(name=name, feature_level=features[name]), 0) for name in names]


def _write_first_snapshot(
    path: Path, values: Sequence[bytes], voters: Sequence[Voter], is_dynamic: bool, now_ms: int, files: FileSystem
) -> None:
    folder = path / METADATA_FOLDER
    files.mkdir(folder)
    write_snapshot(
        folder,
        SnapshotId(0, 0),
        values,
        time_ms=now_ms,
        last_contained_log_timestamp=now_ms,
        kraft_version=KRaftVersionRecord(version=0, kraft_version=1) if is_dynamic else None,
        voters=VoterSet.of(voters).to_record() if voters else None,
        files=files,
    )
    sync_folder(path, files)
