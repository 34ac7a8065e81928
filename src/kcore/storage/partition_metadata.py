"""Reads and writes `partition.metadata`, a partition's file with its topic id (KIP-516, PartitionMetadataFile)."""

import re
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from kcore.errors import StorageError
from kcore.storage.checkpoints import fields_of, lines_of
from kcore.storage.files import OS, FileSystem, naming, read_text, write_atomically
from kcore.storage.meta_properties import uuid_of
from kcore.types import ZERO_UUID, Uuid

PARTITION_METADATA: Final = "partition.metadata"


@lru_cache(maxsize=64)  # Each start reads the file, which never changes.
def parse_partition_metadata(text: str) -> Uuid:
    """The topic id; accepts every version from 0 on, as Kafka does. A StorageError names the wrong line."""
    lines = [*islice(lines_of(text), 2)]
    version, topic_id = (_value(lines, number) for number in (1, 2))
    if not re.fullmatch(r"\+?[0-9]{1,10}", version):
        raise StorageError(f"line 1: version {version!r:.60} is not 0 or more")
    uuid = uuid_of("line 2: topic_id", topic_id)
    if uuid == ZERO_UUID:
        raise StorageError("line 2: topic_id is the zero uuid")
    return uuid


def _value(lines: list[str], number: int) -> str:
    fields = fields_of(lines[number - 1]) if number <= len(lines) else []
    if len(fields) != 2:
        raise StorageError(f"line {number}: not a name and a value" if fields else f"line {number} is missing or empty")
    return fields[1]


def read_partition_metadata(path: Path, files: FileSystem = OS) -> Uuid:
    """Reads a file as `parse_partition_metadata` does."""
    with naming(path):
        return parse_partition_metadata(read_text(path, files=files))


def write_partition_metadata(path: Path, topic_id: Uuid, files: FileSystem = OS) -> None:
    """Replaces a partition.metadata file, of version 0, atomically."""
    write_atomically(path, f"version: 0\ntopic_id: {topic_id}".encode(), files)
