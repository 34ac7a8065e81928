"""The three indexes beside a segment, as bytes: `.index` (offsets), `.timeindex`, `.txnindex` (KIP-98).

Offsets lie relative to the segment's base offset, everything big-endian (OffsetIndex, TimeIndex, AbortedTxn).
A file that Kafka had open may end in entries of zeros: it is made at full size and cut when it is closed.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kcore.errors import StorageError
from kcore.types import Int32s, Int64s
from kcore.wire.records import RecordBatches

INDEX_INTERVAL_BYTES: Final = 4096  # index.interval.bytes
LENGTH_END: Final = 12  # What a batch has before the bytes that batch_length counts.
NO_TIMESTAMP: Final = -1
_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED_ENTRY: Final = np.dtype(
    [("version", ">i2"), *((name, ">i8") for name in ("producer_id", "first", "last", "stable"))]
)
_MOST_RELATIVE: Final = 2**31 - 1


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

    def to_bytes(self, base_offset: int) -> bytes:
        """The file's bytes; StorageError for an offset too far from the base."""
        entries = np.empty(len(self.offsets), _OFFSET_ENTRY)
        entries["offset"], entries["position"] = _relative(self.offsets, base_offset), self.positions
        return entries.tobytes()

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

    def to_bytes(self, base_offset: int) -> bytes:
        """As OffsetIndex.to_bytes."""
        entries = np.empty(len(self.offsets), _TIME_ENTRY)
        entries["timestamp"], entries["offset"] = self.timestamps, _relative(self.offsets, base_offset)
        return entries.tobytes()


class AbortedTransaction(NamedTuple):
    """One aborted transaction, and the last stable offset when it was (Kafka's AbortedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


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


def index_batches(
    batches: RecordBatches, base_offset: int, interval_bytes: int = INDEX_INTERVAL_BYTES
) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes that Kafka has beside a closed segment of these batches (LogSegment.append, onBecomeInactiveSegment).

    An entry a batch with more than `interval_bytes` since the last entry's batch, never for the first one.
    """
    position, last_offset = batches.position, batches.base_offset + batches.last_offset_delta
    chosen, indexed = [], 0
    while (at := int(np.searchsorted(position, indexed + interval_bytes, side="right"))) < len(position):
        chosen.append(at)
        indexed = int(position[at])
    largest = np.maximum.accumulate(batches.max_timestamp)
    # Which batch brought the largest timestamp: an equal one that comes later does not count.
    brought = np.maximum.accumulate(np.where(np.diff(largest, prepend=NO_TIMESTAMP) > 0, np.arange(len(largest)), 0))
    timed = [*chosen, len(position) - 1] if len(position) else []
    times, offsets = largest[timed], last_offset[brought[timed]]
    fresh = np.diff(times, prepend=NO_TIMESTAMP) > 0
    return (
        OffsetIndex(last_offset[chosen].astype(np.int64), position[chosen].astype(np.int32)),
        TimeIndex(times[fresh].astype(np.int64), offsets[fresh].astype(np.int64)),
    )


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


def _relative(offsets: Int64s, base_offset: int) -> Int64s:
    relative = offsets - base_offset
    if len(relative) and (relative.min() < 0 or relative.max() > _MOST_RELATIVE):
        raise StorageError(f"an offset is not within 2^31 of the base offset {base_offset}")
    return relative
