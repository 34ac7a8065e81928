"""The base classes of the schema: each message is one class, with the fields of all its versions.

    class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
        \"\"\"A broker asks the controller to move its leaders away before it stops.\"\"\"

        broker_id: int32
        broker_epoch: int64 = field(versions="2+", default=-1, ignorable=True)

A field's name is the snake_case of Kafka's name. Instances have slots, one for each field of any version.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, dataclass_transform, get_origin

from kcore._ext.wire.wire_lists import ListField
from kcore._ext.wire.wire_program import explain_calls
from kcore.errors import ArgumentError
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.versions import ALL, NONE, Versions
from kcore.suggestions import did_you_mean

UNSET: Any = object()


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `field(...)`: facts of a field beyond its name and type."""

    versions: Versions = ALL
    nullable: Versions = NONE
    default: Any = UNSET
    ignorable: bool = False
    tag: int | None = None
    tagged: Versions = NONE
    flexible: Versions | None = None  # Only if they differ from the message's: RequestHeader.client_id.
    json_name: str | None = None
    json_aliases: tuple[str, ...] = ()
    secret: bool = False


_LONGEST_REPR: Final = 10_000  # The most characters of a `repr`.
_FEW: Final = 20  # The most elements of a list that `repr` shows in full.
_SHOWN: Final = 5  # The elements that `repr` shows of a longer list.
_BYTES, _CHARACTERS = 200, 500  # The most bytes and characters that `repr` shows of a value.
HIDDEN: Final = "[hidden]"  # As Kafka shows a password.


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct, with the facts of Kafka's schema files."""

    name: str
    json_name: str
    type: FieldType
    options: Options

    def default(self) -> Any:
        """The value of an unset field; a new object each time if it is mutable."""
        return self.type.default() if self.options.default is UNSET else self.options.default


def field(
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
    tagged: str = "none",
    flexible: str | None = None,
    json_name: str | None = None,
    json_aliases: tuple[str, ...] = (),
    secret: bool = False,
) -> Any:
    """Describe a field beyond its name and type, in the words of Kafka's schema files.

    `ignorable`: a version that lacks the field drops it instead of refusing it. `json_name`: for names that are not
    plain camelCase in Kafka. `json_aliases`: the field's names in older releases. `secret`: `repr` hides the value.
    """
    return Options(
        Versions.parse(versions),
        Versions.parse(nullable),
        default,
        ignorable,
        tag,
        Versions.parse(tagged),
        Versions.parse(flexible) if flexible else None,
        json_name,
        json_aliases,
        secret,
    )


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


documentation_of: "Callable[[type[Struct]], str]" = repr  # Makes the text for `help`; `kcore.schema` sets it.


def _annotations_of(namespace: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a class under construction; Python 3.14 makes them by a function (PEP 649)."""
    annotations: dict[str, Any] = namespace.get("__annotations__", {})
    if sys.version_info >= (3, 14) and not annotations:
        from annotationlib import Format, call_annotate_function, get_annotate_from_class_namespace

        annotate = get_annotate_from_class_namespace(namespace)
        annotations = call_annotate_function(annotate, Format.VALUE) if annotate else {}
    return annotations


@dataclass_transform(kw_only_default=True, eq_default=False)
class StructType(type):
    """The metaclass of structs: makes slots and `__fields__` from annotations."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> "StructType":
        fields = [inherited for base in bases for inherited in getattr(base, "__fields__", ())]
        is_schema = namespace["__module__"] != __name__  # Annotations of Struct and Message are not fields.
        annotations = _annotations_of(namespace) if is_schema else {}
        annotations = {key: value for key, value in annotations.items() if get_origin(value) is not ClassVar}
        for field_name, annotation in annotations.items():
            given = namespace.pop(field_name, Options())
            json_name = given.json_name or camel_case(field_name)
            fields.append(Field(field_name, json_name, FieldType.of(annotation), given))
        if is_schema:
            # The first instance replaces this `__init__` by the class's own.
            namespace.setdefault("__init__", Struct.__init__)
        namespace.setdefault("__slots__", tuple(annotations))
        namespace["__fields__"] = tuple(fields)
        namespace["__match_args__"] = tuple(f.name for f in fields)
        made = super().__new__(mcs, name, bases, namespace, **options)
        for own in fields[len(fields) - len(annotations) :]:
            if own.type.element is not None and own.type.element.kind is Kind.INT32:
                setattr(made, own.name, ListField(vars(made)[own.name]))
        return made

    @property
    def __doc__(cls) -> str:  # type: ignore[override]
        """The text for `help`, made on demand, so that an import takes no time for it."""
        return documentation_of(cls)  # type: ignore[arg-type]


class Struct(metaclass=StructType):
    """A group of fields. `unknown_tagged_fields` keeps tagged fields of a newer peer, as (tag, bytes) in order.

    Kafka gives structs of several messages the same name; a class with another name has Kafka's name as `kafka_name`.
    """

    __slots__ = ("unknown_tagged_fields",)
    kafka_name: ClassVar[str]
    __fields__: ClassVar[tuple[Field, ...]]
    __match_args__: ClassVar[tuple[str, ...]]
    if TYPE_CHECKING:
        unknown_tagged_fields: Sequence[tuple[int, bytes]] = ()
    else:
        unknown_tagged_fields: Sequence[tuple[int, bytes]]

    def __init_subclass__(cls, *, kafka_name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kafka_name = kafka_name or cls.__name__

    # A type checker generates the `__init__` of each class from its fields (dataclass_transform). It uses the signature
    # below for a class that it does not know, such as a `type[Message]`.
    def __init__(self, *positional: Any, **values: Any) -> None:
        # The class that still has this `__init__`: the instance may be of a user's subclass with its own `__init__`.
        cls: Any = next(each for each in type(self).__mro__ if vars(each).get("__init__") is Struct.__init__)
        cls.__init__ = _init_of(cls)
        cls.__init__(self, *positional, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = (*self.__match_args__, "unknown_tagged_fields")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __repr__(self) -> str:
        """The fields, without secrets. Long values are cut: a list shows its first elements and counts the others."""
        text = ""
        for piece in _pieces(self):
            text += piece
            if len(text) > _LONGEST_REPR:
                return f"{text[:_LONGEST_REPR]} ..."
        return text

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """The state for copies and pickles."""
        names = (*self.__match_args__, "unknown_tagged_fields")
        return None, {name: _own(getattr(self, name)) for name in names}


def _init_of(cls: type[Struct]) -> Any:
    """Generates an `__init__` with a keyword per field, as dataclasses do: a loop over the fields would take longer.

    Each instance gets its own object for a mutable default.
    """
    keywords, lines = ["self", "*"], []
    names: dict[str, Any] = {"UNSET": UNSET, "REFUSES_BY_NAME": True}
    for number, spec in enumerate(cls.__fields__):
        default = spec.default()
        if isinstance(default, Struct | list):
            names[f"Fresh_{number}"] = type(default)
            fresh = "[]" if type(default) is list else f"Fresh_{number}()"  # A literal takes a third of a call's time.
            keywords.append(f"{spec.name}=UNSET")
            lines.append(f"    self.{spec.name} = {fresh} if {spec.name} is UNSET else {spec.name}")
        else:
            names[f"default_{number}"] = default
            keywords.append(f"{spec.name}=default_{number}")
            lines.append(f"    self.{spec.name} = {spec.name}")
    keywords.append("unknown_tagged_fields=()")
    lines.append("    self.unknown_tagged_fields = unknown_tagged_fields")
    exec("\n".join([f"def __init__({', '.join(keywords)}):", *lines]), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


def _refused(cls: type[Struct], positional: tuple[Any, ...], given: dict[str, Any] | None) -> ArgumentError | None:
    """The error for arguments that `__init__` refused; None if a user's own `__init__` refused them."""
    name, fields = cls.__name__, cls.__match_args__
    if "REFUSES_BY_NAME" not in getattr(cls.__init__, "__globals__", ()):
        return None
    if positional:
        return ArgumentError(f"{name} takes only keywords, such as {name}({fields[0] if fields else ''}=...)")
    wrong = next((word for word in given or () if word not in (*fields, "unknown_tagged_fields")), None)
    if wrong is None:
        return None
    close = did_you_mean(wrong, fields, f"its fields are {', '.join(fields)}")
    return ArgumentError(f"{name} has no field {wrong!r}{close}")


explain_calls(StructType, _refused)


def _pieces(value: Any) -> Iterator[str]:
    """The text of a value, piece by piece, so that a reader can stop."""
    if isinstance(value, Struct):
        yield f"{type(value).__name__}("
        for number, spec in enumerate(value.__fields__):
            yield f"{', ' if number else ''}{spec.name}="
            yield from _shown(spec, getattr(value, spec.name))
        yield ")"
    elif isinstance(value, list):
        yield "["
        shown = len(value) if len(value) <= _FEW else _SHOWN
        for number, element in enumerate(value[:shown]):
            yield ", " if number else ""
            yield from _pieces(element)
        yield "]" if shown == len(value) else f", ... {len(value) - shown} more]"
    elif isinstance(value, bytes | memoryview) and len(value) > _BYTES:
        yield f"{bytes(value[:_BYTES])!r}... {len(value)} bytes"
    elif isinstance(value, str) and len(value) > _CHARACTERS:
        yield f"{value[:_CHARACTERS]!r}... {len(value)} characters"
    else:
        yield repr(_own(value))


def _shown(spec: Field, value: Any) -> Iterator[str]:
    """The text of a field without secrets. Records show only their size, because metadata records have secrets."""
    if spec.options.secret:
        yield HIDDEN
    elif spec.type.kind is Kind.RECORDS and value is not None:
        yield f"<{len(value)} bytes>"
    else:
        yield from _pieces(value)


def _own(value: Any) -> Any:
    """The value without references to received bytes: a view of records becomes a copy of its bytes."""
    return bytes(value) if isinstance(value, memoryview) else value


class Message(Struct):
    """A struct with a name, versions and, for requests and responses, an API key."""

    __slots__ = ()
    api_key: ClassVar[int] = -1
    versions: ClassVar[Versions] = NONE
    flexible_versions: ClassVar[Versions] = NONE
    dialect: ClassVar[str | None] = None  # The name of a dialect that Kafka did not ship.
    if TYPE_CHECKING:

        def __init__(self, *positional: Any, **values: Any) -> None: ...

    def __init_subclass__(cls, *, versions: str, flexible: str, api_key: int = -1, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.api_key = api_key
        cls.versions = Versions.parse(versions)
        cls.flexible_versions = Versions.parse(flexible)

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of the RequestHeader or ResponseHeader before this message."""
        flexible = version in cls.flexible_versions
        if cls.__name__.endswith("Response"):
            return int(flexible)
        return 2 if flexible else 1


class MetadataRecord(Message, versions="none", flexible="none"):
    """A record of the metadata log (KIP-631). `api_key` is the number of the record's type."""

    __slots__ = ()


class Data(Message, versions="none", flexible="none"):
    """A struct in a file, or in a bytes field of another message; usually its version, an int16, precedes it."""

    __slots__ = ()
