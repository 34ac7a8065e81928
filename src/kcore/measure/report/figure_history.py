"""The section of a page that compares the figures of a run with those of earlier runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kcore.measure.report.earlier import EarlierRun, EarlierRuns
from kcore.measure.report.report_page import html_table, paragraphs
from kcore.measure.report.units import three_digits

Key: TypeAlias = tuple[str, ...]
Figures: TypeAlias = Mapping[Key, float]
"""Figures by key; a key is the cells that name the measured operation."""


def history_section(
    head: Sequence[str], now: Figures, earlier: EarlierRuns, read: Callable[[EarlierRun], Figures],
    form: Callable[[float], str], about: str,
) -> str:  # fmt: skip
    """A table with a column for each run, and the ratio of this run to the run before; empty without earlier runs.

    `head` names the cells of a key; `about` describes the figures. Each run that was passed over gets a line.
    """
    figures = [(run, read(run)) for run in earlier.runs]
    runs = [(run, found) for run, found in figures if found.keys() & now.keys()]
    if not runs and not earlier.passed_over:
        return ""
    rows = []
    for key, figure in now.items():
        before = [found.get(key) for _, found in runs]
        cells = ["" if each is None else form(each) for each in (*before, figure)]
        last = before[-1] if before else None
        rows.append(([*key, *cells, f"{three_digits(figure / last)}x" if last else ""], False))
    names = (*head, *(run.name for run, _ in runs), "this run", "over the run before")
    table = html_table(names, rows, head) if runs else ""
    introduction = paragraphs([about]) if runs else ""
    return f'<h2 id="history">Earlier runs</h2>{introduction}{paragraphs(earlier.passed_over, "note")}{table}'
