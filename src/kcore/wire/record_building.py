"""Builds record batches of magic 2: from records as objects, as decoded columns, or as Arrow."""

import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise, repeat
from operator import lt
from typing import Literal, TypeAlias

import numpy as np

from kcore._ext import records as kernel
from kcore.errors import ArgumentError, EncodeError
from kcore.types import is_whole
from kcore.wire.record_batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    RecordBatches,
    crc32c,
)
from kcore.wire.record_columns import ArrowStream, RecordColumns
from kcore.wire.records import HEADER_COLUMNS, Record, Records

# The columns from which the kernel builds batches, in its order.
BUILT_BATCH_COLUMNS = (
    *("base_offset", "partition_leader_epoch", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp"),
    *("producer_id", "producer_epoch", "base_sequence"),
)
BUILT_RECORD_COLUMNS = (
    *("batch", "offset", "timestamp_delta", "key_offset", "key_length", "value_offset", "value_length", "header_end"),
)
# In the order of their numbers in a batch's attributes.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
LEVELS = {"gzip": range(1, 10), "zstd": range(-131072, 23)}

FEW = 57  # The most values, and bytes of a value, in a batch whose zigzag varints (up to 63) all have one byte.
# Packs the bytes of a batch that its CRC does not cover: offset, length, epoch, magic, CRC.
_BEFORE_IT = struct.Struct(">qiibI").pack
_OF_BATCH = struct.Struct(">hiqqqhii").pack  # Packs the covered bytes before the records.

Columns: TypeAlias = Sequence[memoryview]  # Columns of int64.


def encode_batches(records: Records, *, codec: Codec | None = None, level: int | None = None) -> bytes:
    """Builds the batches from which `records` were decoded, with their headers, and their own codecs or `codec`.

    Uncompressed batches equal the decoded ones. Compressed batches may differ from these, because compressors differ.
    Batches without records (after compaction) are uncompressed, as Kafka writes them. EncodeError for an unknown codec
    or level, and for columns that no batch can carry.
    """
    if not isinstance(records, Records):
        raise ArgumentError(f"expected Records, as decode_records gives them, not {type(records).__name__}")
    attributes__t = records.batches.attributes
    if codec is not None:
        attributes__t = attributes__t & ~np.int16(CODEC_MASK) | np.int16(codec_bits(codec, level))
    elif level is not None:
        raise EncodeError("a level needs a codec")
    batches = replace(records.batches, attributes=attributes__t)
    return build(
        int64s(batches, BUILT_BATCH_COLUMNS),
        int64s(records, BUILT_RECORD_COLUMNS),
        int64s(records, [name for name, _ in HEADER_COLUMNS]),
        (records.data, records.decompressed),
        level,
    )


def int64s(of: Records | RecordBatches, names: Iterable[str]) -> Columns:
    """The named columns as int64, as the kernel takes them."""
    return [np.ascontiguousarray(getattr(of, name), np.int64).data for name in names]


def encode_records(
    records: Iterable[Record] | ArrowStream,
    *,
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    codec: Codec = "none",
    level: int | None = None,
    log_append_time: bool = False,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One record batch of magic 2, as Kafka's MemoryRecordsBuilder makes it: snappy in xerial's framing, lz4 as frame.

    `records`: Record objects; or, much faster, decoded Records, or a table or stream of Arrow. A table has the columns
    `offset`, `timestamp` (ms, or Arrow's timestamps) and any of `key`, `value` and `headers`.
    Offsets and timestamps (ms) of the header come from the records unless they are given, as a compacted batch needs.
    With `log_append_time`, `max_timestamp` is the time of the append; with `delete_horizon`, `base_timestamp` is the
    horizon (KIP-534). Sequences follow from `base_sequence`. `level`: gzip 1 to 9, zstd -131072 to 22. A batch without
    records is not compressed. EncodeError for no record and no `base_offset`, and for values that a batch cannot carry.

    Records decoded from a batch with LogAppendTime all have the time of the append. The batch still has the producer's
    times, as deltas; only `encode_batches` keeps these.
    """
    flags = ((log_append_time, LOG_APPEND_TIME), (transactional, TRANSACTIONAL), (control, CONTROL))
    attributes = codec_bits(codec, level) | sum(
        bit for is_set, bit in (*flags, (delete_horizon, DELETE_HORIZON)) if is_set
    )
    try:
        rows = _rows(records)
        if not rows and base_offset is None:
            raise EncodeError("a batch of no records needs a base_offset")
        offsets, timestamps = _offsets_and_timestamps(rows)
        base = offsets[0] if base_offset is None else base_offset
        first_timestamp = (timestamps[0] if rows else NO_TIMESTAMP) if base_timestamp is None else base_timestamp
        times = (first_timestamp, max(timestamps, default=NO_TIMESTAMP) if max_timestamp is None else max_timestamp)
        last = _last_offset_delta(offsets, base, last_offset_delta)
        columns = columns_of(rows, first_timestamp)
    except (TypeError, AttributeError, ValueError) as error:
        if isinstance(error, EncodeError):
            raise
        raise EncodeError(f"records are kcore.wire.Records, their offsets and times whole numbers: {error}") from error
    header = (base, partition_leader_epoch, attributes, last, *times, producer_id, producer_epoch, base_sequence)
    return build(columns_of_rows([header], len(header)), *columns, level)


def _rows(records: Iterable[Record] | ArrowStream) -> list[Record] | RecordColumns:
    """The records as columns if they are columns already, otherwise as objects."""
    if isinstance(records, Records):
        return RecordColumns.of_records(records)
    if isinstance(records, ArrowStream):
        from kcore.wire.record_from_arrow import record_columns  # pyarrow is loaded on first use.

        return record_columns(records)
    return list(records)


def _offsets_and_timestamps(rows: list[Record] | RecordColumns) -> tuple[list[int], list[int]]:
    """All offsets and timestamps, or as many as the header of the batch depends on."""
    if isinstance(rows, RecordColumns):
        return rows.offsets(), rows.timestamps()
    return [row.offset for row in rows], [row.timestamp for row in rows]


def _last_offset_delta(offsets: list[int], base: int, given: int | None) -> int:
    """The last offset minus `base`, or `given`. EncodeError unless offsets ascend from `base` to this last one."""
    if len(offsets) > 1 and not all(map(lt, offsets, offsets[1:])):
        before, after = next(pair for pair in pairwise(offsets) if pair[0] >= pair[1])
        raise EncodeError(f"a record has offset {after} after {before}: offsets must rise")
    if offsets and offsets[0] < base:
        raise EncodeError(f"a record has offset {offsets[0]} in a batch that begins at {base}")
    least = offsets[-1] - base if offsets else 0
    if given is not None and given < least:
        raise EncodeError(f"last_offset_delta is {given}, and the last record is {least} above the base offset")
    return least if given is None else given


def encode_values(values: Sequence[bytes], *, base_offset: int, timestamp: int, partition_leader_epoch: int) -> bytes:
    """One uncompressed batch of records that have only values, all of one time (ms): as `encode_records`, but fast."""
    count = len(values)
    sizes = [*map(len, values)]
    is_few = 0 < count <= FEW and max(sizes) <= FEW
    if is_few and 0 <= partition_leader_epoch < 1 << 31 and 0 <= base_offset < 1 << 62 and 0 <= timestamp < 1 << 62:
        return _few_values(values, sizes, base_offset, timestamp, partition_leader_epoch)
    header = (base_offset, partition_leader_epoch, 0, count - 1, timestamp, timestamp, -1, -1, -1)
    columns = (repeat(0, count), repeat(-1, count), range(base_offset, base_offset + count), sizes)
    cells = column_of(chain(header, *columns, accumulate(sizes, initial=0)))
    first = len(header)
    zeros, nulls, offsets, lengths, starts = [cells[first + k * count : first + (k + 1) * count] for k in range(5)]
    return build(
        [cells[k : k + 1] for k in range(first)],
        (zeros, offsets, zeros, zeros, nulls, starts, lengths, zeros),
        NO_HEADERS,
        (b"".join(values), b""),
        None,
    )


def _few_values(values: Sequence[bytes], sizes: Sequence[int], base_offset: int, timestamp: int, epoch: int) -> bytes:
    """As `encode_values`, for few and small values, so that each varint is a byte: most batches need no columns.

    A record is its size, attributes, timestamp delta, offset delta, key length (null), value and count of headers.
    """
    count = len(values)
    parts = [_OF_BATCH(0, count - 1, timestamp, timestamp, -1, -1, -1, count)]
    for row, value in enumerate(values):
        size = sizes[row]
        parts += (bytes((2 * size + 12, 0, 0, 2 * row, 1, 2 * size)), value, b"\0")
    covered = b"".join(parts)
    return _BEFORE_IT(base_offset, len(covered) + 9, epoch, 2, crc32c(covered)) + covered


def encode_control(
    records: Sequence[tuple[bytes, bytes]], *, base_offset: int, timestamp: int, partition_leader_epoch: int
) -> bytes:
    """One batch of control records, by key and value, all of one time (ms): as `encode_records`, but fast."""
    count = len(records)
    if not (
        count and 0 <= partition_leader_epoch < 1 << 31 and 0 <= base_offset < 1 << 62 and 0 <= timestamp < 1 << 62
    ):
        rows = [Record(base_offset + row, timestamp, key, value) for row, (key, value) in enumerate(records)]
        return encode_records(rows, control=True, partition_leader_epoch=partition_leader_epoch)
    parts = [_OF_BATCH(CONTROL, count - 1, timestamp, timestamp, -1, -1, -1, count)]
    for row, (key, value) in enumerate(records):
        fields = (b"\0\0", _varint(row), _varint(len(key)), key, _varint(len(value)), value, b"\0")
        parts += (_varint(sum(map(len, fields))), *fields)
    covered = b"".join(parts)
    return _BEFORE_IT(base_offset, len(covered) + 9, partition_leader_epoch, 2, crc32c(covered)) + covered


def _varint(number: int) -> bytes:
    """The zigzag varint of a number that is not negative."""
    rest, found = number << 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


class Spans:
    """Collects byte strings one after the other."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.end = 0

    def add(self, value: bytes | None) -> tuple[int, int]:
        """Append a value; returns its offset and length, -1 for null."""
        if value is None:
            return 0, -1
        if not isinstance(value, bytes):
            raise EncodeError(f"keys and values are bytes or None, not {type(value).__name__}")
        self.parts.append(value)
        self.end += len(value)
        return self.end - len(value), len(value)


Built: TypeAlias = tuple[Columns, Columns, Sequence[bytes | memoryview]]  # Columns of records and headers; the bytes.


def columns_of(rows: list[Record] | RecordColumns, base_timestamp: int) -> Built:
    """The kernel's columns of records and of headers, and the bytes of their spans."""
    if isinstance(rows, RecordColumns):
        zeros = np.zeros(len(rows), np.int64)
        fields = (zeros, rows.offset, rows.timestamp_deltas(base_timestamp), *rows.spans, rows.header_end)
        return [column.data for column in fields], [column.data for column in rows.header_spans], rows.buffers
    spans = Spans()
    headers: list[tuple[int, ...]] = []
    columns: list[tuple[int, ...]] = []
    for row in rows:
        headers += [
            (*spans.add(name.encode("utf-8", "surrogateescape")), *spans.add(value)) for name, value in row.headers
        ]
        key, value = spans.add(row.key), spans.add(row.value)
        columns.append((0, row.offset, row.timestamp - base_timestamp, *key, *value, len(headers)))
    header_columns = columns_of_rows(headers, len(HEADER_COLUMNS))
    return columns_of_rows(columns, len(BUILT_RECORD_COLUMNS)), header_columns, [b"".join(spans.parts)]


def columns_of_rows(rows: Sequence[tuple[int, ...]], width: int) -> Columns:
    """Columns from rows. EncodeError for integers beyond int64."""
    return [column_of(column) for column in zip(*rows, strict=True)] if rows else [column_of(())] * width


def column_of(values: Iterable[int]) -> memoryview:
    """A column of int64; EncodeError for integers beyond int64. An `array` is faster than NumPy for few records."""
    try:
        column = array("q", values)
    except OverflowError as error:
        raise EncodeError("an integer beyond int64") from error
    except TypeError as error:
        raise EncodeError(f"a column of a batch has whole numbers: {error}") from error
    column.append(0)  # An empty array's memory is unaligned, which the kernel does not take.
    return memoryview(column)[:-1]


NO_HEADERS = columns_of_rows([], len(HEADER_COLUMNS))


def codec_bits(codec: str, level: int | None) -> int:
    """The codec's number in the attributes. EncodeError for an unknown codec or level."""
    if not isinstance(codec, str) or codec not in CODECS:
        raise EncodeError(f"codec {codec!r:.60} is none of {', '.join(CODECS)}")
    if level is not None and not (is_whole(level) and level in LEVELS.get(codec, ())):
        raise EncodeError(f"codec {codec} has no level {level!r:.60}")
    return CODECS.index(codec)


def build(
    batches: Columns, records: Columns, headers: Columns, buffers: Sequence[bytes | memoryview], level: int | None
) -> bytes:
    """The bytes of the batches that the kernel builds. EncodeError for values that a batch cannot carry."""
    try:
        return kernel.encode(batches, records, headers, buffers, level)
    except ValueError as error:
        raise EncodeError(str(error)) from error
