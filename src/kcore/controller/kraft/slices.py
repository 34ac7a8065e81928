"""Snapshots of the state: when one is due, and its batches slice by slice.

Source: SnapshotGenerator, SnapshotEmitter.
"""

from collections.abc import Callable, Iterator

from kcore.controller.kraft.config import KraftControllerConfig
from kcore.metadata.image import ClusterImage
from kcore.metadata.image_writer import records_of


class SnapshotNeed:
    """Counts bytes and time since the last snapshot (SnapshotGenerator)."""

    def __init__(self, config: KraftControllerConfig) -> None:
        self._most_bytes = config.metadata_log_max_record_bytes_between_snapshots
        self._most_ms = config.metadata_log_max_snapshot_interval_ms
        self._bytes = 0
        self._begun_ms: int | None = None
        self.offset = 0  # Of the last one.

    def count(self, size: int) -> None:
        """Counts the bytes of replayed records."""
        self._bytes += size

    def why(self, offset: int, now_ms: int) -> str | None:
        """Why the state at `offset` should be written now, or None."""
        if self._begun_ms is None:
            self._begun_ms = now_ms
        if offset <= self.offset or not self._bytes:
            return None
        if self._bytes >= self._most_bytes:
            return f"{self._bytes:,} bytes of records since the last one"
        if self._most_ms > 0 and now_ms - self._begun_ms >= self._most_ms:
            return f"{self._most_ms:,} ms since the last one"
        return None

    def begin(self, offset: int, now_ms: int) -> None:
        """A snapshot of the state at `offset` is being written, or was loaded."""
        self.offset, self._bytes, self._begun_ms = offset, 0, now_ms


def snapshot_slices(
    image: ClusterImage,
    offset: int,
    epoch: int,
    wall_ms: int,
    on_frozen: Callable[[], None],
    release: str | None = None,
) -> Iterator[bytes]:
    """Whole batches of the state before the record at `offset`, a few milliseconds of work each; some are empty.

    `release`: whose controllers' snapshots it resembles. The image may change between slices. Its journal must reach
    back to `offset` until `on_frozen` is called.
    """
    for records in records_of(image, offset=offset, release=release):
        if not len(records):
            yield b""
            continue
        on_frozen()
        for batch in records.batches(0, epoch=epoch, timestamp=wall_ms):
            yield bytes(batch)
