"""A message of no API with every kind of field, and Hypothesis strategies for the rows of any plan."""

from typing import Any

from hypothesis import strategies as st

from kcore.schema.kinds import Kind, float64, int8, int16, int32, int64, uint16, uint32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid
from kcore.wire.plan import FieldStep, Step, StructPlan


class Point(Struct):
    """Only fixed fields."""

    x: int16
    y: int64 = field(versions="1+", default=7, ignorable=True)


class Item(Struct):
    """The fields of a flat node: fixed fields and vectors."""

    flag: bool
    name: str
    small: int8
    numbers: list[int32]
    id: Uuid
    flags: list[bool]
    wide: list[int64]
    blob: bytes
    count: uint16


class Wide(Struct):
    """More vectors than a layout has windows for."""

    a: list[int64]
    b: list[int64]
    c: list[int64]
    d: list[int64]
    e: list[int64]
    f: list[int64]
    g: list[int64]
    h: list[int64]
    i: list[int64]
    j: list[int64]


class Nest(Struct):
    """The fields that are not flat: nullable fields, structs, tags."""

    point: Point
    maybe: Point | None = field(nullable="1+")
    names: list[str]
    title: str | None = field(nullable="0+", default=None)
    points: list[Point] | None = field(nullable="0+")
    ratio: float64 = field(versions="2+", tag=1, tagged="2+", default=0.5)
    label: str = field(versions="2+", tag=3, tagged="2+")
    spot: Point = field(versions="2+", tag=5, tagged="2+")
    items: list[Item] = field(versions="2+", tag=6, tagged="2+")
    gone: list[int32] | None = field(versions="2+", tag=8, tagged="2+", nullable="2+", default=None)
    corner: Point | None = field(versions="2+", tag=9, tagged="2+", nullable="2+", default=None)


class EveryKind(Message, versions="0-2", flexible="2+"):
    """Fields of every kind."""

    number: uint32
    text: str | None = field(nullable="0+")
    blob: bytes | None = field(nullable="0+")
    items: list[Item]
    points: list[Point]
    nests: list[Nest]
    matrix: list[list[int16]]
    words: list[list[str]]
    wides: list[Wide]


RANGES = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
}
TEXTS = st.one_of(st.sampled_from(["", "a", "größe", "日本語", "x\0y", "🦆" * 40]), st.text(max_size=5))


def structs(plan: StructPlan) -> st.SearchStrategy[dict[str, Any]]:
    """Rows of a struct, some with unknown tags."""
    fields = {step.field.name: fields_of(step) for step in (*plan.in_line, *plan.tagged)}
    if not plan.flexible:
        return st.fixed_dictionaries(fields)
    tags = st.dictionaries(st.sampled_from([0, 2, 4, 200, 2**31]), st.binary(max_size=3), min_size=1, max_size=3)
    known = {step.tag for step in plan.tagged}
    unknown = tags.map(lambda pairs: sorted((tag, data) for tag, data in pairs.items() if tag not in known))
    return st.one_of(
        st.fixed_dictionaries(fields),
        st.fixed_dictionaries(fields),
        st.fixed_dictionaries(fields | {"unknown": unknown.filter(bool)}),
    )


def fields_of(step: FieldStep) -> st.SearchStrategy[Any]:
    return values(step.step)


def values(step: Step) -> st.SearchStrategy[Any]:
    if step.kind in RANGES:
        found: st.SearchStrategy[Any] = st.integers(*RANGES[step.kind])
    elif step.kind is Kind.BOOL:
        found = st.booleans()
    elif step.kind is Kind.FLOAT64:
        found = st.floats(allow_nan=False)
    elif step.kind is Kind.UUID:
        found = st.binary(min_size=16, max_size=16)
    elif step.kind is Kind.STRING:
        found = TEXTS
    elif step.struct is not None:
        found = structs(step.struct)
    elif step.element is not None:
        found = runs(values(step.element))
    else:
        found = st.binary(max_size=9)
    return st.one_of(found, st.none()) if step.nullable else found


def runs(element: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists in which values come several times in a row, as equal layouts do."""
    run = st.tuples(element, st.sampled_from([1, 1, 2, 9, 40]))
    return st.lists(run, max_size=4).map(lambda found: [value for value, times in found for _ in range(times)])
