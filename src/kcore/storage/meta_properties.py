"""Reads and writes `meta.properties`: the ids of a log directory, its node and its cluster (KIP-500, KIP-858)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from kcore.errors import StorageError
from kcore.metadata.table.directory_table import is_reserved_directory
from kcore.storage.files import OS, FileSystem, naming, read_bytes, write_atomically
from kcore.storage.properties import format_properties, parse_properties
from kcore.types import Uuid

META_PROPERTIES: Final = "meta.properties"  # The file, in a log directory.
_ID_KEYS: Final = {0: "broker.id", 1: "node.id"}
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of `meta.properties` (MetaProperties).

    Version 0 (ZooKeeper) may lack every field. Version 1 (KRaft) may lack the directory id, and the cluster id until
    the cluster has one (KIP-595); Kafka refuses a directory without a cluster id.
    """

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: Uuid | None = None

    def __post_init__(self) -> None:
        if self.version not in _ID_KEYS:
            raise StorageError(f"version {self.version} is not one of 0, 1")
        if self.version and self.node_id is None:
            raise StorageError("node.id was not found")


@lru_cache(maxsize=64)
def parse_meta_properties(data: bytes, *, needs_cluster_id: bool = True) -> MetaProperties:
    """Parses the file; a StorageError names the property that is missing or wrong. Ignores unknown properties.

    Cached: each start reads the file, which seldom changes.
    """
    properties = parse_properties(data)
    version = _integer(properties, "version") or 0
    if version == 1 and needs_cluster_id and "cluster.id" not in properties:
        raise StorageError("cluster.id was not found")
    if properties.get("cluster.id") == "":
        raise StorageError("cluster.id is empty")
    directory_id = properties.get("directory.id")
    return MetaProperties(
        version,
        cluster_id=properties.get("cluster.id"),
        node_id=_integer(properties, _ID_KEYS.get(version, "node.id")),
        directory_id=None if directory_id is None else uuid_of("directory.id", directory_id),
    )


def format_meta_properties(meta: MetaProperties, written_at: datetime) -> bytes:
    """The file's content; `written_at` is the time in its comment, and needs a time zone."""
    properties = {"version": str(meta.version)}
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    if meta.node_id is not None:
        properties[_ID_KEYS[meta.version]] = str(meta.node_id)
    if meta.directory_id is not None:
        properties["directory.id"] = str(meta.directory_id)
    return format_properties(properties, written_at)


def verify_directories(
    found: Mapping[Path, MetaProperties],
    *,
    node_id: int | None = None,
    cluster_id: str | None = None,
    needs_directory_ids: bool = True,
) -> None:
    """Checks that the files of all log directories of a node agree; `found` is by path of the directory (KIP-858).

    Raises StorageError if a file names another node or cluster than expected, or than the files before it. Also raises
    it if a needed directory id is missing, or a directory id is reserved or used twice. Source:
    MetaPropertiesEnsemble.verify.
    """
    seen: dict[Uuid, Path] = {}
    for path, meta in found.items():
        file = path / META_PROPERTIES
        cluster_id = meta.cluster_id if cluster_id is None else cluster_id
        if meta.cluster_id not in (None, cluster_id):
            raise StorageError(f"{file}: cluster.id is {meta.cluster_id}, not {cluster_id}")
        node_id = meta.node_id if node_id is None else node_id
        if meta.node_id not in (None, node_id):
            raise StorageError(f"{file}: {_ID_KEYS[meta.version]} is {meta.node_id}, not {node_id}")
        if meta.directory_id is None:
            if needs_directory_ids:
                raise StorageError(f"{file}: directory.id was not found")
        elif is_reserved_directory(meta.directory_id):
            raise StorageError(f"{file}: directory.id is {meta.directory_id}, which is reserved")
        elif (other := seen.setdefault(meta.directory_id, path)) != path:
            raise StorageError(f"{file}: directory.id is {meta.directory_id}, which is that of {other}, too")


def with_directory_ids(found: Mapping[Path, MetaProperties], make_id: Callable[[], Uuid]) -> dict[Path, MetaProperties]:
    """New content, with a generated directory.id, for each file that lacks one; the node writes it when it starts.

    KRaft nodes need a directory.id in directories of an older release, brokers in ZooKeeper mode before a migration.
    Files of ZooKeeper mode keep version 0. Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.Copier.
    """
    taken = {meta.directory_id for meta in found.values()}
    changed: dict[Path, MetaProperties] = {}
    for path, meta in found.items():
        if meta.directory_id is None:
            while (made := make_id()) in taken or is_reserved_directory(made):
                pass
            taken.add(made)
            changed[path] = replace(meta, directory_id=made)
    return changed


def read_meta_properties(path: Path, *, needs_cluster_id: bool = True, files: FileSystem = OS) -> MetaProperties:
    """Reads a file as `parse_meta_properties` does."""
    with naming(path):
        return parse_meta_properties(read_bytes(path, files=files), needs_cluster_id=needs_cluster_id)


def write_meta_properties(path: Path, meta: MetaProperties, files: FileSystem = OS) -> None:
    """Replaces the file atomically; its comment has the present time."""
    write_atomically(path, format_meta_properties(meta, datetime.now(UTC)), files)


def uuid_of(name: str, text: str) -> Uuid:
    """Parses the uuid `text` as Kafka's Uuid.fromString does; a StorageError names the property `name`."""
    if not re.fullmatch(r"[0-9A-Za-z_-]{22}(==)?", text):
        raise StorageError(f"{name}: {text!r:.60} is no uuid")
    return Uuid(text[:22])


def _integer(properties: dict[str, str], key: str) -> int | None:
    if (text := properties.get(key)) is None:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not -_MOST - 1 <= int(text) <= _MOST:
        raise StorageError(f"{key}: {text!r:.60} is no int32")
    return int(text)
