"""`--table` of `kcore storm`, and URIs at `--out` of `kcore bench` and `kcore storm`."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from cli.invoking import in_a_folder_with_a_plan as in_a_folder_with_a_plan
from cli.invoking import kcore
from kcore.cli.measure import measured_storm
from kcore.measure.report import uri_folder
from kcore.measure.report.machine import facts
from kcore.measure.report.result_files import facts_of
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.uri_folder import UriFolder
from kcore.measure.storm import run_storm
from kcore.measure.storm.report_rows import Row, row_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import StormPlan
from kcore.storage.uris import without_password
from workloads.fakes import fake_workload as fake_workload

pytestmark = pytest.mark.usefixtures("in_a_folder_with_a_plan", "fake_storm")
BENCH = ["bench", "mine.toml", "--no-spark"]
STORM = ["storm", "create", "--target", "kcore-kraft"]
COMMANDS = [BENCH, STORM]
STORE = "memory://kcore"


@pytest.fixture
def fake_storm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Storms that measure nothing, a day apart; the memory store is empty."""

    def run(plan: StormPlan, rows: list[Row], *_: object) -> list[str]:
        [cell] = plan.cells()
        for name in plan.scenarios_of(cell.target):
            rows.append(row_of(cell, ScenarioResult(name, 20, 10, 1, last_ms=5.0, session_ms=0.0), plan.seed))
        return []

    days = iter(f"2026-01-0{day}T00:00:00+00:00" for day in range(1, 10))
    monkeypatch.setattr(measured_storm, "facts", lambda *given: facts(*given) | {"when": next(days)})
    monkeypatch.setattr(run_storm, "run", run)
    monkeypatch.setattr(run_storm, "check_builds", lambda plan: None)
    yield
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def stored(folder: str = "/kcore") -> dict[str, bytes]:
    """The files of the memory store below the folder."""
    files = fsspec.filesystem("memory")
    return {path.removeprefix(f"{folder}/"): files.cat_file(path) for path in files.find(folder)}


def local(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("uri", ["runs", STORE])
def test_storms_are_appended_and_compared_by_name(uri: str) -> None:
    pages = []
    for out in ("here/a", "there/b"):
        done = kcore(*STORM, "--table", uri, "--out", out)
        assert done.exit_code == 0, done.output
        pages.append(Path(out, "report.html").read_text())
    table = ResultTable(uri)
    first, second = table.runs()
    assert f"Appended to {uri} as the run {second}" in done.output.splitlines()
    rows, about = table.read(first), facts_of(table.read(first))
    assert [*dict.fromkeys(rows["plan"].to_pylist())] == ["storm"]
    for row in rows.to_pylist():
        assert (row["started"], row["host"]) == (about["when"], about["machine"]["host"])
        assert (row["kcore_sha256"], row["kcore_commit"]) == (about["code"]["sha256"], about["code"]["commit"])
    done = kcore("compare", first, second, "--table", uri)
    assert done.exit_code == 0 and "none of 2 scenarios" in done.stdout, done.output
    assert first not in pages[0] and first in pages[1]  # The history has the table's runs.


def test_the_runs_of_bench_and_of_storms_may_share_a_table() -> None:
    for command in (STORM, BENCH, STORM):
        done = kcore(*command, "--table", "runs", "--out", f"{command[0]}/out", "--overwrite")
        assert done.exit_code == 0, done.output
        assert "passed over" not in Path(command[0], "out/report.html").read_text()
    storm, _, bench = ResultTable("runs").runs()
    done = kcore("compare", storm, bench, "--table", "runs")
    assert done.exit_code == 2 and "give two of the same command" in done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_results_are_copied_to_a_uri_and_stay_in_the_default_folder(command: list[str]) -> None:
    done = kcore(*command, "--out", STORE)
    assert done.exit_code == 0 and f"Copied to {STORE}" in done.output.splitlines(), done.output
    [folder] = Path("out").iterdir()
    assert stored() == local(folder) and {"results.parquet", "report.html", "plan.toml"} <= stored().keys()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_results_at_uris_are_compared(command: list[str]) -> None:
    for run in ("one", "two"):
        assert kcore(*command, "--out", f"{STORE}/{run}").exit_code == 0
    done = kcore("compare", f"{STORE}/one", f"{STORE}/two/results.parquet", "--html", "page.html")
    assert done.exit_code in (0, 1, 3), done.output  # The times are real, and so is the verdict.
    assert f"{STORE}/one" in Path("page.html").read_text()
    done = kcore("compare", f"{STORE}/three", f"{STORE}/two")
    assert done.exit_code == 2 and done.stderr.startswith(f"kcore: results at {STORE}/three: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_file_uri_is_the_local_folder(command: list[str], tmp_path: Path) -> None:
    done = kcore(*command, "--out", f"file://{tmp_path}/here")
    assert done.exit_code == 0 and Path("here/results.parquet").is_file() and not Path("out").exists(), done.output


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_earlier_results_at_a_uri_are_replaced_only_with_overwrite(command: list[str]) -> None:
    old = ("results.parquet", "profile-a.svg", "storm/results.parquet", "notes.txt")
    fsspec.filesystem("memory").pipe({f"/kcore/{name}": b"mine" for name in old})
    done = kcore(*command, "--out", STORE)
    assert done.exit_code == 2 and done.stderr.splitlines()[-1].startswith(
        f"kcore: --out: {STORE} holds the results of an earlier run ("
    )
    assert stored() == dict.fromkeys(old, b"mine") and not Path("out").exists()
    done = kcore(*command, "--out", STORE, "--overwrite")
    assert done.exit_code == 0, done.output
    [folder] = Path("out").iterdir()
    assert stored() == local(folder) | {"notes.txt": b"mine"}


def full(*_: object, **__: object) -> None:
    raise OSError("No space left\non device")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("option", ["--out", "--table"])
def test_a_uri_that_cannot_be_written_is_refused_before_anything_is_measured(
    command: list[str], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = kcore(*command, option, "gopher://a/b")
    assert done.exit_code == 2 and done.stderr.splitlines()[-1].startswith(f"kcore: {option} gopher://a/b: ")
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "_open", full)
    done = kcore(*command, option, STORE)
    assert done.exit_code == 2 and not Path("out").exists()
    assert done.stderr.splitlines()[-1] == f"kcore: {option} {STORE}: No space left on device"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_results_that_cannot_be_copied_stay_in_the_default_folder(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uri_folder.fs, "copy_files", full)
    done = kcore(*command, "--out", STORE)
    [folder] = Path("out").iterdir()
    said = f"kcore: --out {STORE}: No space left on device: the results are in {folder} only"
    assert done.exit_code == 3 and done.stderr.splitlines()[-1] == said
    assert Path(folder, "results.parquet").is_file()


def test_the_check_leaves_no_file_behind(tmp_path: Path) -> None:
    for uri in (STORE, str(tmp_path / "table")):
        UriFolder(uri).check()
        assert UriFolder(uri).names() == []


def test_passwords_are_not_printed() -> None:
    uri = "s3://KEY:a%2Fsecret@bucket/folder?scheme=http"
    assert without_password(f"--out {uri}: no") == "--out s3://KEY:***@bucket/folder?scheme=http: no"
    assert UriFolder(f"{uri}&endpoint_override=127.0.0.1:1").uri.startswith("s3://KEY:***@bucket/folder?")
    assert without_password("s3://KEY:a/secret@bucket: no") == "s3://KEY:***@bucket: no"
    for host in ("hdfs://host:8020/a", "hdfs://host:8020/a@b", "s3://b/a@c:d@e"):
        assert without_password(host) == host
