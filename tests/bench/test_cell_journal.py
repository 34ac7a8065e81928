"""The finished cells of a run survive any end of the driver, and the next driver runs the others."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli.invoking import kcore
from kcore.errors import StorageError
from kcore.measure import bench
from kcore.measure.bench import Plan, cell_journal
from kcore.measure.bench import bench_results as results
from kcore.measure.bench.bench_plan import WorkloadPlan
from kcore.measure.bench.cell_journal import CellJournal
from kcore.measure.report.exits import Exit
from kcore.measure.workloads.catalog import WORKLOADS, Workload
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.run_cell import failed_row
from kcore.spark.failures import LOST
from kcore.spark.finished_cells import FinishedCells
from kcore.spark.place import batch_of
from kcore.spark.progress import Progress, silent
from workloads.fakes import FAKE, setup

pytestmark = pytest.mark.usefixtures("fake_workload")
WANTED = Plan((WorkloadPlan("fake", (10, 100, 1000), (3, 30), repeat=2),))
CELLS = [Cell("fake", p, b, 1, nth) for p in (1000, 100, 10) for b in (3, 30) for nth in (0, 1)]


def digests(table: pa.Table) -> dict[tuple[Any, ...], str]:
    names = ("workload", "operation", "partitions", "brokers", "seed", "repetition")
    return {tuple(row[name] for name in names): row["digest"] for row in table.to_pylist()}


def begun(folder: Path, count: int) -> CellJournal:
    """A journal with the first cells of a run whose driver ended."""
    journal = CellJournal(folder, WANTED)
    journal.begin()
    for cell in CELLS[:count]:
        journal.add(batch_of([failed_row(cell, "broken before")]))
    journal.close()
    return journal


def test_a_killed_driver_loses_no_finished_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Cell] = []

    def counts(cell: Cell, cluster: object) -> list[object]:
        run.append(cell)
        if os.getpid() != parent and len(run) == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return setup(cell, None)

    parent = os.getpid()
    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, counts))
    if not (child := os.fork()):
        bench.run(WANTED, journal=CellJournal(tmp_path, WANTED))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    seen: list[Progress] = []
    journal = CellJournal.resume(tmp_path, WANTED)
    table = bench.run(WANTED, journal=journal, on_progress=seen.append)
    journal.end(len(CELLS))
    assert run == CELLS[5:]  # The five cells before the sixth were done.
    assert (seen[0].done, seen[0].total, seen[-1].done) == (5, len(CELLS), len(CELLS))
    assert digests(table) == digests(bench.run(WANTED))
    assert results.verdict(table.to_pylist(), CELLS) is Exit.GOOD
    assert [*tmp_path.iterdir()] == []  # A whole run needs no journal.


def test_an_incomplete_line_is_cut_off(tmp_path: Path) -> None:
    path = begun(tmp_path, 3).path
    whole = path.read_bytes()
    for size in range(len(whole) - 1, len(whole) - 40, -7):
        path.write_bytes(whole[:size])
        journal = CellJournal.resume(tmp_path, WANTED)
        assert journal.count == len(journal.batches) == 2
        journal.add(batch_of([failed_row(CELLS[2], "broken")]))
        journal.close()
        again = CellJournal.resume(tmp_path, WANTED)
        assert again.count == 3 and again.batches[2]["error"].to_pylist() == ["broken"]
        again.close()


@pytest.mark.parametrize("size", [0, 7])
def test_a_driver_that_ended_in_the_first_line(size: int, tmp_path: Path) -> None:
    path = begun(tmp_path, 0).path
    path.write_bytes(path.read_bytes()[:size])
    CellJournal.resume(tmp_path, WANTED).close()
    again = CellJournal.resume(tmp_path, WANTED)
    assert (again.count, path.read_bytes().count(b"\n")) == (0, 1)


@pytest.mark.parametrize(
    "line", [b"[]", b"{}", b"[1]", b"nonsense", b"\xff", b'[{"workload": 1}]', b"[" * 9_999], ids=range(7)
)
def test_a_damaged_line_is_named(line: bytes, tmp_path: Path) -> None:
    path = begun(tmp_path, 1).path
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(StorageError, match=rf"{path}: line 3 is damaged: ") as error:
        CellJournal.resume(tmp_path, WANTED)
    assert "\n" not in str(error.value)


def test_runs_that_cannot_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"no unfinished run of kcore bench is there: it has no cells\.jsonl"):
        CellJournal.resume(tmp_path, WANTED)
    path = begun(tmp_path, 1).path
    other = WANTED.with_options(seed=7)
    with pytest.raises(StorageError, match=r"another plan .seed = 1 there, seed = 7 here.: give the same plan"):
        CellJournal.resume(tmp_path, other)
    with monkeypatch.context() as patched:
        patched.setattr(cell_journal, "own_sha256", lambda: "ab" * 32)
        with pytest.raises(StorageError, match=r"other code of kcore began the run there .*, this is abababababababab"):
            CellJournal.resume(tmp_path, WANTED)
    path.write_text('{"format": "another"}\n')
    with pytest.raises(StorageError, match="not the cells of a run"):
        CellJournal.resume(tmp_path, WANTED)


def test_only_one_driver_writes(tmp_path: Path) -> None:
    begun(tmp_path, 1)
    journal = CellJournal.resume(tmp_path, WANTED)
    if not (child := os.fork()):
        try:
            CellJournal.resume(tmp_path, WANTED)
        except StorageError as error:
            os._exit(7 if "another driver writes this run" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    journal.close()


def test_cells_that_spark_lost_are_not_finished() -> None:
    kept: list[pa.RecordBatch] = []
    seen: list[Progress] = []
    done = FinishedCells(3, seen.append, kept.append)
    done.add(batch_of([failed_row(CELLS[0], f"{LOST}: 3")]))
    done.add(batch_of([failed_row(CELLS[2], "b has other code") | {"kcore_sha256": "ab" * 32}]))
    done.add(batch_of([failed_row(CELLS[1], "ValueError: no") | {"host": "a"}]))
    done.report(0)
    assert (len(kept), done.table().num_rows, seen[-1].failed, seen[-1].hosts) == (1, 3, 3, (("a", 1),))
    assert FinishedCells(1, silent, kept.append).table().num_rows == 0


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
def test_the_command_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*options: str) -> str:
        done = kcore("bench", "mine.toml", "--no-spark", "--no-storm", *options)
        assert (done.exit_code, done.stdout) == (2, "") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    plan = Plan.of("mine.toml")
    Path("here").mkdir()
    assert "no unfinished run of kcore bench is there" in refused("--resume", "here")
    CellJournal(Path("here"), plan).begin()
    assert "holds an unfinished run (cells.jsonl): `kcore bench` continues it with" in refused("--out", "here")
    assert "leave out --out and --overwrite" in refused("--resume", "here", "--overwrite")
    assert "has another plan (seed = " in refused("--resume", "here", "--seed", "99")
    done = kcore("bench", "mine.toml", "--no-spark", "--no-storm", "--resume", "here")
    assert done.exit_code == 0, done.stderr
    names = sorted(path.name for path in Path("here").iterdir())
    assert names == ["plan.toml", "report.html", "results.jsonl", "results.parquet"]
    assert results.missing(results.read(Path("here")).to_pylist(), plan.cells()) == []


@pytest.mark.usefixtures("in_a_folder_with_a_plan")
def test_a_full_disk_ends_the_run_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def fills(file: int, data: bytes) -> None:
        written.append(len(data))
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(file, data)

    monkeypatch.setattr(cell_journal, "write_all", fills)
    done = kcore("bench", "mine.toml", "--no-spark", "--no-storm", "--out", "here")
    assert done.exit_code == 3
    said = "kcore: here/cells.jsonl: No space left on device: the run ends; --resume here runs the missing cells"
    assert done.stderr.splitlines()[-1] == said
    assert CellJournal.resume(Path("here"), Plan.of("mine.toml")).count == 1
