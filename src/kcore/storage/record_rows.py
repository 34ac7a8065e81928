"""The records of a segment as Arrow, a batch of rows at a time: what `kcore dump --arrow` and Spark give."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kcore.errors import DecodeError
from kcore.storage.log import partition_of
from kcore.storage.segment import map_file
from kcore.types import Int32s, Int64s
from kcore.wire.record_batch import scan_batches
from kcore.wire.records import CONTROL_TYPES, Records, decode_records

BYTES_AT_ONCE = 8 << 20  # Of the segment: keys and values are copied so much at a time.

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("batchPosition", pa.int64()),  # bytes from the start of the file
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


def record_rows(path: Path) -> Iterator[pa.RecordBatch]:
    """A row a record, of one segment or snapshot; DecodeError, with file and offset, for bytes that are no records."""
    partition = partition_of(path.resolve().parent)
    data = map_file(path)
    try:
        batches, first = scan_batches(data), 0
        while first < len(batches):
            bound = batches.position[first] + BYTES_AT_ONCE
            end = max(first + 1, int(np.searchsorted(batches.position, bound)))
            records = decode_records(data, batches.take(slice(first, end)))
            yield rows_of(records, str(path), *(partition or (None, None)))
            first = end
    except DecodeError as error:
        raise DecodeError(f"{path}: {error.message}", error.offset) from None


def rows_of(
    records: Records, file: str, topic: str | None, partition: int | None, columns: Sequence[str] = SCHEMA.names
) -> pa.RecordBatch:
    """These columns of SCHEMA: what is not asked for is not copied either."""
    count, batch = len(records), records.batch
    made: dict[str, Callable[[], pa.Array]] = {
        "file": lambda: pa.repeat(pa.scalar(file, pa.string()), count),
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), count),
        "batchPosition": lambda: pa.array(records.batches.position[batch]),
        "partitionLeaderEpoch": lambda: pa.array(records.batches.partition_leader_epoch[batch]),
        "offset": lambda: pa.array(records.offset),
        "timestamp": lambda: pa.array(records.timestamp),
        "sequence": lambda: pa.array(records.sequence),
        "controlType": lambda: pa.array([control_name(each) for each in records.control_type.tolist()], pa.string()),
        "key": lambda: binary(records, records.key_offset, records.key_length, pa.binary()),
        "value": lambda: binary(records, records.value_offset, records.value_length, pa.binary()),
        "headers": lambda: headers(records),
    }
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    return pa.RecordBatch.from_arrays([made[name]() for name in columns], schema=schema)


def control_name(number: int) -> str | None:
    """Kafka's ControlRecordType; None for a record of data."""
    if number < 0:
        return None
    return CONTROL_TYPES[number] if number < len(CONTROL_TYPES) else str(number)


def headers(records: Records) -> pa.Array:
    keys = binary(records, records.header_key_offset, records.header_key_length, pa.string())
    values = binary(records, records.header_value_offset, records.header_value_length, pa.binary())
    ends = np.concatenate([[0], records.header_end]).astype(np.int32)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(ends), pairs)


def binary(records: Records, offsets: Int64s, lengths: Int32s, type_: pa.DataType) -> pa.Array:
    """Spans as Arrow binary: one copy, of all of them at once; a length of -1 is null."""
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
