"""Checks a Spark cluster before a measurement: its master must answer, and its executors must have this kcore."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, NamedTuple
from uuid import uuid4

from kcore.errors import SparkError
from kcore.extras import needs
from kcore.spark.failures import INSTALL, sentence
from kcore.version import __version__

with needs("spark"):
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

ANSWER_S: Final = 5.0  # Limit of a TCP connection to the master.
EXECUTORS_S: Final = 120.0  # Limit until the first executor runs a task; a busy cluster grants none immediately.
_MASTER: Final = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn"
    r"|spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*|k8s://\S+"
)
_STANDALONE: Final = "spark://"
_TASKS: Final = 8


class _Place(NamedTuple):
    """The host and the kcore version that a task of the check found."""

    host: str
    version: str  # Empty if kcore or PyArrow is missing.
    problem: str


def check_master(master: str, timeout_s: float = ANSWER_S) -> None:
    """Raises SparkError if `master` is not a master's URL, or if no standalone master accepts a connection there."""
    if not _MASTER.fullmatch(master):
        raise SparkError(f"--master {master}: give local[N], local[*], spark://HOST:PORT, yarn or k8s://...")
    if not master.startswith(_STANDALONE):
        return
    reasons = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout_s):
                return
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or f"no answer within {timeout_s:g} s"
            reasons.append(f"{address}: {reason if not isinstance(error, OverflowError) else 'no such port'}")
    raise SparkError(f"--master {master}: no Spark master there ({'; '.join(reasons)}); or use --master 'local[*]'")


def check_executors(spark: SparkSession, timeout_s: float = EXECUTORS_S) -> None:
    """Runs one small job. Raises SparkError if no executor runs it, or if an executor lacks this version of kcore."""
    context = spark.sparkContext
    group, master = f"kcore-preflight-{uuid4()}", context.master

    def job() -> list[Any]:
        context.setJobGroup(group, "kcore preflight", interruptOnCancel=True)
        tasks = min(_TASKS, max(2, context.defaultParallelism))
        return context.parallelize(range(tasks), tasks).map(_probe()).collect()

    pool = ThreadPoolExecutor(1)
    running = pool.submit(job)
    try:
        places = {_Place(*found) for found in running.result(timeout_s)}
    except FutureTimeoutError:
        context.cancelJobGroup(group)
        raise SparkError(
            f"{master} gives no executor within {timeout_s:g} s: it needs a worker with a free core and free memory"
        ) from None
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"{master}: {sentence(error)}") from error
    finally:
        pool.shutdown(wait=False)
    judge(places, __version__)


def judge(places: set[Any], wanted: str) -> None:
    """Raises SparkError, one sentence with all wrong hosts, unless every place has the version `wanted` of kcore."""
    lacking = sorted({f"{host} ({problem})" for host, version, problem in places if not version})
    if lacking:
        raise SparkError(f"executors without kcore: {', '.join(lacking)}: {INSTALL}")
    other = sorted({f"{host} has {version}" for host, version, _ in places if version != wanted})
    if other:
        raise SparkError(f"the executors' kcore differs from the driver's {wanted}: {', '.join(other)}: {INSTALL}")


def _probe() -> Any:
    """The function that a task runs. Spark pickles a nested function by value, so executors need no kcore to load
    it."""

    def probe(_: int) -> tuple[str, str, str]:
        import socket

        try:
            import kcore.version

            __import__("pyarrow")
        except ImportError as error:
            return socket.gethostname(), "", str(error)
        return socket.gethostname(), str(kcore.version.__version__), ""

    return probe
