"""One figure of each thing that was measured, in this run and in earlier ones: a section of a page."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kcore.measure.report.earlier import EarlierRun, EarlierRuns
from kcore.measure.report.report_page import html_table, paragraphs
from kcore.measure.report.units import three_digits

Key: TypeAlias = tuple[str, ...]
Figures: TypeAlias = Mapping[Key, float]
"""By what was measured, as the cells that name it."""


def history_section(
    head: Sequence[str], now: Figures, earlier: EarlierRuns, read: Callable[[EarlierRun], Figures],
    form: Callable[[float], str], about: str,
) -> str:  # fmt: skip
    """A table: a column a run that has any of these figures, and this run over the one before it; empty without one.

    `head` names the cells of a key, `about` what the figures are. A line for each run that was passed over.
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
