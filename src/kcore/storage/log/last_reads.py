"""What was read of a log last, for the next follower that reads the same, and what was appended last."""

from typing import Final

MOST_BYTES: Final = 16 << 20  # Two of the largest fetches.
MOST_READS: Final = 16
MOST_APPENDS: Final = 8
FEW_BYTES: Final = 1 << 11  # Of batches.


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


class LastAppends:
    """The last few appends to one segment, the end of the log: what followers ask for, and what is committed next.

    `clear` where the log is cut or goes on in another segment.
    """

    __slots__ = ("_appends",)

    def __init__(self) -> None:
        self._appends: list[tuple[int, int, bytes]] = []  # First offset, end offset and bytes, without gaps.

    def put(self, first_offset: int, end_offset: int, data: bytes) -> None:
        """Remembers what follows the append before, if it is small."""
        appends = self._appends
        if len(data) > FEW_BYTES:
            appends.clear()
            return
        appends.append((first_offset, end_offset, data))
        if len(appends) > MOST_APPENDS:
            del appends[0]

    def get(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """All from `offset` to `end_offset`, or to the log's end; nothing where that is not known, or too much."""
        found: list[bytes] = []
        size, most = 0, min(max_bytes, FEW_BYTES)
        for first, end, data in self._appends:
            if first >= end_offset:
                break
            if first == offset or found:
                size += len(data)
                if end > end_offset or size > most:
                    return b""
                found.append(data)
        return found[0] if len(found) == 1 else b"".join(found)

    def clear(self) -> None:
        """Forgets all."""
        self._appends.clear()
