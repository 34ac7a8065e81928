"""The format "kcore.metadata": the tables of a metadata log as DataFrames; by default a row for each partition."""

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from kcore.errors import DecodeError, KcoreError, StorageError
from kcore.extras import needs
from kcore.metadata.image.image_arrow import SCHEMAS, table_of
from kcore.metadata.image.table_names import LOG_TABLE, PARTITIONS, TABLES
from kcore.metadata.log_events import EVENTS, events_of
from kcore.metadata.table.table_arrow import partitions_as_arrow
from kcore.spark.conditions import Condition, kept
from kcore.spark.file_source import CORRUPT, FAILFAST, OPTIONS, FileReader, FileSource
from kcore.spark.uri_files import UriPath, local_copy
from kcore.storage.log.continuity import gaps_between_files
from kcore.storage.raft.metadata_events import event_files, event_records
from kcore.storage.raft.metadata_log import LoadedMetadata, load_metadata

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

ROWS_A_TASK: Final = 250_000
TABLE: Final = "table"  # The option that names a table.


@dataclass
class RowRange(InputPartition):
    """A range of rows of a table of an image; `end` None: up to the last row."""

    place: Path | UriPath
    start: int
    end: int | None


class MetadataReader(FileReader):
    """Reads a table of an image: partitions up to ROWS_A_TASK per task, another table in one task for each path. Each
    task loads the log itself, so that Spark sends no large data."""

    def __init__(
        self,
        paths: list[Path | UriPath],
        schema: pa.Schema,
        mode: str,
        conditions: list[Condition],
        table: str = PARTITIONS,
    ) -> None:
        super().__init__(paths, schema, mode, conditions)
        self.table = table

    def partitions(self) -> Sequence[InputPartition]:
        if self.table != PARTITIONS:
            return [RowRange(path, 0, None) for path in self.paths]
        found = []
        for path in self.paths:
            image, _ = self._load(path)
            starts = list(range(0, max(len(image.table), 1), ROWS_A_TASK))
            found += [RowRange(path, *each) for each in zip(starts, [*starts[1:], None], strict=True)]
        return found

    def _load(self, place: Path | UriPath) -> tuple[LoadedMetadata, str]:
        """The image up to the first unreadable data, and the problem there. In mode failfast the problem is raised."""
        try:
            with local_copy(place) as copy:
                image = load_metadata(copy.path, stop=self.mode != FAILFAST)
        except (KcoreError, OSError) as error:
            if self.mode == FAILFAST:
                raise
            return LoadedMetadata(), str(error)
        problem = "; ".join(filter(None, (image.problem, str(image.newer) if image.newer.count else "")))
        return image, copy.named(problem)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        image, problem = self._load(partition.place)
        if self.table == PARTITIONS:
            table = partitions_as_arrow(image.table, partition.start, partition.end)
        else:
            table = table_of(image, self.table)
        yield from _chosen(table, self)
        if problem and partition.start == 0:
            yield from self.corrupt_row(problem)


@dataclass
class EventFile(InputPartition):
    """One segment or snapshot of a metadata log."""

    place: Path | UriPath
    gap: str = ""  # The missing offsets between the file before and this one, as an error's text.


class EventReader(FileReader):
    """Reads the records of a metadata log as events, each file in a task of its own."""

    def partitions(self) -> Sequence[InputPartition]:
        found = []
        for path in self.paths:
            with local_copy(path) as copy:
                files = event_files(copy.path)
                gaps = gaps_between_files(files[0].parent) if copy.path.is_dir() else {}
                found += [EventFile(copy.origin(file), gaps.get(file, "")) for file in files]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, EventFile)
        if partition.gap:
            yield from self._failed(DecodeError(f"{partition.place}: {partition.gap}", 0))
        wanted = dict.fromkeys([*self.schema.names, *(each.column for each in self.conditions)])
        names = [name for name in wanted if name in EVENTS.names]
        try:
            with local_copy(partition.place) as copy:  # The file stays mapped when its copy has been deleted.
                records = event_records(copy.path, stop=self.mode != FAILFAST)
            for batch in events_of(records, names, str(partition.place)):
                yield from _chosen(pa.Table.from_batches([batch]), self)
        except (KcoreError, OSError) as error:
            yield from self._failed(error)
            return
        if records.problem:
            yield from self.corrupt_row(f"{partition.place}: {records.problem}")

    def _failed(self, error: Exception) -> list[pa.RecordBatch]:
        if self.mode == FAILFAST:
            raise error
        return self.corrupt_row(str(error))


def _chosen(table: pa.Table, reader: FileReader) -> Iterator[pa.RecordBatch]:
    """The rows that meet the reader's conditions, with the columns of its query."""
    found = kept(table, reader.conditions)
    nulls = pa.nulls(len(found), pa.string())  # For `_corrupt`, which is null in readable rows.
    columns = [nulls if name == CORRUPT else found[name] for name in reader.schema.names]
    yield from pa.Table.from_arrays(columns, schema=reader.schema).to_batches()


class MetadataSource(FileSource):
    """The format with the tables of `kcore.load_metadata(...).tables()`; the option `table` names one."""

    known_options = (TABLE, *OPTIONS)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises StorageError for an unknown table, and as the base class."""
        self.table = options.get(TABLE, PARTITIONS).lower()
        if self.table not in (*TABLES, LOG_TABLE):
            known = f"{', '.join(TABLES)} and {LOG_TABLE}"
            raise StorageError(f"{self.name()}: there is no table {self.table!r:.60}; there are {known}")
        self.columns = EVENTS if self.table == LOG_TABLE else SCHEMAS[self.table]
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "kcore.metadata"

    def reader_of(self, paths: list[Path | UriPath], schema: pa.Schema) -> FileReader:
        if self.table == LOG_TABLE:
            return EventReader(paths, schema, self.mode, self.conditions)
        return MetadataReader(paths, schema, self.mode, self.conditions, self.table)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Raises StorageError: tables change, and a stream only adds rows."""
        raise StorageError("kcore.metadata is not a stream: use spark.read, or spark.readStream of kcore.log")
