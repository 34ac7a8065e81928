import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcore.measure import bench
from kcore.measure.bench import Plan
from kcore.measure.bench import bench_results as results
from kcore.measure.report.exits import Exit
from kcore.measure.report.own_code import own_sha256
from kcore.measure.report.result_files import facts_of
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.spark.calibration import calibrated
from kcore.spark.progress import Progress
from kcore.spark.spark_runner import SparkRunner, run_task


class Deadly(Cell):
    """A cell that ends the Python worker that it comes to."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


PLAN = {"workload": [{"name": "election", "partitions": [500, 900], "brokers": [7], "repeat": 2}]}


def digests(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    names = ("workload", "operation", "partitions", "brokers", "seed", "repetition")
    return {tuple(row[name] for name in names): row["digest"] for row in rows}


def test_spark_and_this_process_compute_the_same(spark: SparkSession):
    table = bench.run(PLAN, spark)
    here, there = bench.run(PLAN).to_pylist(), table.to_pylist()
    assert digests(there) == digests(here)
    assert results.verdict(there, Plan.of(PLAN).cells()) is Exit.GOOD
    assert {row["task"] for row in there} == {0, 1, 2, 3}  # One cell a task.
    [host] = facts_of(table)["hosts"]
    assert host["host"] == socket.gethostname() and len(host["calibration_ns"]) == 2 * 2 * 11  # Before, and after.


def test_a_cluster_whose_java_is_gone_is_not_timed() -> None:
    class Gone:
        @property
        def defaultParallelism(self) -> int:
            raise ConnectionRefusedError("the driver's Java process has ended")

    spark: Any = SimpleNamespace(sparkContext=Gone())
    assert calibrated(spark) == []


def test_a_worker_with_other_code_than_the_driver_measures_nothing():
    cell = Cell("election", 500, 7, 1, 0)
    [row] = run_task(SimpleNamespace(value=None), "0" * 64, cell).to_pylist()
    assert row["error"].startswith(f"{socket.gethostname()} has other code of kcore than the driver: ")
    assert (row["samples_ns"], row["kcore_sha256"]) == (None, own_sha256())


@pytest.mark.long
def test_progress_ends_with_all_cells_done(spark: SparkSession):
    seen: list[Progress] = []
    cells = Plan.of(PLAN).cells()
    table = SparkRunner(spark).run(cells, None, seen.append)
    assert table.schema.equals(ROW_SCHEMA)
    assert seen[-1] == Progress(4, 0, 4)
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert all(0 <= progress.running <= 4 - progress.done for progress in seen)  # None, if they are done too soon.


@pytest.mark.long
def test_a_cell_that_fails_or_kills_its_worker_costs_no_other_cell_its_row(spark: SparkSession):
    good = [Cell("election", 500, 7, 1, nth) for nth in range(3)]
    unknown = Cell("no such workload", 500, 7, 1, 0)
    rows = SparkRunner(spark).run([*good, unknown]).to_pylist()
    [failed] = results.failures(rows)
    assert "KeyError" in failed["error"] and failed["workload"] == "no such workload"
    assert {row["repetition"] for row in rows if row["error"] is None} == {0, 1, 2}

    deadly = Deadly("election", 500, 7, 1, 3)
    rows = SparkRunner(spark).run([*good, deadly]).to_pylist()
    [failed] = results.failures(rows)
    assert failed["repetition"] == 3 and failed["error"].startswith("the worker died: ")
    assert {row["repetition"] for row in rows if row["error"] is None} == {0, 1, 2}
