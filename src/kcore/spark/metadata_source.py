"""The format "kcore.metadata": the partitions in a metadata log as a DataFrame with one row per partition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from kcore.errors import KcoreError, StorageError
from kcore.extras import needs
from kcore.metadata.table.table_arrow import SCHEMA, partitions_as_arrow
from kcore.spark.conditions import kept
from kcore.spark.file_source import FAILFAST, FileReader, FileSource
from kcore.storage.raft.metadata_log import LoadedMetadata, load_metadata

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

ROWS_A_TASK: Final = 250_000


@dataclass
class PartitionRange(InputPartition):
    """A range of rows of the partition table; `end` None: up to the last row."""

    path: str
    start: int
    end: int | None


class MetadataReader(FileReader):
    """Reads up to ROWS_A_TASK partitions per task. Each task loads the log itself, so that Spark sends no large
    data."""

    def partitions(self) -> Sequence[InputPartition]:
        found = []
        for path in map(str, self.paths):
            image, _ = self._load(path)
            starts = list(range(0, max(len(image.table), 1), ROWS_A_TASK))
            found += [PartitionRange(path, *each) for each in zip(starts, [*starts[1:], None], strict=True)]
        return found

    def _load(self, path: str) -> tuple[LoadedMetadata, str]:
        """The image up to the first unreadable data, and the problem there. In mode failfast the problem is raised."""
        if self.mode == FAILFAST:
            return load_metadata(path), ""
        try:
            image = load_metadata(path, stop=True)
        except (KcoreError, OSError) as error:
            return LoadedMetadata(), str(error)
        return image, "; ".join(filter(None, (image.problem, str(image.newer) if image.newer.count else "")))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PartitionRange)
        image, problem = self._load(partition.path)
        found = kept(partitions_as_arrow(image.table, partition.start, partition.end), self.conditions)
        nulls = pa.nulls(len(found), pa.string())  # For `_corrupt`, which is null in readable rows.
        columns = [found[name] if name in SCHEMA.names else nulls for name in self.schema.names]
        yield from pa.Table.from_arrays(columns, schema=self.schema).to_batches()
        if problem and partition.start == 0:
            yield from self.corrupt_row(problem)


class MetadataSource(FileSource):
    """The format with one row per partition, the same columns as `kcore image --arrow` writes."""

    columns = SCHEMA

    @classmethod
    def name(cls) -> str:
        return "kcore.metadata"

    def reader_of(self, paths: list[Path], schema: pa.Schema) -> MetadataReader:
        return MetadataReader(paths, schema, self.mode, self.conditions)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Raises StorageError: partitions change, and a stream only adds rows."""
        raise StorageError("kcore.metadata is not a stream: use spark.read, or spark.readStream of kcore.log")
