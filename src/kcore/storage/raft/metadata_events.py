"""The records of a metadata log's files as events: the table `log` of a loaded image."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcore.errors import DecodeError, StorageError
from kcore.storage.files import checked_path
from kcore.storage.log.continuity import gaps_between_files
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import SEGMENT_NAME, base_offset_of
from kcore.storage.raft.metadata_files import metadata_folder_in, segment_records
from kcore.storage.raft.snapshot import age, is_snapshot, snapshots_in
from kcore.wire.records import Records

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MetadataEvents:
    """The records of a metadata log, a row for each, with the columns of `kcore.metadata.log_events.EVENTS`.

    They are of the segments, also of those that a snapshot covers; of the newest snapshot if there is no segment. Each
    read reads the files anew. It raises DecodeError, with the file, at unreadable bytes and at a gap in the offsets.
    """

    path: Path

    def to_arrow(self) -> "pa.Table":
        """All rows as a table of Arrow. MissingExtraError without pyarrow."""
        from kcore.metadata.log_events import reader_of  # pyarrow is loaded on first use.

        return reader_of(self._batches()).read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream interface of Arrow's PyCapsules; a batch is made when it is read."""
        from kcore.metadata.log_events import reader_of

        return reader_of(self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> "Iterator[pa.RecordBatch]":
        from kcore.metadata.log_events import events_of

        files = event_files(self.path)
        gaps = gaps_between_files(files[0].parent)
        for file in files:
            if file in gaps:
                raise DecodeError(f"{file}: {gaps[file]}", 0)
            yield from events_of(event_records(file), path=str(file))


def event_files(path: str | Path) -> list[Path]:
    """The segments in a metadata log's folder, its newest snapshot if it has none, or the file itself.

    Raises StorageError if there is neither.
    """
    path = metadata_folder_in(checked_path(path))
    if not path.is_dir():
        if not SEGMENT_NAME.fullmatch(path.name) and not is_snapshot(path.name):
            raise StorageError(f"{path}: neither a metadata log's folder nor a segment nor a snapshot")
        return [path]
    if segments := segment_files(path):
        return segments
    snapshots = sorted(snapshots_in(path), key=age)
    if not snapshots:
        raise StorageError(f"{path}: neither a segment nor a snapshot there, nor a folder __cluster_metadata-0")
    return [path / snapshots[-1].file_name]


def event_records(file: Path, *, stop: bool = False) -> Records:
    """The records of a segment or snapshot; with `stop`, those before the first damage or gap, which `problem` says."""
    base_offset = base_offset_of(file) if SEGMENT_NAME.fullmatch(file.name) else 0
    return segment_records(file, base_offset, stop)
