"""Java's String.hashCode and the order in which java.util.HashMap lists its keys.

Kafka's controller answers, and orders records, as its HashMaps happen to list names. Of two names that share a bucket
the one that was put first comes first; buckets that Java turns into trees (8 entries and more) keep that order, too.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

Key = TypeVar("Key")


def string_hash(text: str) -> int:
    """String.hashCode, as 32 bits without a sign."""
    units = text.encode() if text.isascii() else memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]
    value = 0
    for unit in units:
        value = value * 31 + unit & 0xFFFFFFFF
    return value


@overload
def hash_map_order(keys: Iterable[str], *, capacity: int = 16) -> list[str]: ...


@overload
def hash_map_order(keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int = 16) -> list[Key]: ...


def hash_map_order(keys: Iterable[Any], hash_of: Callable[[Any], int] = string_hash, capacity: int = 16) -> list[Any]:
    """Distinct keys, given in the order in which they are put, as `new HashMap(capacity)` lists them.

    `hash_of` is the key's hashCode, as 32 bits without a sign.
    """
    listed = list(keys)
    if len(listed) < 2:
        return listed
    buckets = 1 << (max(capacity, 1) - 1).bit_length()
    while len(listed) * 4 > buckets * 3:
        buckets *= 2

    def bucket(key: Key) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & buckets - 1

    return sorted(listed, key=bucket)


def timeline_order(keys: Iterable[int], *, replaced: bool = False) -> list[int]:
    """Distinct ids, in the order in which they are put, as Kafka's TimelineHashMap lists them (BaseHashTable).

    `replaced`: values were put again under ids that were there; the map then grows as if one more were new.
    """
    slots: list[list[int]] = [[], []]
    listed = list(keys)
    while (len(listed) + replaced) * 3 > len(slots) * 4:
        slots += [[] for _ in slots]
    for key in listed:
        slots[_slot(key, len(slots))].append(key)
    return [key for slot in slots for key in reversed(slot)]


def _slot(key: int, count: int) -> int:
    """Some of the highest bits of Knuth's multiplicative hash."""
    return (key * -7046029254386353131 & 0xFFFFFFFFFFFFFFFF) >> 65 - count.bit_length()
