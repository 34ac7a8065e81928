import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from kcore.hollow.histograms import percentile_ms
from kcore.report import keep
from kcore.storm import report, report_table
from kcore.storm.plan import Cell, StormPlan
from kcore.storm.report_rows import Row, failed_row, merged, missing, row_of, table_of
from kcore.storm.result import ScenarioResult
from kcore.storm.targets import Target

KCORE = "kcore-kraft"
CELL = Cell(Target.parse("kafka-4.3.1"), 3, 100, 0)


def counts(**at: int) -> list[int]:
    buckets = [0] * 2048
    for bucket, count in at.items():
        buckets[int(bucket[1:])] = count
    return buckets


def result(**figures: object) -> ScenarioResult:
    return replace(ScenarioResult("broker-lost", 3, 100, 1, first_ms=10.0, last_ms=40.0, p50_ms=30.0), **figures)


def row(cell: Cell = CELL, **figures: object) -> Row:
    return row_of(cell, result(**figures), 1)


def test_repetitions_are_merged_by_their_samples_not_averaged():
    first = row(known_ms=[10.0] * 99, heartbeats=counts(b100=99), errors={"A": 1}, last_ms=10.0, false_fencings=1)
    again = row(known_ms=[1000.0], heartbeats=counts(b700=1), errors={"A": 2, "B": 1}, last_ms=1000.0, lag_max_ms=7.0)
    [one] = merged([first, again])
    assert one["p50_ms"] == 10.0  # The mean of the two medians would be 505.
    assert one["p99_ms"] == pytest.approx(np.percentile([10.0] * 99 + [1000.0], 99))
    assert one["heartbeat_p99_ms"] == percentile_ms(np.array(counts(b100=1)), 1)
    assert one["heartbeat_p999_ms"] == percentile_ms(np.array(counts(b700=1)), 1)
    assert (one["errors"], one["false_fencings"], one["lag_max_ms"]) == ({"A": 3, "B": 1}, 1, 7.0)
    assert (one["last_ms"], one["repetitions"]) == (505.0, 2)


def test_a_time_that_is_not_known_does_not_count_as_a_millisecond_before_nothing():
    [one] = merged([row(answered_ms=-1.0), row(answered_ms=20.0)])
    assert one["answered_ms"] == 20.0
    [none] = merged([row(answered_ms=-1.0), row(answered_ms=-1.0)])
    assert none["answered_ms"] == -1.0


def test_one_bad_repetition_marks_the_whole():
    [one] = merged([row(), row(valid=False, note="late")])
    assert (one["valid"], one["note"]) == (False, "late")


def test_failed_ones_are_no_figures_but_troubles():
    failed = failed_row(CELL, "rack-lost", 1, 1, "the end")
    assert merged([failed]) == []
    assert "failed: rack-lost on kafka-4.3.1, 3 x 100: the end" in report_table.troubles([failed], [])


def test_what_never_ran_is_missing():
    expected = [(CELL, "broker-lost"), (CELL, "bounce")]
    assert missing([row()], expected) == ["bounce on kafka-4.3.1, 3 brokers, 100 partitions"]


def test_targets_stand_side_by_side_with_a_ratio():
    other = Cell(Target.parse("here:9093"), 3, 100, 0)
    head, lines = report_table.cells_of(merged([row(), row(other, last_ms=100.0)]))
    assert (head[1], head[-1]) == ("target", "ratio")
    assert [(cells[0], cells[1], cells[-1]) for cells, _ in lines] == [
        ("broker-lost", "kafka-4.3.1", ""),
        ("", "here:9093", "2.50x"),
    ]


def test_the_curve_needs_more_than_one_size():
    small, large = row(), row(replace(CELL, partitions=1000), last_ms=90.0)
    assert report_table.curve(merged([small])) == ([], [])
    head, lines = report_table.curve(merged([large, small]))
    assert (head[3:], lines) == (["100", "1k"], [(["broker-lost", "kafka-4.3.1", "3", "40.0 ms", "90.0 ms"], True)])


def test_the_terminal_and_the_page_show_all_and_escape_what_others_wrote():
    found = replace(result(note="10,001 <topics>"), scenario="limit-delete")
    rows = [row(), row(replace(CELL, partitions=1000)), failed_row(CELL, "bounce", 1, 1, "<b>[bold]")]
    rows.append(row_of(CELL, found, 1))
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    report_table.show(console, merged(rows), report_table.troubles(rows, ["create on x"]))
    text = console.export_text()
    assert all(each in text for each in ("3 brokers, 100 partitions", "40.0 ms", "<b>[bold]", "missing: create on x"))
    assert "limit-delete: 10,001 <topics>" in text
    page = report.render(rows, {"plan": "<plan>", "targets": ["kafka-4.3.1"]}, ["create on x"])
    assert "<p>limit-delete: 10,001 &lt;topics&gt;</p>" in page
    assert all(each in page for each in ("&lt;b&gt;[bold]", "&lt;plan&gt;", "<svg", "missing: create on x"))


def test_the_page_says_where_the_controllers_of_two_targets_are_not_the_same():
    pages = {target: report.render([row()], {"targets": ["kafka-4.3.1", target]}, []) for target in ("a:1", KCORE)}
    for told in ("25 ms in case more comes", "10,000 records, some with error -1; kcore writes them", "one by one"):
        assert told in pages[KCORE] and told not in pages["a:1"]


def test_rows_survive_parquet_and_json_and_the_plan_is_toml(tmp_path: Path):
    rows = [
        row(records={"NoOpRecord": 2}, known_ms=[1.0, 2.0], waves_ms={"down": 1.5}),
        row(replace(CELL, repetition=1)),
    ]
    keep.write(keep.with_facts(table_of(rows), {"targets": ["a:1"]}), tmp_path)
    table = pq.read_table(tmp_path / "results.parquet")
    assert table.to_pylist(maps_as_pydicts="strict") == rows
    assert keep.facts_of(table) == {"targets": ["a:1"]}
    assert '"records": {"NoOpRecord": 2}' in (tmp_path / "results.jsonl").read_text()
    told = tomllib.loads(StormPlan(brokers=(20, 100)).to_toml())["storm"]
    assert (told["brokers"], told["targets"], told["heartbeat_s"]) == ([20, 100], ["kafka-4.3.1"], 2.0)
