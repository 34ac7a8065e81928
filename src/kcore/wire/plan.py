"""Plans how to read and write a version of a class: one plan for objects, columns and JSON.

A plan lists the fields of a version in wire order. The codecs compile it once and keep it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from kcore.errors import UnsupportedVersionError
from kcore.schema.index import dialect_module
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.structure import Field, Message, Struct


@dataclass(frozen=True, slots=True)
class Step:
    """How to write one value: its kind, whether its length is compact (varint + 1), whether it is nullable."""

    kind: Kind
    compact: bool
    nullable: bool
    element: "Step | None" = None  # element of an ARRAY
    struct: "StructPlan | None" = None  # plan of a STRUCT


@dataclass(frozen=True, slots=True)
class FieldStep:
    """A field of the struct and the step that writes it; `tag` is None for a field in line."""

    field: Field
    step: Step
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class StructPlan:
    """The fields of one version of a struct, in wire order."""

    struct: type[Struct]
    version: int
    flexible: bool  # The struct ends in tagged fields, known and unknown.
    in_line: tuple[FieldStep, ...]
    tagged: tuple[FieldStep, ...]  # ascending tags
    absent: tuple[Field, ...]  # Not in this version: reading sets the default, writing checks `ignorable`.


def plan(message: type[Message], version: int, dialect: str | None = None) -> StructPlan:
    """The plan of one version of a message; UnsupportedVersionError if the dialect has no such version."""
    if message.dialect not in (None, dialect):
        raise UnsupportedVersionError(f"{message.__name__} exists only in the dialect {message.dialect!r}")
    versions = message.versions if dialect is None else dialect_module(dialect).versions(message)
    if version not in versions:
        raise UnsupportedVersionError(f"{message.__name__} has versions {versions}, not {version}")
    return struct_plan(message, version, version in message.flexible_versions)


@cache
def struct_plan(struct: type[Struct], version: int, flexible: bool) -> StructPlan:
    """The plan of a struct inside a message of that version."""
    in_line, tagged, absent = [], [], []
    for field in struct.__fields__:
        if version not in field.options.versions:
            absent.append(field)
        elif version in field.options.tagged:
            tagged.append(FieldStep(field, _field_step(field, version, flexible), field.options.tag))
        else:
            in_line.append(FieldStep(field, _field_step(field, version, flexible)))
    tagged.sort(key=lambda step: step.tag or 0)
    return StructPlan(struct, version, flexible, tuple(in_line), tuple(tagged), tuple(absent))


def _field_step(field: Field, version: int, flexible: bool) -> Step:
    own: Any = field.options.flexible
    compact = flexible if own is None else version in own
    return _step(field.type, version, flexible, compact, version in field.options.nullable)


def _step(type_: FieldType, version: int, flexible: bool, compact: bool, nullable: bool) -> Step:
    element = None if type_.element is None else _step(type_.element, version, flexible, compact, False)
    struct = None if type_.struct is None else struct_plan(type_.struct, version, flexible)
    return Step(type_.kind, compact, nullable, element, struct)
