"""The format "kcore.log" as a stream: the records that are appended to partitions after each micro-batch.

The stream's offsets are the log end offsets by partition's folder, so a query goes on from its checkpoint. It begins
with all records that the logs have.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcore.errors import StorageError
from kcore.extras import needs
from kcore.spark.conditions import Condition
from kcore.spark.file_source import FAILFAST, FileReader
from kcore.spark.log_source import File, LogReader, LogSource, bytes_of, files_in, folders_in
from kcore.spark.stream_limit import Backlog, limited, still_waiting
from kcore.spark.uri_files import UriPath
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import base_offset_of, map_file
from kcore.storage.tools.foreign import explained, is_unused
from kcore.wire.log_formats import scan_log
from kcore.wire.record_batch import TORN, missing_offsets

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes
    except ImportError:  # Spark 4.0 and 4.1 read all records that there are.
        CAN_LIMIT = False
    else:
        CAN_LIMIT = True

LIMIT = "maxBytesPerTrigger"
Offsets = dict[str, int]


@dataclass
class Part(InputPartition):
    """A part of a file, and the offsets of the records to read from it."""

    file: File
    first_offset: int
    end_offset: int


class LogStreamReader(DataSourceStreamReader):
    """Reads partitions as they grow. The reader of batches of rows does the work: options mean the same."""

    def __init__(self, reader: LogReader, most_bytes: int | None = None) -> None:
        """`most_bytes`: the limit of a micro-batch. StorageError for a URI, and for a file, whose partition goes on."""
        self._folders: list[Path] = []
        for path in reader.paths:
            if isinstance(path, UriPath):
                raise StorageError(f"{path}: a stream reads local folders only: use spark.read")
            if not path.is_dir():
                raise StorageError(f"{path}: a stream reads folders: name a partition's folder or a log directory")
            self._folders.append(path)
        self._reader, self._most_bytes = reader, most_bytes
        self._ends: dict[Path, tuple[int, int]] = {}  # By segment: bytes that were scanned, and the offset after them.
        self._waiting: list[str] = []  # Partitions of which the last micro-batch reads nothing, because of its limit.

    def initialOffset(self) -> Offsets:
        """No record has been read."""
        return {}

    def getDefaultReadLimit(self) -> "ReadLimit":
        """The limit that the option maxBytesPerTrigger sets. Spark 4.2 and later call this method."""
        return ReadAllAvailable() if self._most_bytes is None else ReadMaxBytes(self._most_bytes)

    def latestOffset(self, start: Offsets | None = None, limit: "ReadLimit | None" = None) -> Offsets:
        """The offset up to which the next micro-batch reads each partition: its log end offset, or less by `limit`.

        Spark 4.0 and 4.1 pass no parameters. Spark passes no limit for the trigger `once`.
        """
        ends = self._log_ends()
        if start is None or not CAN_LIMIT or not isinstance(limit, ReadMaxBytes):
            return ends
        behind = {folder: end for folder, end in ends.items() if start.get(folder, 0) < end}
        backlogs = {folder: _backlog(Path(folder), start.get(folder, 0), end) for folder, end in behind.items()}
        admitted = limited(backlogs, limit.max_bytes, self._waiting)
        self._waiting = still_waiting(backlogs, admitted, self._waiting)
        # A partition that has no new record stays at its offset; a new one that must wait is not in the result.
        return {folder: end for folder, end in ends.items() if folder in start} | {
            folder: end for folder, end in admitted.items() if end > 0
        }

    def _log_ends(self) -> Offsets:
        segments = {folder: segment_files(folder) for path in self._folders for folder in folders_in(path)}
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
        # A torn batch at the end: its broker is writing it.
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

    known_options: tuple[str, ...] = (*LogSource.known_options, LIMIT)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}.get(LIMIT.lower())
        self._most_bytes = None if given is None else bytes_of(LIMIT, given)
        if self._most_bytes is not None and not CAN_LIMIT:
            raise StorageError(f"kcore.log: {LIMIT} needs Spark 4.2 or later: leave the option out")

    def reader(self, schema: StructType) -> FileReader:
        """As LogSource.reader. Also raises StorageError for the option of streams."""
        if self._most_bytes is not None:
            raise StorageError(f"kcore.log: {LIMIT} is an option of spark.readStream: leave it out")
        return super().reader(schema)

    def streamReader(self, schema: StructType) -> LogStreamReader:
        """A reader of the columns in `schema`. Raises StorageError as `reader` does, or if a path is a file."""
        return LogStreamReader(self.reader_of(self._paths(), self.checked(schema)), self._most_bytes)


def _backlog(folder: Path, first: int, end: int) -> Backlog:
    paths = [Path(file.path) for file in _holding(folder, first, end)]
    return Backlog(first, end, paths, sum(path.stat().st_size for path in paths))


def _holding(folder: Path, first: int, end: int) -> list[File]:
    """The segments with offsets from `first` to `end`."""
    names = {str(path) for path in segment_files(folder)}
    files = [each for each in files_in(folder, alone=True) if each.path in names]
    return [replace(each, read_until=end) for each in files if each.end_offset > first and each.base_offset < end]
