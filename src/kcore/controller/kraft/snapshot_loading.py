"""A snapshot on its way into a controller, slice by slice: a state of its own until all of it is read."""

from kcore.controller.kraft.activation import Bootstrap, check_level
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.kafka_way.shadow import shadow_of
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME, MINIMUM_KRAFT_VERSION
from kcore.raft.state_machine import SnapshotReader
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records


class SnapshotLoading:
    """Reads one snapshot."""

    def __init__(self, reader: SnapshotReader, kafka_way: frozenset[str]) -> None:
        self._reader, self._image = reader, ClusterImage()
        self.snapshot = reader.snapshot
        self.size = 0  # Bytes of batches read so far.
        self.is_empty = True  # It has control records alone.
        self.shadow = shadow_of(kafka_way)  # What goes with the state in Kafka's way.
        self._begins_with: list[Versioned] = []  # The records of the snapshot 0-0.

    def read_slice(self) -> bool:
        """Reads the next slice; whether there was one."""
        batches = next(self._reader, None)
        if batches is None:
            return False
        self.size += len(batches)
        records = decode_records(batches)
        if self.snapshot.offset == 0:
            # Kafka 4.4 formats a directory so. No broker reads this snapshot: the first active controller writes these.
            values = (record.value or b"" for record in records if record.control is None)
            self._begins_with += [Versioned(*decode_metadata_record(value)) for value in values]
            return True
        replay(self._image, records)
        self.is_empty = self.is_empty and bool(records.is_control.all())
        self.shadow.read_snapshot(batches)
        return True

    @property
    def bootstrap(self) -> Bootstrap | None:
        """What the first active controller of the cluster writes, where the snapshot 0-0 has it."""
        return Bootstrap(self._begins_with, "the snapshot 0-0") if self._begins_with else None

    @property
    def is_lost(self) -> bool:
        """Whether the snapshot was deleted meanwhile."""
        return self._reader.is_lost

    def whole(self, release: str) -> ClusterImage:
        """The state, once all slices are read; NewerReleaseError for a metadata.version that the release lacks."""
        image, end = self._image, self.snapshot.offset
        check_level(image.features, release, f"the snapshot {end}-{self.snapshot.epoch}")
        if self.bootstrap is not None:
            check_level({FEATURE_NAME: self.bootstrap.level_of(FEATURE_NAME)}, release, self.bootstrap.source)
        image.end_offset, image.epoch = end, self.snapshot.epoch
        image.registered_at = dict.fromkeys(image.registered_at, end - 1)
        if release == "3.9.1" and not self.is_empty:  # Its oldest levels write no level into snapshots.
            image.features.setdefault(FEATURE_NAME, MINIMUM_KRAFT_VERSION)
        self.shadow.end_snapshot(end)
        return image
