import json
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from kcore.measure.bench import bench_report as report
from kcore.measure.bench import bench_results as results
from kcore.measure.bench import tables
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.workload_rows import CODE, ROW_SCHEMA, VARIANT
from kcore.spark.failures import ENDED, LOST
from workloads.fakes import row

CELLS = [Cell("codec", 100, 10, 1, 0), Cell("codec", 100, 10, 1, 1)]
FIRST, SECOND = row(samples_ns=[10, 20, 90]), row(repetition=1, samples_ns=[30, 40], memcpy_ns=40, peak_bytes=None)
BROKEN = row(repetition=1, operation="", error="ValueError: no")


def test_repetitions_are_put_together_over_all_their_samples():
    [summary] = results.summarise([FIRST, SECOND])
    assert (summary.repetitions, summary.samples) == (2, 5)
    assert (summary.min_ns, summary.median_ns, summary.p99_ns) == (10, 30, 88)
    assert (summary.memcpy_ns, summary.peak_bytes) == (40, 4096)
    assert summary.ns_per_partition == 0.3
    assert (summary.group, summary.action) == ("numbers", "sort")


def test_other_sizes_seeds_and_operations_stay_apart():
    rows = [row(), row(partitions=200), row(brokers=20), row(seed=2), row(operation="other"), row(workload="election")]
    assert len(results.summarise(rows)) == 6


def test_memcpy_too_short_to_time_gives_no_ratio():
    [short] = results.summarise([row(memcpy_ns=999)])
    [longer] = results.summarise([row(memcpy_ns=1000, samples_ns=[1500])])
    assert short.times_memcpy is None
    assert longer.times_memcpy == 1.5


def test_a_run_is_good_only_if_every_cell_ran_and_all_agree():
    assert results.verdict([FIRST, SECOND], CELLS) is Exit.GOOD
    assert results.verdict([FIRST, BROKEN], CELLS) is Exit.FAILED
    assert results.verdict([FIRST], CELLS) is Exit.INVALID
    assert results.missing([FIRST], CELLS) == [CELLS[1]]


def test_cells_that_spark_lost_for_one_reason_are_one_line() -> None:
    lost, ended = f"{LOST}: there has been no executor for 60 s", f"{ENDED}: its master is gone"
    errors = [lost] * 1200 + [ended, "ValueError: no"]
    rows = [FIRST, *(row(repetition=nth + 1, operation="", error=error) for nth, error in enumerate(errors))]
    assert results.failed_alone(rows) == rows[-1:]
    assert results.not_measured(rows) == [f"1,200 cells: {lost}", f"1 cell: {ended}"]
    console = Console(file=StringIO(), width=200)
    tables.show(console, [], rows)
    shown = [f"not measured {line}" for line in results.not_measured(rows)]
    assert console.file.getvalue().splitlines() == [
        "failed codec 100 partitions 10 brokers #1202: ValueError: no",
        *shown,
    ]
    page = report.render(pa.Table.from_pylist(rows, schema=ROW_SCHEMA), [])
    assert page.count(lost) == 1 and f"not measured: 1,200 cells: {lost}" in page


def test_repetitions_with_another_digest_make_the_run_invalid():
    other = SECOND | {"digest": "bb"}
    [said] = results.disagreements([FIRST, other])
    assert said == "codec / numbers: sort / 100 partitions / 10 brokers / seed 1: aa != bb"
    assert results.verdict([FIRST, other], CELLS) is Exit.INVALID
    assert results.disagreements([FIRST, other | {"seed": 2}]) == []


def test_rows_of_several_codes_make_the_run_invalid():
    other = SECOND | {"kcore_sha256": "dd" * 32, "host": "there"}
    assert results.mixed_code([FIRST, other]) == [f"{'c' * 16} on here", f"{'d' * 16} on there"]
    assert results.verdict([FIRST, other], CELLS) is Exit.INVALID
    assert results.mixed_code([FIRST, SECOND | {"kcore_sha256": None}]) == []  # A row of a lost worker has no code.


def test_a_failed_cell_is_in_no_summary_but_listed():
    assert len(results.summarise([FIRST, BROKEN])) == 1
    assert results.failures([FIRST, BROKEN]) == [BROKEN]


@pytest.mark.parametrize("name", ["", "results.parquet", "results.jsonl"])
def test_results_are_read_as_they_were_written(tmp_path: Path, name: str):
    table = result_files.with_facts(pa.Table.from_pylist([FIRST, BROKEN], schema=ROW_SCHEMA), {"machine": "here"})
    result_files.write(table, tmp_path)
    read = results.read(tmp_path / name if name else tmp_path)
    assert read.to_pylist() == [FIRST, BROKEN]
    if name != "results.jsonl":
        assert result_files.facts_of(read) == {"machine": "here"}
    assert [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()] == [FIRST, BROKEN]


def test_rows_are_put_in_the_order_of_workloads_and_sizes():
    rows = [row(workload="election"), row(partitions=200), row(repetition=1), row(operation="z"), row(operation="a")]
    table = results.in_order(pa.Table.from_pylist(rows, schema=ROW_SCHEMA))
    assert table.to_pylist() == [rows[3], rows[4], rows[2], rows[1], rows[0]]


def test_results_from_before_clusters_could_differ_are_read(tmp_path: Path):
    later = [*VARIANT, *CODE]
    old = pa.Table.from_pylist([FIRST], schema=ROW_SCHEMA).drop_columns(later)
    result_files.write(old, tmp_path)
    [row] = results.read(tmp_path).to_pylist()
    assert row == FIRST | dict.fromkeys(later)
