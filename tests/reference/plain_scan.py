"""The slow twin of `bench/rivals/c/plain.c`, a partition at a time over the rows of `cluster.<shape>.i32`."""

from collections.abc import Sequence


def lost(rows: Sequence[Sequence[int]], broker: int) -> tuple[int, int]:
    """Partitions with this broker in the ISR, and the sum of all that is read of those that have a replica there."""
    mine = [row for row in rows if broker in row[3:6]]
    return sum(broker in row[6:9] for row in mine), sum(map(sum, mine))


def scanned(rows: Sequence[Sequence[int]], gone: int) -> tuple[int, int]:
    """Partitions that this broker leads, twice: the sum is the same."""
    count = sum(row[0] == gone for row in rows)
    return count, count
