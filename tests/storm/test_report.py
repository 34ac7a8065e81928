import tomllib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from kcore.cli.measure.measured_storm import verdict
from kcore.measure.processes.target import Target
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.storm import report_table
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.expected import EXPECTED_ERRORS
from kcore.measure.storm.kraft.scenarios import ALL as SCENARIOS
from kcore.measure.storm.phases import Phases, knew_after_ms, phases_of, work_ms
from kcore.measure.storm.report_rows import Row, failed_row, medians, merged, missing, row_of, table_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell, StormPlan

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


def test_every_figure_of_a_row_is_the_median_of_the_repetitions_own_figures():
    """Percentiles over all samples and a median of the last changes gave a p99 of 9.38 s and a last of 7.99 s."""
    figures = [(30.0, 70.0, 80.0), (40.0, 60.0, 9000.0), (50.0, 50.0, 90.0)]
    rows = [
        row(replace(CELL, repetition=at), p50_ms=half, p99_ms=most, last_ms=last, changes=at, lag_max_ms=last,
            heartbeat_p99_ms=half, controller_rss_mb=most, known_ms=[last] * 3, errors={"A": 1})
        for at, (half, most, last) in enumerate(figures)
    ]  # fmt: skip
    [one] = merged(rows)
    names = ("p50_ms", "p99_ms", "last_ms", "changes", "lag_max_ms", "heartbeat_p99_ms", "controller_rss_mb")
    assert [one[name] for name in names] == [40.0, 60.0, 90.0, 1, 90.0, 40.0, 60.0]
    assert (one["errors"], one["repetitions"]) == ({"A": 3}, 3)
    rule = "each figure is the median over the repetitions that count"
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    report_table.show(console, [one], [])
    text = console.export_text()
    assert text.count(rule) == 2 and "errors, added up" in text
    assert report.render(rows, {"targets": []}, []).count(rule) == 2
    report_table.show(console, merged(rows[:1]), [])
    assert rule not in console.export_text()


@pytest.mark.parametrize(("brokers", "shown"), [(99, ""), (100, "p99"), (999, "p99"), (1_000, "p99 p99.9")])
def test_a_percentile_over_too_few_brokers_is_blank(brokers: int, shown: str) -> None:
    """The p99 of five brokers is the time of the last one, and nothing about brokers in general."""
    cell = replace(CELL, brokers=brokers)
    head, [(cells, _)] = report_table.cells_of([row(cell, p99_ms=50.0, p999_ms=60.0)], report_table.TIMES)
    by_name = dict(zip(head, cells, strict=True))
    assert " ".join(name for name in ("p99", "p99.9") if by_name[name]) == shown


def test_an_invalid_repetition_is_in_no_figure_and_is_named_with_its_reason():
    rows = [row(replace(CELL, repetition=at), last_ms=40.0 + at, changes=7, known_ms=[40.0 + at]) for at in range(2)]
    reason = "0 changes, and 5 to 9 were expected: a broker that leads 5 ends"
    empty = row(replace(CELL, repetition=2), first_ms=-1.0, last_ms=-1.0, controller_cpu_s=99.0, known_ms=[77.0])
    rows.append(empty | {"valid": False, "invalid": reason})
    [one] = merged(rows)
    assert (one["last_ms"], one["changes"], one["controller_cpu_s"]) == (40.5, 7, -1.0)
    assert (one["repetitions"], one["tried"], one["excluded"]) == (2, 3, 1)
    [summary] = medians(rows)
    assert summary["last_ms"]["values"] == [40.0, 41.0] and summary["excluded"] == {"2": reason}
    line = f"invalid: broker-lost on kafka-4.3.1, 3 x 100, repetition 3: {reason}"
    assert report_table.troubles(rows, []) == [line]
    _, [(cells, _)] = report_table.cells_of([one], report_table.TIMES)
    assert cells[0] == "broker-lost (1 of 3 do not count)"
    page = report.render(rows, {"targets": ["kafka-4.3.1"]}, [])
    assert line in page and "broker-lost (1 of 3 do not count)" in page
    assert verdict(rows, []) is Exit.INVALID


def test_a_scenario_none_of_whose_repetitions_counts_has_no_figures():
    bad = [row(replace(CELL, repetition=at), changes=3) | {"valid": False, "invalid": "late"} for at in range(2)]
    [one] = merged(bad)
    for columns in (report_table.TIMES, report_table.COSTS):
        _, [(cells, _)] = report_table.cells_of([one], columns)
        assert cells[0] == "broker-lost (invalid)" and not any(cells[1:])
    assert medians(bad) == []
    assert "broker-lost (invalid)" in report.render(bad, {"targets": []}, [])


def test_work_that_is_not_known_is_blank_with_the_reason():
    unknown = row(last_ms=9400.0, work_unknown="controller 1 does not tell it: give --session-timeout MS")
    other = row(Cell(Target.parse("here:9093"), 3, 100, 0), last_ms=9100.0, session_ms=9000.0)
    rows = merged([unknown, other])
    head, lines = report_table.cells_of(rows, report_table.TIMES)
    shown = [dict(zip(head, cells, strict=True)) for cells, _ in lines]
    assert [(each["work"], each["last"], each["ratio to kafka-4.3.1"]) for each in shown] == [
        ("", "9.40 s", ""),
        ("100 ms", "9.10 s", ""),
    ]
    line = ("broker-lost on kafka-4.3.1, 3 x 100: the work is not known: controller 1 does not tell it: "
            "give --session-timeout MS")  # fmt: skip
    assert report_table.findings(rows) == [line]
    assert f"<p>{line}</p>" in report.render([unknown, other], {"targets": []}, [])


def test_a_time_that_is_not_known_does_not_count_as_a_millisecond_before_nothing():
    [one] = merged([row(answered_ms=-1.0), row(answered_ms=20.0)])
    assert one["answered_ms"] == 20.0
    [none] = merged([row(answered_ms=-1.0), row(answered_ms=-1.0)])
    assert none["answered_ms"] == -1.0


def test_failed_ones_are_no_figures_but_troubles():
    failed = failed_row(CELL, "rack-lost", 1, 1, "the end")
    assert merged([failed]) == []
    assert "failed: rack-lost on kafka-4.3.1, 3 x 100: the end" in report_table.troubles([failed], [])


def test_scenarios_that_ended_with_the_same_error_of_a_cluster_are_one_line() -> None:
    rows = [failed_row(CELL, name, 1, 1, "no port") for name in ("register", "create")]
    again = [failed_row(replace(CELL, repetition=1), "create", 1, 1, error) for error in ("no port", "the end")]
    assert report_table.troubles(rows, []) == ["failed: register, create on kafka-4.3.1, 3 x 100: no port"]
    assert report_table.troubles([*rows, *again], []) == [
        "failed: register, create on kafka-4.3.1, 3 x 100, repetition 1: no port",
        "failed: create on kafka-4.3.1, 3 x 100, repetition 2: no port",
        "failed: create on kafka-4.3.1, 3 x 100, repetition 2: the end",
    ]


def test_a_failed_repetition_is_counted_where_the_others_have_figures():
    rows = [row(), failed_row(replace(CELL, repetition=1), "broker-lost", 1, 1, "the end\nof it")]
    _, [(cells, _)] = report_table.cells_of(merged(rows), report_table.TIMES)
    assert cells[0] == "broker-lost (1 of 2 do not count)"
    assert medians(rows)[0]["excluded"] == {"1": "failed: the end"}


def test_a_ratio_has_one_base_which_its_column_names():
    first, second, third = (Cell(Target.parse(name), 3, 100, 0) for name in ("a:1", "b:2", "c:3"))
    whole = [row(cell, scenario="create") for cell in (first, second, third)]
    rows = merged([*whole, row(second), row(third)])  # broker-lost failed on a:1.
    head, lines = report_table.cells_of(rows, report_table.TIMES)
    assert head[-1] == "ratio to a:1" and [cells[-1] for cells, _ in lines] == ["", "1.00x", "1.00x", "", ""]


def test_what_never_ran_is_missing():
    expected = [(CELL, "broker-lost"), (CELL, "bounce")]
    assert missing([row()], expected) == ["bounce on kafka-4.3.1, 3 brokers, 100 partitions"]


def test_targets_stand_side_by_side_with_a_ratio():
    other = Cell(Target.parse("here:9093"), 3, 100, 0)
    rows = merged([row(), row(other, last_ms=100.0)])
    head, lines = report_table.cells_of(rows, report_table.TIMES)
    assert (head[1], head[-1]) == ("target", "ratio to kafka-4.3.1")
    assert [(cells[0], cells[1], cells[-1]) for cells, _ in lines] == [
        ("broker-lost", "kafka-4.3.1", ""),
        ("broker-lost", "here:9093", "2.50x"),
    ]
    assert report_table.cells_of(rows, report_table.COSTS)[0][-1] == "errors"


def test_the_curve_needs_more_than_one_size():
    small, large = row(), row(replace(CELL, partitions=1000), last_ms=90.0)
    assert report_table.curve(merged([small])) == ([], [])
    head, lines = report_table.curve(merged([large, small]))
    assert (head[3:], lines) == (["100", "1k"], [(["broker-lost", "kafka-4.3.1", "3", "40.0 ms", "90.0 ms"], True)])


def test_the_terminal_and_the_page_show_all_and_escape_what_others_wrote():
    found = replace(result(note="10,001 <topics>\n\x1b"), scenario="limit-delete")
    rows = [row(), row(replace(CELL, partitions=1000)), failed_row(CELL, "bounce", 1, 1, "<b>[bold]")]
    rows.append(row_of(CELL, found, 1))
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    report_table.show(console, merged(rows), report_table.troubles(rows, ["create on x"]))
    text = console.export_text()
    assert all(each in text for each in ("3 brokers, 100 partitions", "40.0 ms", "<b>[bold]", "missing: create on x"))
    assert r"limit-delete: 10,001 <topics>\n\x1b" in text
    page = report.render(rows, {"plan": "<plan>", "targets": ["kafka-4.3.1"]}, ["create on x"])
    assert "<p>limit-delete: 10,001 &lt;topics&gt;\n\x1b</p>" in page
    assert all(each in page for each in ("&lt;b&gt;[bold]", "&lt;plan&gt;", "<svg", "missing: create on x"))


def test_the_page_says_where_the_controllers_of_two_targets_are_not_the_same():
    pages = {target: report.render([row()], {"targets": ["kafka-4.3.1", target]}, []) for target in ("a:1", KCORE)}
    for text in ("25 ms in case more comes", "10,000 records, some with error -1; kcore writes them", "one by one"):
        assert text in pages[KCORE] and text not in pages["a:1"]


def test_rows_survive_parquet_and_json_and_the_plan_is_toml(tmp_path: Path):
    rows = [
        row(records={"NoOpRecord": 2}, known_ms=[1.0, 2.0], waves_ms={"down": 1.5}),
        row(replace(CELL, repetition=1)),
    ]
    result_files.write(result_files.with_facts(table_of(rows), {"targets": ["a:1"]}), tmp_path)
    table = pq.read_table(tmp_path / "results.parquet")
    assert table.to_pylist(maps_as_pydicts="strict") == rows
    assert result_files.facts_of(table) == {"targets": ["a:1"]}
    assert '"records": {"NoOpRecord": 2}' in (tmp_path / "results.jsonl").read_text()
    plan = tomllib.loads(StormPlan(brokers=(20, 100)).to_toml())["storm"]
    assert (plan["brokers"], plan["targets"], plan["heartbeat_s"]) == ([20, 100], ["kafka-4.4.0"], 2.0)


def test_the_session_time_out_is_apart_from_the_controllers_work():
    """9 of 9.4 s are the session of the lost broker, 0.25 s until the controller looked: the ratio is one of work."""
    lost = row(first_ms=9300.0, last_ms=9400.0, session_ms=9000.0, append_gap_ms=50.0, known_ms=[9310.0, 9400.0])
    assert phases_of(lost) == Phases(session=9000.0, noticed=250.0, decided=0.0, first=50.0, spread=100.0)
    assert knew_after_ms(lost) == [60.0, 150.0]
    other = row(Cell(Target.parse("here:9093"), 3, 100, 0), first_ms=8400.0, last_ms=8800.0, session_ms=8000.0)
    assert phases_of(other) == Phases(8000.0, 0.0, 400.0, 0.0, 400.0)  # As in ZooKeeper mode: no time of writing.
    head, lines = report_table.cells_of(merged([lost, other]), report_table.TIMES)
    shown = [dict(zip(head, cells, strict=True)) for cells, _ in lines]
    assert [(each["session"], each["noticed"], each["work"], each[head[-1]]) for each in shown] == [
        ("9.00 s", "250 ms", "150 ms", ""),
        ("8.00 s", "", "800 ms", "5.33x"),
    ]
    page = report.render([lost, other], {"targets": ["kafka-4.3.1", "here:9093"]}, [])
    assert "session time-out: 9.00 s" in page and "to the last broker: 100 ms" in page


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"first_ms": -1.0, "last_ms": -1.0}, None),
        ({"append_gap_ms": -4.0}, Phases(0.0, 0.0, 10.0, 0.0, 30.0)),  # Its clock is ahead.
        ({"session_ms": 90.0}, Phases(40.0, 0.0, 0.0, 0.0, 0.0)),
        ({"session_ms": 20.0, "append_gap_ms": 5.0}, Phases(20.0, 0.0, 0.0, 0.0, 20.0)),  # It ended before.
    ],
)
def test_the_parts_of_a_scenario_are_its_time(figures: dict[str, float], expected: Phases | None):
    assert phases_of(row(**figures)) == expected


def test_every_storm_has_a_chart_of_who_knew_when_and_a_timeline():
    rows = [row(known_ms=[30.0, 40.0], heartbeats=counts(b100=50)), row(replace(CELL, repetition=1), known_ms=[35.0])]
    page = report.render(rows, {"targets": ["kafka-4.3.1"]}, [])
    for title in ("broker-lost: timeline", "broker-lost: who knew when", "broker-lost: latency of heartbeats"):
        assert f'aria-label="{title}"' in page
    assert "1 of 3 brokers\nafter 30.0 ms" in page
    numbers = page.split('aria-label="broker-lost: who knew when"')[1].split("</figure>")[0]
    assert all(f'data-name="{name}">{text}<' in numbers for name, text in (("number", "3"), ("50%", "35.0 ms")))
    assert "the band reaches from the soonest to the latest repetition" in page


def test_expected_errors_are_no_troubles():
    bounce = replace(result(errors={"DUPLICATE_BROKER_REGISTRATION": 77, "UNKNOWN": 1}), scenario="bounce")
    rows = [row_of(CELL, bounce, 1)]
    assert report_table.troubles(rows, []) == ["errors: bounce on kafka-4.3.1, 3 x 100: UNKNOWN 1"]
    assert report_table.expected(rows) == [
        "expected: bounce on kafka-4.3.1, 3 x 100: DUPLICATE_BROKER_REGISTRATION 77: "
        "refused until the session of the broker's last incarnation has ended"
    ]
    page = report.render(rows, {"targets": ["kafka-4.3.1"]}, [])
    assert page.count('class="bad"') == 1 and "UNKNOWN 1</p>" in page
    quiet = replace(result(errors={"DUPLICATE_BROKER_REGISTRATION": 77}), scenario="bounce")
    assert 'class="bad"' not in report.render([row_of(CELL, quiet, 1)], {"targets": ["kafka-4.3.1"]}, [])


def test_expected_errors_are_those_of_scenarios_that_there_are():
    assert set(EXPECTED_ERRORS) <= set(SCENARIOS)


def test_repetitions_are_described_by_their_median_and_its_spread():
    rows = [
        row(replace(CELL, repetition=at), last_ms=40.0 + at, session_ms=10.0, controller_cpu_s=1.0 + at)
        for at in (2, 0, 1)
    ]
    [one] = merged(rows)
    shown = {}
    for columns in (report_table.TIMES, report_table.COSTS):
        head, [(cells, _)] = report_table.cells_of([one], columns)
        shown |= dict(zip(head, cells, strict=True))
    assert (shown["work"], shown["work, min to max"]) == ("31.0 ms", "30.0 ms to 32.0 ms")
    assert (shown["CPU"], shown["CPU, min to max"]) == ("2.00 s", "1.00 s to 3.00 s")
    assert "work, min to max" not in report_table.cells_of(merged([row()]), report_table.TIMES)[0]
    assert "30.0 ms to 32.0 ms</td>" in report.render(rows, {"targets": ["kafka-4.3.1"]}, [])


def test_medians_as_json_have_every_value_in_the_order_of_the_repetitions():
    rows = [row(replace(CELL, repetition=at), last_ms=40.0 + at, session_ms=10.0) for at in (2, 0, 1)]
    rows += [row(replace(CELL, repetition=3), valid=False), failed_row(CELL, "bounce", 1, 1, "the end")]
    [found] = medians(rows)
    names = ("scenario", "target", "brokers", "partitions", "repetitions")
    assert [found[name] for name in names] == ["broker-lost", "kafka-4.3.1", 3, 100, 3]
    assert found["work_ms"] == {"median": 31.0, "min": 30.0, "max": 32.0, "values": [30.0, 31.0, 32.0]}
    assert found["session_ms"]["median"] == 10.0 and "answered_ms" not in found


def test_the_page_names_the_jvm_and_the_load():
    facts = {"jvm": "OpenJDK 64-Bit Server VM 17", "machine": {"cores": 2}, "load": {"load_before": 1.5}}
    page = report.render([row()], facts | {"targets": []}, [])
    assert "<dt>JVM</dt><dd>OpenJDK 64-Bit Server VM 17</dd>" in page
    assert "a load average of 1.50 on 2 cores" in page


def test_earlier_storms_are_shown_beside_this_one(tmp_path: Path):
    facts = {"machine": {"host": "here"}, "targets": []}
    before = [row(last_ms=80.0), failed_row(CELL, "bounce", 1, 1, "the end")]
    result_files.write(result_files.with_facts(table_of(before), facts | {"when": "2026-01-01"}), tmp_path / "old")
    result_files.write(result_files.with_facts(table_of([row()]), facts | {"when": "2026-01-02"}), tmp_path / "new")
    page = report.render([row()], facts | {"when": "2026-01-02"}, [], tmp_path / "new")
    assert 'id="history"' in page and "old (2026-01-01)" in page and ">0.500x</td>" in page
    first = report.render([row()], facts | {"when": "2025-12-31"}, [], tmp_path / "new")
    assert 'id="history"' not in first


def test_a_storm_of_an_older_version_is_passed_over_with_the_reason(tmp_path: Path):
    """Its times do not tell the session from the controller's work."""
    facts = {"machine": {"host": "here"}, "targets": []}
    before = table_of([row(last_ms=80.0)]).drop_columns(["session_ms", "waves_ms"])
    result_files.write(result_files.with_facts(before, facts | {"when": "1"}), tmp_path / "old")
    page = report.render([row()], facts | {"when": "2"}, [], tmp_path / "new")
    assert "old (1) is passed over: it has no column session_ms." in page and ">x</td>" not in page


def test_the_work_of_repetitions_is_the_median_of_their_works_and_never_negative():
    """Medians of the whole and of the session alone would come from different repetitions."""
    figures = [(9400.0, 9000.0), (7600.0, 7500.0), (8700.0, 8500.0), (8000.0, 8600.0)]
    rows = [row(replace(CELL, repetition=at), last_ms=last, session_ms=ms) for at, (last, ms) in enumerate(figures)]
    [one] = merged(rows)
    assert work_ms(one) == 150.0  # The median of 0, 100, 200 and 400.
    assert (one["work_min_ms"], one["work_max_ms"]) == (0.0, 400.0)
    page = report.render(rows, {"targets": ["kafka-4.3.1"]}, [])
    assert ">0 ns to 400 ms</td>" in page and "-" not in page.split("work, min to max")[1][:8]


def test_charts_on_log_axes_bear_a_work_of_nothing():
    rows = [row(session_ms=60.0), row(replace(CELL, partitions=1000), last_ms=90.0)]
    page = report.render(rows, {"targets": ["kafka-4.3.1"]}, [])
    assert "nan" not in page and "inf" not in page.split("<svg", 1)[1].split("</svg>")[0]
