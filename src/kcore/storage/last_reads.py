"""What was read of a log last, for the next follower that reads the same."""

from typing import Final

MOST_BYTES: Final = 16 << 20  # Two of the largest fetches.
MOST_READS: Final = 16


class LastReads:
    """The bytes of the last few reads: many followers read the same. What was cut off must be forgotten by `clear`."""

    __slots__ = ("_bytes", "_reads")

    def __init__(self) -> None:
        self._reads: dict[tuple[int, int, int], bytes] = {}  # By the arguments of the read, the oldest first.
        self._bytes = 0

    def get(self, offset: int, max_bytes: int, end_offset: int) -> bytes | None:
        """What such a read gave."""
        return self._reads.get((offset, max_bytes, end_offset))

    def put(self, offset: int, max_bytes: int, end_offset: int, data: bytes) -> None:
        """Remembers what a read gave; forgets others for it."""
        if len(data) > MOST_BYTES:
            return
        while self._reads and (self._bytes + len(data) > MOST_BYTES or len(self._reads) >= MOST_READS):
            self._bytes -= len(self._reads.pop(next(iter(self._reads))))
        self._reads[offset, max_bytes, end_offset] = data
        self._bytes += len(data)

    def clear(self) -> None:
        """Forgets all."""
        self._reads.clear()
        self._bytes = 0
