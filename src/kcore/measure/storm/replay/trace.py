"""Reads a trace: a metadata log with the snapshot before it, as batches of records with their times."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kcore.errors import DecodeError, StorageError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.newer_records import SkippedRecords, newer_records
from kcore.schema.control_records import LeaderChangeMessage
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kcore.schema.structure import MetadataRecord
from kcore.storage.files import is_there, open_reader
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import SEGMENT_NAME, base_offset_of
from kcore.storage.raft.metadata_files import metadata_folder_in, segment_records
from kcore.storage.raft.snapshot import SnapshotId, age, read_snapshot, snapshots_in, why_damaged
from kcore.storage.tools.foreign import HEAD_BYTES, foreign_kind
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.record_batch import missing_offsets
from kcore.wire.records import Record, Records, control_message

LEADER_CHANGE: Final = "LEADER_CHANGE"
NO_CONTROLLER: Final = -1


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Records that take effect together: those of one batch of the log, or of one transaction (KIP-868)."""

    offset: int  # of the last record
    time_ms: int  # when the controller appended the records, by its clock, since 1970
    records: tuple[tuple[int, MetadataRecord], ...]  # with their offsets
    controller: int = NO_CONTROLLER  # The new active controller, if the batch has a LeaderChangeMessage.


@dataclass(slots=True, eq=False)
class Trace:
    """A recorded metadata log. `start` is the state before its first batch and must not be changed."""

    name: str
    start: ClusterImage = field(default_factory=ClusterImage)
    has_snapshot: bool = False
    problem: str = ""  # Why reading ended before the log's end.
    newer: SkippedRecords = field(default_factory=SkippedRecords)  # Records that only a newer release can read.
    parts: list[Records] = field(default_factory=list)

    def batches(self) -> Iterator[LogBatch]:
        """The batches from the end of `start` on. Records of an unfinished or aborted transaction are left out."""
        open_records: list[tuple[int, MetadataRecord]] | None = None
        for batch in self._batches():
            ready: list[tuple[int, MetadataRecord]] = []
            for offset, record in batch.records:
                if isinstance(record, BeginTransactionRecord):
                    open_records = []
                elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
                    ready += (open_records or []) if isinstance(record, EndTransactionRecord) else []
                    open_records = None
                else:
                    (ready if open_records is None else open_records).append((offset, record))
            if ready or batch.controller != NO_CONTROLLER:
                yield LogBatch(batch.offset, batch.time_ms, tuple(ready), batch.controller)

    def _batches(self) -> Iterator[LogBatch]:
        for records in self.parts:
            skipped = self._skipped(records)
            waiting: list[Record] = []
            ends = iter(records.batches.last_offset.tolist())
            end = -1
            for record in records:
                if record.offset > end:
                    if waiting:
                        yield _batch_of(waiting)
                    waiting = []
                    end = next(each for each in ends if each >= record.offset)
                if record.offset >= self.start.end_offset and record.offset not in skipped:
                    waiting.append(record)
            if waiting:
                yield _batch_of(waiting)

    def _skipped(self, records: Records) -> set[int]:
        found = [*newer_records(records, start_offset=self.start.end_offset)]
        return {each.offset for each in found if not each.is_readable}


def _batch_of(records: list[Record]) -> LogBatch:
    controller, found = NO_CONTROLLER, []
    for record in records:
        if record.control == LEADER_CHANGE:
            message = control_message(record)
            controller = message.leader_id if isinstance(message, LeaderChangeMessage) else controller
        elif record.control is None:
            decoded, _ = decode_metadata_record(record.value or b"")
            if not isinstance(decoded, NoOpRecord):
                found.append((record.offset, decoded))
    return LogBatch(records[-1].offset, records[0].timestamp, tuple(found), controller)


def read_trace(path: Path) -> Trace:
    """The trace in a `__cluster_metadata-0` folder, in a log directory with such a folder, or in a first segment.

    A folder's trace begins at offset 0, or at the oldest snapshot that the segments continue. A damaged end is left
    out: `problem` describes it. StorageError if there is no such log, or no batch in it.
    """
    if not is_there(path):
        raise StorageError(f"{path}: there is no such file or folder")
    path = metadata_folder_in(path)
    if path.is_dir():
        segments, snapshots = segment_files(path), snapshots_in(path)
    else:
        _check_segment(path)
        segments, snapshots = [path], []
    if not segments:
        raise StorageError(f"{path}: it has no segment of a metadata log: give the folder __cluster_metadata-0")
    trace = Trace(str(path))
    _begin(trace, path, base_offset_of(segments[0]), snapshots)
    _add_segments(trace, segments)
    if not any(len(part.batches) for part in trace.parts):
        raise StorageError(f"{path}: no batch is in the log{': ' if trace.problem else ''}{trace.problem}")
    return trace


def trace_of(name: str, records: Records) -> Trace:
    """The trace of a log from offset 0 on that is in memory."""
    return Trace(name, parts=[records])


def _check_segment(path: Path) -> None:
    """Raises StorageError, which says what the file is, if it is not a segment."""
    with open_reader(path) as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(b"/"):
        raise StorageError(
            f"{path}: it is a dump of ZooKeeper: a cluster in ZooKeeper mode has no metadata log to replay"
        )
    if (kind := foreign_kind(head)) is not None:
        raise StorageError(f"{path}: it is {kind}, and no metadata log")
    if not SEGMENT_NAME.fullmatch(path.name):
        raise StorageError(f"{path}: it is no segment of a metadata log: give its folder __cluster_metadata-0")


def _begin(trace: Trace, path: Path, first_offset: int, snapshots: list[SnapshotId]) -> None:
    """Loads the oldest snapshot from which the log goes on without a gap; none if the log begins at offset 0."""
    if not first_offset:
        return
    damage = ""
    for found in sorted(snapshots, key=age):
        file = path / found.file_name
        if found.end_offset < first_offset:
            continue
        if (why := why_damaged(file)) is not None:
            damage = f": {file.name}: {why}"
            continue
        trace.newer.replay(trace.start, read_snapshot(file).records)
        trace.start.end_offset, trace.start.epoch = found
        trace.has_snapshot = True
        return
    raise StorageError(
        f"{path}: the log begins at offset {first_offset:,}, and no whole snapshot there has the state before{damage}"
    )


def _add_segments(trace: Trace, segments: list[Path]) -> None:
    """Adds the segments in order, up to a gap or a damage."""
    end_offset = base_offset_of(segments[0])
    for segment in segments:
        base_offset = base_offset_of(segment)
        if base_offset != end_offset:
            trace.problem = f"{segment}: {missing_offsets(end_offset, base_offset)}"
            return
        try:
            records = segment_records(segment, base_offset, True)
        except DecodeError as error:
            trace.problem = str(error)
            return
        for found in newer_records(records, start_offset=trace.start.end_offset):
            trace.newer.take(found)
        trace.parts.append(records)
        if records.problem:
            trace.problem = f"{segment}: {records.problem}"
            return
        if len(records.batches):
            end_offset = int(records.batches.last_offset[-1]) + 1
