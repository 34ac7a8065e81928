"""The metadata log of a quorum as a broker loads it: the state machine of an observer (MetadataLoader of 4.3.1)."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from kcore.errors import RaftLogError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.raft.state_machine import AnyAppend, SnapshotReader
from kcore.wire.records import decode_records


class ImageChanged(NamedTuple):
    """All that is committed below `end_offset` is in the image. `is_new`: it is another image, of a snapshot."""

    end_offset: int
    is_new: bool = False


class ReadSnapshotSlice(NamedTuple):
    """Call `on_read_slice` soon, in an event of its own."""


Effect: TypeAlias = ImageChanged | ReadSnapshotSlice


class MetadataLoader:
    """Applies what is committed to `image`. It never leads: its node is no voter."""

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.end_offset = 0  # All that is committed below it is in the image.
        self.read_bytes = 0  # Of the log, since the start or the last snapshot that was loaded.
        self._reader: SnapshotReader | None = None
        self._loading = ClusterImage()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Effect]:
        """More of the log."""
        if batches:
            replay(self.image, decode_records(batches), self.image.end_offset)
        self.end_offset = end_offset
        self.read_bytes += len(batches)
        return [ImageChanged(end_offset)]

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Effect]:
        """The old image stays until the new one is read."""
        self._reader, self._loading = reader, ClusterImage()
        return [ReadSnapshotSlice()]

    def on_read_slice(self) -> Sequence[Effect]:
        """One more slice of the snapshot; with the last one the image is that of the snapshot."""
        reader = self._reader
        if reader is None:
            return ()
        batches = next(reader, None)
        if batches is not None:
            replay(self._loading, decode_records(batches))
            return [ReadSnapshotSlice()]
        self._reader = None
        if reader.is_lost:  # There is a newer one, which comes next.
            return ()
        self.image = self._loading
        self.end_offset = self.image.end_offset = reader.snapshot.offset
        return [ImageChanged(self.end_offset, is_new=True)]

    def on_leader(self, epoch: int, offset: int) -> Sequence[Effect]:
        raise RaftLogError("a broker cannot lead the quorum")

    def on_resigned(self, epoch: int) -> Sequence[Effect]:
        raise RaftLogError("a broker cannot lead the quorum")

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Effect]:
        raise RaftLogError("a broker cannot append to the metadata log")
