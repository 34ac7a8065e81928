"""Compiles a plan to the program of the column kernels and to the tree of its columns.

Every struct of a version is a node; its rows are all structs of this kind in wire order. A node's fields are ops; each
op has its columns. `_ext/columns/program.pxd` defines the numbers in the tables.
"""

import sys
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import takewhile
from typing import Any

import numpy as np

from kcore._ext.columns.column_tables import Tables
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.structure import Field, Message
from kcore.wire.plan import FieldStep, Step, StructPlan, plan

DTYPES: dict[Kind, np.dtype[Any]] = {
    Kind.BOOL: np.dtype(np.bool_),
    Kind.INT8: np.dtype(np.int8),
    Kind.INT16: np.dtype(np.int16),
    Kind.UINT16: np.dtype(np.uint16),
    Kind.INT32: np.dtype(np.int32),
    Kind.UINT32: np.dtype(np.uint32),
    Kind.INT64: np.dtype(np.int64),
    Kind.FLOAT64: np.dtype(np.float64),
    Kind.UUID: np.dtype((np.uint8, 16)),
}
MAX_VECTORS = 12  # The most vectors of a flat node, as in program.pxd.
TEXTS = (Kind.STRING, Kind.BYTES, Kind.RECORDS)  # Encoded as a length and bytes.
OFFSETS, BYTES, VALID, BEGINS = np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.bool_), np.dtype(np.int64)


class Code(IntEnum):
    """The kind of value that an op reads."""

    FIXED = 0
    BOOL = 1
    VECTOR = 2
    ROWS = 3
    STRUCT = 4


class Prefix(IntEnum):
    """The encoding of a length."""

    INT16 = 0
    INT32 = 1
    VARINT = 2


class Extent(IntEnum):
    """The way to compute the length of a column."""

    ROWS = 0  # one value per row of its node
    ENDS = 1  # offsets: one value more than rows
    TOTAL = 2  # all elements of all rows
    TAGS = 3  # one value more than unknown tags
    MESSAGE = 4  # the message itself; not filled


@dataclass(frozen=True, slots=True)
class Column:
    """An array that the kernels fill or read. `counted`: another column whose total sets the length; -1: its own."""

    dtype: np.dtype[Any]
    extent: Extent
    node: int
    counted: int = -1


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a node: the first of its columns, and the node below it if there is one."""

    name: str
    path: str  # The path from the message, for error messages.
    type: FieldType
    step: Step
    field: Field | None  # None for the elements of an array.
    code: Code
    column: int
    child: "Branch | None" = None
    dtype: np.dtype[Any] | None = None  # dtype of a field of fixed width
    base: np.dtype[Any] | None = None  # dtype of one element of `dtype`: a uuid has sixteen elements
    begins: int = -1  # the column with the position in the message at which each value of type `records` starts
    tagged: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """A node as a tree of names. `plan` is None for the elements of an array of strings or of arrays."""

    node: int
    path: str
    plan: StructPlan | None
    slots: tuple[Slot, ...]
    tag_column: int
    refused: tuple[Field, ...]  # Fields that the version lacks and must not drop.
    by_name: dict[str, Slot]
    names: tuple[str, ...]
    # For encoding, of each field: slot, dtype, dtype of an element, first column, whether the field is tagged.
    fields: tuple[tuple[Slot, np.dtype[Any] | None, np.dtype[Any] | None, int, bool], ...]
    tagged: tuple[tuple[str, int], ...]  # Tagged fields, each with a column that exists if the field was sent.


@dataclass(frozen=True, slots=True)
class Program:
    """The tables for the kernels, and the tree that names its columns."""

    tables: Tables
    nodes: int
    columns: tuple[Column, ...]
    root: Branch
    keeps_message: bool  # Some columns point into the message, so the message is kept.


@cache
def program(message: type[Message], version: int) -> Program:
    """The program of that version; UnsupportedVersionError if the message has no such version."""
    compiler = Compiler()
    root = compiler.struct(plan(message, version), message.__name__)
    ops = [
        [*op, *together(group[k : node[0]])]
        for node, group in zip(compiler.nodes, compiler.groups, strict=True)
        for k, op in enumerate(group)
    ]
    starts = np.cumsum([0, *(len(group) for group in compiler.groups)])
    nodes = [[starts[k], starts[k] + node[0], starts[k + 1], *node[1:]] for k, node in enumerate(compiler.nodes)]
    shaped = np.array(ops, np.int64).reshape(len(ops), 13)
    extents = [
        (*extent_of(k, column), -1 if owner is None else starts[owner[0]] + owner[1])
        for k, (column, owner) in enumerate(zip(compiler.columns, compiler.owners, strict=True))
    ]
    placed = np.array(extents, np.int64).reshape(len(extents), 5)
    keeps = any(column.extent is Extent.MESSAGE for column in compiler.columns)
    tables = Tables(np.array(nodes, np.int64), shaped, placed)
    return Program(tables, len(nodes), tuple(compiler.columns), root, keeps)


def together(ops: list[list[int]]) -> tuple[int, int]:
    """The number of bytes and fields of the FIXED and BOOL fields at the begin of `ops`."""
    widths = [op[1] for op in takewhile(lambda op: op[0] <= Code.BOOL, ops)]
    return sum(widths), len(widths)


def extent_of(k: int, column: Column) -> tuple[int, int, int, int]:
    """The length of a column: 0 (rows) or 1 (total), the node or column that counts, extra values, bytes per value."""
    if column.extent is Extent.MESSAGE:
        return 0, column.node, 0, 0
    if column.extent in (Extent.ROWS, Extent.ENDS):
        return 0, column.node, column.extent is Extent.ENDS, column.dtype.itemsize
    return 1, k if column.counted < 0 else column.counted, column.extent is Extent.TAGS, column.dtype.itemsize


class Compiler:
    """Numbers the nodes, ops and columns of one program."""

    def __init__(self) -> None:
        self.nodes: list[list[int]] = []
        self.groups: list[list[list[int]]] = []  # the ops of each node
        self.columns: list[Column] = []
        self.owners: list[tuple[int, int] | None] = []  # for each column: node and op of its tagged field
        self.owner: tuple[int, int] | None = None

    def struct(self, plan: StructPlan, path: str) -> Branch:
        """Compile a struct and all structs below it; returns its node."""
        steps = (*plan.in_line, *plan.tagged)
        node = self.begin()
        slots = tuple(
            self.slot(node, step.field.name, f"{path}.{step.field.name}", step.field.type, step.step, step)
            for step in steps
        )
        return self.end(node, path, plan, slots, len(plan.in_line), plan.flexible)

    def element(self, type_: FieldType, step: Step, path: str) -> Branch:
        """The node of an array's elements that are neither structs nor of fixed width."""
        node = self.begin()
        return self.end(node, path, None, (self.slot(node, "element", f"{path}[]", type_, step),), 1, False)

    def begin(self) -> int:
        self.nodes.append([])
        self.groups.append([])
        return len(self.nodes) - 1

    def end(
        self, node: int, path: str, plan: StructPlan | None, slots: tuple[Slot, ...], in_line: int, flexible: bool
    ) -> Branch:
        tag_column = len(self.columns)
        if flexible:
            self.add(
                Column(OFFSETS, Extent.TOTAL, node),
                Column(np.dtype(np.uint32), Extent.TOTAL, node, tag_column),
                Column(OFFSETS, Extent.TAGS, node, tag_column),
                Column(BYTES, Extent.TOTAL, node),
            )
        plain = all(slot.code <= Code.VECTOR and not slot.step.nullable for slot in slots)
        plain = plain and sum(slot.code is Code.VECTOR for slot in slots) <= MAX_VECTORS
        min_size = flexible + sum(self.min_size(slot) for slot in slots[:in_line])
        self.nodes[node] = [in_line, flexible, tag_column, min_size, plain and len(slots) == in_line]
        refused = tuple(field for field in plan.absent if not field.options.ignorable) if plan else ()
        by_name = {slot.name: slot for slot in slots}
        tagged = tuple((slot.name, first_column(slot)) for slot in slots if slot.tagged)
        fields = tuple((slot, slot.dtype, slot.base, slot.column, slot.tagged) for slot in slots)
        return Branch(node, path, plan, slots, tag_column, refused, by_name, tuple(by_name), fields, tagged)

    def add(self, *columns: Column) -> None:
        """Number the columns; a tagged field's columns are left out if no row sent the field."""
        self.columns += columns
        self.owners += [self.owner] * len(columns)

    def min_size(self, slot: Slot) -> int:
        """The fewest bytes that the field takes."""
        if slot.code <= Code.BOOL:
            return DTYPES[slot.type.kind].itemsize
        if slot.code is Code.STRUCT:
            assert slot.child is not None
            return 1 if slot.step.nullable else self.nodes[slot.child.node][3]
        return (2, 4, 1)[prefix_of(slot.step)]

    def slot(
        self, node: int, name: str, path: str, type_: FieldType, step: Step, field: FieldStep | None = None
    ) -> Slot:
        """Compile a field: its op, its columns, and the node below it."""
        place, ops = len(self.groups[node]), self.groups[node]
        ops.append([])  # Reserves the field's place before its children are compiled.
        code, width, is_bool, columns = describe(node, type_, step)
        column, outer = len(self.columns), self.owner
        tag = -1 if field is None or field.tag is None else field.tag
        self.owner = outer if tag < 0 else (node, place)
        self.add(*columns)
        child = self.child(type_, step, path) if code >= Code.ROWS else None
        self.owner = outer
        is_text = type_.kind is Kind.STRING
        below = -1 if child is None else child.node
        fallback = 0 if field is None else fallback_bits(field)
        begins = column + 2 + step.nullable if type_.kind is Kind.RECORDS else -1
        ops[place] = [
            *(code, width, prefix_of(step), step.nullable, is_text, is_bool, column, below, tag, fallback, begins)
        ]
        dtype = columns[0].dtype if code <= Code.BOOL else None
        base, source = dtype and dtype.base, field.field if field else None
        return Slot(name, path, type_, step, source, code, column, child, dtype, base, begins, tag >= 0)

    def child(self, type_: FieldType, step: Step, path: str) -> Branch:
        if step.struct is not None:
            return self.struct(step.struct, path)
        assert step.element is not None and type_.element is not None
        if step.element.struct is not None:
            return self.struct(step.element.struct, path)
        return self.element(type_.element, step.element, path)


def first_column(slot: Slot) -> int:
    """The slot's first column, or, for a struct without fields, its first column of unknown tags."""
    is_plain_struct = slot.code is Code.STRUCT and not slot.step.nullable
    return slot.child.tag_column if is_plain_struct and slot.child else slot.column


def prefix_of(step: Step) -> Prefix:
    if step.compact:
        return Prefix.VARINT
    return Prefix.INT16 if step.kind is Kind.STRING else Prefix.INT32


def describe(node: int, type_: FieldType, step: Step) -> tuple[Code, int, bool, list[Column]]:
    """Code, width, whether elements are bools, and columns of a field."""
    ends, valid = Column(OFFSETS, Extent.ENDS, node), Column(VALID, Extent.ROWS, node)
    if type_.kind in DTYPES:
        dtype = DTYPES[type_.kind]
        code = Code.BOOL if type_.kind is Kind.BOOL else Code.FIXED
        return code, dtype.itemsize, False, [Column(dtype, Extent.ROWS, node)]
    if type_.kind is Kind.STRUCT:
        return Code.STRUCT, 0, False, [ends] * step.nullable
    if type_.kind is Kind.RECORDS:
        stays, begins = Column(BYTES, Extent.MESSAGE, node), Column(BEGINS, Extent.ROWS, node)
        return Code.VECTOR, 1, False, [ends, stays, *[valid] * step.nullable, begins]
    element = BYTES if type_.kind in TEXTS else DTYPES.get(type_.element.kind if type_.element else type_.kind)
    if element is None:
        return Code.ROWS, 0, False, [ends, *[valid] * step.nullable]
    columns = [ends, Column(element, Extent.TOTAL, node), *[valid] * step.nullable]
    return Code.VECTOR, element.itemsize, element == np.bool_, columns


def fallback_bits(field: FieldStep) -> int:
    """The field's default for the kernels: its wire bytes if it has a fixed width, otherwise 1 for null and 0."""
    default = field.field.default()
    kind = field.field.type.kind
    if kind is Kind.UUID:
        assert default == bytes(16)
        return 0
    if kind in DTYPES:
        wire = np.array(default, DTYPES[kind].newbyteorder(">")).tobytes()
        return int.from_bytes(wire.ljust(8, b"\0"), sys.byteorder, signed=True)
    assert not isinstance(default, (str, bytes, list)) or not default
    return int(default is None)
