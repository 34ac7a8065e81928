"""The format "kcore.log" as a stream: the records that are appended to partitions after each micro-batch.

The stream's offsets are the log end offsets by partition's folder, so a query goes on from its checkpoint. It begins
with all records that the logs have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcore.errors import StorageError
from kcore.extras import needs
from kcore.spark.conditions import Condition
from kcore.spark.file_source import FAILFAST
from kcore.spark.log_source import File, LogReader, LogSource, files_in, folders_in
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import base_offset_of, map_file
from kcore.storage.tools.foreign import explained, is_unused
from kcore.wire.log_formats import scan_log
from kcore.wire.record_batch import missing_offsets

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

TORN = "a torn record batch"  # At the end of a log: its broker is writing the batch.
Offsets = dict[str, int]


@dataclass
class Part(InputPartition):
    """A part of a file, and the offsets of the records to read from it."""

    file: File
    first_offset: int
    end_offset: int


class LogStreamReader(DataSourceStreamReader):
    """Reads partitions as they grow. The reader of batches of rows does the work: options mean the same."""

    def __init__(self, reader: LogReader) -> None:
        """Raises StorageError if a path is a file: a segment ends, and its partition goes on."""
        for path in reader.paths:
            if not path.is_dir():
                raise StorageError(f"{path}: a stream reads folders: name a partition's folder or a log directory")
        self._reader = reader
        self._ends: dict[Path, tuple[int, int]] = {}  # By segment: bytes that were scanned, and the offset after them.

    def initialOffset(self) -> Offsets:
        """No record has been read."""
        return {}

    def latestOffset(self) -> Offsets:  # type: ignore[override]
        """The log end offset of each partition. This form without parameters is that of all releases of Spark 4."""
        segments = {folder: segment_files(folder) for path in self._reader.paths for folder in folders_in(path)}
        last = {folder: paths[-1] for folder, paths in segments.items() if paths}
        self._ends = {path: self._end_of(path) for path in last.values()}
        return {str(folder): self._ends[path][1] for folder, path in last.items()}

    def _end_of(self, path: Path) -> tuple[int, int]:
        """The end of a segment's batches, in bytes and as an offset; raises DecodeError for other bytes behind them."""
        position, offset = self._ends.get(path, (0, base_offset_of(path)))
        data = map_file(path)
        if position > len(data):
            position, offset = 0, base_offset_of(path)  # The segment was truncated.
        batches = scan_log(data, start=position, check_crc=False, stop=True, skip=self._reader.mode != FAILFAST)
        problem = batches.problem
        if problem and self._reader.mode == FAILFAST and problem.message != TORN and not is_unused(data, batches.end):
            raise StorageError(f"{path}: {explained(problem, data)}")
        return batches.end, int(batches.last_offset[-1]) + 1 if len(batches) else offset

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """The parts of the files that have the offsets from `start` to `end`."""
        found: list[InputPartition] = []
        for folder, end_offset in end.items():
            if (first := start.get(folder, 0)) < end_offset:
                files = _holding(Path(folder), first, end_offset)
                if folder in start and files and files[0].base_offset > first:
                    gone = missing_offsets(first, files[0].base_offset)
                    files[0] = replace(files[0], gap=f"{gone}: they were deleted before the stream read them")
                parts = self._between(first, end_offset).parts(files)
                found += [Part(file, first, end_offset) for file in parts]
        return found

    def _between(self, first: int, end: int) -> LogReader:
        """A reader of the records with these offsets."""
        bounds = [Condition("offset", ">=", (first,)), Condition("offset", "<", (end,))]
        reader = self._reader
        return LogReader(reader.paths, reader.schema, reader.mode, [*reader.conditions, *bounds], reader.split_size)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        yield from self._between(partition.first_offset, partition.end_offset).read(partition.file)


class StreamedLogSource(LogSource):
    """The format kcore.log for `spark.read` and `spark.readStream`."""

    def streamReader(self, schema: StructType) -> LogStreamReader:
        """A reader of the columns in `schema`. Raises StorageError as `reader` does, or if a path is a file."""
        return LogStreamReader(self.reader_of(self._paths(), self.checked(schema)))


def _holding(folder: Path, first: int, end: int) -> list[File]:
    """The segments with offsets from `first` to `end`."""
    names = {str(path) for path in segment_files(folder)}
    files = [each for each in files_in(folder, alone=True) if each.path in names]
    return [replace(each, read_until=end) for each in files if each.end_offset > first and each.base_offset < end]
