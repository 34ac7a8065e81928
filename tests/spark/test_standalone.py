"""A real standalone Spark from pip's PySpark: a master and two workers on loopback."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from kcore.measure import bench
from kcore.measure.bench import Plan
from kcore.measure.bench import bench_results as results
from kcore.measure.report.exits import Exit
from kcore.spark import session
from kcore.spark.java import java_home

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
LOOPBACK = "127.0.0.1"
PATIENCE_S = 120.0


def wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> re.Match[str]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if match := re.search(pattern, log.read_text()):
            return match
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} in:\n{log.read_text()}")


@contextmanager
def daemon(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of `spark-class` with its output in `log`, gone at the end with all that it started."""
    environment = os.environ | {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": LOOPBACK}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SPARK_CLASS, *arguments], stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()  # A worker stops its executors before it goes.
        process.wait(PATIENCE_S)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    with ExitStack() as stack:
        log = tmp_path / "master.log"
        name = "org.apache.spark.deploy.master.Master"
        process = stack.enter_context(daemon(log, name, "--host", LOOPBACK, "--port", "0", "--webui-port", "0"))
        url = wait_for(log, r"Starting Spark master at (spark://\S+)", process)[1]
        workers = [tmp_path / f"worker-{nth}.log" for nth in (1, 2)]
        options = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        started = [
            stack.enter_context(
                daemon(
                    log, "org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(log.with_suffix("")), url
                )
            )
            for log in workers
        ]
        for log, process in zip(workers, started, strict=True):
            wait_for(log, "Successfully registered with master", process)
        yield url


@pytest.mark.long
def test_a_plan_runs_on_both_workers_of_a_standalone_cluster(master: str):
    # As many cores as the workers have: the first cell waits until both have registered.
    both = {"spark.cores.max": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    spark = session.start(master, **both)
    try:
        rows = bench.run("smoke", spark).to_pylist()
    finally:
        spark.stop()
    assert results.verdict(rows, Plan.of("smoke").cells()) is Exit.GOOD
    assert len({row["worker"] for row in rows}) == 2
