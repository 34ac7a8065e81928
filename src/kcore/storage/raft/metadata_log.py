"""Loads a metadata log's files as a ClusterImage: the newest snapshot, then the records after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError, NewerReleaseError, StorageError, TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.table_names import LOG_TABLE, ArrowStream
from kcore.metadata.newer_records import SkippedRecords, newer_records
from kcore.storage.files import checked_path
from kcore.storage.log.partition_folder import partition_of, segment_files
from kcore.storage.log.segment import SEGMENT_NAME, base_offset_of
from kcore.storage.raft.metadata_events import MetadataEvents
from kcore.storage.raft.metadata_files import metadata_folder_in, segment_records
from kcore.storage.raft.snapshot import (
    Snapshot,
    age,
    check_one_history,
    is_snapshot,
    read_snapshot,
    snapshots_in,
    why_damaged,
)
from kcore.wire.record_batch import RecordBatches, missing_offsets
from kcore.wire.records import Records


@dataclass(slots=True, eq=False, repr=False)
class LoadedMetadata(ClusterImage):
    """An image that was loaded from files, with the number of records and the reason why loading ended early."""

    records: int = 0  # Number of metadata records that were read; `newer` counts those that were skipped.
    newer: SkippedRecords = field(default_factory=SkippedRecords)  # Records and levels of a newer release.
    problem: str = ""  # Why reading ended before the log's end, with `stop`.
    path: Path = Path()  # The folder or file that was read.

    def tables(self) -> Mapping[str, ArrowStream]:
        """The image's tables by name, and `log`: the records in the files as events, read again by each read."""
        return {**ClusterImage.tables(self), LOG_TABLE: MetadataEvents(self.path)}


def load_metadata(path: str | Path, *, stop: bool = False) -> LoadedMetadata:
    """The cluster in a `__cluster_metadata-0` folder, a log directory with such a folder, a segment or a snapshot.

    A folder is read from its newest snapshot on, and no offset may be missing between the snapshot, the segments and
    their batches. Every record on disk is applied, even if it was not committed: the folder has no high watermark.

    Raises DecodeError with path and position for unreadable bytes, TableError for a record that contradicts earlier
    records, StorageError for a damaged snapshot or a snapshot of another log. With `stop`, an older snapshot replaces a
    damaged snapshot, and reading ends at a damaged batch: `problem` describes the damage. Raises StorageError for other
    files, for a replica of another topic, and for an empty log in a folder with another name.

    Raises NewerReleaseError for a record that only a newer release can read. With `stop`, such records are skipped, and
    `newer` counts them. `newer` also has the first level of a feature that no release here has.
    """
    path = metadata_folder_in(checked_path(path))
    partition = partition_of((path if path.is_dir() else path.parent).resolve())
    is_log = partition is not None and partition.topic == METADATA_TOPIC
    hint = "`kcore dump` shows what is"
    if partition is not None and not is_log:
        hint = f"it is a replica of {partition}, not of {METADATA_TOPIC}: `kcore dump` shows it"
    try:
        try:
            image, has_snapshot = _load(path, stop)
        except (DecodeError, TableError):
            if not stop:
                raise
            image, has_snapshot = _load(path, stop, is_careful=True)
    except (DecodeError, TableError) as error:
        if partition is None or is_log:
            raise
        raise StorageError(f"{error}; {hint}") from None
    is_damaged_log = partition is None and image.problem
    if not image.records and not has_snapshot and not is_log and not is_damaged_log:
        raise StorageError(f"{path}: no metadata record is in it; {hint}")
    image.path = path
    return image


def _load(path: Path, stop: bool, *, is_careful: bool = False) -> tuple[LoadedMetadata, bool]:
    """The image, and whether a snapshot is part of the image.

    With `is_careful`, which is slower, a batch that cannot be applied is reverted, and reading ends before it.
    """
    image = LoadedMetadata()
    segments: list[Path] = []
    snapshots: list[Path] = []
    damage = ""
    if path.is_dir():
        snapshots, damage = _newest_whole(path, stop)
        segments = segment_files(path)
        if not snapshots and not segments:
            if damage:
                raise StorageError(damage)
            raise StorageError(f"{path}: neither a segment nor a snapshot there, nor a folder __cluster_metadata-0")
    elif SEGMENT_NAME.fullmatch(path.name):
        segments = [path]
    elif is_snapshot(path.name):
        snapshots = [path]
    else:
        raise StorageError(f"{path}: neither a metadata log's folder nor a segment nor a snapshot")
    for snapshot in snapshots:
        _apply_snapshot(image, snapshot, stop)
    while len(segments) > 1 and base_offset_of(segments[1]) <= image.end_offset:
        del segments[0]  # The snapshot has all its records.
    for number, segment in enumerate(segments):
        base_offset = base_offset_of(segment)
        if path.is_dir() and (base_offset > image.end_offset or (number and base_offset < image.end_offset)):
            text = f"{segment}: {missing_offsets(image.end_offset, base_offset)}"
            if not stop:
                raise DecodeError(text, 0)
            image.problem = text
            break
        records = segment_records(segment, base_offset, stop)
        if not number and snapshots and (text := _why_apart(records.batches, image)):
            image.problem = f"{segment}: {text}"
            if not stop:
                raise StorageError(image.problem)
            break
        if is_careful:
            image.problem = _apply_batches(image, records, segment)
        else:
            _apply(image, records, segment, stop)
        if records.problem and not image.problem:
            image.problem = f"{segment}: {records.problem}"
        if image.problem:
            break
    image.problem = "; ".join(each for each in (damage, image.problem) if each)
    return image, bool(snapshots)


def _why_apart(batches: RecordBatches, image: LoadedMetadata) -> str:
    """The reason why a segment is not of the same log as the snapshot in `image`; empty if it is."""
    below = np.flatnonzero(batches.base_offset < image.end_offset)
    if not below.size:
        return ""
    end, epoch = int(batches.last_offset[below[-1]]) + 1, int(batches.partition_leader_epoch[below[-1]])
    snapshot = f"snapshot {image.end_offset}-{image.epoch}, which may be of another log"
    if end < image.end_offset:
        return f"the log ends at offset {end}, before {snapshot}"
    return "" if epoch == image.epoch else f"the log has epoch {epoch} before the end of {snapshot}"


def _newest_whole(folder: Path, stop: bool) -> tuple[list[Path], str]:
    """The newest snapshot that can be loaded, as a list of at most one path, and the damage of newer snapshots.

    Raises StorageError if the newest snapshot is damaged, unless `stop` allows an older snapshot instead.
    """
    damage: list[str] = []
    by_age = sorted(snapshots_in(folder), key=age)
    try:
        check_one_history(folder, by_age)
    except StorageError as error:
        whole = [each for each in by_age if why_damaged(folder / each.file_name) is None]
        if not stop:
            check_one_history(folder, whole)
        damage += [str(error)] * (len(whole) == len(by_age))
    for found in reversed(by_age):
        snapshot = folder / found.file_name
        why = why_damaged(snapshot)
        if why is None:
            return [snapshot], "; ".join(damage)
        if not stop:
            raise StorageError(f"{snapshot}: {why}")
        damage.append(f"{snapshot} is left out: {why}")
    return [], "; ".join(damage)


def _apply_snapshot(image: LoadedMetadata, path: Path, skips: bool) -> None:
    snapshot: Snapshot = read_snapshot(path)
    _apply(image, snapshot.records, path, skips)
    if snapshot.id:
        image.end_offset, image.epoch = snapshot.id


def _apply_batches(image: LoadedMetadata, records: Records, path: Path) -> str:
    """Applies records as `_apply` does, up to the first batch that cannot be applied; returns the problem, or ""."""
    journal, before = image.keep_journal(), image.end_offset
    try:
        _apply(image, records, path, skips=True)
    except (DecodeError, TableError) as error:
        image.revert_to(before if journal.last_batch is None else journal.last_batch)
        is_applied = (records.offset >= before) & (records.offset < image.end_offset)
        image.records += int((is_applied & ~records.is_control).sum())
        return str(error)
    finally:
        image.drop_journal()
    return ""


def _apply(image: LoadedMetadata, records: Records, path: Path, skips: bool) -> None:
    """Applies the metadata records from the image's end offset on, in order. `skips`: skips those of newer releases."""
    unreadable = (each for each in newer_records(records, start_offset=image.end_offset) if not each.is_readable)
    if not skips and (found := next(unreadable, None)):
        raise NewerReleaseError(f"{path} needs a newer release: {found}")
    try:
        image.newer.replay(image, records, image.end_offset)
    except DecodeError as error:
        raise DecodeError(f"{path}: {error.message}", error.offset) from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    image.records += int((~records.is_control).sum())
    batches = records.batches
    if len(batches):
        image.end_offset = max(image.end_offset, int(batches.last_offset[-1]) + 1)
        image.epoch = int(batches.partition_leader_epoch[-1])
