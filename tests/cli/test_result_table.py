"""`kcore bench --table` and `kcore compare --table`: many runs in one table."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.invoking import in_a_folder_with_a_plan as in_a_folder_with_a_plan
from cli.invoking import kcore
from kcore.measure.bench import job
from kcore.measure.report import machine
from kcore.measure.report.result_files import facts_of
from kcore.measure.report.result_table import ResultTable
from workloads.fakes import fake_workload as fake_workload


def appended(uri: str) -> str:
    """Runs the plan of the folder; the name of the appended run."""
    done = kcore("bench", "mine.toml", "--no-spark", "--table", uri)
    assert done.exit_code == 0, done.output
    [line] = [line for line in done.stdout.splitlines() if line.startswith(f"Appended to {uri} as the run ")]
    return line.rpartition(" ")[2]


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_runs_are_appended_and_compared_by_name(scheme: str, tmp_path: Path) -> None:
    uri = f"{scheme}{tmp_path}/all/runs"
    first, second = appended(uri), appended(uri)
    table = ResultTable(uri)
    assert sorted({first, second}) == table.runs() and first != second
    whole = pq.read_table(tmp_path / "all/runs")
    rows = whole.to_pylist()
    assert {row["run"] for row in rows} == {first, second} and {row["plan"] for row in rows} == {"mine.toml"}
    assert len(rows) == 2 * len(table.read(first)) and all(row["host"] and row["kcore_sha256"] for row in rows)
    assert {row["started"] for row in rows} == {facts_of(table.read(run))["when"] for run in (first, second)}
    done = kcore("compare", first, second, "--table", uri, "--threshold", 1000)
    assert done.exit_code == 0 and "none of" in done.stdout, done.output
    assert not list((tmp_path / "all").rglob("*.part"))


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
def test_the_report_has_the_table_s_earlier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(f"2026-01-0{day}T00:00:00+00:00" for day in range(1, 10))
    real = machine.facts
    monkeypatch.setattr(job, "facts", lambda *given: real(*given) | {"when": next(times)})
    first, pages = "", list[str]()
    for number in range(2):
        out = tmp_path / f"host{number}/out"
        done = kcore("bench", "mine.toml", "--no-spark", "--table", tmp_path / "runs", "--out", out)
        assert done.exit_code == 0, done.output
        pages.append((out / "report.html").read_text())
        first = first or ResultTable(str(tmp_path / "runs")).runs()[0]
    assert first.startswith("20260101T000000Z-") and first not in pages[0]
    assert f"Against the run before ({first})" in pages[1]


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
def test_a_name_is_whole_or_the_beginning_of_one_run(tmp_path: Path) -> None:
    uri = str(tmp_path / "runs")
    run = appended(uri)
    table = ResultTable(uri)
    assert table.read(run[:8]).equals(table.read(run))
    (tmp_path / "runs" / f"run={run}x").mkdir()
    assert table.read(run).num_rows  # The whole name wins over a longer one.
    done = kcore("compare", run[:8], run, "--table", uri)
    assert (
        done.exit_code == 2 and done.stderr == f"kcore: --table {uri}: 2 runs begin with '{run[:8]}': {run}, {run}x\n"
    )
    done = kcore("compare", "monday", run, "--table", uri)
    assert done.exit_code == 2 and done.stderr == (
        f"kcore: --table {uri}: there is no run 'monday'; the newest are {run}, {run}x\n"
    )
    done = kcore("compare", run, run, "--table", tmp_path / "empty")
    assert done.stderr == f"kcore: --table {tmp_path / 'empty'}: there is no run '{run}'; the table has no run\n"


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
@pytest.mark.parametrize(
    ("uri", "said"),
    [("gopher://a/b", "gopher"), ("mine.toml", "mine.toml"), ("mine.toml/below", "mine.toml"), ("hdfs:///x y", "")],
)
def test_a_table_that_cannot_be_read_ends_the_command_before_it_measures(uri: str, said: str, tmp_path: Path) -> None:
    done = kcore("bench", "mine.toml", "--no-spark", "--table", uri)
    assert done.exit_code == 2, done.output
    [line] = done.stderr.splitlines()
    assert line.startswith(f"kcore: --table {uri}: ") and said in line
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_a_table_that_cannot_be_listed_after_the_run_costs_no_result(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a remote store that answered before the run; fsspec's stores raise errors of their own."""
    listed, answers = ResultTable.runs, [True]

    def runs(self: ResultTable) -> list[str]:
        if not answers:
            raise kind("the token has expired")
        answers.pop()
        return listed(self)

    monkeypatch.setattr(ResultTable, "runs", runs)
    done = kcore("bench", "mine.toml", "--no-spark", "--table", tmp_path / "runs", "--out", tmp_path / "mine")
    assert done.exit_code == 0 and "Appended to" in done.stdout, done.output
    assert "the token has expired" in (tmp_path / "mine/report.html").read_text()


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
def test_a_run_that_cannot_be_appended_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(pq, "write_table", write := _only_in(tmp_path / "mine", pq.write_table, full))
    done = kcore("bench", "mine.toml", "--no-spark", "--table", tmp_path / "runs", "--out", tmp_path / "mine")
    assert write and done.exit_code == 3
    said = "No space left on device: the results are in"
    assert done.stderr.splitlines()[-1] == f"kcore: --table {tmp_path / 'runs'}: {said} {tmp_path / 'mine'} only"
    assert pq.read_table(tmp_path / "mine/results.parquet").num_rows


def _only_in(folder: Path, good: object, bad: object) -> object:
    """A function that is `good` for files below the folder, and `bad` for others."""

    def choose(table: object, path: object, **given: object) -> object:
        chosen = good if str(path).startswith(str(folder)) else bad
        return chosen(table, path, **given)  # type: ignore[operator]

    return choose
