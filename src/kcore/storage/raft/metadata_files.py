"""The files of a metadata log: its folder in a log directory, and the records of a segment."""

from dataclasses import replace
from pathlib import Path

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import map_file
from kcore.wire.record_batch import gap_in, scan_batches
from kcore.wire.records import Records, decode_records


def metadata_folder_in(path: Path) -> Path:
    """The metadata log's folder in `path` if `path` is a log directory that has one; otherwise `path`."""
    folder = path / f"{METADATA_TOPIC}-0"
    return folder if folder.is_dir() and not segment_files(path) else path


def segment_records(path: Path, base_offset: int, stop: bool) -> Records:
    """The records of a segment; with `stop`, those before the first damage or gap: a metadata log is not compacted."""
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
