"""Reads record batches of magic 2 (KIP-98): CRC-32C, batch headers as columns, and a segment's index entries."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from sys import maxsize
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kcore._ext import records
from kcore.errors import ArgumentError, DecodeError
from kcore.types import Bools, Int8s, Int16s, Int32s, Int64s, is_whole
from kcore.wire.buffers import immutable
from kcore.wire.same import counted, same_values

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.

crc32c = records.crc32c
Integer = TypeVar("Integer", bound=np.signedinteger[Any])

# In the kernel's order. The fields are those of Kafka's DefaultRecordBatch, and `position`: where the batch begins.
BATCH_COLUMNS: tuple[tuple[str, type[np.generic]], ...] = (
    ("position", np.int64),
    ("base_offset", np.int64),
    ("batch_length", np.int32),
    ("partition_leader_epoch", np.int32),
    ("magic", np.int8),
    ("crc", np.uint32),
    ("attributes", np.int16),
    ("last_offset_delta", np.int32),
    ("base_timestamp", np.int64),
    ("max_timestamp", np.int64),
    ("producer_id", np.int64),
    ("producer_epoch", np.int16),
    ("base_sequence", np.int32),
    ("count", np.int32),
    ("crc_matches", np.bool_),
)
_KINDS = tuple(np.dtype(kind) for _, kind in BATCH_COLUMNS)
_frombuffer = np.frombuffer
INDEX_INTERVAL_BYTES = 4096  # Kafka's default of index.interval.bytes.
NO_TIMESTAMP = -1
MOST_RELATIVE_OFFSET = 2**31 - 1  # An index entry's offset is an int32.
LENGTH_END = 12  # Bytes of a batch before those that batch_length counts.
HEADER_END = 61  # Bytes of a batch before its records.
# A batch's attributes: the codec's number in the lowest bits, then flags.
CODEC_MASK = 0x07
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
MAGIC_AT = 16  # Place of the magic in a batch, and in a message of magic 0 and 1.
ATTRIBUTES_AT = 21  # Place of the attributes in a batch, an int16.
# Two errors of the kernel.
TORN = "a torn record batch"
OTHER_MAGIC = "a record batch whose magic is not 2"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordBatches:
    """Headers of record batches: one column per field, one element per batch; read-only arrays."""

    position: Int64s  # bytes from the start of the buffer
    base_offset: Int64s
    batch_length: Int32s  # bytes, counted after the field itself
    partition_leader_epoch: Int32s  # outside the CRC
    magic: Int8s
    crc: npt.NDArray[np.uint32]  # as stored
    attributes: Int16s
    last_offset_delta: Int32s
    base_timestamp: Int64s  # milliseconds
    max_timestamp: Int64s  # milliseconds
    producer_id: Int64s
    producer_epoch: Int16s
    base_sequence: Int32s
    count: Int32s  # records
    crc_matches: Bools  # also False if the CRC was not checked
    end: int  # offset of the first byte after the batches
    problem: DecodeError | None  # the error at `end`, if reading ended before the bytes did
    skipped: tuple[DecodeError, ...] = ()  # batches of another magic that were left out

    def __len__(self) -> int:
        return len(self.position)

    def __repr__(self) -> str:
        records = int(self.count.sum(dtype=np.int64))
        trouble = f", then: {self.problem}" if self.problem else ""
        return f"<RecordBatches: {len(self)}, with {counted(records, 'record')}{trouble}>"

    def __eq__(self, other: object) -> bool:
        """True if all headers and places are equal."""
        if not isinstance(other, RecordBatches):
            return NotImplemented
        alike = (self.end, repr(self.problem), repr(self.skipped))
        if alike != (other.end, repr(other.problem), repr(other.skipped)):
            return False
        return all(same_values(getattr(self, name), getattr(other, name)) for name, _ in BATCH_COLUMNS)

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: slice | Bools | Int64s) -> "RecordBatches":
        """Only the batches in those rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name, _ in BATCH_COLUMNS})

    @property
    def last_offset(self) -> Int64s:
        return self.base_offset + self.last_offset_delta

    @property
    def size(self) -> Int32s:
        """Size in bytes, with the header."""
        return self.batch_length + np.int32(LENGTH_END)


def scan_batches(
    data: "Buffer",
    *,
    start: int = 0,
    limit: int = maxsize,
    check_crc: bool = True,
    stop: bool = False,
    skip: bool = False,
) -> RecordBatches:
    """The headers of record batches in a contiguous buffer (bytes, mmap, memoryview): a segment, or a records field.

    Nothing is decompressed. Reading begins at byte `start` and ends with the bytes or after `limit` batches. A wrong
    CRC is marked in `crc_matches`, and reading continues. DecodeError with its offset if a batch is torn, of another
    magic or shorter than its header. With `stop`, reading ends there and `problem` has the error. With `skip`, batches
    of another magic with a plausible length are left out and listed in `skipped`.

    `bytes`, views of them, and files mapped read-only (which must not be truncated meanwhile) are read in place,
    without the GIL. Any other buffer, such as a bytearray, is copied first, since another thread may change it.
    """
    steady = data if type(data) is bytes else immutable(data, mapped=True)
    check_count("start", start)
    check_count("limit", limit)
    arena, places, rows, end, found, skipped = records.scan(steady, start, limit, check_crc, skip)
    problem = DecodeError(*found) if found else None
    if problem and not stop:
        raise problem
    fields: list[Any] = [_frombuffer(arena, kind, rows, place) for kind, place in zip(_KINDS, places, strict=True)]
    fields += (end, problem, tuple([DecodeError(*each) for each in skipped]))
    return RecordBatches(*fields)


def steps_of(values: npt.NDArray[Integer], before: int) -> npt.NDArray[Integer]:
    """As `np.diff(values, prepend=before)`, which takes several times as long for the batches of a small segment."""
    steps = values.copy()
    steps[1:] -= values[:-1]
    steps[:1] -= before
    return steps


class Gap(NamedTuple):
    """A gap between the offsets of two batches, which a metadata log or a snapshot must not have."""

    row: int  # The batch after the gap.
    problem: DecodeError


def gap_in(batches: RecordBatches, next_offset: int, *, inside: bool = False) -> Gap | None:
    """The first gap after `next_offset`; None without a gap. `inside`: the first batch may begin before the offset."""
    if not len(batches):
        return None
    ends = batches.last_offset + 1
    begins__t = np.concatenate([[next_offset], ends[:-1]])
    if inside:
        begins__t[0] = min(next_offset, int(batches.base_offset[0]))
    goes_on__t = (batches.base_offset == begins__t) & (ends > batches.base_offset)
    if goes_on__t.all():
        return None
    row = int(goes_on__t.argmin())
    text = missing_offsets(int(begins__t[row]), int(batches.base_offset[row]))
    return Gap(row, DecodeError(text, int(batches.position[row])))


def missing_offsets(next_offset: int, found: int) -> str:
    """The error text for a log that continues with offset `found` instead of `next_offset`."""
    if found <= next_offset:
        return f"offset {found} does not follow offset {next_offset - 1}"
    if found == next_offset + 1:
        return f"offset {next_offset} is missing"
    return f"offsets {next_offset} to {found - 1} are missing"


def check_count(name: str, value: int) -> None:
    """ArgumentError unless `value` is a whole number from 0 to 2**63 - 1."""
    if not is_whole(value) or not 0 <= value <= maxsize:
        raise ArgumentError(f"{name} is a whole number from 0 to 2**63 - 1, not {value!r:.60}")


class IndexEntries(NamedTuple):
    """The contents of a segment's `.index` and `.timeindex`; offsets relative to the segment's base offset."""

    offset: Int32s
    position: Int32s  # bytes
    timestamp: Int64s  # milliseconds
    timestamp_offset: Int32s

    def offset_index(self) -> bytes:
        """The bytes of the `.index` file: offset, position."""
        return np.stack([self.offset, self.position], axis=1).astype(">i4").tobytes()

    def time_index(self) -> bytes:
        """The bytes of the `.timeindex` file: timestamp, offset."""
        rows = np.empty(len(self.timestamp), [("timestamp", ">i8"), ("offset", ">i4")])
        rows["timestamp"], rows["offset"] = self.timestamp, self.timestamp_offset
        return rows.tobytes()


def index_entries(
    batches: RecordBatches, base_offset: int, interval: int = INDEX_INTERVAL_BYTES, *, closed: bool = True
) -> IndexEntries:
    """The index entries of a segment, as Kafka's LogSegment.append and recover make them.

    `batches`: all batches of the segment, from its first byte; `interval`: index.interval.bytes. `closed` adds the time
    index entry of a segment that is rolled, closed or recovered. DecodeError, at the batch, where Kafka throws: offsets
    that do not ascend or are more than 2**31 - 1 above `base_offset`.
    """
    relative__t = batches.last_offset - base_offset
    fits__t = (relative__t >= 0) & (relative__t <= MOST_RELATIVE_OFFSET) & (steps_of(relative__t, -1) > 0)
    if not fits__t.all():
        position = int(batches.position[fits__t.argmin()])
        raise DecodeError("a record batch whose offsets do not fit the segment", position)
    rows = index_rows(batches.position.tolist(), interval)
    highest__t = np.maximum.accumulate(batches.max_timestamp)
    is_higher__t = steps_of(highest__t, NO_TIMESTAMP) > 0
    highest_row__t = np.maximum.accumulate(np.where(is_higher__t, np.arange(len(batches)), 0))
    time_rows = np.array([*rows, len(batches) - 1] if closed and len(batches) else rows, np.int64)
    timestamps = highest__t[time_rows]
    is_new = steps_of(timestamps, NO_TIMESTAMP) > 0
    return IndexEntries(
        relative__t[rows].astype(np.int32),
        batches.position[rows].astype(np.int32),
        timestamps[is_new],
        relative__t[highest_row__t[time_rows[is_new]]].astype(np.int32),
    )


def index_rows(positions: list[int], interval: int) -> list[int]:
    """The batches with an index entry: more than `interval` bytes after the last entry or the segment's start."""
    rows: list[int] = []
    last = 0
    while (row := bisect_right(positions, last + interval)) < len(positions):
        last = positions[row]
        rows.append(row)
    return rows
