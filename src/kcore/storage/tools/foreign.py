"""Recognises files that are no metadata log by their first bytes, and unused space at the end of a segment.

Source: FileSnap and FileTxnLog of ZooKeeper, LegacyRecord of Kafka.
"""

from mmap import mmap
from typing import Final

import numpy as np

from kcore.errors import DecodeError
from kcore.wire.message_sets import is_message
from kcore.wire.record_batch import MAGIC_AT, OTHER_MAGIC

HEAD_BYTES: Final = 4096  # The first bytes of a file that are enough to recognise it.
_DUMP: Final = 'kcore reads the tree as text ("ZooKeeper dumps" in docs/guides/files.md)'
_OF_ZOOKEEPER: Final = {
    b"ZKSN": f"a snapshot that ZooKeeper wrote for itself; {_DUMP}",
    b"ZKLG": f"a transaction log of ZooKeeper; {_DUMP}",
}
_OLD: Final = "a message set of magic {}, from before Kafka 0.11 (`kcore dump` shows it)"
_UNUSED: Final = "as in a preallocated segment that was not closed: no record is missing"


def file_of_zookeeper(head: bytes) -> str | None:
    """Describes a file of ZooKeeper by its first bytes, and says what to do; None for other files."""
    return _OF_ZOOKEEPER.get(head[:4])


def foreign_kind(head: bytes) -> str | None:
    """Describes a file that is no metadata log and no snapshot, by its first bytes; None for other files."""
    if (kind := file_of_zookeeper(head)) is not None:
        return kind
    return _OLD.format(head[MAGIC_AT]) if is_message(head) else None


def explained(error: DecodeError, data: mmap | memoryview | bytes) -> DecodeError:
    """Returns `error`, from reading record batches, or an error that names unused space if that is the cause."""
    begin = error.offset - MAGIC_AT
    if error.message == OTHER_MAGIC and begin >= 0 and is_unused(data, begin):
        return DecodeError(f"{len(data) - begin:,} zeros at the end, {_UNUSED}", begin)
    return error


def is_unused(data: mmap | memoryview | bytes, position: int) -> bool:
    """True if only zeros follow: the end of a segment that Kafka allocates at once (preallocate=true) and has not
    closed. The batches before them are whole."""
    head = bytes(data[position : position + HEAD_BYTES])
    return not head.strip(b"\0") and not np.frombuffer(data, np.uint8, offset=position).any()
