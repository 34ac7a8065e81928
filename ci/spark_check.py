"""For ci/spark: uses each part of kcore that needs Spark once, in an environment that users could have.

`python spark_check.py PYSPARK-VERSION METADATA-LOG`, in an empty folder or one with other names.
"""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

import kcore
import kcore.spark
from kcore.spark import preflight, session

MASTER = "local[2]"
COUNT = 1_000  # Records of the segment.


def read_log(spark: SparkSession, folder: Path) -> None:
    """Reads a segment that kcore has written, whole and with a condition."""
    records = [kcore.wire.Record(offset, 1_000 + offset, b"key", b"value") for offset in range(COUNT)]
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(kcore.wire.encode_records(records))
    read = spark.read.format("kcore.log")
    rows = read.load(str(folder)).orderBy("offset").collect()
    assert [row["offset"] for row in rows] == [*range(COUNT)]
    assert {(bytes(row["key"]), bytes(row["value"])) for row in rows} == {(b"key", b"value")}
    assert read.option("where", f"offset >= {COUNT - 10}").load(str(folder)).count() == 10


def read_metadata(spark: SparkSession, folder: Path) -> None:
    """Reads the partitions and the records of a metadata log of Kafka's."""
    read = spark.read.format("kcore.metadata")
    partitions = pa.table(kcore.load_metadata(folder).tables()["partitions"])
    assert read.load(str(folder)).count() == partitions.num_rows > 0
    log = read.option("table", "log").load(str(folder))
    assert log.where("PartitionChangeRecord.leader >= 0").count() > 0


def bench(out: Path) -> None:
    """Runs the smallest built-in plan by the command, which must exit with 0."""
    command = ["kcore", "bench", "smoke", "--master", MASTER, "--no-storm", "--out", str(out)]
    done = subprocess.run([sys.executable, "-m", *command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nexit code {done.returncode}"


def main(version: str, metadata: str) -> None:
    assert pyspark.__version__ == version, pyspark.__version__
    place = Path(kcore.__file__)
    assert Path(sys.prefix) in place.parents, f"another kcore was imported: {place}"
    preflight.check_master(MASTER)
    spark = session.start(MASTER)
    try:
        preflight.check_executors(spark)
        kcore.spark.register(spark)
        read_log(spark, Path("orders-0").absolute())
        read_metadata(spark, Path(metadata))
    finally:
        spark.stop()
    bench(Path("out"))
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"ci/spark: PySpark {version} with Python {python}: both formats, the check of executors and bench work")


if __name__ == "__main__":
    main(*sys.argv[1:])
