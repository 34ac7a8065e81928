"""Recorded logs whose first segments were deleted: a snapshot has the state before the rest."""

from pathlib import Path

from kcore.metadata.image.image_writer import records_of
from kcore.storage.raft.metadata_log import load_metadata, segment_records
from kcore.storage.raft.snapshot import SnapshotId, write_snapshot


def begin_at_a_snapshot(folder: Path, to: Path, offset: int) -> Path:
    """A copy of a log of one segment that begins at `offset`, where a batch begins, with a snapshot up to there."""
    [segment] = folder.glob("*.log")
    data, batches = segment.read_bytes(), segment_records(segment, 0, True).batches
    at = batches.base_offset.tolist().index(offset)
    position = int(batches.position[at])
    before, to_segment = to.with_name("before"), to / f"{offset:020}.log"
    for each in (before, to):
        each.mkdir()
    (before / segment.name).write_bytes(data[:position])
    to_segment.write_bytes(data[position:])
    image = load_metadata(before)
    values = [value for part in records_of(image) for value in part]
    epoch = int(batches.partition_leader_epoch[at - 1])
    write_snapshot(to, SnapshotId(offset, epoch), values, time_ms=0, last_contained_log_timestamp=0)
    return to
