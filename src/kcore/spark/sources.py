"""Kafka's files as Spark DataFrames, by PySpark's Python DataSource API; rows are passed as Arrow batches.

kcore.spark.register(spark)
spark.read.format("kcore.log").load("/var/kafka")           # a segment, a partition's folder, or a log.dirs
spark.readStream.format("kcore.log").load("/var/kafka")     # the same records, then those that are appended
spark.read.format("kcore.metadata").load("__cluster_metadata-0")
"""

from kcore.extras import needs
from kcore.spark.log_stream import StreamedLogSource
from kcore.spark.metadata_source import MetadataSource
from kcore.spark.session import use_this_python

with needs("spark"):
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Registers the formats "kcore.log" and "kcore.metadata" in the session.

    Afterwards, executors on this machine run this process's Python, unless PYSPARK_PYTHON names another one.
    """
    use_this_python(spark)
    for source in (StreamedLogSource, MetadataSource):
        spark.dataSource.register(source)
