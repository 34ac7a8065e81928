"""Java's hashes, String.split and Integer.parseInt, and the orders in which Java's and Kafka's hash tables list keys.

Kafka's controller lists names in its responses and records in the order of its HashMaps. Names in the same bucket keep
the order of insertion, also in buckets of 8 and more entries, which Java turns into trees.
"""

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, TypeVar, overload

import numpy as np

Key = TypeVar("Key")
_MANY: Final = 1_000  # Above this number of keys, NumPy is faster.
_JAVA_INT: Final = re.compile(r"[+-]?[0-9]+")
HASHED_AT_ONCE: Final = 1_000  # Short texts in one part of `hash_map_ordering`.
_FEW: Final = 64  # Up to this number of texts, hashing one by one is faster.
_SHORT: Final = 256  # Longer texts are hashed by NumPy, one by one.
_POWERS: Final = np.array([pow(31, place, 1 << 32) for place in reversed(range(1024))], np.uint32)
FIBONACCI: Final = -7046029254386353131 & (1 << 64) - 1  # The multiplier in BaseHashTable.findSlot.


def string_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned 32-bit number."""
    units = text.encode() if text.isascii() else memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]
    if len(units) <= _SHORT:
        return _horner(units)
    value = 0
    columns = np.frombuffer(units, np.uint8 if isinstance(units, bytes) else np.uint16).astype(np.uint32)
    for begin in range(0, len(columns), len(_POWERS)):  # One step of Horner's rule takes many units.
        part = columns[begin : begin + len(_POWERS)]
        value = (
            value * pow(31, len(part), 1 << 32) + int((part * _POWERS[-len(part) :]).sum(dtype=np.uint32)) & 0xFFFFFFFF
        )
    return value


def _horner(units: Iterable[int]) -> int:
    value = 0
    for unit in units:
        value = value * 31 + unit & 0xFFFFFFFF
    return value


def string_hashes(texts: Sequence[str]) -> list[int]:
    """`string_hash` of each text. Many short texts are hashed together, one character position per step: 20 times as
    fast."""
    found = np.zeros(len(texts), np.uint32)
    lengths = np.array([len(text) if len(text) <= _SHORT and text.isascii() else -1 for text in texts], np.int64)
    short = "".join(text for text, length in zip(texts, lengths.tolist(), strict=True) if length >= 0)
    units = np.frombuffer(short.encode(), np.uint8)
    begins = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        found[rows] = found[rows] * np.uint32(31) + units[begins[rows] + place]
    for row in np.flatnonzero(lengths < 0).tolist():
        found[row] = string_hash(texts[row])
    hashes: list[int] = found.tolist()
    return hashes


@overload
def hash_map_order(keys: Iterable[str], *, capacity: int = 16) -> list[str]: ...


@overload
def hash_map_order(keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int = 16) -> list[Key]: ...


def hash_map_order(keys: Iterable[Any], hash_of: Callable[[Any], int] = string_hash, capacity: int = 16) -> list[Any]:
    """Distinct keys in the order in which Java's `new HashMap(capacity)` lists them after they were put in the given
    order.

    `hash_of` returns the key's hashCode as an unsigned 32-bit number.
    """
    listed = list(keys)
    if len(listed) < 2:
        return listed
    if hash_of is string_hash and len(listed) > _MANY:
        return _in_buckets(listed, string_hashes(listed), capacity)
    return _in_buckets(listed, [hash_of(key) for key in listed], capacity)


def hash_map_ordering(keys: Iterable[str], *, capacity: int = 16) -> Generator[None, None, list[str]]:
    """`hash_map_order` of texts, in parts of some milliseconds. Up to HASHED_AT_ONCE short texts are one part."""
    listed, hashes, part, weight = list(keys), list[int](), list[str](), 0
    for text in listed:
        if weight >= HASHED_AT_ONCE:
            hashes += _hashes_of(part)
            part, weight = [], 0
            yield
        part.append(text)
        weight += 1 + len(text) // _SHORT
    hashes += _hashes_of(part)
    if len(listed) <= HASHED_AT_ONCE:
        return _in_buckets(listed, hashes, capacity)
    yield
    order = _in_buckets(listed, hashes, capacity)
    yield
    return order


def _hashes_of(texts: Sequence[str]) -> list[int]:
    return string_hashes(texts) if len(texts) > _FEW else [string_hash(each) for each in texts]


def _in_buckets(listed: list[Any], hashes: list[int], capacity: int) -> list[Any]:
    """The keys by their buckets. `hashes`: the hashCode of each key."""
    buckets = 1 << (max(capacity, 1) - 1).bit_length()
    while len(listed) * 4 > buckets * 3:
        buckets *= 2
    if len(listed) > _MANY:
        values = np.array(hashes, np.uint32)
        places = np.argsort((values ^ values >> 16) & np.uint32(buckets - 1), kind="stable")
        return [listed[place] for place in places.tolist()]
    numbers = [(value ^ value >> 16) & buckets - 1 for value in hashes]
    return [listed[place] for place in sorted(range(len(listed)), key=numbers.__getitem__)]


@overload
def timeline_order(keys: Iterable[int], *, replaced: bool = False) -> list[int]: ...


@overload
def timeline_order(keys: Iterable[Key], hash_of: Callable[[Key], int], *, replaced: bool = False) -> list[Key]: ...


def timeline_order(keys: Iterable[Any], hash_of: Callable[[Any], int] = int, *, replaced: bool = False) -> list[Any]:
    """Distinct keys in the order in which Kafka's TimelineHashMap lists them after they were put in the given order.

    `hash_of` returns the key's hashCode, signed or as an unsigned 32-bit number; an id is its own hashCode. `replaced`:
    existing keys got new values, for which the map grows as if it had one more key (BaseHashTable).
    """
    listed = list(keys)
    slots = _slots(len(listed) + replaced)
    for key in listed:
        slots[_slot(hash_of(key), len(slots))].append(key)
    return _in_slots(slots)


def timeline_ordering(keys: Iterable[str]) -> Generator[None, None, list[str]]:
    """`timeline_order` of texts, in parts of some milliseconds."""
    listed = list(keys)
    slots = _slots(len(listed))
    for place, key in enumerate(listed, 1):
        if place % HASHED_AT_ONCE == 0:
            yield
        slots[_slot(string_hash(key), len(slots))].append(key)
    return _in_slots(slots)


def _slots(count: int) -> list[list[Any]]:
    """The empty slots of a table that has grown for so many keys."""
    slots = 2
    while count * 3 > slots * 4:
        slots *= 2
    return [[] for _ in range(slots)]


def _in_slots(slots: list[list[Any]]) -> list[Any]:
    return [key for slot in slots for key in reversed(slot)]


def _slot(hash_code: int, count: int) -> int:
    """The slot among `count` of a signed hashCode: the highest bits of Knuth's multiplicative hash (findSlot)."""
    signed = (hash_code & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)
    return (signed * FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> 65 - count.bit_length()


def java_split(text: str, separator: str) -> list[str]:
    """Java's String.split: drops empty parts at the end; an empty text gives one empty part."""
    parts = text.split(separator)
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


def java_int(text: str) -> int | None:
    """The number that Integer.parseInt reads; None if it throws."""
    if not _JAVA_INT.fullmatch(text) or len(text) > 64:
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None
