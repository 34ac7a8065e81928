"""Kafka's files as Spark DataFrames, over PySpark's Python DataSource API, Arrow all the way.

kcore.spark.register(spark)
spark.read.format("kcore.log").load("/var/kafka")           # a segment, a partition's folder, or a log.dirs
spark.read.format("kcore.metadata").load("__cluster_metadata-0")
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcore.errors import StorageError
from kcore.extras import needs
from kcore.storage.diverge_dirs import partitions_in
from kcore.storage.dump import files_of
from kcore.storage.metadata_log import load_metadata

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    from kcore.metadata import arrow as table_arrow
    from kcore.storage import record_rows

ROWS_A_TASK = 250_000


@dataclass
class File(InputPartition):
    """One segment or snapshot."""

    path: str


@dataclass
class PartitionRange(InputPartition):
    """Rows of the partition table."""

    path: str
    start: int
    end: int


class LogReader(DataSourceReader):
    """A task a segment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def partitions(self) -> Sequence[InputPartition]:
        folders = sorted(partitions_in(self.path).values()) if self.path.is_dir() else []
        files = [file for place in folders or [self.path] for file in files_of(place)]
        if not files:
            raise StorageError(f"{self.path}: neither a segment nor a folder of any")
        return [File(str(file)) for file in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, File)
        return record_rows.record_rows(Path(partition.path))


class MetadataReader(DataSourceReader):
    """A task some hundred thousand partitions. Each loads the log for itself: nothing large is sent."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def partitions(self) -> Sequence[InputPartition]:
        count = len(load_metadata(self.path).table)
        starts = range(0, max(count, 1), ROWS_A_TASK)
        return [PartitionRange(str(self.path), start, min(start + ROWS_A_TASK, count)) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PartitionRange)
        table = load_metadata(partition.path).table
        yield from table_arrow.partitions_as_arrow(table, partition.start, partition.end).to_batches()


class FileSource(DataSource):
    """What both formats share: the path that `load` names, made absolute where Spark's driver runs."""

    @property
    def path(self) -> Path:
        if not (given := self.options.get("path")):
            raise StorageError(f"{self.name()}: name a file or a folder: spark.read.format(...).load(PATH)")
        return Path(given).resolve()


class LogSource(FileSource):
    """Records, a row each: as `kcore dump --deep` shows them."""

    @classmethod
    def name(cls) -> str:
        return "kcore.log"

    def schema(self) -> StructType:
        return from_arrow_schema(record_rows.SCHEMA)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(self.path)


class MetadataSource(FileSource):
    """Partitions, a row each: what `kcore image --arrow` writes."""

    @classmethod
    def name(cls) -> str:
        return "kcore.metadata"

    def schema(self) -> StructType:
        return from_arrow_schema(table_arrow.SCHEMA)

    def reader(self, schema: StructType) -> MetadataReader:
        return MetadataReader(self.path)


def register(spark: SparkSession) -> None:
    """Make the formats "kcore.log" and "kcore.metadata" known to the session."""
    for source in (LogSource, MetadataSource):
        spark.dataSource.register(source)
