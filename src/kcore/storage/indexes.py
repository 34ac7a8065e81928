"""The three indexes beside a segment, read from bytes: `.index` (offsets), `.timeindex`, `.txnindex` (KIP-98).

Offsets lie relative to the segment's base offset, everything big-endian (OffsetIndex, TimeIndex, AbortedTxn).
A file that Kafka had open may end in entries of zeros: it is made at full size and cut when it is closed.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from kcore.broker.transactions import AbortedTransaction
from kcore.errors import StorageError
from kcore.types import Int32s, Int64s

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED_ENTRY: Final = np.dtype(
    [("version", ">i2"), *((name, ">i8") for name in ("producer_id", "first", "last", "stable"))]
)


@dataclass(frozen=True, slots=True, eq=False)
class OffsetIndex:
    """Some batches' last offsets and where the batches start; both ascend."""

    offsets: Int64s
    positions: Int32s

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> Self:
        """StorageError with the entry that is out of order, or with a size that is no number of entries."""
        entries = _entries(data, _OFFSET_ENTRY)
        _check_rising("offset", entries["offset"])
        _check_rising("position", entries["position"])
        return cls(base_offset + entries["offset"].astype(np.int64), entries["position"].astype(np.int32))

    def entry_below(self, offset: int) -> int:
        """The last entry whose batch ends at `offset` or before; -1 if there is none."""
        return int(np.searchsorted(self.offsets, offset, side="right")) - 1

    def entry_before(self, position: int) -> int:
        """The last entry whose batch starts at `position` or before; -1 if there is none."""
        return int(np.searchsorted(self.positions, position, side="right")) - 1


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """The largest timestamps so far, and the last offset of the batch that has each."""

    timestamps: Int64s
    offsets: Int64s

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> Self:
        """As OffsetIndex.parse."""
        entries = _entries(data, _TIME_ENTRY)
        _check_rising("timestamp", entries["timestamp"])
        return cls(entries["timestamp"].astype(np.int64), base_offset + entries["offset"].astype(np.int64))


def parse_aborted(data: bytes) -> list[AbortedTransaction]:
    """A transaction index; StorageError for another version, a torn end, or last offsets that do not rise."""
    if len(data) % _ABORTED_ENTRY.itemsize:
        raise StorageError(f"{len(data)} bytes are no number of {_ABORTED_ENTRY.itemsize}-byte entries")
    entries = np.frombuffer(data, _ABORTED_ENTRY)
    if (others := np.flatnonzero(entries["version"])).size:
        raise StorageError(f"entry {others[0]}: version {entries['version'][others[0]]}, not 0")
    _check_rising("last offset", entries["last"])
    return [AbortedTransaction(*entry[1:]) for entry in entries.tolist()]


def format_aborted(transactions: list[AbortedTransaction]) -> bytes:
    """The bytes of a transaction index."""
    return np.array([(0, *transaction) for transaction in transactions], _ABORTED_ENTRY).tobytes()


def _entries(data: bytes, entry: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The entries up to the last that is not all zeros."""
    if len(data) % entry.itemsize:
        raise StorageError(f"{len(data)} bytes are no number of {entry.itemsize}-byte entries")
    used = -(-len(data.rstrip(b"\0")) // entry.itemsize)
    return np.frombuffer(data, entry, used)


def _check_rising(name: str, values: npt.NDArray[np.integer]) -> None:
    numbers = values.astype(np.int64)
    if (wrong := np.flatnonzero(numbers < 0)).size:
        raise StorageError(f"entry {wrong[0]}: {name} {numbers[wrong[0]]} is negative")
    if (wrong := np.flatnonzero(numbers[1:] <= numbers[:-1])).size:
        at = int(wrong[0]) + 1
        raise StorageError(f"entry {at}: {name} {numbers[at]} does not rise above {numbers[at - 1]}")
