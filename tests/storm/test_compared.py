"""`kcore compare` of two storms."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.measure.processes.target import Target
from kcore.measure.report import result_files
from kcore.measure.storm import compared
from kcore.measure.storm.report_rows import BULKY, Row, failed_row, row_of, table_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell

CELL = Cell(Target.parse("kcore-kraft"), 20, 5_000, 0)
OLD = [90.0, 100.0, 110.0]


def row(scenario: str, work_ms: float, repetition: int = 0, **given: Any) -> Row:
    """All of `last_ms` but a session of 9 s is the controller's work."""
    timed = {"last_ms": 9_000.0 + work_ms, "session_ms": 9_000.0} if work_ms >= 0 else {}
    result = ScenarioResult(scenario, 20, 5_000, 1, heartbeat_p99_ms=3.0)
    return row_of(replace(CELL, repetition=repetition), result, 1) | timed | given


def rows(*, lost: list[float], bounce: list[float], heartbeat_ms: float = 3.0) -> list[Row]:
    steady = row("steady", -1.0, heartbeat_p99_ms=heartbeat_ms)
    losses = [row("broker-lost", ms, nth) for nth, ms in enumerate(lost)]
    return [*losses, *(row("bounce", ms, nth) for nth, ms in enumerate(bounce)), steady]


def keep_as(folder: str, kept: list[Row], **facts: object) -> None:
    result_files.write(result_files.with_facts(table_of(kept), facts), Path(folder))


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["compare", *arguments])


@pytest.fixture(autouse=True)
def two_storms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep_as("old", rows(lost=OLD, bounce=OLD))
    keep_as("new", rows(lost=[150.0, 90.0 * 1.3, 130.0], bounce=[50.0, 55.0, 45.0]))


def test_the_verdict_is_first_and_only_what_changed_is_shown() -> None:
    done = compare("old", "new")
    assert done.exit_code == 1
    verdict, rule, *rest = done.stdout.splitlines()
    assert verdict == "slower: 1 of 3 scenarios, up to 1.30x; faster: 1, up to 2.00x; the rest within the rule"
    assert rule.startswith("Slower: the smaller of two ratios") and "without session time-outs" in rule
    shown = "\n".join(rest)
    assert "broker-lost / kcore-kraft" in shown
    assert "bounce" in shown and "steady" not in shown and "1 within the rule are not shown: --all" in shown
    assert "heartbeat p99" in compare("old", "new", "--all").stdout
    assert compare("old", "old").exit_code == 0


def test_markdown_json_and_a_page() -> None:
    done = compare("old", "new", "--markdown", "--html", "page.html")
    assert done.stdout.startswith("**\u274c kcore compare: slower: 1 of 3 scenarios") and "| scenario |" in done.stdout
    page = Path("page.html").read_text()
    assert 'aria-label="broker-lost"' in page and "slower: 1 of 3 scenarios" in page and "Every scenario" in page
    printed = json.loads(compare("old", "new", "--json").stdout)
    [lost, *_] = printed["operations"]
    assert (lost["scenario"], lost["verdict"], lost["old_median_ns"]) == ("broker-lost", "slower", 100_000_000)


def test_the_lines_that_the_storm_printed_are_read_like_its_folder() -> None:
    printed = [
        {name: value for name, value in each.items() if name not in BULKY} for each in rows(lost=OLD, bounce=OLD)
    ]
    Path("storm.json").write_text("".join(json.dumps(each) + "\n" for each in printed))
    for other in ("old", "old/results.jsonl", "old/results.parquet", "storm.json"):
        assert compare("storm.json", other).exit_code == 0


def test_a_scenario_that_failed_or_ran_in_part_is_left_out_and_then_missing() -> None:
    late = row("bounce", 50.0, valid=False, invalid="the load generator itself was 900 ms late")
    odd = row("bounce", 50.0, 1, valid=False, invalid="0 changes, of 9 to 11")
    keep_as("new", [failed_row(CELL, "broker-lost", 1, 1, "the end\nof it"), late, odd, row("steady", -1.0)])
    done = compare("old", "new")
    assert done.exit_code == 3 and "no verdict: 2 of the old run missing" in done.stdout
    message = "on kcore-kraft, 5,000 partitions, 20 brokers, is left out:"
    assert f"kcore: new: broker-lost {message} failed: the end\n" in done.stderr
    assert f"kcore: new: bounce {message} the load generator itself was 900 ms late\n" in done.stderr
    assert f"kcore: new: bounce {message} 0 changes, of 9 to 11\n" in done.stderr


def test_repetitions_that_do_not_count_are_named_wherever_the_verdict_stands() -> None:
    kept = rows(lost=OLD, bounce=OLD)
    keep_as("new", [*kept, failed_row(replace(CELL, repetition=3), "bounce", 1, 1, "the end")])
    line = "The new run: bounce on kcore-kraft, 5,000 partitions, 20 brokers, is left out: failed: the end."
    assert line in compare("old", "new").stdout
    assert line in compare("old", "new", "--markdown", "--html", "page.html").stdout
    assert line in json.loads(compare("old", "new", "--json").stdout)["remarks"]
    assert line in Path("page.html").read_text()


def test_a_run_that_was_interrupted_is_named_with_how_often_it_ran() -> None:
    keep_as("new", rows(lost=OLD, bounce=OLD[:1]), plan="[storm]\nrepeat = 3\n")
    remarks = json.loads(compare("old", "new", "--json").stdout)["remarks"]
    assert "The new run: bounce on kcore-kraft, 5,000 partitions, 20 brokers, ran 1 of 3 times." in remarks
    assert not any("broker-lost" in line for line in remarks)


def test_what_the_files_do_not_say_about_machine_and_plan_is_named() -> None:
    remarks = json.loads(compare("old", "new", "--json").stdout)["remarks"]
    assert "The old run does not say on which machine it ran: its times may not compare." in remarks
    assert "The old and the new run kept no plan: whether the options were the same is not known." in remarks


def test_plans_that_differ_and_single_repetitions_are_named() -> None:
    plans = ['[storm]\nmind = "full"\nseed = 1\n', '[storm]\nmetadata = "count"\nseed = 2\n']
    for folder, plan in zip(("old", "new"), plans, strict=True):
        keep_as(folder, rows(lost=[100.0], bounce=[100.0]), plan=plan)
    done = compare("old", "new", "--all")
    assert "The plans differ in metadata: full in the old run, count in the new one." in done.stdout
    assert "differ in seed" not in done.stdout
    printed = json.loads(compare("old", "new", "--json").stdout)
    assert printed["operations"][0]["noise"] == "old a single repetition; new a single repetition"


def test_what_cannot_be_compared_is_one_line(tmp_path: Path) -> None:
    result_files.write(
        result_files.with_facts(table_of(rows(lost=OLD, bounce=OLD)).drop_columns(["session_ms"]), {}), Path("older")
    )
    result_files.write(pa.table({"workload": ["codec"], "operation": ["a"]}), Path("bench"))
    result_files.write(pa.table({"seed": [1]}), Path("sim"))
    for name, text in (("odd", '{"scenario": 1, "target": 2}'), ("list", "[1]"), ("none", "")):
        Path(f"{name}.jsonl").write_text(text)
    expected = {
        "older": "no results of kcore storm that can be compared: it has no column session_ms",
        "bench": "no results of kcore bench: it has no column partitions",
        "sim": "results of neither kcore bench nor kcore storm",
        "odd.jsonl": "no results of kcore storm that can be compared",
        "list.jsonl": "line 1: not a JSON object",
        "none.jsonl": "results of neither kcore bench nor kcore storm",
    }
    for name, text in expected.items():
        done = compare("old", name)
        assert done.exit_code == 2 and done.stderr.startswith(f"kcore: {name}: {text}"), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_storm_and_a_benchmark_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    result_files.write(pa.table({"workload": ["codec"], "operation": ["a"]}), Path("bench"))
    monkeypatch.setattr(
        "kcore.measure.bench.bench_results.read", lambda path: pa.table({"workload": pa.array([], pa.string())})
    )
    done = compare("old", "bench")
    assert (done.exit_code, done.stderr) == (
        2,
        "kcore: old is of kcore storm, bench of kcore bench: give two of the same command\n",
    )


def test_figures_are_those_of_the_work() -> None:
    [lost, _, steady] = compared.figures_of(rows(lost=OLD, bounce=OLD))
    assert (lost.median_ns, lost.min_ns, lost.low_ns, lost.high_ns) == (10**8, 9 * 10**7, 9 * 10**7, 11 * 10**7)
    assert (steady.what, steady.median_ns) == ("heartbeat p99", 3_000_000)
    [lost] = compared.figures_of([row("broker-lost", ms, nth) for nth, ms in enumerate([0.0, 0.0, 5.0])])
    assert (lost.what, lost.median_ns, lost.high_ns) == ("work", 0, 5_000_000)  # A session may outlast all work.


def on(target: str, kept: list[Row]) -> list[Row]:
    return [each | {"target": target} for each in kept]


def test_targets_with_other_names_are_compared_by_map_which_the_error_names() -> None:
    keep_as("old", on("kafka-4.3.1", rows(lost=OLD, bounce=OLD)))
    done = compare("old", "new")
    assert done.exit_code == 3 and "no verdict: the runs have no scenario in common" in done.stdout
    assert "--map kafka-4.3.1=kcore-kraft compares them." in done.stdout
    done = compare("old", "new", "--map", "kafka-4.3.1=kcore-kraft", "--labels", "Kafka,kcore")
    assert done.exit_code == 1 and "slower: 1 of 3 scenarios, up to 1.30x" in done.stdout
    assert "Kafka median" in done.stdout and "(old: broker-lost / kafka-4.3.1)" in done.stdout


def test_two_targets_of_one_run_are_compared_by_map() -> None:
    keep_as("both", [*on("kafka-4.3.1", rows(lost=OLD, bounce=OLD)), *rows(lost=[9.0, 10.0, 11.0], bounce=OLD)])
    done = compare("both", "both", "--map", "kafka-4.3.1=kcore-kraft")
    assert done.exit_code == 0 and "faster: 1, up to 10.00x" in done.stdout and "missing" not in done.stdout


def test_a_storm_that_became_slow_in_a_part_of_its_repetitions_is_doubtful() -> None:
    keep_as("old", rows(lost=[100.0] * 20, bounce=OLD))
    keep_as("new", rows(lost=[300.0] * 11 + [100.0] * 9, bounce=OLD))
    done = compare("old", "new")
    assert done.exit_code == 3, "it passed in silence"
    assert done.stdout.startswith(
        "no verdict: 1 doubtful (broker-lost / kcore-kraft: 55% of the new times are above 1.25 times the old median, "
        "0% of the old ones); 3 scenarios compared"
    )


def test_a_scenario_has_a_threshold_of_its_own() -> None:
    assert compare("old", "new", "--threshold", "broker-lost=1.5").exit_code == 0
    assert compare("old", "new", "--threshold", "2", "--threshold", "broker-lost=1.2").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--threshold", "0.5"), "--threshold 0.5: '0.5' is no ratio of at least 1"),
        (("--threshold", "broker-lost=fast"), "--threshold broker-lost=fast: 'fast' is no ratio of at least 1"),
        (("--threshold", "nan"), "--threshold nan: 'nan' is no ratio of at least 1"),
        (("--threshold", "2", "--threshold", "3"), "--threshold 3: a second threshold without a name"),
        (("--threshold", "broker-los=2"), "--threshold: 'broker-los' is nowhere; did you mean 'broker-lost'?"),
        (("--map", "kcore-kraft"), "--map kcore-kraft: give the name in the old run and that in the new one"),
        (("--map", "kafka=kcore-kraft"), "--map: the old run has no 'kafka'"),
        (("--labels", "one"), "--labels one: give two different names with a comma between them"),
        (("--labels", "a,a"), "--labels a,a: give two different names"),
    ],
)
def test_options_that_make_no_sense_are_one_line(arguments: tuple[str, ...], expected: str) -> None:
    done = compare("old", "new", *arguments)
    assert (done.exit_code, done.stdout) == (2, "") and done.stderr.startswith(f"kcore: {expected}")
    assert len(done.stderr.splitlines()) == 1
