"""Finds gaps in the offsets of a metadata log or a snapshot; other logs may be compacted, and then have gaps."""

from pathlib import Path

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError
from kcore.storage.log.partition_folder import partition_of, segment_files
from kcore.storage.log.segment import LOG, base_offset_of, map_file
from kcore.storage.raft.snapshot import is_snapshot, snapshots_in
from kcore.wire.record_batch import RecordBatches, gap_in, missing_offsets, scan_batches


def gap_in_file(path: Path, batches: RecordBatches | None = None, *, whole: bool = True) -> DecodeError | None:
    """The first gap between a file's batches, or None; always None for a partition's log, which may have gaps.

    `batches` are the file's batches, if they have been scanned already. Without `whole` they begin anywhere in it.
    """
    if not has_all_offsets(path):
        return None
    if batches is None:
        batches = scan_batches(map_file(path), check_crc=False, stop=True)
    first = base_offset_of(path) if path.name.endswith(LOG) else 0
    if not whole and len(batches):
        first = int(batches.base_offset[0])
    gap = gap_in(batches, first)
    return gap.problem if gap else None


def has_all_offsets(path: Path) -> bool:
    """True for a snapshot and for a metadata log's segment, whose offsets have no gaps."""
    return is_snapshot(path.name) or (path.name.endswith(LOG) and _is_metadata(path.resolve().parent))


def gaps_between_files(folder: Path) -> dict[Path, str]:
    """The gaps between the newest snapshot and the segments, in words, by the segment after the gap."""
    if not folder.is_dir() or not _is_metadata(folder.resolve()):
        return {}
    gaps = {}
    end_offset = held = max((found.end_offset for found in snapshots_in(folder)), default=0)
    for path in segment_files(folder):
        base_offset = base_offset_of(path)
        if base_offset != end_offset and base_offset > held:
            gaps[path] = f"{missing_offsets(end_offset, base_offset)} before it"
        batches = scan_batches(map_file(path), check_crc=False, stop=True)
        end_offset = int(batches.last_offset[-1]) + 1 if len(batches) else base_offset
    return gaps


def _is_metadata(folder: Path) -> bool:
    partition = partition_of(folder)
    return partition is not None and partition.topic == METADATA_TOPIC
