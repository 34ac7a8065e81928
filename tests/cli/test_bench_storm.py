"""The storm that ends a run of `kcore bench`: which runs have one, what it shows and keeps, and exit codes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases import DATA
from cli.invoking import PLAN, kcore
from kcore.cli.measure import bench_command, bench_storm
from kcore.errors import TargetError
from kcore.measure.bench import bench_results
from kcore.measure.bench.builtin import BUILT_IN
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.storm import compared, run_storm
from kcore.measure.storm.report_rows import Row, row_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import StormPlan
from kcore.measure.workloads.catalog import WORKLOADS, Workload
from workloads.fakes import FAKE

KAFKA, KCORE = "kafka-4.4.0", "kcore-kraft"
OF_BENCH = {"plan.toml", "report.html", "results.jsonl", "results.parquet"}


@pytest.fixture(autouse=True)
def short_default_plan(in_a_folder_with_a_plan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default plan has one workload, which takes no time."""
    monkeypatch.setitem(BUILT_IN, "default", PLAN)


def fake(monkeypatch: pytest.MonkeyPatch, end: Callable[[list[Row]], None] = lambda rows: None) -> list[StormPlan]:
    """Storms take no time: Kafka's controller needs 30 ms, kcore's 6 ms. `end` changes the rows.

    Returns the plans that are run.
    """
    plans: list[StormPlan] = []

    def run_plan(
        plan: StormPlan, rows: list[Row], tell: object, spark: object, profiles: object, cluster: object
    ) -> list[str]:
        plans.append(plan)
        for cell in plan.cells():
            for name in plan.scenarios_of(cell.target):
                last_ms = 6.0 if cell.target.is_kcore else 30.0
                rows.append(row_of(cell, ScenarioResult(name, 20, 10_000, 1, last_ms=last_ms), plan.seed))
        end(rows)
        return []

    monkeypatch.setattr(run_storm, "run", run_plan)
    return plans


def names(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def planned(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> StormPlan | None:
    """The storm of a run with these arguments, which measures nothing."""
    found: list[StormPlan | None] = []

    def record(*_: object, storm: StormPlan | None, **__: object) -> Exit:
        found.append(storm)
        return Exit.GOOD

    monkeypatch.setattr(bench_command, "run", record)
    assert kcore("bench", *arguments).exit_code == 0
    [storm] = found
    return storm


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        ([], [KCORE]),
        (["default", "--json", "--out", "here"], [KCORE]),
        (["--no-spark"], [KCORE]),
        (["--no-storm"], None),
        (["--with-kafka"], [KAFKA, KCORE]),
        (["--with-kafka", "--with-storm", "--no-spark"], [KAFKA, KCORE]),
        (["smoke"], None),
        (["smoke", "--with-storm"], [KCORE]),
        (["mine.toml"], None),
        (["mine.toml", "--with-kafka"], [KAFKA, KCORE]),
        (["--partitions", "20"], None),
        (["--partitions", "20", "--with-storm"], [KCORE]),
        (["--repeat", "3"], None),
        (["--master", "local[2]"], None),
        (["--master", "local[2]", "--with-storm"], [KCORE]),
        (["--conf", "spark.executor.memory=4g"], None),
        (["--cluster", str(DATA / "samples/zk39-scenario/1-created.zk.txt"), "--partitions", "20"], None),
    ],
)
def test_the_default_plan_has_a_storm_and_other_runs_if_they_ask_for_one(
    arguments: list[str], targets: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    storm = planned(monkeypatch, *arguments)
    assert (None if storm is None else [*storm.targets]) == targets
    if storm is not None:
        storm.check()
        assert (storm.brokers, storm.partitions, storm.repeat) == ((20,), (10_000,), 1)
        assert storm.scenarios_of(storm.cells()[0].target) == ["register", "create", "broker-lost"]


def test_repetitions_and_the_seed_are_the_storm_s_too(monkeypatch: pytest.MonkeyPatch) -> None:
    storm = planned(monkeypatch, "--repeat", "2", "--seed", "0", "--with-storm")
    assert storm is not None and (storm.repeat, storm.seed) == (2, 0)


def test_options_that_contradict_each_other_or_need_java_are_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = fake(monkeypatch)
    both = kcore("bench", "--no-spark", "--with-kafka", "--no-storm", "--out", "here")
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    no_java = kcore("bench", "--no-spark", "--with-kafka", "--out", "here")
    assert (both.exit_code, no_java.exit_code) == (2, 2)
    assert both.stderr == "kcore: --no-storm leaves out the storm that --with-kafka is for: choose one\n"
    assert no_java.stderr == (
        "kcore: --with-kafka: JAVA_HOME=nowhere has no bin/java: set it to a Java's folder, or unset it\n"
    )
    assert not plans and not Path("here").exists()


def test_the_storm_is_shown_behind_the_cells_and_kept_in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    done = kcore("bench", "--no-spark", "--with-kafka", "--out", "here")
    assert done.exit_code == 0, done.output
    shown = [
        "numbers: sort again",
        "20 brokers, 10,000 partitions: when brokers knew",
        "broker-lost kafka-4.4.0",
        "needs 0.200 times what Kafka 4.4.0 needs until the last broker knows who leads a lost broker's partitions",
        "Results in here: results.parquet, results.jsonl, plan.toml, report.html, storm/",
    ]
    text = " ".join(done.stdout.split())
    assert [text.find(part) for part in shown] == sorted(text.find(part) for part in shown) and shown[0] in text
    assert names("here") == {*OF_BENCH, "storm"} and names("here/storm") == {*OF_BENCH, "medians.json"}
    page = Path("here/report.html").read_text()
    assert '<a href="storm/report.html">' in page and "needs 0.200 times" in page and 'id="storm"' in page
    same = kcore("compare", "here/storm", "here/storm")
    assert same.exit_code == 0 and "broker-lost" in kcore("compare", "here/storm", "here/storm", "--all").stdout
    assert kcore("compare", "here", "here").exit_code == 0


def test_json_has_the_rows_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    rows = [json.loads(line) for line in kcore("bench", "--no-spark", "--json").stdout.splitlines()]
    assert [row.get("operation", row.get("scenario")) for row in rows] == [
        *("numbers: sort", "numbers: sort again"),
        *("register", "create", "broker-lost"),
    ]


def fails(rows: list[Row]) -> None:
    rows[-1]["error"] = "the end"


def is_invalid(rows: list[Row]) -> None:
    rows[-1] |= {"valid": False, "invalid": "late"}


def is_interrupted(rows: list[Row]) -> None:
    rows.pop()
    raise KeyboardInterrupt


def did_not_start(rows: list[Row]) -> None:
    for row in rows:
        row["error"] = "no jars"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (fails, 1, "failed: broker-lost on kcore-kraft, 20 x 10,000: the end"),
        (is_invalid, 3, "invalid: broker-lost on kcore-kraft, 20 x 10,000: late"),
        (is_interrupted, 3, "missing: broker-lost on kcore-kraft, 20 brokers, 10,000 partitions"),
        (did_not_start, 3, "failed: register, create, broker-lost on kcore-kraft, 20 x 10,000: no jars"),
    ],
)
def test_a_storm_that_is_not_good_has_a_line_and_an_exit_code_and_all_is_kept(
    end: Callable[[list[Row]], None], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, end)
    done = kcore("bench", "--no-spark", "--out", "here")
    assert done.exit_code == code
    assert [line for line in done.stdout.splitlines() if line.startswith(("failed", "invalid", "missing"))] == [said]
    assert names("here") == {*OF_BENCH, "storm"} and len(bench_results.read(Path("here"))) == 4
    assert said in Path("here/report.html").read_text() and said in Path("here/storm/report.html").read_text()


def test_a_controller_that_never_ran_a_scenario_is_exit_code_3_beside_one_that_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka's jars cannot be fetched, say: the figures of kcore's controller are shown."""

    def no_kafka(rows: list[Row]) -> None:
        did_not_start([row for row in rows if row["target"] == KAFKA])

    fake(monkeypatch, no_kafka)
    done = kcore("bench", "--no-spark", "--with-kafka", "--out", "here")
    assert done.exit_code == 3
    assert done.stdout.count("no jars") == 1 and "needs 6.00 ms until the last broker knows" in done.stdout


@pytest.mark.parametrize("error", [TargetError("controller 30001 did not start"), OSError(28, "No space left")])
def test_a_storm_that_cannot_begin_is_one_line_and_costs_no_figure_of_the_cells(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(quorum: KcoreQuorum) -> None:
        raise error

    monkeypatch.setattr(KcoreQuorum, "start", start)
    done = kcore("bench", "--no-spark", "--out", "here")
    assert done.exit_code == 3
    line = f"failed: register, create, broker-lost on kcore-kraft, 20 x 10,000: {error}"
    assert [each for each in done.stdout.splitlines() if str(error) in each] == [line]
    assert "numbers: sort again" in done.stdout and len(bench_results.read(Path("here"))) == 4


@pytest.mark.parametrize(("end", "code"), [(lambda rows: None, 1), (is_invalid, 3)])
def test_the_exit_code_is_the_worse_one_of_the_cells_and_the_storm(
    end: Callable[[list[Row]], None], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(cell: Any, cluster: Any) -> Any:
        raise ValueError("broken on purpose")

    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, broken))
    fake(monkeypatch, end)
    assert kcore("bench", "--no-spark").exit_code == code


def test_cells_that_were_interrupted_have_no_storm_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(cell: Any, cluster: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, interrupt))
    plans = fake(monkeypatch)
    done = kcore("bench", "--no-spark", "--out", "here")
    assert done.exit_code == 3 and "partial run 2 of 2 cells are missing: no storm" in done.stdout
    assert not plans and names("here") == {*OF_BENCH, "storm"}
    assert not names("here/storm")  # The folder is removed when the process ends.


def test_no_results_of_an_earlier_storm_stand_beside_those_of_a_new_run(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = fake(monkeypatch)
    Path("here/storm").mkdir(parents=True)
    Path("here/storm/medians.json").write_text("{}")
    refused = kcore("bench", "--no-spark", "--out", "here")
    assert refused.exit_code == 2 and "here/storm holds the results of an earlier run (medians.json)" in refused.stderr
    assert kcore("bench", "--no-spark", "--out", "here", "--overwrite", "--no-storm").exit_code == 0
    assert names("here") == OF_BENCH and not plans


def test_the_page_of_the_storm_has_the_storms_of_earlier_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    assert kcore("bench", "--no-spark", "--out", "out/monday").exit_code == 0
    earlier = Path("out/monday/storm/results.parquet")
    age(earlier)
    assert kcore("bench", "--no-spark", "--out", "out/tuesday").exit_code == 0
    page = Path("out/tuesday/storm/report.html").read_text()
    assert "Earlier runs" in page and "monday (2001-" in page
    assert "Earlier runs" not in Path("out/monday/storm/report.html").read_text()


def age(results: Path) -> None:
    """Lets the results be of the same machine in 2001."""
    table = compared.read(results)
    facts = result_files.facts_of(table) | {"when": "2001-01-01T00:00:00+00:00"}
    result_files.write_table(results, result_files.with_facts(table, facts))


@pytest.mark.long
def test_the_storm_of_the_default_plan_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_storm, "SHORT", replace(bench_storm.SHORT, brokers=(3,), partitions=(30,)))
    done = kcore("bench", "--no-spark", "--out", "here")
    assert done.exit_code == 0, done.output
    assert "numbers: sort again" in done.stdout
    assert "until the last broker knows who leads a lost broker's partitions" in done.stdout
    rows = [json.loads(line) for line in Path("here/storm/results.jsonl").read_text().splitlines()]
    assert [(row["scenario"], row["target"], row["valid"], row["error"]) for row in rows] == [
        (name, KCORE, True, None) for name in ("register", "create", "broker-lost")
    ]
    assert rows[1]["changes"] == 30 and 0 < rows[2]["session_ms"] < rows[2]["last_ms"]
