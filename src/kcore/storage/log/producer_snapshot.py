"""Reads and writes `.snapshot` files: a partition's idempotent producers (Kafka's ProducerStateManager, KIP-98).

A file has a version, a CRC-32C of all bytes after the CRC, and the entries; all big-endian (ProducerSnapshot).
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
MOST_BYTES: Final = 1 << 28  # Size limit of a file: five million producers of one partition.
_FRONT: Final = struct.Struct(">hI")  # The version, and the CRC of all bytes after the CRC.
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
_SEQUENCES: Final = 2**31  # Number of sequences: 0 follows 2^31 - 1 (DefaultRecordBatch.decrementSequence).


class ProducerState(NamedTuple):
    """The state of one producer, with the last batch that it wrote to the partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int  # -1: the producer has written no batch of data.
    offset_delta: int  # The last batch's last sequence minus its first.
    timestamp: int  # In ms since 1970.
    coordinator_epoch: int  # The epoch of the coordinator that ended the producer's last transaction.
    current_txn_first_offset: int  # -1: no transaction is open.

    @property
    def first_sequence(self) -> int:
        """The first sequence of the last batch; -1 if the batch has no sequences."""
        return -1 if self.last_sequence < 0 else (self.last_sequence - self.offset_delta) % _SEQUENCES


def parse_producers(data: bytes) -> list[ProducerState]:
    """The entries, in the file's order; StorageError for another version, a wrong CRC, or another size."""
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
    """Reads a file as `parse_producers` does."""
    with naming(path):
        return parse_producers(read_bytes(path, MOST_BYTES))


def format_producers(producers: Iterable[ProducerState]) -> bytes:
    """The bytes of a file with these producers."""
    entries = np.array(list(producers), _ENTRY)
    behind = _COUNT.pack(len(entries)) + entries.tobytes()
    return _FRONT.pack(VERSION, crc32c(behind)) + behind
