"""Snapshots of the state: when a snapshot is due, its batches in slices, and the loading of a snapshot in slices.

Source: SnapshotGenerator, SnapshotEmitter.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.departures import SNAPSHOTS_AT_FIXED_BYTES
from kcore.controller.kraft.kafka_way.shadow import shadow_of
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME, MINIMUM_KRAFT_VERSION
from kcore.metadata.newer_records import check_records
from kcore.raft.state_machine import SnapshotReader
from kcore.releases.known import RELEASES
from kcore.replication.raft_log import snapshot_name
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

SNAPSHOT_PARTS: Final = 2  # A snapshot waits for records of the last snapshot's size divided by this number.


class SnapshotNeed:
    """Decides when a snapshot is due, by bytes and time since the last snapshot (SnapshotGenerator).

    A snapshot is due after the bytes of the setting, or after half of the last snapshot's size if that is more. So the
    cost of all snapshots of a growing cluster is proportional to its size, not to the square of its size.
    """

    def __init__(self, config: KraftControllerConfig) -> None:
        self._most_bytes = config.metadata_log_max_record_bytes_between_snapshots
        self._most_ms = config.metadata_log_max_snapshot_interval_ms
        self._in_proportion = SNAPSHOTS_AT_FIXED_BYTES not in config.kafka_way
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


class SnapshotLoading:
    """Loads one snapshot. Raises NewerReleaseError for a record that is newer than the controller's release."""

    def __init__(self, reader: SnapshotReader, config: KraftControllerConfig) -> None:
        self._reader, self._image, self._release = reader, ClusterImage(), RELEASES[config.release]
        self.snapshot = reader.snapshot
        self.size = 0  # Bytes of batches read so far.
        self.is_empty = True  # True if all records read so far are control records.
        self.shadow = shadow_of(config.kafka_way)  # For switched-back departures.
        self._begins_with: list[Versioned] = []  # The records of the snapshot 0-0.

    def read_slice(self) -> bool:
        """Read the next slice; returns False if there is no further slice."""
        batches = next(self._reader, None)
        if batches is None:
            return False
        self.size += len(batches)
        records = decode_records(batches)
        check_records(records, self._release, snapshot_name(self.snapshot))
        if self.snapshot.offset == 0:
            # Kafka 4.4's format command writes the snapshot 0-0. No broker reads this snapshot: the first active
            # controller writes its records to the log.
            values = (record.value or b"" for record in records if record.control is None)
            self._begins_with += [Versioned(*decode_metadata_record(value)) for value in values]
            return True
        replay(self._image, records)
        self.is_empty = self.is_empty and bool(records.is_control.all())
        self.shadow.read_snapshot(batches)
        return True

    @property
    def bootstrap(self) -> Bootstrap | None:
        """The records that the first active controller writes, if this is the snapshot 0-0; otherwise None."""
        return Bootstrap(self._begins_with, "the snapshot 0-0") if self._begins_with else None

    @property
    def is_lost(self) -> bool:
        """True if the snapshot was deleted while it was read."""
        return self._reader.is_lost

    def whole(self) -> ClusterImage:
        """The state after the last slice."""
        image, end = self._image, self.snapshot.offset
        image.end_offset, image.epoch = end, self.snapshot.epoch
        image.registered_at = dict.fromkeys(image.registered_at, end - 1)
        if self._release.rules.levels_may_be_unnamed and not self.is_empty:
            image.features.setdefault(FEATURE_NAME, MINIMUM_KRAFT_VERSION)
        self.shadow.end_snapshot(end)
        return image
