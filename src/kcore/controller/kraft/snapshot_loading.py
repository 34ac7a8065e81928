"""Loads a snapshot in slices, between other events. Source: QuorumMetaLogListener.handleLoadSnapshot."""

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.kafka_way.shadow import shadow_of
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME, MINIMUM_KRAFT_VERSION
from kcore.metadata.newer_records import check_records
from kcore.node.kraft.image_indexes import AclIndex
from kcore.raft.state_machine import SnapshotReader
from kcore.releases.known import RELEASES
from kcore.replication.raft_log import snapshot_name
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records


class SnapshotLoading:
    """Loads one snapshot. Raises NewerReleaseError for a record that is newer than the controller's release."""

    def __init__(self, reader: SnapshotReader, config: KraftControllerConfig) -> None:
        self._reader, self._image, self._release = reader, ClusterImage(), RELEASES[config.node.release]
        if config.node.has_authorizer:
            AclIndex.of(self._image)  # The index grows with each slice. Otherwise the first query would make all of it.
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
