"""Checks the columns that a caller made or decoded, and collects the arrays that a program writes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from kcore.errors import EncodeError, UnsupportedVersionError
from kcore.schema.kinds import Kind
from kcore.schema.structure import Field
from kcore.wire.columns import Rows, Spans, UnknownTags, Vectors, default_column
from kcore.wire.layout import BEGINS, BYTES, DTYPES, OFFSETS, VALID, Branch, Code, Program, Slot

Array = npt.NDArray[Any]
UINT32 = np.dtype(np.uint32)
# Constants, because on Python 3.11 looking up an enum's member takes longer than all other work on a field.
VECTOR, STRUCT = Code.VECTOR, Code.STRUCT


@dataclass(slots=True)
class Gathered:
    """The input of a Writer: arrays (the Writer checks contiguity), and the rows and unknown tags of each node."""

    arrays: list[Array | None]  # None for missing unknown tags and for unset tagged fields
    rows: list[int]
    tag_counts: list[int]


def gather(program: Program, columns: Rows, count: int = 1) -> Gathered:
    """The program's arrays of one message, or of `count` messages with a row each; EncodeError for columns that do not
    fit.

    UnsupportedVersionError if a field is set that the version lacks and must not drop.
    """
    into = Gathered([None] * len(program.columns), [0] * program.nodes, [0] * program.nodes)
    gather_rows(into, program, program.root, columns, count)
    return into


def gather_rows(into: Gathered, program: Program, branch: Branch, rows: Rows, count: int) -> None:
    """Collect the columns of a node and of the nodes below it."""
    if branch.refused:
        refuse(rows, branch.refused, branch.path)
    into.rows[branch.node] = count
    arrays, shape, uuids = into.arrays, (count,), (count, 16)
    for (slot, dtype, base, place, tagged), known in zip(branch.fields, rows.columns_of(branch.names), strict=True):
        if known is None and tagged:
            continue  # The Writer omits an unset tagged field.
        column = default_of(slot, count) if known is None else known
        if dtype is None:
            gather_lengths(into, program, slot, column, count)
        elif type(column) is ndarray and column.dtype is base and column.shape == (shape if base is dtype else uuids):
            arrays[place] = column  # The usual case; `checked` takes longer.
        else:
            arrays[place] = checked(column, dtype, count, slot.path)
    if rows.unknown_tags is not None:
        gather_tags(into, branch, rows.unknown_tags, count)


def default_of(slot: Slot, count: int) -> Any:
    """The column of an unset field."""
    assert slot.field is not None
    if slot.dtype is not None and slot.type.kind is not Kind.UUID:
        return np.full(count, slot.field.default(), DTYPES[slot.type.kind])  # Cheaper than a view of one value.
    return default_column(slot.field, count)


def gather_lengths(into: Gathered, program: Program, slot: Slot, column: Any, count: int) -> None:
    """Collect a field that is not a plain array."""
    if slot.code is VECTOR:
        gather_vectors(into, program, slot, column, count)
    elif slot.code is STRUCT:
        gather_struct(into, program, slot, column, count)
    elif slot.child is not None and slot.child.plan is not None:
        if not isinstance(column, Rows) or column.row_offsets is None:
            raise EncodeError(f"{slot.path}: expected Rows with row_offsets, not {column!r}")
        below = gather_ends(into, slot, column.row_offsets, column.valid, count, 1)
        gather_rows(into, program, slot.child, column, below)
    else:
        gather_vectors(into, program, slot, column, count)


def gather_vectors(into: Gathered, program: Program, slot: Slot, column: Any, count: int) -> None:
    if not isinstance(column, Vectors):
        raise EncodeError(f"{slot.path}: expected Strings or Vectors, not {column!r}")
    below = gather_ends(into, slot, column.offsets, column.valid, count, 2 if slot.child is None else 1)
    if slot.begins >= 0 and isinstance(column, Spans):
        source, begins = column.source, column.begins
        into.arrays[slot.column + 1] = checked(source, BYTES, len(source), slot.path, "source")
        into.arrays[slot.begins] = checked(begins, BEGINS, count, slot.path, "begins")
        return
    if slot.child is None:
        place = slot.column + 1
        into.arrays[place] = checked(column.values, program.columns[place].dtype, below, slot.path, "values")
        return
    [element] = slot.child.slots
    into.rows[slot.child.node] = below
    gather_lengths(into, program, element, column.values, below)


def gather_struct(into: Gathered, program: Program, slot: Slot, column: Any, count: int) -> None:
    assert slot.child is not None
    if not isinstance(column, Rows) or (column.row_offsets is None) == slot.step.nullable:
        wanted = "with" if slot.step.nullable else "without"
        raise EncodeError(f"{slot.path}: expected Rows {wanted} row_offsets, not {column!r}")
    below = count
    if slot.step.nullable:
        assert column.row_offsets is not None
        below = gather_ends(into, slot, column.row_offsets, None, count, 0)
    gather_rows(into, program, slot.child, column, below)


def gather_ends(into: Gathered, slot: Slot, offsets: Any, valid: Any, count: int, place: int) -> int:
    """Collect offsets, and validity `place` columns further on; returns the number of elements."""
    if type(offsets) is not ndarray or offsets.dtype is not OFFSETS or offsets.shape != (count + 1,):
        offsets = checked(offsets, OFFSETS, count + 1, slot.path, "offsets")
    into.arrays[slot.column] = offsets
    below: int = offsets.item(-1)
    if offsets.item(0) != 0:
        raise EncodeError(f"{slot.path}: offsets begin at 0, not at {offsets[0]}")
    if below < 0:
        raise EncodeError(f"{slot.path}: offsets must not fall, and the last one is {below}")
    if place and slot.step.nullable:
        known = np.ones(count, np.bool_) if valid is None else checked(valid, VALID, count, slot.path, "valid")
        into.arrays[slot.column + place] = known
    elif valid is not None and not valid.all():
        raise EncodeError(f"{slot.path}: null, but not nullable")
    return below


def gather_tags(into: Gathered, branch: Branch, tags: UnknownTags, count: int) -> None:
    """Collect unknown tags. There are few, so they are copied and checked here and not in the kernel."""
    if not len(tags.rows):
        return
    assert branch.plan is not None
    if not branch.plan.flexible:
        raise UnsupportedVersionError(
            f"{branch.path}: unknown tagged fields are set, version {branch.plan.version} has none"
        )
    path = f"{branch.path}.unknown_tags"
    known = [step.tag for step in branch.plan.tagged if step.tag is not None]
    number = len(tags.rows)
    rows = checked(tags.rows, OFFSETS, number, path, "rows").copy()
    owners = rows.astype(np.int64)
    numbers = checked(tags.tags, UINT32, number, path, "tags").copy()
    ends = checked(tags.offsets, OFFSETS, number + 1, path, "offsets").copy()
    checked(tags.values, BYTES, int(ends[-1]), path, "values")
    ascending = (np.diff(owners << 32 | numbers) > 0).all() and owners[0] >= 0 and owners[-1] < count
    if not ascending or ends[0] != 0 or (np.diff(ends) < 0).any() or np.isin(numbers, known).any():
        raise EncodeError(f"{path}: rows, tags or offsets are not ascending, or a tag is a known one")
    into.arrays[branch.tag_column : branch.tag_column + 4] = [rows, numbers, ends, tags.values]
    into.tag_counts[branch.node] = number


def checked(column: Any, dtype: np.dtype[Any], count: int, path: str, part: str = "") -> Array:
    """The column; EncodeError if it has another dtype or length."""
    if type(column) is ndarray:
        if column.dtype is dtype and column.shape == (count,):
            return column
        if column.dtype == dtype.base and column.shape == (count, *dtype.shape):
            return column
    found = f"{column.dtype}{column.shape}" if isinstance(column, np.ndarray) else repr(column)
    name = f"{path}.{part}" if part else path
    raise EncodeError(f"{name}: expected {dtype.base}{(count, *dtype.shape)}, not {found}")


def refuse(rows: Rows, absent: tuple[Field, ...], path: str) -> None:
    """UnsupportedVersionError if a field of `absent` is set: the version lacks these fields and must not drop them."""
    for lacking in absent:
        if is_set(lacking, rows.column(lacking.name)):
            raise UnsupportedVersionError(f"{path}.{lacking.name} is set, but the version lacks it")


def is_set(field: Field, column: Any) -> bool:
    """True if any row differs from the field's default."""
    default = field.default()
    if column is None:
        return False
    if isinstance(column, np.ndarray):
        return bool((column != (np.frombuffer(default, np.uint8) if column.ndim == 2 else default)).any())
    offsets = column.row_offsets if isinstance(column, Rows) else column.offsets
    if default is None and column.valid is not None:
        return bool(column.valid.any())
    return offsets is None or bool(offsets[-1]) or (column.valid is not None and not column.valid.all())
