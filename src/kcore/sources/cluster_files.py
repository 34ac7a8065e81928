"""Loads a cluster from a file or folder: a shape, a ZooKeeper dump, a raw control request, or Kafka's metadata log."""

from pathlib import Path
from typing import Final

from kcore.errors import ClusterFileError, DecodeError, KcoreError, TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.shape.shape_reader import image_of, parse_shape
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znode_image import image_of_znodes
from kcore.metadata.zookeeper.zookeeper_dump import parse_znodes
from kcore.schema.index import REQUESTS
from kcore.storage.files import MOST_CLUSTER_FILE, read_bytes
from kcore.storage.log.segment import SEGMENT_NAME
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.snapshot import is_snapshot
from kcore.storage.tools.foreign import file_of_zookeeper
from kcore.wire.codec import decode
from kcore.wire.column_codec import decode_columns

_MOST_TAGGED_BYTES: Final = 1024  # A request header's tagged fields have at most so many.


def is_dump(head: bytes) -> bool:
    """True if a file begins as a ZooKeeper dump, whose first line is the path of a znode."""
    return head.startswith(b"/")


def is_shape(head: bytes) -> bool:
    """True if a file begins as JSON does."""
    return head.lstrip().startswith(b"{")


def image_of_path(path: Path) -> ClusterImage:
    """The cluster in a file or folder. KcoreError or OSError if there is none."""
    if path.is_dir() or SEGMENT_NAME.fullmatch(path.name) or is_snapshot(path.name):
        return load_metadata(path)
    return image_of_file(read_bytes(path, MOST_CLUSTER_FILE))


def image_of_file(content: bytes) -> ClusterImage:
    """The cluster in the content of a shape, a dump or a request; ClusterFileError for anything else."""
    if (kind := file_of_zookeeper(content)) is not None:
        raise ClusterFileError(f"it is {kind}")
    try:
        if is_shape(content):
            return image_of(parse_shape(content.decode()))
        if is_dump(content):
            return image_of_znodes(parse_znodes(content.decode()))
    except (KcoreError, UnicodeDecodeError) as error:
        kind = "ZooKeeper dump" if is_dump(content) else "shape file"
        raise ClusterFileError(f"not a valid {kind}: {error}") from None
    try:
        return ClusterImage(_table_of_request(content))
    except KcoreError as error:
        kinds = "a shape file, a ZooKeeper dump, a metadata log or a raw request with its header"
        raise ClusterFileError(f"not {kinds}: {error}") from None


def _table_of_request(content: bytes) -> PartitionTable:
    framed = len(content) >= 4 and int.from_bytes(content[:4], "big", signed=True) == len(content) - 4
    request = content[4:] if framed else content
    if len(request) < 8:
        raise DecodeError("no room for a request header", 0)
    api_key, version = (int.from_bytes(request[at : at + 2], "big", signed=True) for at in (0, 2))
    message = REQUESTS.get(api_key)
    if message is None or message.__name__ not in ("LeaderAndIsrRequest", "UpdateMetadataRequest"):
        raise TableError(f"a request with API key {api_key} contains no cluster")
    begin = _header_size(request, message.header_version(version))
    return PartitionTable.from_columns(decode_columns(message, version, request[begin:]))


def _header_size(request: bytes, header_version: int) -> int:
    """The size of a request's header."""
    client_id = int.from_bytes(request[8:10], "big", signed=True)
    size = 10 + max(0, client_id)
    # From version 2 on, tagged fields may follow.
    for end in range(size, min(len(request), size + _MOST_TAGGED_BYTES)):
        try:
            decode("RequestHeader", header_version, request[:end])
        except DecodeError:
            continue
        return end
    raise DecodeError("no request header", 0)
