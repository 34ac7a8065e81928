"""A plan of 200 cells on a standalone Spark, every part of which is killed while the plan runs."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from kcore.measure.bench import Plan
from kcore.measure.bench import bench_results as results
from kcore.measure.report.exits import Exit
from kcore.measure.workloads.workload_rows import CODE, KEY, VARIANT
from spark.standalone import PATIENCE_S, Daemon, Standalone, descendants, kill_all, standalone, wait_until

Row = dict[str, Any]

# The cells are long enough that no run ends before its kills.
PLAN: Final = """
[[workload]]
name = "divergence"
partitions = [10, 20, 30, 40, 50, 60, 70, 80, 90]
brokers = [3]
repeat = 10
seed = 1
duration_s = 0.02

[[workload]]
name = "divergence"
partitions = [10, 20, 30, 40, 50, 60, 70, 80, 90]
brokers = [3]
repeat = 10
seed = 2
duration_s = 0.02

[[workload]]
name = "election"
partitions = [10]
brokers = [3, 4]
replication_factor = 2
repeat = 10
"""
COUNT: Final = 200
CELL: Final = ("workload", "partitions", "brokers", "seed", "repetition")  # The plan has no other differences.
# The columns that depend on the cell and on kcore's code alone. The others are times, memory, hosts and processes.
DETERMINISTIC: Final = (
    *(*KEY, "repetition", *VARIANT),
    *("handled_partitions", "moved_bytes", "wire_bytes", "memory_bytes", "digest", "error", *CODE),
)


class Driver:
    """A process of `kcore bench`, whose journal is in `folder`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._output = folder.parent / f"driver-{len([*folder.parent.glob('driver-*')])}.txt"
        command = [sys.executable, "-m", "kcore", "bench", "plan.toml", "--no-storm", *options]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder.parent)

    @property
    def said(self) -> str:
        """The output of the command."""
        return self._output.read_text()

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Waits for the condition, which must come true before the run ends."""
        wait_until(is_so, self.process, lambda: f"{len(journal(self._folder))} cells:\n{self.said}")

    def wait_for_cells(self, count: int) -> None:
        """Waits until the journal has the rows of this many cells."""
        self.wait_for(lambda: len(journal(self._folder)) >= count)

    def end(self) -> int:
        """Waits for the end of the run, as long as it makes progress or says something; returns the exit code."""
        seen = None
        while seen != (seen := (len(journal(self._folder)), self.said)):
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(PATIENCE_S)
        raise AssertionError(f"the run waits:\n{self.said}")

    def kill(self) -> None:
        """Ends Python and its Java by SIGKILL."""
        kill_all([psutil.Process(self.process.pid), *descendants(self.process.pid)])
        self.process.wait(PATIENCE_S)


@contextmanager
def driver(folder: Path, *options: str) -> Iterator[Driver]:
    """A driver that has ended at the end."""
    started = Driver(folder, *options)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


def journal(folder: Path) -> list[list[Row]]:
    """The rows of each finished cell, in the order in which the cells ended. A line that is incomplete is left out."""
    try:
        text = (folder / "cells.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]


def cell_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in CELL)


def by_cell(rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each cell. The journal has no commit, which the driver adds at the end."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(cell_of(row), []).append(row | {"kcore_commit": None})
    return found


def deterministic(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in DETERMINISTIC) for row in rows]


def kill_an_executor(run: Driver, worker: Daemon) -> None:
    """Kills the executor of a worker, and waits for the executor that Spark starts in its place."""
    [killed] = worker.executors()
    kill_all([killed])
    run.wait_for(lambda: any(each.pid != killed.pid for each in worker.executors()))


def kill_a_worker(run: Driver, cluster: Standalone) -> None:
    """Kills the first worker with its executor, and waits until a new worker has an executor."""
    cluster.workers[0].kill()
    other = cluster.add_worker()
    run.wait_for(lambda: bool(other.executors()))


def killed_four_times(folder: Path) -> list[list[list[Row]]]:
    """Runs the plan to its end, with all kills. Returns the journal after each driver, and during the last one."""
    parent, journals = folder.parent, []
    with standalone(parent / "one", workers=2) as cluster:
        with driver(folder, "--master", cluster.url, "--out", folder.name) as run:
            run.wait_for_cells(15)
            kill_an_executor(run, cluster.workers[1])
            run.wait_for_cells(30)
            kill_a_worker(run, cluster)
            run.wait_for_cells(len(journal(folder)) + 10)
            run.kill()
        journals.append(journal(folder))
        with driver(folder, "--master", cluster.url, "--resume", folder.name) as run:
            run.wait_for_cells(len(journals[0]) + 15)
            cluster.kill()
            assert run.end() == Exit.INVALID, run.said
        [lost] = [line for line in run.said.splitlines() if line.startswith("not measured ")]
        assert lost.endswith(" cells: executor lost: there has been no executor for 60 s")
        assert "--resume run runs the cells that are not measured" in run.said and "\tat " not in run.said
        journals.append(journal(folder))
    with (
        standalone(parent / "two", workers=2) as cluster,
        driver(folder, "--master", cluster.url, "--resume", folder.name) as run,
    ):
        run.wait_for_cells(len(journals[1]) + 5)
        journals.append(journal(folder))
        assert run.end() == Exit.GOOD, run.said
    return journals


def test_a_run_of_which_every_part_is_killed_has_the_rows_of_an_undisturbed_run(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    cells = Plan.of(tmp_path / "plan.toml").cells()
    assert len(cells) == COUNT
    with driver(tmp_path / "undisturbed", "--no-spark", "--out", "undisturbed") as other:
        first, second, third = killed_four_times(tmp_path / "run")
        assert other.end() == Exit.GOOD, other.said
    assert first == second[: len(first)] and second == third[: len(second)]  # A later driver loses no finished cell.
    finished = [cell_of(each[0]) for each in third]
    assert len({*finished}) == len(finished)  # No finished cell runs again.
    rows, undisturbed = (results.read(tmp_path / name).to_pylist() for name in ("run", "undisturbed"))
    whole = by_cell(rows)
    assert len(whole) == COUNT
    assert [whole[cell] for cell in finished] == third  # The times are those of the journal, too.
    assert results.verdict(rows, cells) is results.verdict(undisturbed, cells) is Exit.GOOD
    assert deterministic(rows) == deterministic(undisturbed)
