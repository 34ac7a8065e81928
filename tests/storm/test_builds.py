"""Labels and builds of targets: in rows, on the page, in the terminal, and in `kcore compare`."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.cli.measure import bench_quorum_command
from kcore.errors import PlanError, TargetError
from kcore.measure.processes.target import Target
from kcore.measure.report import result_files
from kcore.measure.report.build import COLUMNS, Build
from kcore.measure.storm import compared, report_table, run_storm
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.profile.profile_files import file_name
from kcore.measure.storm.report_rows import Row, merged, row_of, table_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell, StormPlan
from kcore.spark.java import NoJavaError

RELEASE = "kafka-4.4.0"
LABELS = {"g1": (), "zgc": ("-XX:+UseZGC",)}
PLAN = StormPlan(targets=tuple(f"{label}={RELEASE}" for label in LABELS), jvm=("zgc:-XX:+UseZGC",))
JARS = "0123456789abcdef" * 4
BUILDS = {
    label: Build(RELEASE, "4.4.0", "A VM 21", ("-Xmx2g", *options), jars_sha256=JARS)
    for label, options in LABELS.items()
}


def rows(size: int = 100, builds: dict[str, Build] = BUILDS) -> list[Row]:
    return [
        row_of(Cell(Target.parse(f"{label}={RELEASE}"), 3, size, nth), result(scenario, ms + nth), 1) | build.as_row()
        for nth in range(2)
        for scenario in ("create", "broker-lost")
        for ms, (label, build) in zip((30.0, 40.0), builds.items(), strict=True)
    ]


def result(scenario: str, last_ms: float) -> ScenarioResult:
    waves, known = {"first": 5.0}, [10.0, 20.0, last_ms]
    timed = ScenarioResult(scenario, 3, 100, 1, first_ms=10.0, last_ms=last_ms, p50_ms=20.0, controller_cpu_s=0.1)
    return replace(timed, waves_ms=waves, known_ms=known, heartbeats=[3], heartbeat_p99_ms=2.0)


def terminal(found: list[Row]) -> str:
    printed = StringIO()
    report_table.show(Console(file=printed, width=250), merged(found), [])
    return printed.getvalue()


def test_two_targets_of_one_release_differ_by_their_labels() -> None:
    PLAN.check()
    assert [(cell.target.name, cell.target.jvm_options) for cell in PLAN.cells()] == [*LABELS.items()]
    assert [str(cell).split(",")[0] for cell in PLAN.cells()] == ["g1", "zgc"]


def test_the_rows_of_a_run_have_the_builds_and_failed_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refused(target: Target, *_: object) -> Iterator[None]:
        raise TargetError(f"{target.name} does not start")
        yield

    def described(target: Target, heap: str) -> Build:
        return replace(BUILDS[target.name], jvm_options=(f"-Xmx{heap}", *target.jvm_options))

    monkeypatch.setattr(run_storm, "build_of", described)
    monkeypatch.setattr(run_storm, "started", refused)
    found: list[Row] = []
    run_storm.run(PLAN, found, lambda line: None)
    assert {row["target"]: Build.of(row) for row in found} == BUILDS
    assert {row["error"] for row in found} == {"g1 does not start", "zgc does not start"}


def test_a_target_whose_build_cannot_be_had_has_failed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(target: Target, heap: str) -> Build:
        raise TargetError("Maven Central has no Kafka 4.4.0")

    monkeypatch.setattr(run_storm, "build_of", unknown)
    found: list[Row] = []
    run_storm.run(PLAN, found, lambda line: None)
    assert {row["error"] for row in found} == {"Maven Central has no Kafka 4.4.0"}
    assert {Build.of(row) for row in found} == {Build(RELEASE)}
    with pytest.raises(TargetError, match="has no Kafka"):
        run_storm.check_builds(PLAN)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TargetError("zgc: Error: Could not find or load main class kafka.Kafka"), 1),
        (NoJavaError("JAVA_HOME=/none has no bin/java"), 1),
        (PlanError("zgc: Unrecognized VM option 'UseZGCC'"), 2),
    ],
)
@pytest.mark.parametrize(
    ("command", "module"),
    [(["storm"], run_storm), (["bench", "quorum"], bench_quorum_command)],
)
def test_a_target_that_does_not_start_is_exit_code_1_or_2_if_its_options_are_wrong(
    command: list[str], module: ModuleType, error: Exception, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(target: Target, heap: str) -> Build:
        raise error

    monkeypatch.setattr(module, "build_of", failing)
    done = CliRunner().invoke(app, [*command, "--target", RELEASE, "--out", str(tmp_path / "out")])
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1] == f"kcore: {error}"


def test_a_storm_in_zookeeper_mode_without_java_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise NoJavaError("no Java")

    monkeypatch.setattr(run_storm, "java_home", missing)
    with pytest.raises(NoJavaError, match="no Java"):
        run_storm.check_builds(StormPlan(targets=("kcore-zk",)))
    run_storm.check_builds(StormPlan(targets=("kcore-kraft",)))


def test_labels_and_builds_are_on_the_page_and_in_the_terminal() -> None:
    found = [*rows(), *rows(size=1_000)]
    page, printed = report.render(found, {"targets": [*LABELS], "plan": ""}, []), terminal(found)
    section = page.partition('<h2 id="targets">')[2].partition("<h2")[0]
    for text in ("g1", "zgc", RELEASE, "4.4.0", "A VM 21", "-Xmx2g", "-XX:+UseZGC", JARS[:16]):
        assert text in section and text in printed, text
    charts = page.split("<svg")[1:]
    assert len(charts) > 5 and all("g1" in chart and "zgc" in chart for chart in charts)
    assert RELEASE not in page.replace(section, ""), "the label stands for the target everywhere else"
    assert "zgc needs 1.33 times what g1 needs" in page.replace("1.32", "1.33")


def test_results_have_the_builds_as_columns(tmp_path: Path) -> None:
    result_files.write(table_of(rows()), tmp_path)
    kept = pq.read_table(tmp_path / "results.parquet").to_pylist()
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    for found in (kept, lines):
        assert {row["target"]: Build.of(row) for row in found} == BUILDS


def test_results_of_older_versions_are_read_and_shown(tmp_path: Path) -> None:
    older = table_of(rows()).drop_columns([name for name, _ in COLUMNS])
    result_files.write(older, tmp_path)
    for path in (tmp_path, tmp_path / "results.jsonl"):
        found = compared.read(path).to_pylist(maps_as_pydicts="strict")
        assert {Build.of(row) for row in found} == {Build()}
        assert len(compared.figures_of(found)) == 4 and "SHA-256" not in terminal(found)
        assert "The results do not say which releases ran." in report.render(found, {}, [])


def test_compare_says_how_the_builds_of_a_target_differ(tmp_path: Path) -> None:
    newer = {label: replace(build, release="4.4.1", jars_sha256="f" * 64) for label, build in BUILDS.items()}
    plan = 'targets = ["g1=kafka-4.4.0"]\nheap = "2g"\n'
    for folder, builds, more in (("old", BUILDS, ""), ("new", newer, "jvm = []\n")):
        facts: dict[str, Any] = {"builds": {label: build.as_row() for label, build in builds.items()}}
        facts["plan"] = f"[storm]\n{plan}{more}"
        result_files.write(result_files.with_facts(table_of(rows(builds=builds)), facts), tmp_path / folder)
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "old"), str(tmp_path / "new"), "--all"])
    said = " ".join(done.stdout.split())
    assert "Target zgc: release: 4.4.0 in the old run, 4.4.1 in the new one." in said
    assert "Target g1: jars sha256:" in said and "jvm" not in said.replace("jvm options", "")


def test_a_path_is_no_folder_in_the_name_of_a_profile() -> None:
    assert file_name("kafka:/opt/my kafka", 3, 10_000) == "profile-kafka-opt-my-kafka-3x10k"


@pytest.mark.parametrize(
    ("target", "most", "refused"),
    [
        ("kcore-kraft", 1_366, "a controller of kcore-kraft has descriptors for 1,025"),
        ("kcore-kraft", 1_368, ""),
        (RELEASE, 1_281, "the storm has descriptors for 1,025"),
        (RELEASE, 1_282, ""),
        ("kcore-kraft", resource.RLIM_INFINITY, ""),
    ],
)
def test_a_storm_of_more_connections_than_descriptors_does_not_begin(
    target: str, most: int, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, most))
    plan = StormPlan(targets=(target,), brokers=(20, 513))
    if not refused:
        return run_storm.check_descriptors(plan)
    with pytest.raises(TargetError, match=f"513 brokers have 1,026 connections, and {refused}"):
        run_storm.check_descriptors(plan)


def test_brokers_on_executors_use_no_descriptors_of_the_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 1_000))
    plan = StormPlan(targets=("127.0.0.1:9093",), brokers=(1_000,))
    with pytest.raises(TargetError, match="the storm has descriptors for 744"):
        run_storm.check_descriptors(plan)
    run_storm.check_descriptors(replace(plan, master="local[2]"))
