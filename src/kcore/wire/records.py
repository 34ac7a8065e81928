"""Decodes records (KIP-98, KIP-82) from batches of magic 2: as columns, and as objects."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kcore._ext import records
from kcore.errors import ArgumentError, DecodeError
from kcore.schema.index import message_class
from kcore.schema.structure import Message
from kcore.types import Bools, Int16s, Int32s, Int64s
from kcore.wire.buffers import immutable, read_only
from kcore.wire.codec import decode
from kcore.wire.record_batch import (
    ATTRIBUTES_AT,
    CONTROL,
    IndexEntries,
    RecordBatches,
    check_count,
    crc32c,
    index_entries,
    scan_batches,
)
from kcore.wire.same import counted, same_values

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.

__all__ = [
    "IndexEntries",
    "Record",
    "RecordBatches",
    "Records",
    "control_message",
    "crc32c",
    "decode_records",
    "index_entries",
    "records_of",
    "scan_batches",
]

# In the kernel's order.
RECORD_COLUMNS: tuple[tuple[str, type[np.generic]], ...] = (
    ("batch", np.int32),
    ("offset", np.int64),
    ("timestamp", np.int64),
    ("timestamp_delta", np.int64),
    ("sequence", np.int32),
    ("control_type", np.int16),
    ("key_offset", np.int64),
    ("key_length", np.int32),
    ("value_offset", np.int64),
    ("value_length", np.int32),
    ("header_end", np.int64),
)
HEADER_COLUMNS: tuple[tuple[str, type[np.generic]], ...] = (
    ("header_key_offset", np.int64),
    ("header_key_length", np.int32),
    ("header_value_offset", np.int64),
    ("header_value_length", np.int32),
)
# Kafka's ControlRecordType, by type id.
CONTROL_TYPES = (
    *("ABORT", "COMMIT"),
    *("LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"),
)
CONTROL_MESSAGES = (
    *("EndTxnMarker", "EndTxnMarker"),
    *("LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord"),
)
MAX_BYTES = 2**30  # The default limit of decompressed bytes.
ROWS_AT_ONCE = 4096
CRC_OFFSET = 17  # place of the CRC in a batch
_AT_FIRST_BYTE = memoryview(array("q", [0]))  # the position of a single batch
_FORMATS: tuple[Any, ...] = tuple(np.dtype(kind).char for _, kind in RECORD_COLUMNS)
_OF_VALUES = [[name for name, _ in RECORD_COLUMNS].index(name) for name in ("offset", "value_offset", "value_length")]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a Python object."""

    offset: int
    timestamp: int  # milliseconds
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()  # bytes that are not UTF-8 as surrogates
    sequence: int = -1  # -1: none
    control_type: int | None = None  # index in CONTROL_TYPES, or an unknown type; None: a data record

    @property
    def control(self) -> str | None:
        """The name of the control record's type; None for data records."""
        return None if self.control_type is None else control_name(self.control_type)


def control_name(control_type: int) -> str:
    """The name of a control record's type; UNKNOWN and its number for an unknown one (ControlRecordType.UNKNOWN)."""
    is_known = 0 <= control_type < len(CONTROL_TYPES)
    return CONTROL_TYPES[control_type] if is_known else f"UNKNOWN({control_type})"


def control_message(record: Record) -> Message | None:
    """A control record's message, for example a LeaderChangeMessage; None for data records and unknown types.

    DecodeError for a value that is not its type's message, or of an unknown version.
    """
    if record.control_type is None or not 0 <= record.control_type < len(CONTROL_MESSAGES):
        return None
    name, value = CONTROL_MESSAGES[record.control_type], record.value or b""
    version = int.from_bytes(value[:2], "big", signed=True)
    if name == "EndTxnMarker":  # Here the version precedes the message; every version is read as version 0 (KIP-98).
        version, value = 0, value[2:6]
    kind = message_class(name)
    if version not in kind.versions:  # In other messages the version is the first field.
        raise DecodeError(f"{name} has versions {kind.versions}, not {version}", 0)
    return decode(kind, version, value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Records:
    """Records as columns, one element per record (headers: one per header); read-only arrays.

    Keys and values are an offset and a length. Offsets count the bytes of `data` and then those of `decompressed`; a
    length of -1 is null. Record i has the headers `header_end[i - 1]` (0 for the first) to `header_end[i]`.
    """

    batch: Int32s  # row in `batches`
    offset: Int64s
    timestamp: Int64s  # milliseconds; time of the append if the batch has LogAppendTime
    timestamp_delta: Int64s  # as stored: milliseconds after the batch's base timestamp
    sequence: Int32s  # -1: none
    control_type: Int16s  # -1 for data; also for a control record without a type: see `is_control`
    key_offset: Int64s
    key_length: Int32s
    value_offset: Int64s
    value_length: Int32s
    header_end: Int64s
    header_key_offset: Int64s
    header_key_length: Int32s
    header_value_offset: Int64s
    header_value_length: Int32s
    batches: RecordBatches  # the decoded batches
    data: memoryview  # the input
    decompressed: memoryview  # the contents of its compressed batches
    end: int  # offset in `data` of the first batch that was not decoded
    problem: DecodeError | None  # the error of that batch

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def is_control(self) -> Bools:
        """True for each record of a control batch, also of an unknown type."""
        is_control__t: Bools = (self.batches.attributes & CONTROL) != 0
        return is_control__t[self.batch]

    def __repr__(self) -> str:
        offsets = f", offsets {self.offset[0]} to {self.offset[-1]}" if len(self) else ""
        trouble = f", then: {self.problem}" if self.problem else ""
        return f"<Records: {counted(len(self), 'record')}{offsets}{trouble}>"

    def __eq__(self, other: object) -> bool:
        """True if both have the same decoded bytes, columns and error."""
        if not isinstance(other, Records):
            return NotImplemented
        alike = (self.batches, self.data, self.decompressed, self.end, repr(self.problem))
        if alike != (other.batches, other.data, other.decompressed, other.end, repr(other.problem)):
            return False
        return all(same_values(getattr(self, name), getattr(other, name)) for name in _ARRAYS)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the decoded bytes, also those of a mapped file."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        buffers = bytes(self.data), bytes(self.decompressed)
        return _records_again, (arrays, self.batches, *buffers, self.end, self.problem)

    def to_arrow(self) -> "pa.Table":
        """One row per record, with the columns of `kcore.wire.record_arrow.RECORD_SCHEMA`. MissingExtraError without
        pyarrow.
        """
        from kcore.wire.record_arrow import reader  # pyarrow is loaded on first use.

        return reader(self).read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream interface of Arrow's PyCapsules, for pyarrow, Polars, DuckDB and others; one batch at a time."""
        from kcore.wire.record_arrow import reader

        return reader(self).__arrow_c_stream__(requested_schema)

    def span(self, offset: int, length: int) -> bytes | None:
        """The bytes of a key, value, header key or header value."""
        if length < 0:
            return None
        buffer, start = (self.data, 0) if offset < len(self.data) else (self.decompressed, len(self.data))
        return bytes(buffer[offset - start : offset - start + length])

    def headers(self, row: int) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of the record in that row."""
        first, end = int(self.header_end[row - 1]) if row else 0, int(self.header_end[row])
        if first == end:
            return ()
        spans = [getattr(self, name)[first:end].tolist() for name, _ in HEADER_COLUMNS]
        return tuple(
            ((self.span(*header[:2]) or b"").decode("utf-8", "surrogateescape"), self.span(*header[2:]))
            for header in zip(*spans, strict=True)
        )

    def __iter__(self) -> Iterator[Record]:
        """The records as objects."""
        return self.in_rows(np.arange(len(self)))

    def in_rows(self, rows: Int64s) -> Iterator[Record]:
        """The records in these rows as objects."""
        is_control__t = (self.batches.attributes & CONTROL) != 0
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[first : first + ROWS_AT_ONCE]
            columns = [getattr(self, name)[part].tolist() for name, _ in RECORD_COLUMNS]
            is_control = is_control__t[self.batch[part]].tolist()
            for row, is_one, values in zip(part.tolist(), is_control, zip(*columns, strict=True), strict=True):
                _, offset, timestamp, _, sequence, control, *spans, _ = values
                key, value = self.span(*spans[:2]), self.span(*spans[2:])
                control_type = control if is_one else None
                yield Record(offset, timestamp, key, value, self.headers(row), sequence, control_type)


_ARRAYS: Final = tuple(name for name, _ in RECORD_COLUMNS + HEADER_COLUMNS)


def _records_again(
    arrays: dict[str, Any], batches: RecordBatches, data: bytes, decompressed: bytes, end: int, problem: Any
) -> Records:
    """Makes Records of the parts of a pickle."""
    return Records(
        **{name: read_only(array) for name, array in arrays.items()},
        batches=batches,
        data=memoryview(data),
        decompressed=memoryview(decompressed),
        end=end,
        problem=problem,
    )


def decode_records(
    data: "Buffer",
    batches: RecordBatches | None = None,
    *,
    check_crc: bool = True,
    stop: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Records:
    """The records of the batches in a contiguous buffer, as columns; keys and values stay in place.

    `batches`: the batches to decode, from `scan_batches(data)`; all by default. `max_bytes` bounds the decompressed
    bytes of all batches together. DecodeError with its offset for an invalid batch, a wrong CRC (unless `check_crc` is
    False) or records that Kafka's DefaultRecord would refuse. With `stop`, the records of all earlier batches are
    returned and `problem` has the error. Arrow and NumPy take the columns without a copy. `scan_batches` documents
    which buffers are read in place and which are copied first; keys and values are views of the input or its copy.
    """
    steady = immutable(data, mapped=True)
    check_count("max_bytes", max_bytes)
    if batches is None:
        batches = scan_batches(steady, check_crc=check_crc, stop=stop)
    elif not isinstance(batches, RecordBatches):
        raise ArgumentError(f"batches are RecordBatches, as scan_batches gives them, not {type(batches).__name__}")
    whole = len(batches) if not check_crc or batches.crc_matches.all() else int(batches.crc_matches.argmin())
    columns, header_columns, decompressed, decoded, found = records.decode(
        steady, batches.position[:whole].data, max_bytes
    )
    problem = DecodeError(*found) if found else batches.problem
    if not found and whole < len(batches):
        problem = DecodeError("a record batch whose CRC does not match", int(batches.position[whole]) + CRC_OFFSET)
    if problem and not stop:
        raise problem
    named = zip(RECORD_COLUMNS + HEADER_COLUMNS, columns + header_columns, strict=True)
    arrays = {name: np.frombuffer(column, dtype) for (name, dtype), column in named}
    end = int(batches.position[decoded]) if decoded < len(batches) else batches.end
    return Records(
        **arrays,
        batches=batches if decoded == len(batches) else batches.take(slice(decoded)),
        data=steady,
        decompressed=decompressed,
        end=end,
        problem=problem,
    )


def values_of(batch: bytes) -> dict[int, bytes | None]:
    """The records' values by their offsets: as `records_of`, without the other fields of a record."""
    columns, _, decompressed, _, found = records.decode(batch, _AT_FIRST_BYTE, MAX_BYTES)
    if found:
        raise DecodeError(*found)
    if decompressed:
        return {record.offset: record.value for record in decode_records(batch, check_crc=False)}
    offsets, values, lengths = (memoryview.cast(columns[at], _FORMATS[at]) for at in _OF_VALUES)
    return {
        offset: batch[value : value + length] if length >= 0 else None
        for offset, value, length in zip(offsets, values, lengths, strict=True)
    }


def records_of(batch: bytes) -> list[Record]:
    """The records of one whole batch with a checked CRC: for a few records, objects without columns are faster.

    DecodeError as in `decode_records`.
    """
    columns, header_columns, decompressed, _, found = records.decode(batch, _AT_FIRST_BYTE, MAX_BYTES)
    if found:
        raise DecodeError(*found)
    if header_columns[0] or decompressed:
        return list(decode_records(batch, check_crc=False))
    rows = zip(*map(memoryview.cast, columns, _FORMATS), strict=True)
    is_control = batch[ATTRIBUTES_AT + 1] & CONTROL
    return [
        Record(
            offset,
            timestamp,
            batch[key : key + key_length] if key_length >= 0 else None,
            batch[value : value + value_length] if value_length >= 0 else None,
            (),
            sequence,
            control_type if is_control else None,
        )
        for _, offset, timestamp, _, sequence, control_type, key, key_length, value, value_length, _ in rows
    ]
