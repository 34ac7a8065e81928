"""Slow twin of `kcore._ext.records.gather` and `kcore.wire.record_arrow`: an index for each byte."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kcore.types import Int32s, Int64s
from kcore.wire.record_arrow import HEADERS, RECORD_SCHEMA
from kcore.wire.record_batch import CONTROL
from kcore.wire.records import Records, control_name


def table(records: Records) -> pa.Table:
    """One row per record."""
    is_control = ((records.batches.attributes & CONTROL) != 0)[records.batch].tolist()
    names = [control_name(number) for number in records.control_type.tolist()]
    columns = [
        pa.array(records.batches.position[records.batch]),
        pa.array(records.batches.partition_leader_epoch[records.batch]),
        pa.array(records.offset),
        pa.array(records.timestamp),
        pa.array(records.sequence),
        pa.array([name if has else None for name, has in zip(names, is_control, strict=True)], pa.string()),
        binary(records, records.key_offset, records.key_length, pa.binary()),
        binary(records, records.value_offset, records.value_length, pa.binary()),
        headers(records),
    ]
    return pa.Table.from_arrays(columns, schema=RECORD_SCHEMA)


def headers(records: Records) -> pa.Array:
    keys = binary(records, records.header_key_offset, records.header_key_length, pa.string())
    values = binary(records, records.header_value_offset, records.header_value_length, pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], records.header_end]).astype(np.int32)), pairs)


def binary(records: Records, offsets: Int64s, lengths: Int32s, type_: pa.DataType) -> pa.Array:
    """A length of -1 is null."""
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
