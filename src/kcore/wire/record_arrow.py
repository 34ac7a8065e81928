"""Converts records to Apache Arrow, one row per record; copies keys, values and headers in parts of some megabytes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.extras import needs
from kcore.types import Int32s, Int64s
from kcore.wire.record_batch import CONTROL
from kcore.wire.records import Records, control_name

with needs("arrow"):
    import pyarrow as pa

BYTES_AT_ONCE: Final = 8 << 20  # The most bytes of keys and values in a batch; a larger record is a batch of its own.

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
    sizes = np.maximum(records.key_length, 0).astype(np.int64) + np.maximum(records.value_length, 0)
    ends, first = np.cumsum(sizes), 0
    while first < len(records):
        done = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, done + BYTES_AT_ONCE, "right")))
        yield pa.RecordBatch.from_arrays(record_columns(records, first, end), schema=RECORD_SCHEMA)
        first = end


def record_columns(
    records: Records, first: int, end: int, names: Sequence[str] = tuple(RECORD_SCHEMA.names)
) -> list[Any]:
    """These columns of RECORD_SCHEMA for the records [first, end); other columns are not copied."""
    rows = slice(first, end)
    batch = records.batch[rows]
    is_control__r = (records.batches.attributes[batch] & CONTROL) != 0
    made: dict[str, Callable[[], Any]] = {
        "batchPosition": lambda: pa.array(records.batches.position[batch]),
        "partitionLeaderEpoch": lambda: pa.array(records.batches.partition_leader_epoch[batch]),
        "offset": lambda: pa.array(records.offset[rows]),
        "timestamp": lambda: pa.array(records.timestamp[rows]),
        "sequence": lambda: pa.array(records.sequence[rows]),
        "controlType": lambda: pa.array(
            [
                control_name(number) if is_control else None
                for number, is_control in zip(records.control_type[rows].tolist(), is_control__r.tolist(), strict=True)
            ],
            pa.string(),
        ),
        "key": lambda: _binary(records, records.key_offset[rows], records.key_length[rows], pa.binary()),
        "value": lambda: _binary(records, records.value_offset[rows], records.value_length[rows], pa.binary()),
        "headers": lambda: _headers(records, first, end),
    }
    return [made[name]() for name in names]


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
    sizes = np.maximum(lengths, 0).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(ends[-1]) + np.repeat(offsets - ends[:-1], sizes)
    values = np.empty(len(places), np.uint8)
    plain: npt.NDArray[np.bool_] = places < len(records.data)
    values[plain] = np.frombuffer(records.data, np.uint8)[places[plain]]
    if not plain.all():
        values[~plain] = np.frombuffer(records.decompressed, np.uint8)[places[~plain] - len(records.data)]
    nulls = pa.py_buffer(np.packbits(lengths >= 0, bitorder="little"))
    buffers = [nulls, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(values)]
    return pa.Array.from_buffers(type_, len(lengths), buffers)
