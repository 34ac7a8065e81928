"""Compares two brokers' log directories on Spark: tasks share the partitions and return one row for each."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from kcore.errors import StorageError
from kcore.extras import needs
from kcore.spark.pieces import Outcome, outcomes
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.tools.diverge import READS, Read, divergence_row
from kcore.storage.tools.diverge_dirs import Pair, compare, pairs_in

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

_TASKS_A_SLOT: Final = 4  # Partitions differ in size: a slot that finishes early takes another task.
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # Null if the replicas do not differ.
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("epochOffset", pa.int64()),  # The offset at which the leader epochs differ; null if they do not.
        # Empty, or one place per replica.
        ("places", pa.list_(pa.struct([("file", pa.string()), ("position", pa.int64())]))),
        ("bytesRead", pa.int64()),
    ]
)
_PAIRS: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("folder_a", pa.string()), ("folder_b", pa.string())]
)


def diverge_log_dirs(
    spark: SparkSession,
    log_dir_a: str | Path,
    log_dir_b: str | Path,
    *,
    read: Read = "bytes",
    partitions: Iterable[TopicPartition] | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """`kcore.files.diverge_log_dirs` as a DataFrame with one row per partition; executors must have both paths.

    The directories are listed immediately: StorageError if they are empty. Each action on the DataFrame compares the
    partitions anew. `tasks`: by default four per core of the cluster.
    """
    pairs = pairs_of(log_dir_a, log_dir_b, read, partitions)
    count = min(len(pairs), tasks or spark.sparkContext.defaultParallelism * _TASKS_A_SLOT)
    table = pa.Table.from_pylist([pair._asdict() for pair in pairs], schema=_PAIRS)
    spread = spark.createDataFrame(table).repartition(count)
    return spread.mapInArrow(partial(_compared, read), from_arrow_schema(SCHEMA))


def diverge_pieces(spark: SparkSession, pairs: Sequence[Pair], read: Read = "bytes") -> Iterator[Outcome]:
    """Yields each share of the rows as soon as it is done. If an executor is lost, the rows of other shares are
    kept."""
    count = min(len(pairs), spark.sparkContext.defaultParallelism * _TASKS_A_SLOT)
    return outcomes(spark, partial(_rows_of, read), [pairs[first::count] for first in range(count)])


def pairs_of(
    log_dir_a: str | Path, log_dir_b: str | Path, read: Read, partitions: Iterable[TopicPartition] | None = None
) -> list[Pair]:
    """The pairs of partitions to compare. Raises StorageError if no partition is found, or if `read` is unknown."""
    if read not in READS:
        raise StorageError(f"read={read!r} is not one of {', '.join(READS)}")
    pairs = pairs_in(Path(log_dir_a).resolve(), Path(log_dir_b).resolve(), partitions)
    if not pairs:
        raise StorageError(f"neither {log_dir_a} nor {log_dir_b} holds a partition")
    return pairs


def _rows_of(read: Read, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    found = zip(pairs, compare(pairs, read), strict=True)
    return [divergence_row(pair.topic, pair.partition, each) for pair, each in found]


def _compared(read: Read, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compares a task's partitions and yields their rows; runs on the executor."""
    for batch in batches:
        pairs = [Pair(**row) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(_rows_of(read, pairs), schema=SCHEMA)
