"""From columns that a caller made or decoded to the arrays that a program writes, checked."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kcore.errors import EncodeError, UnsupportedVersionError
from kcore.schema.structure import Field
from kcore.wire.columns import Columns, Rows, Vectors, default_column
from kcore.wire.layout import BYTES, OFFSETS, VALID, Branch, Code, Program, Slot

Array = npt.NDArray[Any]
UINT32 = np.dtype(np.uint32)


@dataclass(slots=True)
class Gathered:
    """What a Writer takes, and the fields' names by column for its complaints."""

    arrays: list[Array]
    rows: npt.NDArray[np.int64]
    tag_counts: npt.NDArray[np.int64]
    names: dict[int, str] = field(default_factory=dict)


def gather(program: Program, columns: Columns) -> Gathered:
    """The program's arrays; EncodeError where a column is not what its field needs.

    UnsupportedVersionError where a field is set that the version lacks and may not drop.
    """
    nodes = len(program.nodes)
    nothing = np.empty(0, np.uint8)
    into = Gathered([nothing] * len(program.columns), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64))
    gather_rows(into, program, program.root, columns, 1, columns.message.__name__)
    return into


def gather_rows(into: Gathered, program: Program, branch: Branch, rows: Rows, count: int, path: str) -> None:
    """The columns of a node and of those below it."""
    assert branch.plan is not None
    refuse(rows, branch.plan.absent, path)
    into.rows[branch.node] = count
    fields = {field.name: field for field in branch.plan.struct.__fields__}
    for slot in branch.slots:
        column = rows.column(slot.name)
        if column is None:
            column = default_column(fields[slot.name], count)
        gather_slot(into, program, slot, column, count, f"{path}.{slot.name}")
    if branch.plan.flexible:
        gather_tags(into, branch, rows, count, path)
    elif rows.unknown_tags:
        raise UnsupportedVersionError(f"{path}: unknown tagged fields are set, version {branch.plan.version} has none")


def gather_slot(into: Gathered, program: Program, slot: Slot, column: Any, count: int, path: str) -> None:
    into.names[slot.column] = path
    if slot.code <= Code.BOOL:
        into.arrays[slot.column] = checked(column, program.columns[slot.column].dtype, count, path)
    elif slot.code is Code.STRUCT:
        gather_struct(into, program, slot, column, count, path)
    elif slot.code is Code.ROWS and slot.child is not None and slot.child.plan is not None:
        if not isinstance(column, Rows) or column.row_offsets is None:
            raise EncodeError(f"{path}: expected Rows with row_offsets, not {column!r}")
        below = gather_ends(into, slot, column.row_offsets, column.valid, count, 1, path)
        gather_rows(into, program, slot.child, column, below, path)
    else:
        gather_vectors(into, program, slot, column, count, path)


def gather_vectors(into: Gathered, program: Program, slot: Slot, column: Any, count: int, path: str) -> None:
    if not isinstance(column, Vectors):
        raise EncodeError(f"{path}: expected Strings or Vectors, not {column!r}")
    below = gather_ends(into, slot, column.offsets, column.valid, count, 2 if slot.child is None else 1, path)
    if slot.child is None:
        place = slot.column + 1
        into.arrays[place] = checked(column.values, program.columns[place].dtype, below, f"{path}.values")
        return
    [element] = slot.child.slots
    into.rows[slot.child.node] = below
    gather_slot(into, program, element, column.values, below, f"{path}[]")


def gather_struct(into: Gathered, program: Program, slot: Slot, column: Any, count: int, path: str) -> None:
    assert slot.child is not None
    if not isinstance(column, Rows) or (column.row_offsets is None) == slot.step.nullable:
        wanted = "with" if slot.step.nullable else "without"
        raise EncodeError(f"{path}: expected Rows {wanted} row_offsets, not {column!r}")
    below = count
    if slot.step.nullable:
        assert column.row_offsets is not None
        below = gather_ends(into, slot, column.row_offsets, None, count, 0, path)
        if (np.diff(column.row_offsets) > 1).any():
            raise EncodeError(f"{path}: there is one struct a row, or none")
    gather_rows(into, program, slot.child, column, below, path)


def gather_ends(into: Gathered, slot: Slot, offsets: Any, valid: Any, count: int, place: int, path: str) -> int:
    """Offsets, and which rows are not null (`place` columns further on); how many elements there are."""
    offsets = into.arrays[slot.column] = checked(offsets, OFFSETS, count + 1, f"{path}.offsets")
    if offsets[0] != 0 or offsets[-1] < 0:
        raise EncodeError(f"{path}: offsets begin at 0, not at {offsets[0]}")
    if place and slot.step.nullable:
        known = np.ones(count, np.bool_) if valid is None else checked(valid, VALID, count, f"{path}.valid")
        into.arrays[slot.column + place] = known
        if valid is not None and np.diff(offsets)[~known].any():
            raise EncodeError(f"{path}: a row that is null has elements")
    elif valid is not None and not valid.all():
        raise EncodeError(f"{path}: null, but not nullable")
    return int(offsets[-1])


def gather_tags(into: Gathered, branch: Branch, rows: Rows, count: int, path: str) -> None:
    """Unknown tags; they are few, so they are checked here and not in the kernel."""
    tags = rows.unknown_tags
    if tags is None or not len(tags.rows):
        return
    assert branch.plan is not None
    known = [step.tag for step in branch.plan.tagged if step.tag is not None]
    number = len(tags.rows)
    owners = checked(tags.rows, OFFSETS, number, f"{path}.unknown_tags.rows").astype(np.int64)
    numbers = checked(tags.tags, UINT32, number, f"{path}.unknown_tags.tags")
    ends = checked(tags.offsets, OFFSETS, number + 1, f"{path}.unknown_tags.offsets")
    checked(tags.values, BYTES, int(ends[-1]), f"{path}.unknown_tags.values")
    ascending = (np.diff(owners << 32 | numbers) > 0).all() and owners[0] >= 0 and owners[-1] < count
    if not ascending or ends[0] != 0 or (np.diff(ends) < 0).any() or np.isin(numbers, known).any():
        raise EncodeError(f"{path}.unknown_tags: rows, tags or offsets are not ascending, or a tag is a known one")
    into.arrays[branch.tag_column : branch.tag_column + 4] = [
        np.ascontiguousarray(array) for array in (tags.rows, tags.tags, tags.offsets, tags.values)
    ]
    into.tag_counts[branch.node] = number


def checked(column: Any, dtype: np.dtype[Any], count: int, path: str) -> Array:
    """The column, C-contiguous; EncodeError where it has another dtype or length."""
    wanted = np.empty(0, dtype).dtype, (count, *dtype.shape)
    if not isinstance(column, np.ndarray) or (column.dtype, column.shape) != wanted:
        found = f"{column.dtype}{column.shape}" if isinstance(column, np.ndarray) else repr(column)
        raise EncodeError(f"{path}: expected {wanted[0]}{wanted[1]}, not {found}")
    return np.ascontiguousarray(column)


def refuse(rows: Rows, absent: tuple[Field, ...], path: str) -> None:
    """UnsupportedVersionError where a field is set that the version lacks and may not drop."""
    for lacking in absent:
        if not lacking.options.ignorable and is_set(lacking, rows.column(lacking.name)):
            raise UnsupportedVersionError(f"{path}.{lacking.name} is set, but the version lacks it")


def is_set(field: Field, column: Any) -> bool:
    """Whether any row departs from the field's default."""
    default = field.default()
    if column is None:
        return False
    if isinstance(column, np.ndarray):
        return bool((column != (np.frombuffer(default, np.uint8) if column.ndim == 2 else default)).any())
    offsets = column.row_offsets if isinstance(column, Rows) else column.offsets
    if default is None and column.valid is not None:
        return bool(column.valid.any())
    return offsets is None or bool(offsets[-1]) or (column.valid is not None and not column.valid.all())
