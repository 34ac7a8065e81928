"""Repetitions of storms side by side: one that does not count is in no figure, and one that is missing is named."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from harness.side_by_side import at_every_place
from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.processes.target import Target
from kcore.measure.storm.compared import figures_of, left_out
from kcore.measure.storm.phases import phases_of
from kcore.measure.storm.report_rows import Row, different_ends, failed_row, medians, missing, row_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell

TARGETS = [Target.parse("kafka-4.3.1"), Target.parse("kcore-kraft")]


def _row(cell: Cell, *, partial: bool = False, **figures: Any) -> Row:
    result = ScenarioResult("broker-lost", 3, 100, 1, first_ms=10.0, last_ms=40.0, p50_ms=30.0)
    return row_of(cell, replace(result, **figures), 1, partial=partial)


def _cell(repetition: int, target: Target = TARGETS[0]) -> Cell:
    return Cell(target, 3, 100, repetition)


ODD = {
    "partial": _row(_cell(2), partial=True, last_ms=9_000.0),
    "invalid": _row(_cell(2), valid=False, last_ms=9_000.0),
    "failed": failed_row(_cell(2), "broker-lost", 1, 1, "it fell over"),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_repetition_that_does_not_count_is_in_no_figure_and_is_named(odd: Row) -> None:
    sound = [_row(_cell(0)), _row(_cell(1), last_ms=60.0)]
    for rows in at_every_place(sound, odd):
        [figure] = figures_of(rows)
        assert figure.spread.count == 2 and figure.spread.median == 50.0 * 1e6
        [line] = left_out(rows)
        assert line.startswith("broker-lost on ")
        [summary] = medians(rows)
        assert summary["work_ms"]["values"] == [40.0, 60.0] and summary["repetitions"] == 2
    assert figures_of([odd]) == []


def test_a_cell_that_is_missing_is_named_whatever_else_is_there() -> None:
    cells = [_cell(repetition, target) for repetition, target in product(range(3), TARGETS)]
    expected = [(cell, "broker-lost") for cell in cells]
    assert missing([_row(cell) for cell in cells], expected) == []
    for gone in cells:
        rows = [_row(cell) for cell in cells if cell != gone]
        assert missing(rows, expected) == [f"broker-lost on {gone}"]
    assert len(missing([_row(cell) for cell in cells], [(cells[0], "bounce")])) == 1


def test_ends_are_compared_within_a_repetition_and_not_with_those_of_failed_ones() -> None:
    rows = [
        _row(_cell(repetition, target), end_state=f"{repetition}") for repetition, target in product((0, 1), TARGETS)
    ]
    assert different_ends(rows) == [], "those of another repetition are other ends"
    rows[3]["end_state"] = "another"
    [line] = different_ends(rows)
    assert "repetition 2" in line
    rows[3]["error"] = "it fell over"
    assert different_ends(rows) == []


@pytest.mark.parametrize(
    ("gap_ms", "session_ms", "first_ms"),
    [*product([None, -1.0, 0.0, 3.0, 10.0, 99.0], [0.0, 5.0, 10.0, 40.0], [10.0, 50.0])],
)
def test_phases_are_never_negative_and_fill_the_time(gap_ms: float | None, session_ms: float, first_ms: float) -> None:
    row = _row(_cell(0), append_gap_ms=gap_ms, session_ms=session_ms, first_ms=first_ms)
    phases = phases_of(row)
    assert phases is not None
    parts = [phases.session, phases.noticed, phases.decided, phases.first, phases.spread]
    assert min(parts) >= 0 and sum(parts) == pytest.approx(40.0)
    if (gap_ms, session_ms, first_ms) == (0.0, 0.0, 10.0):
        assert (phases.decided, phases.first) == (10.0, 0.0), "known as soon as it was written"
    if (gap_ms, session_ms, first_ms) == (0.0, 5.0, 10.0):
        assert (phases.noticed, phases.first) == (5.0, 0.0)
    assert phases_of(_row(_cell(0), last_ms=NOT_KNOWN)) is None
