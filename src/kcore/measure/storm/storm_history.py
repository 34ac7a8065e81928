"""Compares a storm with earlier storms on the same machine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.figure_history import Figures, history_section
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.units import duration
from kcore.measure.storm.report_rows import KEY, ROW_SCHEMA, Row, is_profiled, repetitions, works

_NS: Final = 1e6  # Nanoseconds in a millisecond.
_HEAD: Final = ("scenario", "target", "size")
# Results of older versions lack these columns: they cannot separate a session's time-out from the work.
_NEEDED: Final = (*KEY, "last_ms", "session_ms", "error", "valid", "partial")
_KIND: Final = ResultKind(ROW_SCHEMA, _NEEDED, own=("scenario", "target"))
_ABOUT: Final = (
    "Work until the last broker knew, without session time-outs; medians if there are repetitions. Single runs "
    "vary, so that their ratios say little."
)


def section(
    directory: Path | None,
    facts: Mapping[str, Any],
    rows: Sequence[Row],
    is_part: bool,
    runs_at: ResultTable | None = None,
) -> str:
    """The section on earlier runs in the page of these rows, also those of the table `runs_at`; empty without any.

    `is_part`: `directory` is a subfolder of another command's run; earlier runs have a subfolder of the same name.
    """
    kind = _KIND
    if directory is not None and is_part:
        directory, kind = directory.parent, replace(kind, file=f"{directory.name}/{kind.file}")
    earlier = earlier_runs(directory, facts, kind, runs_at)
    profiled = is_profiled(rows)
    return history_section(
        _HEAD, _works(rows), earlier, lambda run: _read(run, profiled), lambda ms: duration(ms * _NS), _ABOUT
    )


def _read(run: EarlierRun, profiled: bool) -> Figures:
    """The figures of an earlier run; empty if only one of the two runs was profiled."""
    rows = run.table.to_pylist(maps_as_pydicts="strict")
    return _works(rows) if is_profiled(rows) == profiled else {}


def _works(rows: Sequence[Row]) -> Figures:
    """The controllers' work in ms, the median of the valid repetitions."""
    found: dict[tuple[str, ...], float] = {}
    for (brokers, partitions, scenario, target), group in repetitions(rows).items():
        times = works(group)
        if times and median(times) > 0:
            found[scenario, target, f"{brokers:,} x {partitions:,}"] = median(times)
    return found
