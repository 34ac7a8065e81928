"""Loads the metadata log of a quorum into a broker's image, as an observer (MetadataLoader of 4.3.1)."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Never, TypeAlias

from kcore.errors import RaftLogError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.newer_records import check_records
from kcore.node.kraft.image_indexes import AclIndex
from kcore.raft.state_machine import AnyAppend, SnapshotReader
from kcore.releases.known import NEWEST
from kcore.releases.release import Release
from kcore.replication.raft_log import snapshot_name
from kcore.wire.records import decode_records


class ImageChanged(NamedTuple):
    """The image has all committed records below `end_offset`. `is_new`: a snapshot has replaced the image object."""

    end_offset: int
    is_new: bool = False


class ReadSnapshotSlice(NamedTuple):
    """Call `on_read_slice` soon, as a separate event."""


Effect: TypeAlias = ImageChanged | ReadSnapshotSlice


class ObserverMachine:
    """The methods of a raft state machine that no observer needs, as an observer never leads."""

    is_at_work: ClassVar = False

    def on_leader(self, epoch: int, offset: int) -> Sequence[Never]:
        raise RaftLogError("a broker cannot lead the quorum")

    def on_resigned(self, epoch: int) -> Sequence[Never]:
        raise RaftLogError("a broker cannot lead the quorum")

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Never]:
        raise RaftLogError("a broker cannot append to the metadata log")


class MetadataLoader(ObserverMachine):
    """A raft state machine that applies committed records to `image`.

    Raises NewerReleaseError for a record that is newer than the broker's release, and applies none of its slice.
    """

    reads_batches: ClassVar = True

    def __init__(self, release: Release = NEWEST) -> None:
        self.image, self._release = ClusterImage(), release
        self.end_offset = 0  # The image has all committed records below this offset.
        self.read_bytes = 0  # Bytes of the log applied since the start or the last loaded snapshot.
        self._reader: SnapshotReader | None = None
        self._loading = ClusterImage()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Effect]:
        """Applies committed batches."""
        if batches:
            records = decode_records(batches)
            check_records(records, self._release, start_offset=self.image.end_offset)
            replay(self.image, records, self.image.end_offset)
        self.end_offset = end_offset
        self.read_bytes += len(batches)
        return [ImageChanged(end_offset)]

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Effect]:
        """Begins to load a snapshot; the old image stays in use until the snapshot is loaded."""
        self._reader, self._loading = reader, ClusterImage()
        AclIndex.of(self._loading)  # The index grows with each slice. Otherwise the first query would make all of it.
        return [ReadSnapshotSlice()]

    def on_read_slice(self) -> Sequence[Effect]:
        """Reads one slice of the snapshot; the last slice replaces the image."""
        reader = self._reader
        if reader is None:
            return ()
        batches = next(reader, None)
        if batches is not None:
            records = decode_records(batches)
            check_records(records, self._release, snapshot_name(reader.snapshot))
            replay(self._loading, records)
            return [ReadSnapshotSlice()]
        self._reader = None
        if reader.is_lost:  # The snapshot was deleted; the driver loads a newer snapshot next.
            return ()
        self.image = self._loading
        self.end_offset = self.image.end_offset = reader.snapshot.offset
        return [ImageChanged(self.end_offset, is_new=True)]
