"""A broker's state of a partition's idempotent producers: `.snapshot` files (Kafka's ProducerStateManager, KIP-98).

A version, a CRC-32C of all that follows it, and the entries; everything big-endian (ProducerSnapshot).
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kcore.errors import StorageError
from kcore.storage.files import naming, read_bytes
from kcore.wire.record_batch import crc32c

PRODUCER_SNAPSHOT: Final = ".snapshot"
VERSION: Final = 1
MOST_BYTES: Final = 1 << 28  # Five million producers of one partition.
_FRONT: Final = struct.Struct(">hI")  # The version, and the CRC of everything after it.
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)
_SEQUENCES: Final = 2**31  # Below zero comes the largest: DefaultRecordBatch.decrementSequence.


class ProducerState(NamedTuple):
    """One producer, and the last batch that it wrote."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int  # -1: it has written no batch of data.
    offset_delta: int  # The last batch's last sequence minus its first.
    timestamp: int  # milliseconds
    coordinator_epoch: int  # The epoch of the coordinator that ended the producer's last transaction.
    current_txn_first_offset: int  # -1: no transaction is open.

    @property
    def first_sequence(self) -> int:
        """The first sequence of the last batch; -1 where it has none."""
        return -1 if self.last_sequence < 0 else (self.last_sequence - self.offset_delta) % _SEQUENCES


def parse_producers(data: bytes) -> list[ProducerState]:
    """The entries as they stand there; StorageError for another version, a CRC that does not match, a torn end."""
    if len(data) < _FRONT.size + _COUNT.size:
        raise StorageError(f"{len(data)} bytes are no producer snapshot")
    version, crc = _FRONT.unpack_from(data)
    if version != VERSION:
        raise StorageError(f"version {version}, not {VERSION}")
    if crc != (found := crc32c(data[_FRONT.size :])):
        raise StorageError(f"the CRC is {found:#010x}, not {crc:#010x} as stored")
    [count] = _COUNT.unpack_from(data, _FRONT.size)
    begin = _FRONT.size + _COUNT.size
    if count < 0 or len(data) - begin != count * _ENTRY.itemsize:
        raise StorageError(f"{count} entries are promised, {len(data) - begin} bytes follow")
    return [ProducerState(*entry) for entry in np.frombuffer(data, _ENTRY, count, begin).tolist()]


def read_producers(path: Path) -> list[ProducerState]:
    """As `parse_producers`, of a file."""
    with naming(path):
        return parse_producers(read_bytes(path, MOST_BYTES))


def format_producers(producers: Iterable[ProducerState]) -> bytes:
    """The bytes of the file."""
    entries = np.array(list(producers), _ENTRY)
    behind = _COUNT.pack(len(entries)) + entries.tobytes()
    return _FRONT.pack(VERSION, crc32c(behind)) + behind
