"""Converts columns to Apache Arrow without copying the values.

Arrow packs bools and null marks eight to a byte, so they are copied. A nullable struct is also copied, because kcore's
columns leave out its null rows. Everything else shares its memory with the columns.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kcore.extras import needs
from kcore.schema.kinds import FieldType, Kind
from kcore.types import Bools
from kcore.wire.columns import Rows, UnknownTags, Vectors

with needs("arrow"):
    import pyarrow as pa

Array = npt.NDArray[Any]

TYPES: dict[Kind, pa.DataType] = {
    Kind.BOOL: pa.bool_(),
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.UINT16: pa.uint16(),
    Kind.INT32: pa.int32(),
    Kind.UINT32: pa.uint32(),
    Kind.INT64: pa.int64(),
    Kind.FLOAT64: pa.float64(),
    Kind.UUID: pa.binary(16),
    Kind.STRING: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.RECORDS: pa.binary(),
}
UNKNOWN_TAGS = "unknown_tagged_fields"


def record_batch(rows: Rows) -> pa.RecordBatch:
    """One row for each struct and one column for each field, with nested arrays of structs."""
    return pa.RecordBatch.from_struct_array(plain_structs(rows))


def plain_structs(rows: Rows) -> pa.StructArray:
    """The fields that are set, in the schema's order, and unknown tagged fields if there are any."""
    columns = {field: rows.column(field.name) for field in rows._struct.__fields__}
    arrays = {field.name: array_of(field.type, column) for field, column in columns.items() if column is not None}
    if rows.unknown_tags:
        arrays[UNKNOWN_TAGS] = tags_of(rows.unknown_tags, len(rows))
    type_ = pa.struct([pa.field(name, array.type) for name, array in arrays.items()])
    return pa.Array.from_buffers(type_, len(rows), [None], children=list(arrays.values()))


def array_of(type_: FieldType, column: Any) -> pa.Array:
    """The Arrow array of one field."""
    if isinstance(column, Rows):
        return structs_of(type_, column)
    if not isinstance(column, Vectors):
        return fixed(TYPES[type_.kind], column)
    length, nulls, offsets = len(column), bits(column.valid), buffer(column.offsets)
    if type_.kind in TYPES:
        return pa.Array.from_buffers(TYPES[type_.kind], length, [nulls, offsets, buffer(column.values)])
    assert type_.element is not None
    elements = array_of(type_.element, column.values)
    return pa.Array.from_buffers(pa.list_(elements.type), length, [nulls, offsets], children=[elements])


def structs_of(type_: FieldType, rows: Rows) -> pa.Array:
    """The Arrow array of an array of structs, a struct, or a nullable struct."""
    structs = plain_structs(rows)
    if rows.row_offsets is None:
        return structs
    if type_.kind is Kind.STRUCT:
        there = np.diff(rows.row_offsets) > 0
        return structs.take(pa.array(rows.row_offsets[:-1], mask=~there))
    length, nulls = len(rows.row_offsets) - 1, bits(rows.valid)
    return pa.Array.from_buffers(pa.list_(structs.type), length, [nulls, buffer(rows.row_offsets)], children=[structs])


def fixed(type_: pa.DataType, column: Array) -> pa.Array:
    values = bits(column) if pa.types.is_boolean(type_) else buffer(column)
    return pa.Array.from_buffers(type_, len(column), [None, values])


def tags_of(tags: UnknownTags, count: int) -> pa.Array:
    """Unknown tags: for each row a list of (tag, value)."""
    values = pa.Array.from_buffers(pa.binary(), len(tags), [None, buffer(tags.offsets), buffer(tags.values)])
    pairs = pa.StructArray.from_arrays([fixed(pa.uint32(), tags.tags), values], names=["tag", "value"])
    offsets = np.searchsorted(tags.rows, np.arange(count + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)


def buffer(array: Array) -> pa.Buffer:
    """The array's own memory; a column of a default value, which is a view of one value, is copied to full length."""
    return pa.py_buffer(np.ascontiguousarray(array))


def bits(flags: Bools | None) -> pa.Buffer | None:
    return None if flags is None else pa.py_buffer(np.packbits(flags, bitorder="little"))
