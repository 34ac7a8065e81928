"""Messages read and written value by value, as plain rows: what the column kernels must agree with.

The twin of `kcore._ext.columns.columns_read` and `kcore._ext.columns.columns_write` (with
`kcore._ext.columns.columns_size`), and of those that do the same for runs of structs with one layout:
`kcore._ext.columns.layout_read`, `kcore._ext.columns.layout_write`, `kcore._ext.columns.runs_read`,
`kcore._ext.columns.runs_write`, or with one layout but for the lengths of some arrays: `kcore._ext.columns.mixed_read`,
`kcore._ext.columns.mixed_write`. A struct is a dict by field name, with its unknown tags under "unknown" where it has
any.
"""

import struct
from typing import Any

import numpy as np

from kcore.schema.kinds import FieldType, Kind
from kcore.wire.columns import Columns, Rows, Strings, Vectors, default_column
from kcore.wire.plan import FieldStep, Step, StructPlan

FORMATS = {
    Kind.BOOL: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.UINT16: "H",
    Kind.INT32: "i",
    Kind.UINT32: "I",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
    Kind.UUID: "16s",
}


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def write(plan: StructPlan, row: dict[str, Any]) -> bytes:
    """A struct: its fields in order, then its tags."""
    data = b"".join(write_value(step.step, row[step.field.name]) for step in plan.in_line)
    return data + write_tags(plan, row) if plan.flexible else data


def write_tags(plan: StructPlan, row: dict[str, Any]) -> bytes:
    tags = dict(row.get("unknown", ()))
    for step in plan.tagged:
        if row[step.field.name] != default_of(step):
            assert step.tag is not None
            tags[step.tag] = write_value(step.step, row[step.field.name])
    fields = [varint(tag) + varint(len(data)) + data for tag, data in sorted(tags.items())]
    return varint(len(fields)) + b"".join(fields)


def default_of(step: FieldStep) -> Any:
    """The default as a row has it."""
    default = step.field.default()
    if default is not None and step.step.struct is not None and step.step.kind is Kind.STRUCT:
        inner = (*step.step.struct.in_line, *step.step.struct.tagged)
        return {field.field.name: default_of(field) for field in inner}
    return bytes(default) if step.step.kind is Kind.UUID else default


def write_value(step: Step, value: Any) -> bytes:
    if step.kind in FORMATS:
        return struct.pack(">" + FORMATS[step.kind], value)
    if step.kind is Kind.STRUCT:
        marker = (b"\xff" if value is None else b"\1") if step.nullable else b""
        return marker + (b"" if value is None else write(step.struct, value))  # type: ignore[arg-type]
    if value is not None and step.kind is Kind.STRING:
        value = value.encode()
    length = -1 if value is None else len(value)
    narrow = "h" if step.kind is Kind.STRING else "i"
    data = varint(length + 1) if step.compact else struct.pack(">" + narrow, length)
    if value is None or step.kind is not Kind.ARRAY:
        return data + (value or b"")
    assert step.element is not None
    return data + b"".join(write_value(step.element, element) for element in value)


def root_row(columns: Columns) -> dict[str, Any]:
    """A message's columns as one row of plain values, with the fields of all versions."""
    [row] = rows_of(columns)
    return row


def rows_of(rows: Rows) -> list[dict[str, Any]]:
    """Columns as rows of plain values; what was not set or not sent is there with its default."""
    values = {}
    for field in rows._struct.__fields__:
        known = rows.column(field.name)
        column = default_column(field, len(rows)) if known is None else known
        values[field.name] = values_of(column, field.type, len(rows))
    made = [{name: column[k] for name, column in values.items()} for k in range(len(rows))]
    tags = rows.unknown_tags
    for k in range(len(tags) if tags else 0):
        assert tags is not None
        data = tags.values[tags.offsets[k] : tags.offsets[k + 1]].tobytes()
        made[tags.rows[k]].setdefault("unknown", []).append((int(tags.tags[k]), data))
    return made


def values_of(column: Any, type_: FieldType, count: int) -> list[Any]:
    """One plain value a row."""
    if isinstance(column, Strings):
        return column.tolist()
    if isinstance(column, np.ndarray):
        assert len(column) == count
        return [bytes(value) for value in column] if type_.kind is Kind.UUID else column.tolist()
    if isinstance(column, Vectors):
        if type_.element is None:
            return [None if value is None else value.tobytes() for value in column]
        elements = values_of(column.values, type_.element, len(column.values))
        return parts(elements, column.offsets, column.valid)
    assert isinstance(column, Rows)
    structs = rows_of(column)
    if column.row_offsets is None:
        return structs
    split = parts(structs, column.row_offsets, column.valid)
    return [value[0] if value else None for value in split] if type_.kind is Kind.STRUCT else split


def parts(values: list[Any], offsets: Any, valid: Any) -> list[Any]:
    return [values[offsets[k] : offsets[k + 1]] if valid is None or valid[k] else None for k in range(len(offsets) - 1)]
