"""Two log directories compared over a real Spark: the rows of `kcore.files.diverge_log_dirs`."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import kcore
import kcore.spark
from kcore.errors import StorageError
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.tools.diverge import divergence_row

pytestmark = pytest.mark.long


def plain(a: Path, b: Path, **options: Any) -> list[dict[str, Any]]:
    return [
        divergence_row(*partition, found) for partition, found in kcore.files.diverge_log_dirs(a, b, **options).items()
    ]


@pytest.mark.parametrize("read", ["bytes", "epochs"])
def test_the_rows_are_those_without_spark(spark: SparkSession, log_dirs: tuple[Path, Path], read: str) -> None:
    frame = kcore.spark.diverge_log_dirs(spark, *log_dirs, read=read, tasks=3)
    rows = frame.orderBy("topic", "partition").toArrow().to_pylist()
    assert rows == plain(*log_dirs, read=read)
    assert frame.rdd.getNumPartitions() == 3
    reasons = {(row["topic"], row["partition"]): (row["reason"], row["offset"]) for row in rows}
    assert reasons["t", 10] == ("batch", 2) and reasons["t", 7] == ("end", 3) and reasons["t", 1] == ("same", None)
    assert reasons["only", 0] == ("missing", 40) and reasons["other", 0] == ("missing", 0)


def test_only_those_asked(spark: SparkSession, log_dirs: tuple[Path, Path]) -> None:
    asked = [TopicPartition("t", 5), TopicPartition("only", 0)]
    frame = kcore.spark.diverge_log_dirs(spark, *log_dirs, partitions=asked)
    assert sorted((row.topic, row.partition) for row in frame.collect()) == [("only", 0), ("t", 5)]


def test_what_there_is_not(spark: SparkSession, log_dirs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds a partition"):
        kcore.spark.diverge_log_dirs(spark, tmp_path, tmp_path)
    with pytest.raises(StorageError, match="'all' is not one of"):
        kcore.spark.diverge_log_dirs(spark, *log_dirs, read="all")
    with pytest.raises(StorageError, match="neither log directory holds t-99"):
        kcore.spark.diverge_log_dirs(spark, *log_dirs, partitions=[TopicPartition("t", 99)])
    (tmp_path / "t-0").mkdir()
    with pytest.raises(Exception, match="t-0: no segment there"):
        kcore.spark.diverge_log_dirs(spark, tmp_path, tmp_path).collect()
