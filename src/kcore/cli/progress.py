"""The progress of a run: a moving bar on a terminal; in a log, a line every few seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from kcore.measure.report.units import time_left
from kcore.spark.progress import OnProgress, Progress

QUIET_S = 5.0  # The least time between two lines of a log.
SHOWN_HOSTS = 4


@contextmanager
def progress_display(console: Console, total: int, master: str | None, earlier: int = 0) -> Iterator[OnProgress]:
    """Yields the function that a runner calls with its progress; the display ends with the context.

    `earlier`: the number of cells that an earlier run has done; the time that is left is estimated without them.
    """
    where = "this process" if master is None else f"Spark {master}"
    if not console.is_terminal:
        known = f", {earlier} of them done by an earlier run" if earlier else ""
        console.print(f"{total} cells on {where}{known}")
        yield _LogLines(console, earlier)
        return
    text = TextColumn("{task.description}")
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), _Left(earlier))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"starting {where}", total=total, completed=earlier)

        def on_progress(progress: Progress) -> None:
            parts = (_failed(progress), _running(progress), _hosts(progress))
            bar.update(task, completed=progress.done, description=f"{where}: {', '.join(filter(None, parts))}")

        yield on_progress


def _failed(progress: Progress) -> str:
    return f"{progress.failed} failed" if progress.failed else ""


def _hosts(progress: Progress) -> str:
    """The hosts with the most finished cells; empty if all cells ran on one host."""
    if len(progress.hosts) < 2:
        return ""
    shown = [f"{escape(host)} ({count})" for host, count in progress.hosts[:SHOWN_HOSTS]]
    more = len(progress.hosts) - len(shown)
    return "on " + " ".join([*shown, *([f"and {more} more"] if more else [])])


def _running(progress: Progress) -> str:
    """The name of the running cell; for several running cells, their number and the cell that ended last."""
    if progress.running <= 1:
        return escape(progress.cell) or f"{progress.running} running"
    return f"{progress.running} running" + (f", last {escape(progress.cell)}" if progress.cell else "")


class _Left(ProgressColumn):
    """The column with the estimated time until the end."""

    def __init__(self, earlier: int) -> None:
        super().__init__()
        self._earlier = earlier

    def render(self, task: Task) -> Text:
        done, total = int(task.completed) - self._earlier, int(task.total or 0) - self._earlier
        return Text(time_left(done, total, task.elapsed or 0.0))


class _LogLines:
    """Prints a line if more cells are finished and QUIET_S have passed since the last line, and a line at the end."""

    def __init__(self, console: Console, earlier: int) -> None:
        self._console, self._earlier = console, earlier
        self._start_s = self._last_s = time.monotonic()
        self._done = -1

    def __call__(self, progress: Progress) -> None:
        now_s = time.monotonic()
        is_end = progress.done == progress.total
        if progress.done == self._done or (now_s - self._last_s < QUIET_S and not is_end):
            return
        self._last_s, self._done = now_s, progress.done
        elapsed_s = now_s - self._start_s
        left = time_left(progress.done - self._earlier, progress.total - self._earlier, elapsed_s)
        running = "" if is_end else _running(progress)
        counts = (f"{progress.done}/{progress.total} cells", _failed(progress), running, _hosts(progress))
        parts = (*counts, f"{elapsed_s:.0f} s", left)
        self._console.print(", ".join(filter(None, parts)), soft_wrap=True)
