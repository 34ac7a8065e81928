"""Executors as processes: executors without kcore, and lost executors (local-cluster, on this machine)."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kcore.measure.bench import bench_results as results
from kcore.measure.report.exits import Exit
from kcore.measure.workloads.cell import Cell
from kcore.spark.failures import LOST
from kcore.spark.pieces import executors, outcomes
from kcore.spark.progress import Progress
from kcore.spark.session import start
from kcore.spark.spark_runner import SparkRunner

pytestmark = pytest.mark.long  # Each starts a Spark whose executors are processes.

CLUSTER = "local-cluster[1,1,1024]"


def test_executors_whose_python_has_no_kcore_are_told_in_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    command = ["-m", "kcore", "sim", "raft", "--seeds", "2", "--master", CLUSTER]
    python = f"spark.pyspark.python={bare / 'bin' / 'python'}"
    done = subprocess.run(
        [sys.executable, *command, "--conf", python], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    [said] = [line for line in done.stderr.splitlines() if line.startswith("kcore: ")]
    assert "executors without kcore: " in said and "No module named 'kcore'" in said and "kcore spark archive" in said
    assert "Traceback" not in done.stderr and not list(tmp_path.glob("out/*"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkSession]:
    session = start(CLUSTER)
    yield session
    session.stop()


END_EXECUTOR = """
import os, signal, time
executor = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]  # The parent of the daemon.
os.kill(int(executor), signal.SIGKILL)
time.sleep(60)
"""


class EndsItsExecutor(Cell):
    """A cell that ends the Java of the executor that it comes to."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (END_EXECUTOR,)


def test_a_lost_executor_costs_no_other_cell_its_row(cluster: SparkSession) -> None:
    cells = [Cell("election", 500, 7, 1, 0), EndsItsExecutor("election", 500, 7, 1, 1), Cell("election", 500, 7, 1, 2)]
    assert [each.result for each in outcomes(cluster, abs, [-5])] == [5] and executors(cluster.sparkContext) == 1
    seen: list[Progress] = []
    rows = SparkRunner(cluster).run(cells, None, seen.append).to_pylist()
    [failed] = results.failures(rows)
    assert failed["repetition"] == 1 and failed["error"].startswith(f"{LOST}: ")
    assert {row["repetition"] for row in rows if row["error"] is None} == {0, 2}
    assert any(each.trouble.startswith(LOST) for each in seen)
    assert results.verdict(rows, [Cell("election", 500, 7, 1, nth) for nth in range(3)]) is Exit.INVALID
    assert "\n" not in failed["error"]


def test_without_any_executor_the_other_cells_are_given_up(
    cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcore.spark.pieces.executors", lambda context: 0)
    found = list(outcomes(cluster, time.sleep, [600, 600], no_executor_s=0.5))
    assert [each.number for each in found] == [0, 1]
    assert all(each.error == f"{LOST}: there has been no executor for 0.5 s" for each in found)
