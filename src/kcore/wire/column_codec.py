"""Bytes to columns and columns to bytes."""

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kcore._ext.columns_read import Reader
from kcore._ext.columns_write import Writer
from kcore.errors import DecodeError, EncodeError
from kcore.schema.index import message_class
from kcore.schema.kinds import Kind
from kcore.schema.structure import Message
from kcore.wire.columns import Columns, Rows, Strings, UnknownTags, Vectors
from kcore.wire.gather import Gathered, gather
from kcore.wire.grouping import group, old_shape, ungroup
from kcore.wire.layout import Branch, Code, Extent, Program, Slot, program

MAX_BYTES = 2**31 - 1  # A frame's size is an int32, and so are our offsets.
PAGE = 4096
SLACK = 16  # The kernel may write so much past a column's end.


def decode_columns(name: str | type[Message], version: int, data: bytes | bytearray | memoryview) -> Columns:
    """The message as columns, with no object a partition; no header inside.

    Partitions are grouped by topic whatever the version has: consecutive ones of equal name are one topic (KIP-380).
    DecodeError (with the offset) for bytes that are no such message, UnsupportedVersionError for other versions.
    """
    message = message_class(name)
    running = program(message, version)
    view = memoryview(data).cast("B")
    if len(view) > MAX_BYTES:
        raise DecodeError(f"a message has at most {MAX_BYTES} bytes", MAX_BYTES)
    rows, totals = np.zeros(len(running.nodes), np.int64), np.zeros(len(running.columns) + 1, np.int64)
    reader = Reader(running.nodes, running.ops, rows, totals, view)
    problem, offset = reader.measure()
    if problem:
        raise DecodeError(problem, offset)
    arrays = fill(reader, running, rows.tolist(), totals.tolist())
    root = rows_of(running.root, None, arrays)
    columns = Columns.of_columns(message, root._columns, root.unknown_tags)
    shape = old_shape(message, running.root)
    return columns if shape is None else group(columns, shape)


@overload
def encode_columns(columns: Columns, version: int) -> bytes: ...
@overload
def encode_columns(columns: Columns, version: int, out: bytearray | memoryview | npt.NDArray[np.uint8]) -> int: ...
def encode_columns(columns: Columns, version: int, out: Any = None) -> bytes | int:
    """The message as bytes, or written to the front of `out` and the number of its bytes.

    UnsupportedVersionError where a field is set that the version lacks and may not drop, EncodeError for columns that
    are no such message or do not fit in `out`.
    """
    writer = prepare(columns, version)
    if out is None:
        return writer.to_bytes()
    room = memoryview(out).cast("B")
    if room.readonly or len(room) < writer.size:
        raise EncodeError(f"the message takes {writer.size} bytes, `out` has room for {len(room)}")
    writer.fill(room)
    return writer.size


def prepare(columns: Columns, version: int) -> Writer:
    """A writer whose columns are checked and whose size is known."""
    running = program(columns.message, version)
    shape = old_shape(columns.message, running.root)
    gathered: Gathered = gather(running, columns if shape is None else ungroup(columns, shape))
    writer = Writer(running.nodes, running.ops, gathered.arrays, gathered.rows, gathered.tag_counts)
    problem, column = writer.measure()
    if problem:
        raise EncodeError(f"{gathered.names[column]}: {problem}")
    if writer.size > MAX_BYTES:
        raise EncodeError(f"the message takes {writer.size} bytes, more than a frame can have")
    return writer


def fill(reader: Reader, running: Program, rows: list[int], totals: list[int]) -> list[npt.NDArray[Any]]:
    """All columns of the message, in one allocation.

    Columns that begin at the same place of a page slow each other down (4 KiB store aliasing), so they are staggered.
    """
    lengths = [length(running, column, rows, totals) for column in range(len(running.columns))]
    places, end = [], 0
    step = PAGE // max(len(lengths), 1) // 64 * 64 + 64
    for k, (column, count) in enumerate(zip(running.columns, lengths, strict=True)):
        size = count * column.dtype.itemsize
        begin = -(-end // 64) * 64
        if size >= PAGE:
            begin += (k * step - begin) % PAGE
        places.append(begin)
        end = begin + size + SLACK
    arena = np.empty(end, np.uint8)
    reader.fill(arena, np.array(places, np.int64))
    return [
        np.ndarray(count, column.dtype, arena, place)
        for column, count, place in zip(running.columns, lengths, places, strict=True)
    ]


def length(running: Program, k: int, rows: list[int], totals: list[int]) -> int:
    """How many values column k has."""
    column = running.columns[k]
    if column.extent <= Extent.ENDS:
        return rows[column.node] + column.extent
    return totals[k if column.counted < 0 else column.counted] + (column.extent is Extent.TAGS)


def rows_of(branch: Branch, slot: Slot | None, arrays: list[npt.NDArray[Any]]) -> Rows:
    """The columns of a node and of those below it under their names."""
    offsets = valid = tags = None
    if slot is not None and (slot.code is Code.ROWS or slot.step.nullable):
        offsets = arrays[slot.column]
        valid = arrays[slot.column + 1] if slot.code is Code.ROWS and slot.step.nullable else None
    if branch.plan is not None and branch.plan.flexible and len(arrays[branch.tag_column]):
        tags = UnknownTags(*arrays[branch.tag_column : branch.tag_column + 4])
    rows = Rows(offsets, valid=valid, unknown_tags=tags)
    rows._columns = {below.name: column_of(below, arrays) for below in branch.slots}
    return rows


def column_of(slot: Slot, arrays: list[npt.NDArray[Any]]) -> Any:
    """The arrays of one field as what they are: an array, Strings, Vectors or Rows."""
    if slot.code <= Code.BOOL:
        return arrays[slot.column]
    if slot.code is Code.VECTOR:
        view = Strings if slot.type.kind is Kind.STRING else Vectors
        return view(arrays[slot.column], arrays[slot.column + 1], *valid_of(slot, arrays, 2))
    assert slot.child is not None
    if slot.child.plan is not None:
        return rows_of(slot.child, slot, arrays)
    [element] = slot.child.slots
    return Vectors(arrays[slot.column], column_of(element, arrays), *valid_of(slot, arrays, 1))


def valid_of(slot: Slot, arrays: list[npt.NDArray[Any]], place: int) -> list[npt.NDArray[Any]]:
    return [arrays[slot.column + place]] if slot.step.nullable else []
