"""Runs the calibration cell on every executor of a Spark session."""

import socket
from typing import Any

from kcore.extras import needs
from kcore.measure.report.host_speeds import calibration_ns

with needs("spark"):
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from kcore.spark.pieces import executors


def calibrated(spark: SparkSession) -> list[tuple[str, list[int]]]:
    """The host and the times (ns) of the calibration cell in a task for each core of the cluster.

    Spark gives each idle executor a task before any gets a second one. Empty if the job fails: a run goes on without.
    """
    context = spark.sparkContext
    try:
        tasks = max(context.defaultParallelism, executors(context))
        found: list[Any] = context.parallelize(range(tasks), tasks).map(_on_this_host).collect()
    except (PySparkException, Py4JError, OSError):  # OSError: the driver's Java process has ended.
        return []
    return found


def _on_this_host(_: int) -> tuple[str, list[int]]:
    return socket.gethostname(), calibration_ns()
