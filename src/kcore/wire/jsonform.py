"""Converts messages to and from the JSON of Kafka's own converters (`<Message>DataJsonConverter`).

Fields that the version lacks are left out, and so is a tagged field with its default. Bytes are base64, a uuid is its
22 characters. Unknown tagged fields are dropped, and records are "", as in Kafka.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from kcore.errors import EncodeError
from kcore.schema.index import message_class
from kcore.schema.kinds import INTEGER_RANGES, FieldType, Kind
from kcore.schema.structure import Field, Message, Struct
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.plan import FieldStep, Step, StructPlan, plan, struct_plan

JsonObject = dict[str, Any]

PARSERS: dict[Kind, Callable[[str], Any]] = {
    Kind.STRING: str,
    Kind.UUID: Uuid,
    Kind.BYTES: partial(b64decode, validate=True),
    Kind.RECORDS: partial(b64decode, validate=True),
}


def to_json(message: Message, version: int, dialect: str | None = None) -> JsonObject:
    """The message as an object for `json.dumps`. Errors: those of `encode`."""
    encode(message, version, dialect=dialect)  # Checks the contents of the message, as only the encoder does.
    return _object(message, plan(type(message), version, dialect))


def _object(struct: Struct, struct_plan: StructPlan) -> JsonObject:
    json = {}
    for field, step in _steps_of(struct_plan.struct, struct_plan.version, struct_plan.flexible):
        value = getattr(struct, field.name)
        if step.tag is None or value != field.default():
            json[field.json_name] = _json(value, step.step)
    return json


@cache
def _steps_of(struct: type[Struct], version: int, flexible: bool) -> list[tuple[Field, FieldStep]]:
    """The version's fields in Kafka's order: a tagged field has its place in the schema."""
    found = struct_plan(struct, version, flexible)
    steps = {step.field.name: step for step in (*found.in_line, *found.tagged)}
    return [(field, steps[field.name]) for field in struct.__fields__ if field.name in steps]


def _json(value: Any, step: Step) -> Any:
    if value is None or step.kind in (Kind.BOOL, Kind.STRING, Kind.FLOAT64):
        return value
    if step.element is not None:
        return [_json(element, step.element) for element in value]
    if step.struct is not None:
        return _object(value, step.struct)
    if step.kind is Kind.UUID:
        return str(Uuid(value))
    if step.kind is Kind.BYTES:
        return b64encode(value).decode("ascii")
    return "" if step.kind is Kind.RECORDS else int(value)


def skeleton(name: str | type[Message], version: int, dialect: str | None = None) -> JsonObject:
    """A JSON object that `from_json` accepts: every field of the version at its default, each list with one element.

    Nullable structs and lists are filled too, so that their fields show. UnknownMessageError, UnsupportedVersionError.
    """
    return _blank_struct(plan(message_class(name, dialect), version, dialect))


def _blank_struct(struct_plan: StructPlan) -> JsonObject:
    steps = {step.field.name: step.step for step in (*struct_plan.in_line, *struct_plan.tagged)}
    fields = [field for field in struct_plan.struct.__fields__ if field.name in steps]
    return {field.json_name: _blank(field.type, steps[field.name], field.default()) for field in fields}


def _blank(type_: FieldType, step: Step, default: Any) -> Any:
    if step.struct is not None:
        return _blank_struct(step.struct)
    if type_.element is not None and step.element is not None:
        return [_blank(type_.element, step.element, type_.element.default())]
    if default is None and not step.nullable:  # The default is null, which this version cannot carry.
        default = type_.default()
    return "" if step.kind is Kind.RECORDS and not step.nullable else _json(default, step)


def from_json(name: str | type[Message], version: int, obj: JsonObject, dialect: str | None = None) -> Message:
    """The message of that JSON object. Only tagged fields may be missing. Names of older releases are accepted.

    EncodeError for a field that is missing, unknown, of the wrong type or out of range; it names the place, for example
    topicStates[3].partitionStates[0].isr. UnknownMessageError, UnsupportedVersionError.
    """
    message: Message = _struct(obj, plan(message_class(name, dialect), version, dialect), "")
    return message


def _struct(obj: Any, struct_plan: StructPlan, path: str) -> Any:
    if not isinstance(obj, dict):
        raise EncodeError(f"{path or struct_plan.struct.__name__}: expected an object, not {_shown(obj)}")
    steps = (*struct_plan.in_line, *struct_plan.tagged)
    obj = _renamed(obj, steps, path)
    for key in obj.keys() - {step.field.json_name for step in steps}:
        raise EncodeError(f"{_join(path, key)}: version {struct_plan.version} has no such field")
    values = {}
    for step in steps:
        key = step.field.json_name
        if key in obj:
            values[step.field.name] = _value(obj[key], step.step, _join(path, key))
        elif step.tag is None:
            raise EncodeError(f"{_join(path, key)}: missing")
    return struct_plan.struct(**values)


def _renamed(obj: JsonObject, steps: tuple[FieldStep, ...], path: str) -> JsonObject:
    """The object with the present names of its fields."""
    names = {alias: step.field.json_name for step in steps for alias in step.field.options.json_aliases}
    for alias in names.keys() & obj.keys():
        if names[alias] in obj:
            raise EncodeError(f"{_join(path, alias)}: the same field as {names[alias]}")
    return {names.get(key, key): value for key, value in obj.items()} if names else obj


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


def _value(json: Any, step: Step, path: str) -> Any:
    if json is None:
        if not step.nullable:
            raise EncodeError(f"{path}: not nullable")
        return None
    if step.struct is not None:
        return _struct(json, step.struct, path)
    if step.element is not None:
        if not isinstance(json, list):
            raise EncodeError(f"{path}: expected a list, not {_shown(json)}")
        return [_value(element, step.element, f"{path}[{i}]") for i, element in enumerate(json)]
    return _plain(json, step.kind, path)


def _plain(json: Any, kind: Kind, path: str) -> Any:
    """A value without nested values."""
    if kind in INTEGER_RANGES:
        lowest, highest = INTEGER_RANGES[kind]
        if type(json) is int and lowest <= json <= highest:
            return json
    elif kind is Kind.FLOAT64:
        if type(json) in (int, float):
            return float(json)
    elif kind is Kind.BOOL:
        if isinstance(json, bool):
            return json
    elif isinstance(json, str):
        try:
            return PARSERS[kind](json)
        except ValueError:
            pass  # Neither base64 nor a uuid: the error follows below.
    raise EncodeError(f"{path}: expected {kind.name.lower()}, not {_shown(json)}")
