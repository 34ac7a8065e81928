"""`--out`: checked before anything is measured, never overwritten unless asked."""

import os
from pathlib import Path

import pytest
import typer

from cli.invoking import kcore
from kcore.cli.measure import results_folder
from kcore.measure.bench import bench_results as results
from kcore.measure.report.result_files import RESULT_FILES

pytestmark = pytest.mark.usefixtures("in_a_folder_with_a_plan")
COMMANDS = [
    ["bench", "mine.toml", "--no-spark"],
    ["bench", "designs", "--quick"],
    ["sim", "raft", "--seeds", "2", "--events", "100", "--processes", "1"],
    ["storm", "broker-lost"],
    ["rivals", "codec"],
    ["bench", "quorum"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("folder", ["mine.toml", "mine.toml/below", "/proc/kcore"])
def test_a_folder_that_cannot_be_written_is_found_before_anything_is_measured(command: list[str], folder: str) -> None:
    done = kcore(*command, "--out", folder)
    assert done.exit_code == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("left out: ")]
    assert len(said) == 1 and said[0].startswith("kcore: --out: ") and not done.stdout


@pytest.mark.parametrize("folder", ["mine.toml", "mine.toml/below", "link"])
def test_a_path_that_is_no_folder_is_named(folder: str) -> None:
    Path("link").symlink_to("nowhere")
    for out in (Path(folder), Path(folder).absolute()):
        named = f"{out}: {out.parent}" if out.name == "below" else out
        message = f"kcore: --out: {named} is no folder: name another one for the results\n"
        assert kcore("rivals", "codec", "--out", out).stderr == message


def test_the_folder_is_tried_by_a_write_since_root_has_every_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**_: object) -> None:
        raise OSError(30, os.strerror(30), "here")

    monkeypatch.setattr(results_folder, "TemporaryFile", refuses)
    done = kcore("bench", "mine.toml", "--no-spark", "--out", "here")
    assert (done.exit_code, done.stdout) == (2, "") and "Read-only file system" in done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("name", ["results.parquet", "report.html", "rivals.jsonl"])
def test_results_are_not_overwritten_unasked(command: list[str], name: str) -> None:
    Path("here").mkdir()
    Path("here", name).write_text("mine")
    done = kcore(*command, "--out", "here")
    assert done.exit_code == 2 and not done.stdout
    assert f"here holds the results of an earlier run ({name}): name another folder or add --overwrite" in done.stderr
    assert Path("here", name).read_text() == "mine"


def test_overwrite_replaces_all_of_an_earlier_run_and_nothing_else() -> None:
    Path("here").mkdir()
    for name in (*RESULT_FILES, "notes.txt"):
        Path("here", name).write_text("mine")
    assert kcore("bench", "mine.toml", "--no-spark", "--out", "here", "--overwrite").exit_code == 0
    assert sorted(path.name for path in Path("here").iterdir()) == [
        *("notes.txt", "plan.toml", "report.html", "results.jsonl", "results.parquet")
    ]
    assert len(results.read(Path("here"))) == 4 and Path("here/notes.txt").read_text() == "mine"


def test_a_folder_named_as_a_result_is_not_replaced() -> None:
    Path("here/results.parquet").mkdir(parents=True)
    done = kcore("bench", "mine.toml", "--no-spark", "--out", "here", "--overwrite")
    assert done.exit_code == 2 and "here/results.parquet is a folder" in done.stderr


def test_a_folder_with_other_files_is_taken() -> None:
    Path("here").mkdir()
    Path("here/notes.txt").write_text("mine")
    assert kcore("bench", "mine.toml", "--no-spark", "--out", "here").exit_code == 0


def test_two_runs_in_the_same_second_have_a_folder_each(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [results_folder.results_directory(None, "bench") for _ in range(5)]
    assert len(set(folders)) == 5 and all(folder.is_dir() for folder in folders)
    Path("out").rename("before")
    Path("out").write_text("a file")
    with pytest.raises(typer.Exit):
        results_folder.results_directory(None, "bench")
