"""Kafka's files as DataFrames, on a real Spark: filters, columns, damaged files, paths, options."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import kcore
import kcore.spark
from cases import DATA
from kcore.errors import StorageError
from kcore.metadata.table.table_arrow import partitions_as_arrow
from kcore.spark.java import java_home
from kcore.spark.log_source import LogSource
from kcore.storage.tools.diverge_dirs import partitions_in
from kcore.storage.tools.dump import files_of
from kcore.storage.tools.record_rows import record_rows
from kcore.wire import record_arrow

BROKER = DATA / "samples/kraft43/broker2-a"
EPOCH_MS = 1_704_067_200_000  # 2024-01-01
METADATA = DATA / "samples/kraft43/controller-3003/__cluster_metadata-0"


@pytest.mark.long
def test_a_log_dir_is_a_row_a_record(spark: SparkSession) -> None:
    frame = spark.read.format("kcore.log").load(str(BROKER))
    files = [file for folder in partitions_in(BROKER).values() for file in files_of(folder)]
    assert frame.rdd.getNumPartitions() == len(files) > 1
    found = sorted(tuple(row) for row in frame.select("topic", "partition", "offset", "key", "value").collect())
    expected = []
    for (topic, partition), folder in partitions_in(BROKER).items():
        for file in files_of(folder):
            for record in kcore.wire.decode_records(file.read_bytes()):
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
    with pytest.raises(Exception, match="gone: no such file or folder"):
        spark.read.format("kcore.log").load(str(tmp_path / "gone")).collect()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """t-0 with two segments, t-1 with a flipped bit in the second of three batches."""
    for partition, base in ((0, 0), (0, 30), (1, 0)):
        folder = tmp_path / f"t-{partition}"
        folder.mkdir(exist_ok=True)
        batches = [encoded(base + 10 * number) for number in range(3)]
        if partition == 1:
            batches[1][-1] ^= 1
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
        (folder / f"{base:020}.index").touch()
    return tmp_path


def encoded(base: int) -> bytearray:
    """Ten records, a second apart from 2024-01-01 on."""
    numbers = range(base, base + 10)
    return bytearray(
        kcore.wire.encode_records([kcore.wire.Record(n, EPOCH_MS + 1000 * n, None, b"v%d" % n) for n in numbers])
    )


@pytest.mark.long
def test_a_flipped_bit_in_another_partition_fails_no_filtered_count(spark: SparkSession, logs: Path) -> None:
    def count(where: str) -> int:
        return int(spark.read.format("kcore.log").option("where", where).load(str(logs)).count())

    assert count("topic = 't' and partition = 0") == 60
    assert count("partition in (0, 7) and offset >= 25 and offset < 35") == 10
    with pytest.raises(Exception, match=r"t-1/0{20}\.log: .*CRC does not match.* \(at offset "):
        count("partition = 1")
    permissive = spark.read.format("kcore.log").option("mode", "permissive").load(str(logs))
    assert permissive.where("partition = 0").count() == 60


@pytest.mark.long
def test_files_that_where_excludes_are_no_tasks(spark: SparkSession, logs: Path) -> None:
    wanted = {"": 3, "partition = 0": 2, "partition = 0 and offset >= 30": 1, "topic like 't%' and offset < 30": 2}
    for where, tasks in wanted.items():
        frame = spark.read.format("kcore.log").option("where", where).load(str(logs))
        assert frame.rdd.getNumPartitions() == tasks, where
    assert spark.read.format("kcore.log").option("where", "topic = 'other'").load(str(logs)).count() == 0


@pytest.mark.long
def test_a_dataframe_can_be_asked_again(spark: SparkSession, logs: Path) -> None:
    """With Spark's own pushdown of filters the second and the third count would be 1."""
    frame = spark.read.format("kcore.log").load(str(logs / "t-0"))
    assert (frame.where("offset = 3").count(), frame.count()) == (1, 60)
    assert frame.where("offset = 3").union(frame).count() == 61


CONDITIONS = (
    *("offset = 12", "offset > 12", "offset >= 12", "offset < 12", "offset <= 12", "offset <> 12", "offset != 12"),
    *("offset in (3, 44)", "offset NOT IN (3, 44)", "key is null", "key IS NOT NULL", "value = X'7631'"),
    *("topic like 't%'", "topic like '%x'", "topic = 'it''s'", "partition not in (7)", "batchPosition > 0"),
    *("timestamp > '2024-01-01 00:00:57.5Z'", "timestamp = '2024-01-01T00:00:05Z'", "controlType in ('ABORT')"),
    *("timestamp <= '2024-01-01 00:00:02+00:00'", "offset > 9000000000000000000", "partitionLeaderEpoch = -1"),
)


def test_where_is_what_spark_filters(spark: SparkSession, logs: Path) -> None:
    """Spark says of each row and condition whether it holds, in one query."""
    frame = spark.read.format("kcore.log").load(str(logs / "t-0"))
    rows = frame.selectExpr("offset", *(f"({each}) as c{number}" for number, each in enumerate(CONDITIONS))).collect()
    assert len(rows) == 60
    for number, condition in enumerate(CONDITIONS):
        source = LogSource({"path": str(logs / "t-0"), "where": condition, "columns": "offset"})
        reader = source.reader(source.schema())
        batches = [batch for file in reader.partitions() for batch in reader.read(file)]
        found = [row for batch in batches for row in batch["offset"].to_pylist()]
        assert sorted(found) == sorted(row.offset for row in rows if row[f"c{number}"]), condition


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("ofset = 1", "there is no column 'ofset'"),
        ("offset = 'x'", "not of the form"),
        ("offset", "not of the form"),
        ("offset in (1", "not of the form"),
        ("offset = 1 or offset = 2", "joined by `and`"),
        ("offset % 2 = 0", "cannot parse '% 2 = 0'"),
        ("timestamp > 5", "not of the form"),
        ("offset = 99999999999999999999", "not of the form"),
        ("headers is null and", "not of the form"),
    ],
)
def test_a_where_that_cannot_be_read(where: str, said: str) -> None:
    with pytest.raises(StorageError, match=re.escape(said)):
        LogSource({"path": "x", "where": where})


@pytest.mark.long
def test_permissive_keeps_what_can_be_read_and_says_what_cannot(spark: SparkSession, logs: Path) -> None:
    (logs / "t-0" / f"{30:020}.log").write_bytes(bytes(encoded(30)) + b"torn" * 30)
    frame = spark.read.format("kcore.log").option("mode", "permissive").load(str(logs)).orderBy("partition", "offset")
    rows = frame.collect()
    good = [(row.partition, row.offset) for row in rows if row._corrupt is None]
    assert good == [*((0, n) for n in range(40)), *((1, n) for n in (*range(10), *range(20, 30)))]
    torn, flipped = sorted((row for row in rows if row._corrupt), key=lambda row: row.partition)
    assert (torn.partition, torn.offset, torn.batchPosition) == (0, None, len(encoded(30)))
    assert "at offset" in torn._corrupt
    assert (flipped.topic, flipped.partition, flipped.batchPosition) == ("t", 1, len(encoded(0)))
    assert "CRC does not match" in flipped._corrupt and flipped.file.endswith(f"t-1/{0:020}.log")
    assert frame.where("_corrupt is not null").count() == 2
    dropped = spark.read.format("kcore.log").option("mode", "DROPMALFORMED").load(str(logs))
    assert dropped.count() == len(good) and "_corrupt" not in dropped.columns


@pytest.mark.long
def test_only_the_columns_that_are_asked_for_are_made(spark: SparkSession, logs: Path) -> None:
    source = spark.read.format("kcore.log")
    assert source.option("columns", "offset, value").load(str(logs / "t-0")).orderBy("offset").first() == (0, b"v0")
    typed = spark.read.format("kcore.log").schema("value binary, offset bigint").load(str(logs / "t-0"))
    assert typed.orderBy("offset").first() == (b"v0", 0)
    for wrong, said in (
        ("offset string", "the column offset is bigint, not string"),
        ("offset bigint not null", "the column offset cannot be NOT NULL"),
        ("ofset int", "did you mean 'offs"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("kcore.log").schema(wrong).load(str(logs / "t-0")).collect()


def rows_read(path: Path, **options: str) -> int:
    """The rows that the reader gives to Spark, without a Spark."""
    source = LogSource({"path": str(path)} | options)
    reader = source.reader(source.schema())
    return sum(len(batch) for part in reader.partitions() for batch in reader.read(part))


def test_a_count_by_offsets_copies_no_value(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_read(logs / "t-0") == 60
    monkeypatch.delattr(record_arrow.kernel, "gather")
    assert rows_read(logs / "t-0", columns="offset") == 60
    assert rows_read(logs / "t-0", columns="offset, timestamp", where="offset >= 30") == 30
    with pytest.raises(AttributeError, match="gather"):
        rows_read(logs / "t-0", columns="value")


def test_timestamps_are_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    times = (EPOCH_MS, -1, 2**62, -(2**63))
    records = [kcore.wire.Record(n, each, None, b"") for n, each in enumerate(times)]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(kcore.wire.encode_records([each]) for each in records))
    frame = spark.read.format("kcore.log").option("columns", "timestamp").load(str(tmp_path))
    assert frame.dtypes == [("timestamp", "timestamp")]
    found = frame.toArrow()["timestamp"].to_pylist()
    assert [found[0].timestamp() * 1000, *found[1:]] == [EPOCH_MS, None, None, None]  # Kafka's -1 is none.


@pytest.mark.parametrize("paths", [["t-?/*.log"], ["t-*"], ["file://{}/t-0", "{}/t-1"], ["**/00*"], ["file:{}"]])
def test_globs_and_uris(spark: SparkSession, logs: Path, paths: list[str]) -> None:
    full = [path.format(logs) if "{" in path else str(logs / path) for path in paths]
    frame = spark.read.format("kcore.log").option("mode", "dropmalformed").option("columns", "offset").load(full)
    assert frame.count() == 80


@pytest.mark.long
def test_paths_that_cannot_be_read(spark: SparkSession, logs: Path) -> None:
    for path, said in (
        ("gopher://host/kafka", "gopher://host/kafka: Protocol not known"),
        (f"{logs}/x-*", "no file matches"),
        (f"{logs}/t-0/*.index", "neither a segment nor a folder of segments"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("kcore.log").load(path).collect()
    with pytest.raises(Exception, match="name a file or a folder"):
        spark.read.format("kcore.log").load().collect()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("bogus", "1", "there is no option 'bogus'; there are mode, columns, where"),
        ("modus", "x", "there is no option 'modus'; did you mean 'mode'?"),
        ("mode", "permisive", "there is no mode 'permisive'; did you mean 'permissive'?"),
        ("columns", "ofset", "there is no column 'ofset'; did you mean 'offset'?"),
    ],
)
def test_unknown_options_are_refused(option: str, value: str, said: str) -> None:
    with pytest.raises(StorageError, match=re.escape(f"kcore.log: {said}")):
        LogSource({"path": "x", option: value})


def test_spark_tells_of_an_unknown_option(spark: SparkSession, logs: Path) -> None:
    for name in ("kcore.log", "kcore.metadata"):
        with pytest.raises(Exception, match="there is no option 'bogus'"):
            spark.read.format(name).option("bogus", "1").load(str(logs)).collect()


@pytest.mark.long
def test_metadata_is_filtered_and_its_damage_reported(spark: SparkSession, tmp_path: Path) -> None:
    whole = spark.read.format("kcore.metadata").load(str(METADATA))
    topic = whole.first()["topic"]
    some = spark.read.format("kcore.metadata").option("where", f"topic = '{topic}'").option("columns", "partition")
    expected = sorted(row.partition for row in whole.collect() if row.topic == topic)
    assert sorted(row.partition for row in some.load(str(METADATA)).collect()) == expected
    cut = tmp_path / "__cluster_metadata-0"
    shutil.copytree(METADATA, cut)
    last = sorted(cut.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes() + b"torn" * 30)
    with pytest.raises(Exception, match=f"{last.name}: "):
        spark.read.format("kcore.metadata").load(str(cut)).collect()
    rows = spark.read.format("kcore.metadata").option("mode", "permissive").load(str(cut)).collect()
    assert [row._corrupt is None for row in rows].count(False) == 1 and len(rows) == whole.count() + 1
    assert any(row._corrupt and last.name in row._corrupt for row in rows)


@pytest.mark.long
def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    log, out, checkpoint = (tmp_path / name for name in ("logs/t-0", "out", "checkpoint"))
    log.mkdir(parents=True)
    segment = log / f"{0:020}.log"

    def offsets() -> list[int]:
        stream = spark.readStream.format("kcore.log").option("columns", "offset,value").load(str(log.parent))
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(str(out))
        assert query.awaitTermination(600) and query.exception() is None
        return sorted(row.offset for row in spark.read.parquet(str(out)).collect())

    segment.write_bytes(bytes(encoded(0)))
    assert offsets() == list(range(10))
    segment.write_bytes(bytes(encoded(0) + encoded(10)))
    assert offsets() == list(range(20))  # The checkpoint has offset 10: no record comes twice.
    refused = spark.readStream.format("kcore.metadata").load(str(log)).writeStream.format("memory").queryName("m")
    with pytest.raises(Exception, match=r"kcore\.metadata is not a stream: use spark\.read"):
        refused.trigger(availableNow=True).start().awaitTermination(600)


@pytest.mark.long
def test_a_stream_with_a_limit_reads_in_several_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(bytes(encoded(0) + encoded(10) + encoded(20)))
    stream = spark.readStream.format("kcore.log").option("columns", "offset").option("maxBytesPerTrigger", 1)
    writer = stream.load(str(log)).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    query.processAllAvailable()
    counts = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    query.stop()
    assert counts == [10, 10, 10]


SNIPPET = """
from pyspark.sql import SparkSession
import kcore.spark, sys
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
kcore.spark.register(spark)
print(spark.read.format("kcore.log").load(sys.argv[1]).count())
spark.stop()
"""


@pytest.mark.long
def test_a_program_of_a_user_needs_no_pyspark_python(logs: Path) -> None:
    """The first python3 on PATH has none of this environment's packages."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment |= {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", SNIPPET, str(logs / "t-0")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "60\n", done.stderr


def test_rows_of_every_codec_are_the_records(tmp_path: Path) -> None:
    """Arrow's rows against the records themselves: headers, nulls and compressed batches."""
    records = [
        kcore.wire.Record(0, 5, b"k", b"v" * 100, (("h", b"1"), ("n", None))),
        kcore.wire.Record(1, 6, None, b"", ()),
        kcore.wire.Record(2, 7, b"", None, (("é", b""),)),
    ]
    folder = tmp_path / "a-topic-3"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    parts = [
        kcore.wire.encode_records([replace(each, offset=3 * k + each.offset) for each in records], codec=codec)
        for k, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
    ]
    path.write_bytes(b"".join(parts))
    rows = [row for batch in record_rows(path) for row in batch.to_pylist()]
    decoded = list(kcore.wire.decode_records(path.read_bytes()))
    assert len(rows) == len(decoded) == 15
    for row, record in zip(rows, decoded, strict=True):
        assert (row["topic"], row["partition"], row["file"]) == ("a-topic", 3, str(path))
        assert (row["offset"], row["timestamp"], row["sequence"]) == (record.offset, record.timestamp, record.sequence)
        assert (row["key"], row["value"], row["controlType"]) == (record.key, record.value, None)
        assert [(header["key"], header["value"]) for header in row["headers"]] == list(record.headers)


def test_spark_reads_the_log_as_events(spark: SparkSession) -> None:
    frame = spark.read.format("kcore.metadata").option("table", "log").load(str(METADATA))
    expected = pa.table(kcore.load_metadata(METADATA).tables()["log"])
    found = frame.toArrow()
    assert found.cast(expected.schema).to_pylist() == expected.to_pylist()
    assert frame.where("PartitionChangeRecord.leader >= 0").count() > 0
