"""Starts Spark with little output, and for a local master with sockets on loopback only."""

import os
import re
import sys
from pathlib import Path

from kcore.errors import SparkError
from kcore.extras import needs
from kcore.spark.failures import sentence
from kcore.spark.java import cache_directory, java_home

with needs("spark"):
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession


LOOPBACK = "127.0.0.1"
PYTHON = "spark.pyspark.python"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
PACKAGES = ("spark.executorEnv.PYTHONPATH", "spark.archives", "spark.submit.pyFiles")  # They may bring another kcore.
IS_LOCAL = re.compile(r"local\b")  # local[N], local-cluster[...]: the executors are processes on this machine.
ON_THIS_MACHINE = re.compile(r"local\b|spark://(127\.|localhost)")
# Spark changes the log level and prints a greeting unless the root logger's level is warn: the appender filters
# instead. Spark's network prints a stack for each message to an executor that is gone; kcore has a sentence for that.
QUIET_LOGS = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
logger.network.name = org.apache.spark.network
logger.network.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.filter.threshold.type = ThresholdFilter
appender.stderr.filter.threshold.level = error
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
# Spark only schedules tasks and passes Arrow data on: with less JIT compilation it starts in half the time.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def start(master: str = "local[*]", **settings: str) -> SparkSession:
    """Starts a Spark session on `master`; `settings` are Spark's own keys and override kcore's.

    The executors' Python is `spark.pyspark.python`, $PYSPARK_PYTHON or this process's, in this order. Raises
    NoJavaError without a Java; SparkError if Spark does not start.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    if python := settings.get(PYTHON):
        os.environ["PYSPARK_PYTHON"] = python  # Without spark-submit, PySpark reads only this variable.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not os.environ["PYSPARK_PYTHON"].startswith("/"):
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("kcore bench")
    ours = _settings(master)
    if JAVA_OPTIONS in settings:
        settings[JAVA_OPTIONS] = f"{ours[JAVA_OPTIONS]} {settings[JAVA_OPTIONS]}"
    for key, value in (ours | settings).items():
        builder = builder.config(key, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise SparkError(f"{master}: {sentence(error)}") from error
    return session


def runs_this_kcore(spark: SparkSession) -> bool:
    """True if the executors are on this machine, run the driver's own Python, and are given no other packages."""
    context = spark.sparkContext
    is_own_python = bool(IS_LOCAL.match(str(context.master))) and os.environ["PYSPARK_PYTHON"] == sys.executable
    return is_own_python and not any(context.getConf().contains(key) for key in PACKAGES)


def use_this_python(spark: SparkSession) -> None:
    """Makes executors on this machine run this process's Python, unless the user has named another one.

    By default Spark runs the first python3 on PATH, which lacks the packages of a virtual environment.
    """
    context = spark.sparkContext
    named = os.environ.get("PYSPARK_PYTHON") or context.getConf().get(PYTHON)
    if named or IS_LOCAL.match(str(context.master)):
        context.pythonExec = named or sys.executable


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",  # A worker keeps its compiled kernels for the next cell.
        "spark.python.authenticate.socketTimeout": "120s",  # A Python starts slowly on a busy machine; default 15 s.
        "spark.task.cpus": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.task.maxFailures": "1",  # A retry of a cell that killed its worker would fail again.
        JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_quiet_logs().as_uri()} {QUICK_JVM}",
    }
    if ON_THIS_MACHINE.match(master):
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    # Each cell has one core. Local executors inherit the environment; others get it by spark.executorEnv.
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
        settings[f"spark.executorEnv.{name}"] = "1"
    return settings


def _quiet_logs() -> Path:
    """Writes a log4j file that silences Spark's greeting on stderr: Spark's own log level acts only after the
    greeting."""
    path = cache_directory() / "log4j2.properties"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(QUIET_LOGS)
    return path
