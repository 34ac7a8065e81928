"""Snapshots of the state of brokers and controllers: when a snapshot is due, and its batches in slices.

Source: SnapshotGenerator, SnapshotEmitter.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of
from kcore.node.kraft.node_config import NodeConfig

SNAPSHOT_PARTS: Final = 2  # A snapshot waits for records of the last snapshot's size divided by this number.


class SnapshotNeed:
    """Decides when a snapshot is due, by bytes and time since the last snapshot (SnapshotGenerator).

    A snapshot is due after the bytes of the setting, or after half of the last snapshot's size if that is more. So the
    cost of all snapshots of a growing cluster is proportional to its size, not to the square of its size.
    """

    def __init__(self, config: NodeConfig, *, in_proportion: bool = True) -> None:
        """`in_proportion`: False if only the bytes of the setting count, as in Kafka."""
        self._most_bytes = config.metadata_log_max_record_bytes_between_snapshots
        self._most_ms = config.metadata_log_max_snapshot_interval_ms
        self._in_proportion = in_proportion
        self._size = 0  # The size of the last snapshot.
        self._bytes = 0
        self._begun_ms: int | None = None
        self.offset = 0  # The offset of the last snapshot.

    def count(self, size: int) -> None:
        """Count the bytes of replayed records."""
        self._bytes += size

    def why(self, offset: int, now_ms: int) -> str | None:
        """The reason why a snapshot of the state at `offset` is due; None if no snapshot is due."""
        if self._begun_ms is None:
            self._begun_ms = now_ms
        if offset <= self.offset or not self._bytes:
            return None
        if self._bytes >= max(self._most_bytes, self._size // SNAPSHOT_PARTS if self._in_proportion else 0):
            return f"{self._bytes:,} bytes of records since the last one"
        if self._most_ms > 0 and now_ms - self._begun_ms >= self._most_ms:
            return f"{self._most_ms:,} ms since the last one"
        return None

    def has_size(self, size: int) -> None:
        """Set the size of the last snapshot."""
        self._size = size

    def begin(self, offset: int, now_ms: int) -> None:
        """Begin to count again: a snapshot of the state at `offset` is being written, or was loaded."""
        self.offset, self._bytes, self._begun_ms = offset, 0, now_ms


def snapshot_slices(
    image: ClusterImage,
    offset: int | None,
    epoch: int,
    wall_ms: int,
    on_frozen: Callable[[], None],
    release: str | None = None,
) -> Iterator[bytes]:
    """The state before the record at `offset` as whole batches, in slices of a few milliseconds; some slices are empty.

    The image may change between slices; its journal must reach back to `offset` until `on_frozen` is called. `offset`
    None: the image does not change. `release`: write the snapshot as this release does.
    """
    for records in records_of(image, offset=offset, release=release):
        if not len(records):
            yield b""
            continue
        on_frozen()
        for batch in records.batches(0, epoch=epoch, timestamp=wall_ms):
            yield bytes(batch)
