"""The range of each target over several runs: its least and greatest figure, and how often the bound was met.

On a shared machine, one run does not decide a target whose figure is near its bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Column, Table

from kcore.measure.rivals.rival_names import figure
from kcore.measure.rivals.rival_targets import TargetResult


@dataclass(frozen=True, slots=True)
class TargetRange:
    """One target over all runs: its bound, the least and the greatest figure (None if a peer was missing).

    `met`: the runs that met the bound, of `runs`; None for a figure without a bound.
    """

    target: str
    bound: str
    least: float | None
    most: float | None
    unit: str
    met: int | None
    runs: int


def ranges(runs: Sequence[Sequence[TargetResult]]) -> list[TargetRange]:
    """One range per target, in the order of the runs; a run without the figure is not counted."""
    by_name: dict[str, list[TargetResult]] = {}
    for result in (result for run in runs for result in run):
        by_name.setdefault(result.target, []).append(result)
    return [_range(results) for results in by_name.values()]


def _range(results: Sequence[TargetResult]) -> TargetRange:
    values = [result.value for result in results if result.value is not None]
    judged = [result.met for result in results if result.met is not None]
    return TargetRange(
        results[0].target,
        results[0].bound,
        min(values, default=None),
        max(values, default=None),
        results[0].unit,
        sum(judged) if judged else None,
        len(values),
    )


def summary(found: Sequence[TargetRange]) -> str:
    """A line with the number of targets that were met in every run, and the names of the others."""
    judged = [each for each in found if each.met is not None]
    missed = [f"{each.target} (met in {each.met} of {each.runs})" for each in judged if each.met != each.runs]
    runs = max((each.runs for each in found), default=0)
    line = f"{len(judged) - len(missed)} of {len(judged)} targets met in each of {runs} runs"
    return f"{line}; not {', '.join(missed)}" if missed else line


def table(found: Sequence[TargetRange]) -> Table:
    """The ranges as a table for the terminal, one row per target."""
    made = Table("target", "bound", Column("measured", justify="right"), "met", title="targets, over all runs")
    for each in found:
        measured = "a peer is missing"
        if each.least is not None and each.most is not None:
            measured = f"{figure(each.least)} to {figure(each.most)} {each.unit}"
        made.add_row(each.target, each.bound, measured, "-" if each.met is None else f"{each.met} of {each.runs}")
    return made
