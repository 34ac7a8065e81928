"""Converts records to Apache Arrow, one row per record; copies keys, values and headers in parts of some megabytes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from kcore._ext import records as kernel
from kcore.extras import needs
from kcore.types import Int32s, Int64s
from kcore.wire.record_batch import CONTROL
from kcore.wire.records import Records, control_name

with needs("arrow"):
    import pyarrow as pa

# The most bytes of keys, values and headers in a batch; a larger record is a batch of its own.
BYTES_AT_ONCE: Final = 8 << 20

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_SCHEMA = pa.schema(
    [
        ("batchPosition", pa.int64()),  # bytes from the start of the data
        ("partitionLeaderEpoch", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),  # milliseconds
        ("sequence", pa.int32()),
        ("controlType", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


def reader(records: Records) -> pa.RecordBatchReader:
    """A reader of all records in batches; it makes a batch only when the caller reads the batch."""
    return pa.RecordBatchReader.from_batches(RECORD_SCHEMA, _batches(records))


def _batches(records: Records) -> Iterator[pa.RecordBatch]:
    ends, first = ends_of(records), 0
    while first < len(records):
        done = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, done + BYTES_AT_ONCE, "right")))
        yield pa.RecordBatch.from_arrays(record_columns(records, first, end), schema=RECORD_SCHEMA)
        first = end


def ends_of(records: Records) -> Int64s:
    """The bytes of the keys, values and headers of each record and all records before it."""
    sizes = np.maximum(records.key_length, 0).astype(np.int64) + np.maximum(records.value_length, 0)
    ends: Int64s = np.cumsum(sizes)
    if len(records.header_key_length):
        of_headers = records.header_key_length.astype(np.int64) + np.maximum(records.header_value_length, 0)
        ends += np.concatenate([[0], np.cumsum(of_headers)])[records.header_end]
    return ends


def record_columns(
    records: Records, first: int, end: int, names: Sequence[str] = tuple(RECORD_SCHEMA.names)
) -> list[Any]:
    """These columns of RECORD_SCHEMA for the records [first, end); other columns are not copied."""
    rows = slice(first, end)
    batch = records.batch[rows]
    made: dict[str, Callable[[], Any]] = {
        "batchPosition": lambda: pa.array(records.batches.position[batch]),
        "partitionLeaderEpoch": lambda: pa.array(records.batches.partition_leader_epoch[batch]),
        "offset": lambda: pa.array(records.offset[rows]),
        "timestamp": lambda: pa.array(records.timestamp[rows]),
        "sequence": lambda: pa.array(records.sequence[rows]),
        "controlType": lambda: _control_types(records, rows),
        "key": lambda: _binary(records, records.key_offset[rows], records.key_length[rows], pa.binary()),
        "value": lambda: _binary(records, records.value_offset[rows], records.value_length[rows], pa.binary()),
        "headers": lambda: _headers(records, first, end),
    }
    return [made[name]() for name in names]


def _control_types(records: Records, rows: slice) -> pa.Array:
    """The names of the types of control records; null for data records."""
    is_control__t = (records.batches.attributes & CONTROL) != 0
    numbers = records.control_type[rows]
    if not is_control__t.any():
        return pa.nulls(len(numbers), pa.string())
    types, place = np.unique(numbers, return_inverse=True)
    names = pa.array([control_name(int(number)) for number in types], pa.string())
    return names.take(pa.array(place, mask=~is_control__t[records.batch[rows]]))


def _headers(records: Records, first: int, end: int) -> pa.Array:
    begin = int(records.header_end[first - 1]) if first else 0
    ends = np.concatenate([[begin], records.header_end[first:end]])
    part = slice(begin, int(ends[-1]))
    keys = _binary(records, records.header_key_offset[part], records.header_key_length[part], pa.string())
    values = _binary(records, records.header_value_offset[part], records.header_value_length[part], pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array((ends - begin).astype(np.int32)), pairs)


def _binary(records: Records, offsets: Int64s, lengths: Int32s, type_: pa.DataType) -> pa.Array:
    """Spans as Arrow binary, in one copy of all of them; a length of -1 is null."""
    validity, nulls, ends, values = kernel.gather((records.data, records.decompressed), offsets.data, lengths.data)
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.Array.from_buffers(type_, len(lengths), buffers, nulls)
