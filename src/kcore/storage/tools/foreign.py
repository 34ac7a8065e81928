"""Recognises files of ZooKeeper and of older Kafka releases by their first bytes, and says what to do with them.

Source: FileSnap and FileTxnLog of ZooKeeper, LegacyRecord of Kafka.
"""

from mmap import mmap
from typing import Final

import numpy as np

from kcore.errors import DecodeError

HEAD_BYTES: Final = 4096  # The first bytes of a file that are enough to recognise it.
_DUMP: Final = 'kcore reads the tree as text ("ZooKeeper dumps" in docs/guides/files.md)'
_OF_ZOOKEEPER: Final = {
    b"ZKSN": f"a snapshot that ZooKeeper wrote for itself; {_DUMP}",
    b"ZKLG": f"a transaction log of ZooKeeper; {_DUMP}",
}
MAGIC_PLACE: Final = 16  # Bytes of a batch before its magic.
_LEAST_MESSAGE: Final = 14  # Bytes after the size: CRC, magic, attributes, sizes of key and value.
_OTHER_MAGIC: Final = "a record batch whose magic is not 2"
_OLD: Final = "a message set of magic {}, from before Kafka 0.11"
_UNUSED: Final = "as in a preallocated segment that was not closed: no record is missing"
_AGAIN: Final = "kcore reads magic 2; have a newer Kafka write the records again"


def file_of_zookeeper(head: bytes) -> str | None:
    """Describes a file of ZooKeeper by its first bytes, and says what to do; None for other files."""
    return _OF_ZOOKEEPER.get(head[:4])


def foreign_kind(head: bytes) -> str | None:
    """Describes a file that is not a log of this format, by its first bytes, and says what to do; None for a log."""
    if (kind := file_of_zookeeper(head)) is not None:
        return kind
    magic = _old_magic(head)
    return None if magic is None else f"{_OLD.format(magic)}; {_AGAIN}"


def is_old(error: DecodeError) -> bool:
    """Whether the error comes from `explained`: the data is whole, but in an older format."""
    return error.message.endswith(_AGAIN)


def explained(error: DecodeError, data: mmap | memoryview | bytes) -> DecodeError:
    """Returns `error`, from reading record batches, or an error that names an older format if that is the cause."""
    begin = error.offset - MAGIC_PLACE
    magic = _old_magic(bytes(data[begin : begin + HEAD_BYTES])) if begin >= 0 else None
    if error.message != _OTHER_MAGIC or begin < 0:
        return error
    if is_unused(data, begin):
        return DecodeError(f"{len(data) - begin:,} zeros at the end, {_UNUSED}", begin)
    if magic is None:
        return error
    return DecodeError(f"{_OLD.format(magic)}; {_AGAIN}", begin)


def is_unused(data: mmap | memoryview | bytes, position: int) -> bool:
    """True if only zeros follow: the end of a segment that Kafka allocates at once (preallocate=true) and has not
    closed. The batches before them are whole."""
    head = bytes(data[position : position + HEAD_BYTES])
    return not head.strip(b"\0") and not np.frombuffer(data, np.uint8, offset=position).any()


def _old_magic(head: bytes) -> int | None:
    """The magic, 0 or 1, if the bytes begin with a message of an older format; otherwise None."""
    if len(head) < MAGIC_PLACE + 2 or head[MAGIC_PLACE] > 1:
        return None
    offset, size = (int.from_bytes(head[begin:end], signed=True) for begin, end in ((0, 8), (8, 12)))
    return head[MAGIC_PLACE] if offset >= 0 and size >= _LEAST_MESSAGE and head[MAGIC_PLACE + 1] < 16 else None
