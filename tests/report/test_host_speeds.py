"""Slow and noisy hosts, by the times of one cell on each."""

from typing import Any

import pyarrow as pa
import pytest

from kcore.measure.bench import job
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.bench.compare import remarks_on
from kcore.measure.report.host_speeds import about_the_hosts, as_fact, calibration_ns
from kcore.measure.report.result_files import facts_of
from kcore.measure.workloads.run_cell import failed_row
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.spark.failures import LOST
from kcore.spark.place import batch_of

EVEN = [10_000_000] * 11


def facts(**times_ns: list[int]) -> dict[str, Any]:
    return {"hosts": as_fact(times_ns.items())}


def test_a_host_that_is_slower_than_the_others_is_named() -> None:
    found = facts(a=EVEN, b=EVEN, c=[15_000_000] * 11)
    [line] = about_the_hosts(found)
    assert line == "Host c is slow: the calibration cell takes 15.0 ms there, 1.50 times the median of 3 hosts."
    assert f"The old run: host{line[4:]}" in remarks_on(found, {})


@pytest.mark.parametrize(("slow_ns", "count"), [(11_900_000, 0), (12_100_000, 1)])
def test_the_limit_of_slow_hosts(slow_ns: int, count: int) -> None:
    assert len(about_the_hosts(facts(a=EVEN, b=EVEN, c=[slow_ns] * 11))) == count


def test_a_host_whose_own_times_differ_is_noisy() -> None:
    [line] = about_the_hosts(facts(a=EVEN, b=[10_000_000] * 8 + [20_000_000] * 3))
    assert line.startswith("Host b is noisy: a tenth of the calibration cell's runs take 2.00 times their median")
    assert about_the_hosts(facts(a=EVEN, b=[10_000_000] * 10 + [20_000_000])) == []  # One time of eleven.


def test_the_times_of_a_host_s_processes_are_one_fact() -> None:
    assert as_fact([("b", [1]), ("a", [2]), ("b", [3])]) == [
        {"host": "a", "calibration_ns": [2]},
        {"host": "b", "calibration_ns": [1, 3]},
    ]
    assert about_the_hosts({}) == about_the_hosts({"hosts": []}) == []


def test_the_cell_is_timed_several_times() -> None:
    times_ns = calibration_ns()
    assert len(times_ns) == 11 and min(times_ns) > 0


PLAN = {"workload": [{"name": "election", "partitions": [500, 900], "brokers": [7], "repeat": 1}]}


@pytest.mark.parametrize(("errors", "count"), [(["slow", "wrong"], 2), (["slow", f"{LOST}: 1"], 1), (["slow"], 1)])
def test_a_cluster_without_executors_is_not_timed_again(
    errors: list[str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the run was interrupted or has lost executors, a job might wait for ever."""

    class Runner:
        def run(self, cells: Any, *_: object) -> pa.Table:
            failed = [batch_of([failed_row(cell, error)]) for cell, error in zip(cells, errors, strict=False)]
            return pa.Table.from_batches(failed, ROW_SCHEMA)

    monkeypatch.setattr(job, "_runner", lambda spark: Runner())
    monkeypatch.setattr(job, "_how", lambda plan, spark: {})
    monkeypatch.setattr(job, "_calibrated", lambda spark: [("a", [1])])
    table = job.run(Plan.of(PLAN))
    assert facts_of(table)["hosts"] == [{"host": "a", "calibration_ns": [1] * count}]
