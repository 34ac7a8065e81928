"""A real metadata log becomes a ClusterImage: its newest snapshot, then the records behind it."""

from dataclasses import dataclass, replace
from pathlib import Path

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError, StorageError, TableError
from kcore.metadata.image import ClusterImage
from kcore.metadata.replay import replay
from kcore.storage.files import checked_path
from kcore.storage.log import partition_of, segment_files
from kcore.storage.segment import SEGMENT_NAME, base_offset_of, map_file
from kcore.storage.snapshot import SUFFIX, Snapshot, read_snapshot, snapshots_in
from kcore.wire.record_batch import gap_in, missing_offsets, scan_batches
from kcore.wire.records import Records, decode_records


@dataclass(slots=True, eq=False, repr=False)
class LoadedMetadata(ClusterImage):
    """An image and where it comes from."""

    records: int = 0  # Metadata records that were read.
    problem: str = ""  # What ended reading before the log did, if that was allowed.


def load_metadata(path: str | Path, *, stop: bool = False) -> LoadedMetadata:
    """The cluster in a `__cluster_metadata-0` folder, one of its segments or a snapshot.

    A log directory that has such a folder stands for it. A folder is read from its newest snapshot on, and each offset
    must be there, from snapshot to segment and from batch to batch. Every record on disk is applied, committed or not:
    the folder does not say which are. DecodeError with path and position for what cannot be read; with `stop`,
    `problem` has it, and the image what comes before. StorageError for what is neither, for a replica of another topic,
    and for an empty log whose folder does not say that it is one of the metadata log's.
    """
    path = metadata_folder_in(checked_path(path))
    partition = partition_of((path if path.is_dir() else path.parent).resolve())
    is_log = partition is not None and partition.topic == METADATA_TOPIC
    hint = "`kcore dump` shows what is"
    if partition is not None and not is_log:
        hint = f"it is a replica of {partition}, not of {METADATA_TOPIC}: `kcore dump` shows it"
    try:
        image, has_snapshot = _load(path, stop)
    except (DecodeError, TableError) as error:
        if partition is None or is_log:
            raise
        raise StorageError(f"{error}; {hint}") from None
    is_damaged_log = partition is None and image.problem
    if not image.records and not has_snapshot and not is_log and not is_damaged_log:
        raise StorageError(f"{path}: no metadata record is in it; {hint}")
    return image


def metadata_folder_in(path: Path) -> Path:
    """The folder of the metadata log where `path` is a log directory that has one; otherwise `path`."""
    folder = path / f"{METADATA_TOPIC}-0"
    return folder if folder.is_dir() and not segment_files(path) else path


def _load(path: Path, stop: bool) -> tuple[LoadedMetadata, bool]:
    """The image, and whether a snapshot is part of it."""
    image = LoadedMetadata()
    segments: list[Path] = []
    snapshots: list[Path] = []
    if path.is_dir():
        snapshots = [path / found.file_name for found in snapshots_in(path)[-1:]]
        segments = segment_files(path)
        if not snapshots and not segments:
            raise StorageError(f"{path}: neither a segment nor a snapshot there")
    elif SEGMENT_NAME.fullmatch(path.name):
        segments = [path]
    elif path.name.endswith(SUFFIX):
        snapshots = [path]
    else:
        raise StorageError(f"{path}: neither a metadata log's folder nor a segment nor a snapshot")
    for snapshot in snapshots:
        _apply_snapshot(image, snapshot)
    while len(segments) > 1 and base_offset_of(segments[1]) <= image.end_offset:
        del segments[0]  # The snapshot holds all of it.
    for number, segment in enumerate(segments):
        base_offset = base_offset_of(segment)
        if path.is_dir() and (base_offset > image.end_offset or (number and base_offset < image.end_offset)):
            text = f"{segment}: {missing_offsets(image.end_offset, base_offset)}"
            if not stop:
                raise DecodeError(text, 0)
            image.problem = text
            break
        records = _segment_records(segment, base_offset, stop)
        _apply(image, records, segment)
        if records.problem:
            image.problem = f"{segment}: {records.problem}"
            break
    return image, bool(snapshots)


def _segment_records(path: Path, base_offset: int, stop: bool) -> Records:
    """Up to what cannot be read, and up to a gap: a metadata log is not compacted, so each offset must be there."""
    try:
        data = map_file(path)
        batches = scan_batches(data, stop=stop)
        gap = gap_in(batches, base_offset)
        if gap is None:
            return decode_records(data, batches, stop=stop)
        if not stop:
            raise gap.problem
        records = decode_records(data, replace(batches.take(slice(gap.row)), end=gap.problem.offset), stop=stop)
        return replace(records, problem=records.problem or gap.problem)
    except DecodeError as error:
        raise DecodeError(f"{path}: {error.message}", error.offset) from None


def _apply_snapshot(image: LoadedMetadata, path: Path) -> None:
    snapshot: Snapshot = read_snapshot(path)
    _apply(image, snapshot.records, path)
    if snapshot.id:
        image.end_offset, image.epoch = snapshot.id


def _apply(image: LoadedMetadata, records: Records, path: Path) -> None:
    """Applies the records of data from `end_offset` on, in order."""
    try:
        replay(image, records, image.end_offset)
    except DecodeError as error:
        raise DecodeError(f"{path}: {error.message}", error.offset) from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    image.records += int((~records.is_control).sum())
    batches = records.batches
    if len(batches):
        image.end_offset = max(image.end_offset, int(batches.last_offset[-1]) + 1)
        image.epoch = int(batches.partition_leader_epoch[-1])
