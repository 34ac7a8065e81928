"""The types that a field can have. An annotation in a schema class names one of them.

For a type checker `int32` and similar names are plain `int`; the annotation also carries the wire type.
"""

from dataclasses import dataclass
from enum import IntEnum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, Union, get_args, get_origin

from kcore.types import Uuid

if TYPE_CHECKING:
    from kcore.schema.structure import Struct


class Kind(IntEnum):
    """The wire type of a value. `_ext/wire/object_codec.pyx` has the same numbers."""

    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    STRUCT = 12
    ARRAY = 13


int8: TypeAlias = Annotated[int, Kind.INT8]
int16: TypeAlias = Annotated[int, Kind.INT16]
uint16: TypeAlias = Annotated[int, Kind.UINT16]
int32: TypeAlias = Annotated[int, Kind.INT32]
uint32: TypeAlias = Annotated[int, Kind.UINT32]
int64: TypeAlias = Annotated[int, Kind.INT64]
float64: TypeAlias = Annotated[float, Kind.FLOAT64]
Records: TypeAlias = Annotated[bytes | memoryview, Kind.RECORDS]

PLAIN_KINDS: dict[Any, Kind] = {bool: Kind.BOOL, str: Kind.STRING, bytes: Kind.BYTES, Uuid: Kind.UUID}
DEFAULTS: dict[Kind, Any] = {
    Kind.BOOL: False,
    Kind.FLOAT64: 0.0,
    Kind.UUID: Uuid(),
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.RECORDS: None,
}
INTEGER_RANGES: dict[Kind, tuple[int, int]] = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class FieldType:
    """A kind, with the class of a STRUCT and the element of an ARRAY."""

    kind: Kind
    struct: "type[Struct] | None" = None
    element: "FieldType | None" = None

    @classmethod
    def of(cls, annotation: Any) -> Self:
        """The type of an annotation; TypeError if Kafka has no such type. `X | None` is read as X."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin in (UnionType, Union) and NoneType in arguments:
            [annotation] = [argument for argument in arguments if argument is not NoneType]
            return cls.of(annotation)
        if origin is Annotated and isinstance(arguments[1], Kind):
            return cls(arguments[1])
        if origin is list:
            return cls(Kind.ARRAY, element=cls.of(arguments[0]))
        if annotation in PLAIN_KINDS:
            return cls(PLAIN_KINDS[annotation])
        if isinstance(annotation, type) and hasattr(annotation, "__fields__"):
            return cls(Kind.STRUCT, struct=annotation)
        raise TypeError(f"no field of a Kafka message has the type {annotation!r}")

    def default(self) -> Any:
        """The value of a field without a default in the schema; a new object each time if it is mutable."""
        if self.kind is Kind.ARRAY:
            return []
        if self.struct is not None:
            return self.struct()
        return DEFAULTS.get(self.kind, 0)

    def __str__(self) -> str:
        """The type in the notation of Kafka's schema files, for example "[]int32"."""
        if self.element is not None:
            return f"[]{self.element}"
        return self.struct.kafka_name if self.struct is not None else self.kind.name.lower()
