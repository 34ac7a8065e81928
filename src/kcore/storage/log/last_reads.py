"""Caches of a log's last reads and last appends, because many followers read the same bytes."""

from typing import Final

MOST_BYTES: Final = 16 << 20  # Bytes of all cached reads: two fetches of the largest size.
MOST_READS: Final = 16  # Cached reads.
MOST_APPENDS: Final = 8  # Cached appends.
FEW_BYTES: Final = 1 << 11  # Appends with more bytes are not cached, and reads of more bytes not served from them.


class LastReads:
    """The bytes of the last few reads. Call `clear` when the log is truncated."""

    __slots__ = ("_bytes", "_reads")

    def __init__(self) -> None:
        self._reads: dict[tuple[int, int, int], bytes] = {}  # By the arguments of the read, oldest first.
        self._bytes = 0

    def get(self, offset: int, max_bytes: int, end_offset: int) -> bytes | None:
        """The result of a read with the same arguments, if it is cached."""
        return self._reads.get((offset, max_bytes, end_offset))

    def put(self, offset: int, max_bytes: int, end_offset: int, data: bytes) -> None:
        """Caches the result of a read; drops the oldest results to make room."""
        if len(data) > MOST_BYTES:
            return
        while self._reads and (self._bytes + len(data) > MOST_BYTES or len(self._reads) >= MOST_READS):
            self._bytes -= len(self._reads.pop(next(iter(self._reads))))
        self._reads[offset, max_bytes, end_offset] = data
        self._bytes += len(data)

    def clear(self) -> None:
        """Drops all cached reads."""
        self._reads.clear()
        self._bytes = 0


class LastAppends:
    """The last few appends to the last segment: followers fetch them next, and they are committed next.

    Call `clear` when the log is truncated or a new segment begins.
    """

    __slots__ = ("_appends",)

    def __init__(self) -> None:
        self._appends: list[tuple[int, int, bytes]] = []  # First offset, end offset and bytes, without gaps.

    def put(self, first_offset: int, end_offset: int, data: bytes) -> None:
        """Caches a small append, which begins where the previous append ended; a large append clears the cache."""
        appends = self._appends
        if len(data) > FEW_BYTES:
            appends.clear()
            return
        appends.append((first_offset, end_offset, data))
        if len(appends) > MOST_APPENDS:
            del appends[0]

    def get(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """The bytes from `offset` to `end_offset` or the log's end; empty if not cached, or more than `max_bytes`."""
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
        """Drops all cached appends."""
        self._appends.clear()
