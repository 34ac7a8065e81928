"""Records through Spark: the format kcore.log beside Spark's own binaryFile, in one task, so on one core."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import kcore.spark
from kcore.spark.session import start
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

SEGMENT_BYTES = 128 * 2**20
CASES = {
    "offset and timestamp": "offset,timestamp",
    "key and value": "offset,timestamp,key,value",
    "all columns": "",
}


@pytest.fixture(scope="module")
def segment() -> Iterator[Path]:
    """Records with keys of 8 bytes and values of 100, in batches of 16 KiB; in memory where the system allows it."""
    dice = random.Random(1)
    batch = encode_records([Record(row, row, dice.randbytes(8), dice.randbytes(100)) for row in range(136)])
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    path = folder / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(batch * (SEGMENT_BYTES // len(batch)))
    yield path
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start("local[1]")
    kcore.spark.register(session)
    yield session
    session.stop()


def consume(frame: DataFrame) -> None:
    """Computes all columns of all rows, and drops them."""
    frame.write.format("noop").mode("overwrite").save()


def read(spark: SparkSession, path: Path, columns: str) -> DataFrame:
    return spark.read.format("kcore.log").option("columns", columns).load(str(path))


@pytest.mark.parametrize("columns", CASES.values(), ids=CASES)
def test_rows(benchmark: BenchmarkFixture, spark: SparkSession, segment: Path, columns: str) -> None:
    consume(read(spark, segment, columns))
    benchmark.pedantic(consume, args=(read(spark, segment, columns),), rounds=3)


def test_count(benchmark: BenchmarkFixture, spark: SparkSession, segment: Path) -> None:
    assert benchmark.pedantic(lambda: read(spark, segment, "offset").count(), rounds=3, warmup_rounds=1) > 0


def test_binary_file(benchmark: BenchmarkFixture, spark: SparkSession, segment: Path) -> None:
    """Reads the file as one value and decodes nothing: the bound of a source that Spark brings."""
    frame = spark.read.format("binaryFile").load(str(segment))
    benchmark.pedantic(consume, args=(frame,), rounds=3, warmup_rounds=1)
