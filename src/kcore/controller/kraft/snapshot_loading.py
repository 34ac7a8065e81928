"""Loads a snapshot into a state of its own, in slices, until the whole snapshot is read."""

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
    """Loads one snapshot."""

    def __init__(self, reader: SnapshotReader, kafka_way: frozenset[str]) -> None:
        self._reader, self._image = reader, ClusterImage()
        self.snapshot = reader.snapshot
        self.size = 0  # Bytes of batches read so far.
        self.is_empty = True  # True while only control records were read.
        self.shadow = shadow_of(kafka_way)  # Kafka's state beside the image, in Kafka's way.
        self._begins_with: list[Versioned] = []  # The records of the snapshot 0-0.

    def read_slice(self) -> bool:
        """Read the next slice; returns False after the last one."""
        batches = next(self._reader, None)
        if batches is None:
            return False
        self.size += len(batches)
        records = decode_records(batches)
        if self.snapshot.offset == 0:
            # From Kafka 4.4's format command. No broker reads it: the first active controller writes its records.
            values = (record.value or b"" for record in records if record.control is None)
            self._begins_with += [Versioned(*decode_metadata_record(value)) for value in values]
            return True
        replay(self._image, records)
        self.is_empty = self.is_empty and bool(records.is_control.all())
        self.shadow.read_snapshot(batches)
        return True

    @property
    def bootstrap(self) -> Bootstrap | None:
        """The records for the first active controller, if this is the snapshot 0-0."""
        return Bootstrap(self._begins_with, "the snapshot 0-0") if self._begins_with else None

    @property
    def is_lost(self) -> bool:
        """True if the snapshot was deleted while it was read."""
        return self._reader.is_lost

    def whole(self, release: str) -> ClusterImage:
        """The state, when all slices are read; NewerReleaseError if the release does not know its metadata.version."""
        image, end = self._image, self.snapshot.offset
        check_level(image.features, release, f"the snapshot {end}-{self.snapshot.epoch}")
        if self.bootstrap is not None:
            check_level({FEATURE_NAME: self.bootstrap.level_of(FEATURE_NAME)}, release, self.bootstrap.source)
        image.end_offset, image.epoch = end, self.snapshot.epoch
        image.registered_at = dict.fromkeys(image.registered_at, end - 1)
        if release == "3.9.1" and not self.is_empty:  # The oldest levels of 3.9.1 write no level into snapshots.
            image.features.setdefault(FEATURE_NAME, MINIMUM_KRAFT_VERSION)
        self.shadow.end_snapshot(end)
        return image
