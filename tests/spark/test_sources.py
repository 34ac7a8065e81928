"""Kafka's files as DataFrames, on a real Spark."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kcore
import kcore.spark
from cases import DATA
from kcore.metadata.arrow import partitions_as_arrow
from kcore.spark.session import start
from kcore.storage.diverge_dirs import partitions_in
from kcore.storage.dump import files_of
from kcore.storage.record_rows import record_rows

BROKER = DATA / "samples/kraft43/broker2-a"
METADATA = DATA / "samples/kraft43/controller-3003/__cluster_metadata-0"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start("local[2]")
    kcore.spark.register(session)
    yield session
    session.stop()


def test_a_log_dir_is_a_row_a_record(spark: SparkSession) -> None:
    frame = spark.read.format("kcore.log").load(str(BROKER))
    files = [file for folder in partitions_in(BROKER).values() for file in files_of(folder)]
    assert frame.rdd.getNumPartitions() == len(files) > 1
    found = sorted(tuple(row) for row in frame.select("topic", "partition", "offset", "key", "value").collect())
    expected = []
    for (topic, partition), folder in partitions_in(BROKER).items():
        for file in files_of(folder):
            for record in kcore.decode_records(file.read_bytes()):
                expected.append((topic, partition, record.offset, record.key, record.value))
    assert found == sorted(expected) and found
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert sum(counts.values()) == len(expected)


def test_control_records_have_their_types(spark: SparkSession) -> None:
    frame = spark.read.format("kcore.log").load(str(METADATA))
    kinds = {row["controlType"] for row in frame.select("controlType").distinct().collect()}
    assert {None, "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"} <= kinds


def test_metadata_is_a_row_a_partition(spark: SparkSession) -> None:
    frame = spark.read.format("kcore.metadata").load(str(METADATA))
    expected = partitions_as_arrow(kcore.load_metadata(METADATA).table).to_pylist()
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: (row["topic"], row["partition"]))
    assert rows == sorted(expected, key=lambda row: (row["topic"], row["partition"])) and rows


def test_a_path_that_holds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="neither a segment nor a folder"):
        spark.read.format("kcore.log").load(str(tmp_path)).collect()


def test_rows_of_every_codec_are_the_records(tmp_path: Path) -> None:
    """Arrow's rows against the records themselves: headers, nulls and compressed batches."""
    records = [
        kcore.Record(0, 5, b"k", b"v" * 100, (("h", b"1"), ("n", None))),
        kcore.Record(1, 6, None, b"", ()),
        kcore.Record(2, 7, b"", None, (("é", b""),)),
    ]
    folder = tmp_path / "a-topic-3"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    parts = [
        kcore.encode_records([replace(each, offset=3 * k + each.offset) for each in records], codec=codec)
        for k, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
    ]
    path.write_bytes(b"".join(parts))
    rows = [row for batch in record_rows(path) for row in batch.to_pylist()]
    decoded = list(kcore.decode_records(path.read_bytes()))
    assert len(rows) == len(decoded) == 15
    for row, record in zip(rows, decoded, strict=True):
        assert (row["topic"], row["partition"], row["file"]) == ("a-topic", 3, str(path))
        assert (row["offset"], row["timestamp"], row["sequence"]) == (record.offset, record.timestamp, record.sequence)
        assert (row["key"], row["value"], row["controlType"]) == (record.key, record.value, None)
        assert [(header["key"], header["value"]) for header in row["headers"]] == list(record.headers)
