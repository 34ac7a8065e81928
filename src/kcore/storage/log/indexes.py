"""Reads the three indexes of a segment: `.index` (offsets), `.timeindex`, `.txnindex` (KIP-98).

In the files offsets are relative to the segment's base offset, and numbers are big-endian (OffsetIndex, TimeIndex,
AbortedTxn). After a crash an index may end in zeros: Kafka creates it at full size and truncates it when it closes it.
An index has at most one entry per batch of its segment, which limits how many bytes are read.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.errors import StorageError
from kcore.storage.files import OS, FileSystem, naming, opened, read_bytes
from kcore.types import Int32s, Int64s
from kcore.wire.record_batch import HEADER_END

MOST_SEGMENT: Final = 2**31 - 1  # Size limit of a segment or an index: positions are int32 (FileRecords).
FEW_BYTES: Final = 1 << 10  # Parsed indexes of at most so many bytes are cached: a start reads them several times.
_PIECE: Final = 1 << 20  # Bytes per step of the search for the last byte that is not zero.
_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED_ENTRY: Final = np.dtype(
    [("version", ">i2"), *((name, ">i8") for name in ("producer_id", "first", "last", "stable"))]
)


@dataclass(frozen=True, slots=True, eq=False)
class OffsetIndex:
    """The last offsets of some batches and their positions in the segment; both ascend."""

    offsets: Int64s
    positions: Int32s

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> Self:
        """Parses an offset index; raises StorageError for an entry out of order or an incomplete entry."""
        entries = _entries(data, _OFFSET_ENTRY)
        _check_rising("offset", entries["offset"])
        _check_rising("position", entries["position"])
        return cls(base_offset + entries["offset"].astype(np.int64), entries["position"].astype(np.int32))

    @staticmethod
    def read(path: Path, base_offset: int, segment_bytes: int = MOST_SEGMENT, files: FileSystem = OS) -> "OffsetIndex":
        """Reads the index of a segment of `segment_bytes`; StorageError as from `parse`, or for too many entries."""
        with naming(path):
            data = _read_entries(path, _OFFSET_ENTRY.itemsize, segment_bytes, files)
            return _offset_index(data, base_offset) if len(data) <= FEW_BYTES else OffsetIndex.parse(data, base_offset)

    def entry_below(self, offset: int) -> int:
        """The row of the last entry whose batch's last offset is at most `offset`; -1 if there is no such entry."""
        return int(np.searchsorted(self.offsets, offset, side="right")) - 1

    def entry_before(self, position: int) -> int:
        """The row of the last entry whose batch starts at or before `position`; -1 if there is no such entry."""
        return int(np.searchsorted(self.positions, position, side="right")) - 1


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """Entries that each have the segment's largest timestamp so far, and the last offset of its batch; both ascend."""

    timestamps: Int64s
    offsets: Int64s

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> Self:
        """Parses a time index; raises StorageError for an entry out of order or an incomplete entry."""
        entries = _entries(data, _TIME_ENTRY)
        _check_rising("timestamp", entries["timestamp"])
        return cls(entries["timestamp"].astype(np.int64), base_offset + entries["offset"].astype(np.int64))

    @staticmethod
    def read(path: Path, base_offset: int, segment_bytes: int = MOST_SEGMENT, files: FileSystem = OS) -> "TimeIndex":
        """Reads the index of a segment of `segment_bytes`; StorageError as from `parse`, or for too many entries."""
        with naming(path):
            data = _read_entries(path, _TIME_ENTRY.itemsize, segment_bytes, files)
            return _time_index(data, base_offset) if len(data) <= FEW_BYTES else TimeIndex.parse(data, base_offset)


@lru_cache(maxsize=256)
def _offset_index(data: bytes, base_offset: int) -> OffsetIndex:
    return OffsetIndex.parse(data, base_offset)


@lru_cache(maxsize=256)
def _time_index(data: bytes, base_offset: int) -> TimeIndex:
    return TimeIndex.parse(data, base_offset)


def read_aborted(path: Path, segment_bytes: int = MOST_SEGMENT, files: FileSystem = OS) -> list[AbortedTransaction]:
    """Reads the transaction index of a segment of `segment_bytes`, as `parse_aborted` does."""
    with naming(path):
        return parse_aborted(read_bytes(path, (segment_bytes // HEADER_END + 1) * _ABORTED_ENTRY.itemsize, files))


def parse_aborted(data: bytes) -> list[AbortedTransaction]:
    """Parses a transaction index; StorageError for another version, a torn end, or last offsets that do not ascend."""
    if len(data) % _ABORTED_ENTRY.itemsize:
        raise StorageError(f"{len(data)} bytes are not a multiple of the {_ABORTED_ENTRY.itemsize} bytes of an entry")
    entries = np.frombuffer(data, _ABORTED_ENTRY)
    if (others := np.flatnonzero(entries["version"])).size:
        raise StorageError(f"entry {others[0]}: version {entries['version'][others[0]]}, not 0")
    _check_rising("last offset", entries["last"])
    return [AbortedTransaction(*entry[1:]) for entry in entries.tolist()]


def format_aborted(transactions: list[AbortedTransaction]) -> bytes:
    """The bytes of a transaction index with these transactions."""
    return np.array([(0, *transaction) for transaction in transactions], _ABORTED_ENTRY).tobytes()


def _entries(data: bytes, entry: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The entries up to the last entry that is not all zeros."""
    if len(data) % entry.itemsize:
        raise StorageError(f"{len(data)} bytes are not a multiple of the {entry.itemsize} bytes of an entry")
    used = -(-len(data.rstrip(b"\0")) // entry.itemsize)
    return np.frombuffer(data, entry, used)


def _read_entries(path: Path, entry_bytes: int, segment_bytes: int, files: FileSystem) -> bytes:
    """The bytes of an index without the zeros at its end, which may fill gigabytes."""
    with opened(path, files=files) as file:
        size = files.size(file)
        if size > MOST_SEGMENT:
            raise StorageError(f"{size:,} bytes are more than the {MOST_SEGMENT:,} that an index may have")
        if size % entry_bytes:
            raise StorageError(f"{size} bytes are not a multiple of the {entry_bytes} bytes of an entry")
        count = -(-_used_bytes(file, size, files) // entry_bytes)
        if count > segment_bytes // HEADER_END + 1:  # Closing a segment may add one entry to the time index.
            raise StorageError(f"{count:,} entries are more than a segment of {segment_bytes:,} bytes can have")
        return files.pread(file, count * entry_bytes, 0)


def _used_bytes(file: int, size: int, files: FileSystem) -> int:
    """The size of a file without the zeros at its end."""
    while size:
        begin = max(0, size - _PIECE)
        if used := files.pread(file, size - begin, begin).rstrip(b"\0"):
            return begin + len(used)
        size = begin
    return 0


def _check_rising(name: str, values: npt.NDArray[np.integer]) -> None:
    numbers = values.astype(np.int64)
    if not len(numbers) or (numbers[0] >= 0 and (numbers[1:] > numbers[:-1]).all()):
        return
    if (wrong := np.flatnonzero(numbers < 0)).size:
        raise StorageError(f"entry {wrong[0]}: {name} {numbers[wrong[0]]} is negative")
    at = int(np.flatnonzero(numbers[1:] <= numbers[:-1])[0]) + 1
    raise StorageError(f"entry {at}: {name} {numbers[at]} does not rise above {numbers[at - 1]}")
