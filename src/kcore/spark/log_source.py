"""The format "kcore.log": segments and snapshots as a DataFrame with one row per record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import Any, Final

import numpy as np

from kcore.errors import DecodeError, StorageError
from kcore.extras import needs
from kcore.spark.conditions import kept, may_hold
from kcore.spark.file_source import FAILFAST, FileReader, FileSource
from kcore.storage.log.continuity import gap_in_file, gaps_between_files
from kcore.storage.log.partition_folder import partition_of
from kcore.storage.log.segment import LOG, SEGMENT_NAME, map_file
from kcore.storage.raft.snapshot import SUFFIX
from kcore.storage.tools.diverge_dirs import partitions_in
from kcore.storage.tools.dump import files_of
from kcore.storage.tools.record_rows import BYTES_AT_ONCE, rows_of
from kcore.storage.tools.record_rows import SCHEMA as ROWS
from kcore.types import Bools
from kcore.wire.record_batch import NO_TIMESTAMP, RecordBatches, scan_batches
from kcore.wire.records import decode_records

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

REMEDY: Final = "; .option('mode', 'permissive') reads the readable data, .option('where', ...) skips files"
_TIME: Final = pa.timestamp("us", tz="UTC")  # The only resolution of Spark's timestamps.
SCHEMA: Final = ROWS.set(ROWS.get_field_index("timestamp"), pa.field("timestamp", _TIME))
_OF_A_FILE: Final = pa.schema([SCHEMA.field(name) for name in ("file", "topic", "partition")])
_MOST: Final = np.iinfo(np.int64).max
_MOST_MS: Final = _MOST // 1000


@dataclass
class File(InputPartition):
    """One segment or snapshot, with the bounds of its offsets, which the file names give."""

    path: str
    base_offset: int = 0
    end_offset: int = _MOST
    gap: str = ""  # The missing offsets between the file before and this one, as an error's text.


class LogReader(FileReader):
    """Reads each file in a task of its own. Skips files, batches and rows that `where` excludes as early as
    possible."""

    def partitions(self) -> Sequence[InputPartition]:
        files = [file for path in self.paths for file in _files(path, alone=len(self.paths) == 1)]
        if not files:
            raise StorageError(f"{', '.join(map(str, self.paths))}: neither a segment nor a folder of segments")
        return [file for file in files if self._may_hold(file)]

    def _may_hold(self, file: File) -> bool:
        topic, partition = _partition_of(file.path)
        row = {"file": file.path, "topic": topic, "partition": partition}
        of_file = [each for each in self.conditions if each.column in _OF_A_FILE.names]
        if not kept(pa.RecordBatch.from_pylist([row], schema=_OF_A_FILE), of_file).num_rows:
            return False
        bounds = np.array([file.base_offset]), np.array([file.end_offset - 1])
        return bool(may_hold(self.conditions, "offset", *bounds)[0])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, File):
            return  # Spark's own placeholder, if `where` excludes all files.
        if partition.gap:
            yield from self._failed(partition.path, 0, DecodeError(partition.gap, 0))
        yield from self._rows(partition.path)

    def _rows(self, path: str) -> Iterator[pa.RecordBatch]:
        try:
            data = map_file(Path(path))
        except (OSError, StorageError) as error:
            if self.mode == FAILFAST:
                raise
            yield from self._corrupt(path, None, str(error))
            return
        batches = scan_batches(data, stop=True)
        chosen = replace(batches.take(self._wanted(batches)), problem=None)  # Reported after the readable records.
        first = 0
        while first < len(chosen):
            bound = chosen.position[first] + BYTES_AT_ONCE
            end = max(first + 1, int(np.searchsorted(chosen.position, bound)))
            yield from self._decoded(path, data, chosen.take(slice(first, end)))
            first = end
        if batches.problem:
            yield from self._failed(path, batches.end, batches.problem)
        elif gap := gap_in_file(Path(path), batches):
            yield from self._failed(path, gap.offset, gap)

    def _wanted(self, batches: RecordBatches) -> Bools:
        """True for each batch that may hold a record that meets `where`, and for each batch whose CRC does not
        match."""
        ranges: dict[str, tuple[Any, Any]] = {
            "offset": (batches.base_offset, batches.last_offset),
            "partitionLeaderEpoch": (batches.partition_leader_epoch, batches.partition_leader_epoch),
            "batchPosition": (batches.position, batches.position),
            "timestamp": (np.full(len(batches), -_MOST), batches.max_timestamp),
        }
        found = np.ones(len(batches), np.bool_)
        for column, (low, high) in ranges.items():
            found &= may_hold(self.conditions, column, low.astype(np.int64), high.astype(np.int64))
        return found | ~batches.crc_matches

    def _decoded(self, path: str, data: mmap | bytes, batches: RecordBatches) -> Iterator[pa.RecordBatch]:
        try:
            records = decode_records(data, batches)
        except DecodeError as error:
            if len(batches) == 1 or self.mode == FAILFAST:
                yield from self._failed(path, int(batches.position[0]), error)
            else:  # One batch is damaged: decode each alone, to find it and to keep the rows of the others.
                for row in range(len(batches)):
                    yield from self._decoded(path, data, batches.take(slice(row, row + 1)))
            return
        names = dict.fromkeys([*self.schema.names, *(each.column for each in self.conditions)])
        plain = [name for name in names if name in ROWS.names]
        made = rows_of(records, path, *_partition_of(path), plain)
        columns = [_time(made[name]) if name == "timestamp" else made[name] for name in plain]
        rows = kept(pa.RecordBatch.from_arrays(columns, schema=pa.schema(map(SCHEMA.field, plain))), self.conditions)
        if rows.num_rows:
            nulls = pa.nulls(rows.num_rows, pa.string())  # For `_corrupt`, which is null in readable rows.
            arrays = [rows[name] if name in plain else nulls for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _failed(self, path: str, position: int, error: DecodeError) -> list[pa.RecordBatch]:
        if self.mode == FAILFAST:
            raise DecodeError(f"{path}: {error.message}{REMEDY}", error.offset)
        return self._corrupt(path, position, str(error))

    def _corrupt(self, path: str, position: int | None, problem: str) -> list[pa.RecordBatch]:
        topic, partition = _partition_of(path)
        return self.corrupt_row(problem, file=path, topic=topic, partition=partition, batchPosition=position)


class LogSource(FileSource):
    """The format with one row per record, the same fields as `kcore dump --deep` shows."""

    columns = SCHEMA

    @classmethod
    def name(cls) -> str:
        return "kcore.log"

    def reader_of(self, paths: list[Path], schema: pa.Schema) -> LogReader:
        return LogReader(paths, schema, self.mode, self.conditions)


def _partition_of(path: str) -> tuple[str | None, int | None]:
    return partition_of(Path(path).parent) or (None, None)


def _files(path: Path, *, alone: bool) -> list[File]:
    """The segments and snapshots of a log directory or a partition's folder, or `path` itself if it is a file.

    A file with another suffix is read only if it is the only path: a glob also matches indexes.
    """
    if not path.is_dir():
        return [File(str(path))] if alone or path.name.endswith((LOG, SUFFIX)) else []
    found = []
    for folder in sorted(partitions_in(path).values()) or [path]:
        names = files_of(folder)
        bases = [int(name.stem) for name in names if SEGMENT_NAME.fullmatch(name.name)]
        ends, gaps = dict(pairwise(bases)), gaps_between_files(folder)
        for name in names:
            base = int(name.stem) if SEGMENT_NAME.fullmatch(name.name) else None
            bounds = (0, _MOST) if base is None else (base, ends.get(base, _MOST))
            found.append(File(str(name), *bounds, gaps.get(name, "")))
    return found


def _time(milliseconds: pa.Array) -> pa.Array:
    """Converts to Spark's timestamps; null for Kafka's -1 and for times outside the range of these timestamps."""
    numbers = milliseconds.to_numpy()
    fits = (numbers != NO_TIMESTAMP) & (numbers >= -_MOST_MS) & (numbers <= _MOST_MS)
    if fits.all():
        return pa.array(numbers * 1000).view(_TIME)
    return pa.array(np.where(fits, numbers, 0) * 1000, mask=~fits).view(_TIME)
