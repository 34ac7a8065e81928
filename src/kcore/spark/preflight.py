"""Checks a Spark cluster before a measurement: its master must answer, and its executors must have this kcore.

Versions alone do not show edited code: the check also compares the hash of kcore's modules and kernels.
"""

import os
import re
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, NamedTuple
from uuid import uuid4

from kcore.errors import SparkError
from kcore.extras import needs
from kcore.measure.report.own_code import DIGITS, own_sha256
from kcore.spark.failures import INSTALL, sentence
from kcore.version import __version__

with needs("spark"):
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from kcore.spark.pieces import executors

ANSWER_S: Final = 5.0  # Limit of a TCP connection to the master.
EXECUTORS_S: Final = 120.0  # Limit until the first executor runs a task; a busy cluster grants none immediately.
_MASTER: Final = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn"
    r"|spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*|k8s://\S+"
)
_STANDALONE: Final = "spark://"
_ROUNDS: Final = 3


class Place(NamedTuple):
    """A process of an executor, or the driver, and its kcore."""

    host: str
    worker: int  # The process id of the executor's Python daemon.
    version: str  # Empty if kcore or PyArrow is missing.
    sha256: str  # own_code.py; empty if this kcore has no such module.
    problem: str = ""

    @property
    def kcore(self) -> str:
        """Version and code in words."""
        return f"{self.version} (code {self.sha256[:DIGITS] or 'unknown'})"


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
    """Compares the kcore of each registered executor with the driver's, by small jobs.

    Raises SparkError if no executor runs a job, or if an executor lacks kcore or has other code. An executor that
    registers later is not seen here: its cells fail.
    """
    found: set[Place] = set()
    for _ in range(_ROUNDS):
        found |= _ask(spark, timeout_s)
        if len({(each.host, each.worker) for each in found}) >= executors(spark.sparkContext):
            break  # Otherwise an executor registered after the job began.
    judge(found, Place(socket.gethostname(), os.getpid(), __version__, own_sha256()))


def _ask(spark: SparkSession, timeout_s: float) -> set[Place]:
    """Runs one job with a task for each core. Spark gives each idle executor a task before any gets a second one."""
    context = spark.sparkContext
    group, master = f"kcore-preflight-{uuid4()}", context.master

    def job() -> list[Any]:
        context.setJobGroup(group, "kcore preflight", interruptOnCancel=True)
        tasks = max(2, context.defaultParallelism, executors(context))
        return context.parallelize(range(tasks), tasks).map(_probe()).collect()

    pool = ThreadPoolExecutor(1)
    running = pool.submit(job)
    try:
        return {Place(*found) for found in running.result(timeout_s)}
    except FutureTimeoutError:
        context.cancelJobGroup(group)
        raise SparkError(
            f"{master} gives no executor within {timeout_s:g} s: it needs a worker with a free core and free memory"
        ) from None
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"{master}: {sentence(error)}") from error
    finally:
        pool.shutdown(wait=False)


def judge(places: Iterable[Place], driver: Place) -> None:
    """Raises SparkError, one sentence with all wrong hosts, unless every place has the driver's version and code."""
    found = sorted(places)
    if lacking := dict.fromkeys(f"{each.host} ({each.problem})" for each in found if not each.version):
        raise SparkError(f"executors without kcore: {', '.join(lacking)}: {INSTALL}")
    if other := dict.fromkeys(f"{each.host} has {each.kcore}" for each in found if each.kcore != driver.kcore):
        raise SparkError(
            f"the executors' kcore differs from the driver's {driver.kcore}: {', '.join(other)}: {INSTALL}"
        )


def _probe() -> Any:
    """The function that a task runs. Spark pickles a nested function by value, so executors need no kcore to load
    it."""

    def probe(_: int) -> tuple[str, int, str, str, str]:
        import os
        import socket

        place = socket.gethostname(), os.getppid()
        try:
            import kcore.version

            __import__("pyarrow")
        except ImportError as error:
            return *place, "", "", str(error)
        try:
            from kcore.measure.report.own_code import own_sha256
        except ImportError:
            return *place, kcore.version.__version__, "", ""  # A kcore that is too old to hash itself.
        return *place, kcore.version.__version__, own_sha256(), ""

    return probe
