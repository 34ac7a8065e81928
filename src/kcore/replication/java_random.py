"""Repeats Java's library where it decides replica placement: `java.util.Random` and the order of a `HashMap`."""

from collections.abc import Iterable
from typing import Final

MULTIPLIER: Final = 0x5DEECE66D  # The generator that java.util.Random's documentation specifies.
INCREMENT: Final = 0xB
MASK: Final = (1 << 48) - 1

_INITIAL_BUCKETS: Final = 16
_LONGEST_CHAIN: Final = 8  # Keys in a bucket. One more makes a small table grow; a larger table makes it a tree.
_SMALL_TABLE: Final = 64  # A table of fewer buckets is small.


class JavaRandom:
    """`java.util.Random` for whole numbers, bit for bit; the placement kernel continues from `state`."""

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ MULTIPLIER) & MASK

    def next(self, bits: int) -> int:
        """The next `bits` bits, as a signed 32-bit number."""
        self.state = (self.state * MULTIPLIER + INCREMENT) & MASK
        drawn = self.state >> (48 - bits)
        return drawn - (1 << 32) if bits == 32 and drawn >> 31 else drawn

    def next_int(self, bound: int) -> int:
        """A number from 0 to `bound` - 1; ValueError unless 0 < bound < 2**31."""
        if not 0 < bound < 2**31:
            raise ValueError(f"a bound must be from 1 to 2**31 - 1, not {bound}")
        if bound & (bound - 1) == 0:
            return bound * self.next(31) >> 31
        while True:
            drawn = self.next(31)
            if drawn - drawn % bound + bound - 1 < 2**31:  # The last, incomplete range would favour low numbers.
                return drawn % bound

    def shuffle(self, items: list[int]) -> None:
        """Reorder `items` in place as `Collections.shuffle` does."""
        for i in range(len(items), 1, -1):
            j = self.next_int(i)
            items[i - 1], items[j] = items[j], items[i - 1]


def utf16_order(text: str) -> bytes:
    """A sort key with the order of `String.compareTo`, which compares UTF-16 units, not code points."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned 32-bit number."""
    units = utf16_order(text)
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value


def hash_map_order(hashes: Iterable[int]) -> list[int]:
    """The order in which a `java.util.HashMap` iterates over keys put in this order, given each key's unsigned hash.

    Keys of a bucket that became a tree (nine keys, in a table of 64 buckets or more) are also in insertion order.
    """
    spread = [value ^ value >> 16 for value in hashes]
    buckets = _INITIAL_BUCKETS
    for size in range(1, len(spread) + 1):
        if buckets < _SMALL_TABLE:
            chain = sum((key ^ spread[size - 1]) & (buckets - 1) == 0 for key in spread[: size - 1])
            buckets <<= int(chain >= _LONGEST_CHAIN)
        buckets <<= int(size > buckets * 3 // 4)
    return sorted(range(len(spread)), key=lambda key: spread[key] & (buckets - 1))
