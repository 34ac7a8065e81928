"""Progress names what runs and estimates the end; tables stay whole in a pipe; a full disk costs no table."""

import errno
import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.table import Table

from cli.invoking import kcore
from kcore.cli import progress
from kcore.cli.console import wide_console
from kcore.measure.report import result_files
from kcore.measure.report.units import time_left
from kcore.spark.progress import Progress


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "expected"),
    [(0, 4, 9.0, ""), (4, 4, 9.0, ""), (1, 4, 10.0, "about 30 s left"), (1, 2, 89.0, "about 89 s left"),
     (1, 3, 120.0, "about 4 min left"), (1, 11, 1_800.0, "about 5 h left")],
)  # fmt: skip
def test_the_end_is_estimated_from_what_is_done(done: int, total: int, elapsed_s: float, expected: str) -> None:
    assert time_left(done, total, elapsed_s) == expected


def test_a_line_of_progress_names_the_cell_and_when_the_run_will_end(monkeypatch: pytest.MonkeyPatch) -> None:
    console, now = Console(width=80, record=True, file=open(os.devnull, "w")), [100.0]  # noqa: SIM115
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress_display(console, 4, None) as on_progress:
        for done, cell in enumerate(["codec 1,000p", "codec [2,000p]"]):
            now[0] += 10.0
            on_progress(Progress(done, 1, 4, cell=cell))
        now[0] += 10.0
        on_progress(Progress(2, 2, 4, cell="election"))
        on_progress(Progress(4, 0, 4))
    assert console.export_text().splitlines() == [
        "4 cells on this process",
        "0/4 cells, codec 1,000p, 10 s",
        "1/4 cells, codec [2,000p], 20 s, about 60 s left",
        "2/4 cells, 2 running, last election, 30 s, about 30 s left",
        "4/4 cells, 30 s",
    ]


def test_a_line_names_failed_cells_and_hosts_and_estimates_without_earlier_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console, now = Console(width=80, record=True, file=open(os.devnull, "w")), [100.0]  # noqa: SIM115
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    hosts = (("a", 5), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1))
    with progress.progress_display(console, 200, "yarn", 100) as on_progress:
        now[0] += 10.0
        on_progress(Progress(110, 4, 200, failed=2, hosts=hosts))
        now[0] += 10.0
        on_progress(Progress(200, 0, 200, hosts=hosts[:1]))
    assert console.export_text().splitlines() == [
        "200 cells on Spark yarn, 100 of them done by an earlier run",
        "110/200 cells, 2 failed, 4 running, on a (5) b (1) c (1) d (1) and 2 more, 10 s, about 2 min left",
        "200/200 cells, 20 s",
    ]


def test_a_row_of_a_table_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("operation", *(f"column {at}" for at in range(12)))
    table.add_row("one broker: " + "fails " * 30, *(f"{at} ms" for at in range(12)))
    wide_console().print(table)
    [row] = [line for line in capsys.readouterr().out.splitlines() if "one broker" in line]
    assert row.count("fails") == 30 and "11 ms" in row


@contextmanager
def disk_of(most_bytes: int) -> Iterator[None]:
    """Every file ends at so many bytes: writing more fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


WRITES: list[Callable[[Path], None]] = [
    lambda path: result_files.write_text(path, "x" * 100_000),
    lambda path: result_files.write_lines(path, [{"x": "x" * 100_000}]),
    lambda path: result_files.write_table(path, pa.table({"x": [os.urandom(100_000)]})),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_file_that_does_not_fit_is_not_there_in_part(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("before")
    for name in ("new", "kept"):
        with disk_of(10_000), pytest.raises(OSError, match="File too large"):
            write(tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept", "before")]


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
@pytest.mark.parametrize("as_json", [False, True])
def test_a_disk_that_fills_while_results_are_written_costs_no_table(
    as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fills(path: Path, text: str) -> None:
        with result_files.whole(path) as part:
            part.write_text(text[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(result_files, "write_text", fills)
    done = kcore("bench", "mine.toml", "--no-spark", "--out", "here", *(["--json"] if as_json else []))
    assert done.exit_code == 3
    assert json.loads(done.stdout.splitlines()[0]) if as_json else "median" in done.stdout
    assert done.stderr.splitlines()[-1] == (
        "kcore: here: No space left on device: only results.parquet, results.jsonl, cells.jsonl could be kept"
    )
    assert sorted(path.name for path in Path("here").iterdir()) == ["cells.jsonl", "results.jsonl", "results.parquet"]
    assert pq.read_table("here/results.parquet").num_rows
