"""Reads records to write from a table or stream of Apache Arrow; keys, values and headers stay in Arrow's memory."""

from typing import Any, Final

import numpy as np

from kcore.errors import EncodeError
from kcore.extras import needs
from kcore.suggestions import did_you_mean
from kcore.types import Int64s
from kcore.wire.record_batch import NO_TIMESTAMP
from kcore.wire.record_columns import ArrowStream, RecordColumns

with needs("arrow"):
    import pyarrow as pa
    import pyarrow.compute as pc

NEEDED: Final = ("offset", "timestamp")
FIELDS: Final = (*NEEDED, "key", "value", "headers")
# Columns of `Records.to_arrow` that are no fields of a record: encode_records does not read them.
UNREAD: Final = ("batchPosition", "partitionLeaderEpoch", "sequence", "controlType")

_THERE_ARE: Final = f"there are {', '.join(FIELDS)}"
BYTES: Final = pa.large_binary()
HEADERS: Final = pa.large_list(pa.struct([("key", BYTES), ("value", BYTES)]))


def record_columns(stream: ArrowStream) -> RecordColumns:
    """The rows of a table or stream. EncodeError for a missing, unknown or repeated column, and for a wrong type."""
    try:
        table = pa.table(stream)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise EncodeError(f"records cannot be read as a table of Arrow: {error}") from error
    _check_names(table.schema.names)
    headers = _column(table, "headers", HEADERS)
    header_keys, header_values = headers.flatten().flatten()
    spans, begin = [], 0
    arrays = (_column(table, "key", BYTES), _column(table, "value", BYTES), header_keys, header_values)
    buffers = tuple(_bytes_of(array) for array in arrays)
    for array, buffer in zip(arrays, buffers, strict=True):
        spans.append(_spans(array, begin))
        begin += len(buffer)
    key, value, header_key, header_value = spans
    return RecordColumns(
        _offsets(table),
        _timestamps(table),
        (*key, *value),
        _ends_of(headers),
        (*header_key, *header_value),
        buffers,
    )


def _check_names(names: list[str]) -> None:
    for name in names:
        if name not in FIELDS + UNREAD:
            raise EncodeError(f"a record has no column {name!r}{did_you_mean(name, FIELDS, _THERE_ARE)}")
        if names.count(name) > 1:
            raise EncodeError(f"the column {name} is there {names.count(name)} times")
    for name in NEEDED:
        if name not in names:
            raise EncodeError(f"records need a column {name}; {_THERE_ARE}")


def _column(table: pa.Table, name: str, type_: pa.DataType) -> pa.Array:
    """The column as one array of that type; nulls if the table does not have it."""
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, type_)
    column = table.column(name)
    try:
        cast = column.cast(type_)
    except pa.ArrowException as error:
        raise EncodeError(f"the column {name} is {column.type}, which is not {type_}: {error}") from error
    return cast.chunk(0) if cast.num_chunks == 1 else cast.combine_chunks()


def _offsets(table: pa.Table) -> Int64s:
    _check_whole(table, "offset")
    array = _column(table, "offset", pa.int64())
    if array.null_count:
        raise EncodeError("the column offset has nulls")
    return _numbers(array, 0)


def _timestamps(table: pa.Table) -> Int64s:
    """Milliseconds; null is NO_TIMESTAMP."""
    type_ = table.schema.field("timestamp").type
    if not pa.types.is_timestamp(type_):
        _check_whole(table, "timestamp")
        return _numbers(_column(table, "timestamp", pa.int64()), NO_TIMESTAMP)
    return _numbers(_column(table, "timestamp", pa.timestamp("ms", type_.tz)).view(pa.int64()), NO_TIMESTAMP)


def _check_whole(table: pa.Table, name: str) -> None:
    type_ = table.schema.field(name).type
    if not pa.types.is_integer(type_):
        raise EncodeError(f"the column {name} is {type_}, and records have whole numbers there")


def _numbers(array: pa.Array, null: int) -> Int64s:
    """The numbers, with `null` for null."""
    filled = array.fill_null(null) if array.null_count else array
    numbers: Int64s = np.ascontiguousarray(filled.to_numpy(), np.int64)
    return numbers


def _ends_of(lists: pa.LargeListArray) -> Int64s:
    """For each list the number of elements up to its end; a null list has none."""
    if lists.null_count:
        return np.cumsum(_numbers(pc.list_value_length(lists), 0), dtype=np.int64)
    edges = _numbers(lists.offsets, 0)
    ends: Int64s = edges[1:] - edges[0]
    return ends


def _spans(array: pa.LargeBinaryArray, begin: int) -> tuple[Int64s, Int64s]:
    """Offset and length of each element, -1 for null; the array's bytes begin at `begin`."""
    if not len(array):
        nothing: Int64s = np.zeros(0, np.int64)
        return nothing, nothing
    edges: Int64s = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(edges)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return edges[:-1] + begin, lengths


def _bytes_of(array: pa.LargeBinaryArray) -> memoryview:
    values: Any = array.buffers()[2]
    return memoryview(b"" if values is None else values).cast("B")
