"""The largest requests that a stranger may send: each array of each API's request, filled with entries up to the limit.

Entries name what the server has, or what it has not: one name again and again, or each another. A request without an
array is sent once, as it is.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

from hostile.frames import MOST_ENTRIES, Frame, framed
from hostile.servers import TOPIC_NAME, Target
from kcore.schema.index import message_class
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.structure import Message, Struct
from kcore.types import Uuid

KNOWN, REPEATED, EACH_ANOTHER = "known", "repeated", "each another"
NAMES: Final = (KNOWN, REPEATED, EACH_ANOTHER)
_NO_TIMES: Final = ("max_wait_ms", "timeout_ms", "expiry_time_period_ms")
_PLACEMENT: Final = "assignments"  # Without this array the controller places the replicas of a new topic or partition.
_LEFT_OUT: Final = {"CreatableTopic": (_PLACEMENT, "configs"), "CreatePartitionsTopic": (_PLACEMENT,)}
_BY_CONTROLLER: Final = {"num_partitions": 1, "replication_factor": 1, "count": 1_000}
_BY_REQUEST: Final = {"num_partitions": -1, "replication_factor": -1, "count": 1_000}


class Large(NamedTuple):
    """A large request, and how it is filled."""

    api: str
    array: str  # The path of the filled array.
    names: str
    entries: int
    message: Message
    version: int

    @property
    def frame(self) -> Frame:
        return framed(self.message, self.version)


def arrays_of(kind: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    """The paths of all arrays of a message in this version."""
    for each in kind.__fields__:
        if version not in each.options.versions and version not in each.options.tagged:
            continue
        struct = each.type.struct if each.type.element is None else each.type.element.struct
        if each.type.element is not None:
            yield (each.name,)
        if struct is not None:
            for path in arrays_of(struct, version):
                yield (each.name, *path)


class _Filling:
    """Makes a message whose one array, at `path`, has `count` entries; all other arrays have one."""

    def __init__(self, target: Target, version: int, path: tuple[str, ...], names: str, count: int) -> None:
        self._version, self._path, self._names, self._count = version, path, names, count
        self._ids = {"topic_id": Uuid(target.topic_id)} if target.topic_id else {}
        self._cluster_id = target.cluster_id

    def message(self, kind: type[Struct], path: tuple[str, ...] = (), number: int = 0) -> Any:
        fields = {}
        for each in kind.__fields__:
            is_there = self._version in each.options.versions or self._version in each.options.tagged
            here = (*path, each.name)
            is_filled = here == self._path[: len(here)]
            if each.name in _LEFT_OUT.get(kind.__name__, ()) and not is_filled:
                fields[each.name] = None if self._version in each.options.nullable else []
            elif each.type.kind is Kind.ARRAY and is_filled and is_there:
                fields[each.name] = self._array(each.type, here, number)
            elif is_there:
                fields[each.name] = self._value(each.type, each.name, here, number)
        return kind(**{name: value for name, value in fields.items() if value is not None})

    def _array(self, type_: FieldType, path: tuple[str, ...], number: int) -> list[Any]:
        assert type_.element is not None
        if path != self._path:
            return [self._value(type_.element, path[-1], path, number)]
        if self._names == EACH_ANOTHER:
            return [self._value(type_.element, path[-1], path, each) for each in range(self._count)]
        return [self._value(type_.element, path[-1], path, 0)] * self._count

    def _value(self, type_: FieldType, name: str, path: tuple[str, ...], number: int) -> Any:
        match type_.kind:
            case Kind.STRUCT:
                assert type_.struct is not None
                return self.message(type_.struct, path, number)
            case Kind.ARRAY:
                assert type_.element is not None
                return [self._value(type_.element, name, path, number)]
            case Kind.STRING:
                return self._text(name, number)
            case Kind.UUID:
                return self._uuid(name, number)
            case Kind.BYTES | Kind.RECORDS:
                return b"\0" * 4
            case Kind.BOOL | Kind.FLOAT64:
                return None
        if name in _NO_TIMES:
            return 1
        small = {"resource_type": 2, "pattern_type_filter": 3, "resource_type_filter": 2, "key_type": 0}
        small |= _BY_REQUEST if _PLACEMENT in self._path else _BY_CONTROLLER
        small |= {"operation": 3, "permission_type": 3, "resource_pattern_type": 3, "acks": 1, "mechanism": 1}
        if name in small:
            return small[name]
        return number % 100 if type_.kind in (Kind.INT8, Kind.INT16, Kind.UINT16) else number

    def _text(self, name: str, number: int) -> str:
        if name == "cluster_id":
            return self._cluster_id or "a-cluster"
        if name in ("host", "client_host"):
            return "127.0.0.9"
        if name in ("principal", "principal_filter"):
            return f"User:{number}"
        return TOPIC_NAME if self._names == KNOWN else f"unknown-{number}"

    def _uuid(self, name: str, number: int) -> Uuid:
        if self._names == KNOWN and name in self._ids:
            return self._ids[name]
        return Uuid((number + 1).to_bytes(16))


def largest(target: Target, most: int = MOST_ENTRIES, apis: tuple[str, ...] = ()) -> Iterator[Large]:
    """Each array of each API of the server, in the newest version, filled to `most` values."""
    for api in apis or target.apis:
        kind, version = _newest(target, api)
        paths = [*arrays_of(kind, version)]
        for path in paths:
            for names in NAMES:
                yield _large(target, api, path, names, most)
        if not paths:
            yield Large(api, "", KNOWN, 0, _Filling(target, version, (), KNOWN, 0).message(kind), version)


def one_of_each(target: Target, dice: Random) -> Iterator[Large]:
    """One array of each API, drawn at random, filled with one name."""
    for api in target.apis:
        if paths := [*arrays_of(*_newest(target, api))]:
            yield _large(target, api, dice.choice(paths), dice.choice((KNOWN, REPEATED)), MOST_ENTRIES)


def _newest(target: Target, api: str) -> tuple[type[Message], int]:
    kind = message_class(f"{api}Request")
    return kind, min(target.apis[api][1], kind.versions.highest)


def _large(target: Target, api: str, path: tuple[str, ...], names: str, most: int) -> Large:
    kind, version = _newest(target, api)
    one, two = (values_in(_Filling(target, version, path, REPEATED, count).message(kind)) for count in (1, 2))
    count = (most - one) // max(1, two - one)
    message = _Filling(target, version, path, names, count).message(kind)
    return Large(api, ".".join(path), names, count, message, version)


def values_in(struct: Struct) -> int:
    """The values of all arrays of a message, as the limit counts them."""
    total = 0
    for each in struct.__fields__:
        value = getattr(struct, each.name)
        if isinstance(value, list):
            total += len(value) + sum(values_in(inner) for inner in value if isinstance(inner, Struct))
        elif isinstance(value, Struct):
            total += values_in(value)
    return total
