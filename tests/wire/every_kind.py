"""A message of our own that has every kind, in line and tagged, nullable or not: Kafka's have some of these only."""

from kcore.schema.kinds import Records, float64, int8, int16, int32, int64, uint16, uint32
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class Part(Struct):
    """A struct inside: an element, a nullable value, a tagged value."""

    name: str
    number: int32 = field(default=-1)
    late: int16 = field(versions="2+", default=7, ignorable=True)
    tagged_text: str | None = field(versions="2+", tag=3, tagged="2+", nullable="2+", default=None)


class EveryKind(Message, versions="0-3", flexible="2+"):
    """Versions 0 and 1 are not flexible; 1 adds null, 3 moves `moving` from its place into a tag."""

    a_bool: bool
    an_int8: int8
    an_int16: int16
    a_uint16: uint16
    an_int32: int32
    a_uint32: uint32
    an_int64: int64
    a_float64: float64
    a_uuid: Uuid
    a_string: str | None = field(nullable="1+", default="")
    some_bytes: bytes | None = field(nullable="1+", default=b"")
    records: Records | None = field(nullable="0+")
    part: Part
    maybe_part: Part | None = field(versions="1+", nullable="1+", default=None)
    numbers: list[int64] | None = field(nullable="1+")
    shorts: list[int16]
    names: list[str]
    ids: list[Uuid]
    blobs: list[bytes]
    parts: list[Part] | None = field(nullable="1+")
    moving: int32 = field(versions="1+", tag=1, tagged="3+", default=5)
    refused: int8 = field(versions="3+", default=1)
    tagged_int: int64 = field(versions="2+", tag=0, tagged="2+", default=-1)
    tagged_part: Part = field(versions="2+", tag=4, tagged="2+", ignorable=True)
    tagged_parts: list[Part] | None = field(versions="2+", tag=6, tagged="2+", nullable="2+", default=None)
    tagged_names: list[str] = field(versions="3+", tag=200, tagged="3+", ignorable=True)
