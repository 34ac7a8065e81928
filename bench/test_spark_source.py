"""Records through Spark: the format kcore.log beside Spark's own binaryFile, in one task, so on one core.

The steps of a task follow: each does all that the steps before it do, so the differences show where the time goes. The
bounds are memcpy of the file, and a plain Python loop over the records.

    .venv/bin/python -m pytest bench/test_spark_source.py --benchmark-enable --benchmark-group-by=func
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import kcore.spark
from kcore.spark.log_source import LogSource
from kcore.spark.session import start
from kcore.storage.log.segment import map_file
from kcore.storage.tools.record_rows import BYTES_AT_ONCE, record_rows
from kcore.wire.log_formats import decode_run, runs_of, scan_log
from kcore.wire.record_batch import RecordBatches
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


STEPS: dict[str, Callable[[Path], object]] = {
    "memcpy": lambda path: bytearray(map_file(path)),
    "scan": lambda path: scan_log(map_file(path)),
    "scan and decode": lambda path: [decode_run(map_file(path), run) for run in runs(path)],
    "scan, decode and Arrow": lambda path: [each.num_rows for each in record_rows(path)],
    "a task without Spark": lambda path: [each.num_rows for part in task(path) for each in part],
    "a plain Python loop": lambda path: sum(
        len(record.value or b"") for run in runs(path) for record in decode_run(map_file(path), run)
    ),
}


def runs(path: Path) -> Iterator[RecordBatches]:
    return runs_of(scan_log(map_file(path)), BYTES_AT_ONCE)


def task(path: Path) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows of each part of the file, as a task of kcore.log makes them."""
    source = LogSource({"path": str(path)})
    reader = source.reader(source.schema())
    return (reader.read(part) for part in reader.partitions())


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_steps(benchmark: BenchmarkFixture, segment: Path, step: Callable[[Path], object]) -> None:
    assert benchmark.pedantic(step, args=(segment,), rounds=3, warmup_rounds=1)
