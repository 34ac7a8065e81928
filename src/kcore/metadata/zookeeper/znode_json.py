"""Encodes and decodes JSON in znodes as Kafka does: Jackson over Scala's maps (kafka.utils.Json of 3.9.1)."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kcore.errors import TableError
from kcore.java_hash import string_hash

_SMALL_MAP: Final = 4  # Up to this size Scala's immutable maps keep the order of insertion.
_REQUIRED: Final = object()


def encode_json(value: Any) -> bytes:
    """JSON without white space and unnecessary escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def fault(path: str, problem: str) -> TableError:
    """The error for invalid data in a znode."""
    return TableError(f"{path}: not as Kafka writes it: {problem}")


class Fields:
    """A JSON object in a znode; its methods raise TableError with the znode's path for missing and invalid values."""

    __slots__ = ("path", "values")

    def __init__(self, path: str, values: Any, name: str = "") -> None:
        if not isinstance(values, dict):
            raise TableError(f"{path}: not a JSON object{name and f': {name!r}'}")
        self.path, self.values = path, values

    @classmethod
    def of(cls, path: str, data: bytes) -> "Fields":
        """Decodes the object in `data`."""
        try:
            return cls(path, json.loads(data.decode()))
        except (ValueError, RecursionError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(f"{path}: not JSON: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def integer(self, name: str, default: Any = _REQUIRED, *, bits: int = 32) -> Any:
        """An integer of this size; `default`, if given, for a missing value."""
        value = self._value(name, default)
        return value if value is default else as_integer(self.path, value, name, bits)

    def integers(self, name: str, default: Any = _REQUIRED) -> Any:
        """A tuple of int32; `default`, if given, for a missing value."""
        value = self._value(name, default)
        if value is default:
            return value
        return tuple(as_integer(self.path, each, name) for each in self._list(name, value))

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """A string; `default`, if given, for a missing value or null."""
        value = self._value(name, default)
        if value is default or (value is None and default is not _REQUIRED):
            return default
        if not isinstance(value, str):
            raise fault(self.path, f"{name!r} must be a string")
        return value

    def number_in_text(self, name: str) -> int:
        """An int64 in the form of a string."""
        text = self.text(name)
        return parse_integer(self.path, text, 64)

    def object(self, name: str, default: Any = _REQUIRED) -> "Fields":
        """An object; `default`, if given, is a dict."""
        return Fields(self.path, self._value(name, default), name)

    def objects(self, name: str) -> "list[Fields]":
        """A list of objects."""
        return [Fields(self.path, each, name) for each in self._list(name, self._value(name, _REQUIRED))]

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        values = self._list(name, self._value(name, _REQUIRED))
        if not all(isinstance(each, str) for each in values):
            raise fault(self.path, f"{name!r} must be strings")
        return values

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(name, default)
        if value is _REQUIRED:
            raise fault(self.path, f"no {name!r}")
        return value

    def _list(self, name: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise fault(self.path, f"{name!r} must be a list")
        return value


def as_integer(path: str, value: Any, name: str, bits: int = 32) -> int:
    """`value`, if it is an integer of this size; otherwise TableError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise fault(path, f"{name!r} must be integers, not {value!r:.40}")
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise fault(path, f"{name!r} has values outside {bits} bits")
    return value


def parse_integer(path: str, text: str, bits: int = 32) -> int:
    """The number in a decimal text."""
    digits = text.removeprefix("-")
    if not (0 < len(digits) <= 19 and digits.isascii() and digits.isdigit()):
        raise fault(path, f"{text[:40]!r} is not a number")
    return as_integer(path, int(text), text, bits)


def _spread(value: int) -> int:
    """Mixes a hash as mutable.HashMap and java.util.Properties do."""
    return value ^ value >> 16


def _improved(value: int) -> int:
    """Mixes a hash as scala.collection.Hashing does."""
    value = value + ~(value << 9) & 0xFFFFFFFF
    value ^= value >> 14
    value = value + (value << 4) & 0xFFFFFFFF
    return value ^ value >> 10


def mutable_order(keys: Iterable[str]) -> list[str]:
    """The keys in the order of a scala.collection.mutable.HashMap that they are inserted into in this order."""
    hashes = {key: _spread(string_hash(key)) for key in keys}
    last = _buckets(len(hashes)) - 1
    return sorted(hashes, key=lambda key: (hashes[key] & last, _signed(hashes[key])))


def properties_order(keys: Iterable[str]) -> list[str]:
    """The keys in the order of java.util.Properties; the order of keys in the same bucket is a guess."""
    hashes = {key: _spread(string_hash(key)) for key in keys}
    last = _buckets(len(hashes)) - 1
    return sorted(hashes, key=lambda key: hashes[key] & last)


def immutable_order(keys: Iterable[str]) -> list[str]:
    """The keys in the order of a scala.collection.immutable.Map that they are inserted into in this order."""
    listed = list(keys)
    return listed if len(listed) <= _SMALL_MAP else _trie_order({key: _improved(string_hash(key)) for key in listed}, 0)


def _trie_order(hashes: dict[str, int], shift: int) -> list[str]:
    """The order of immutable.HashMap: at each node first branches with one key, then branches with several."""
    if shift >= 32:
        return list(hashes)
    branches: dict[int, dict[str, int]] = {}
    for key, value in hashes.items():
        branches.setdefault(value >> shift & 31, {})[key] = value
    ordered = [branches[at] for at in sorted(branches)]
    alone = [key for branch in ordered if len(branch) == 1 for key in branch]
    return alone + [key for branch in ordered if len(branch) > 1 for key in _trie_order(branch, shift + 5)]


def _buckets(count: int) -> int:
    """The number of buckets of a map: 16, doubled when the entries reach three quarters of the buckets."""
    buckets = 16
    while count * 4 >= buckets * 3:
        buckets *= 2
    return buckets


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
