"""Compares a run with earlier runs on the same machine. The newest earlier run is the baseline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kcore.measure.bench.bench_charts import history_chart
from kcore.measure.bench.bench_results import NEEDED, Summary, summarise
from kcore.measure.bench.compare import THRESHOLD, Comparison, compare
from kcore.measure.bench.compare_views import TEXT, cells_of, head_of, pairs_of
from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.report_page import charts, figure, folded_numbers, html_table, paragraphs
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.units import duration
from kcore.measure.workloads.workload_rows import ROW_SCHEMA

_KIND: Final = ResultKind(ROW_SCHEMA, NEEDED, own=("workload", "operation"))
_MOST_LINES: Final = 6  # Lines in a chart: the operations whose times changed most.


class History:
    """The earlier runs that have operations in common with this run."""

    def __init__(
        self,
        directory: Path | None,
        facts: Mapping[str, Any],
        summaries: Sequence[Summary],
        runs_at: ResultTable | None = None,
    ) -> None:
        self.now = list(summaries)
        earlier = earlier_runs(directory, facts, _KIND, runs_at)
        self.passed_over = earlier.passed_over
        keys = {summary.key for summary in summaries}
        read = [(run, [each for each in summarise(run.table.to_pylist()) if each.key in keys]) for run in earlier.runs]
        self.runs: list[tuple[EarlierRun, list[Summary]]] = [(run, found) for run, found in read if found]

    @property
    def baseline(self) -> Comparison | None:
        """The comparison with the newest earlier run, over the operations of both runs; None without such a run."""
        return compare(self.runs[-1][1], self.now) if self.runs else None

    def verdict(self) -> list[str]:
        """One sentence on the newest earlier run; empty if there is none."""
        if not (found := self.baseline):
            return []
        return [f"Against the run before ({self.runs[-1][0].path.name}): {found.verdict}."]

    def section(self) -> str:
        """The page's section on earlier runs; empty without earlier runs."""
        if not (found := self.baseline):
            notes = paragraphs(self.passed_over, "note")
            return f'<h2 id="history">Earlier runs</h2>{notes}' if notes else ""
        changed = pairs_of(found, everything=False)
        table = html_table(head_of(found), [(cells_of(*each), False) for each in changed], TEXT) if changed else ""
        names = ", ".join(run.name for run, _ in self.runs)
        return "".join(
            (
                '<h2 id="history">Earlier runs</h2>',
                paragraphs([*self.verdict(), found.rule, f"Runs of this machine, oldest first: {names}."]),
                paragraphs(self.passed_over, "note"),
                table,
                charts(figure(chart) for chart in self._charts()),
                folded_numbers(self._numbers(), "The medians of all runs"),
            )
        )

    def _charts(self) -> list[str]:
        labels = [*(f"{run.path.name}, {run.when}" for run, _ in self.runs), "this run"]
        found = []
        for workload in dict.fromkeys(summary.workload for summary in self.now):
            lines = {
                _name(each): [None if old is None else old / max(1, each.median_ns) for old in self._medians(each)]
                for each in self.now
                if each.workload == workload and any(self._medians(each)[:-1])
            }
            largest = sorted(lines, key=lambda name: -_swing(lines[name]))[:_MOST_LINES]
            if largest:
                title = f"{workload}: what moved most"
                found.append(history_chart(title, labels, {name: lines[name] for name in largest}, THRESHOLD))
        return found

    def _medians(self, summary: Summary) -> list[int | None]:
        """The operation's median in every run, this run last; None for a run without the operation."""
        olds = [next((each.median_ns for each in run if each.key == summary.key), None) for _, run in self.runs]
        return [*olds, summary.median_ns]

    def _numbers(self) -> str:
        head = ["operation", *(run.path.name for run, _ in self.runs), "this run"]
        rows = [([each.title, *(duration(ns) for ns in self._medians(each))], False) for each in self.now]
        return html_table(head, rows)


def _name(summary: Summary) -> str:
    return f"{summary.operation}, {summary.partitions:,} x {summary.brokers:,}"


def _swing(line: Sequence[float | None]) -> float:
    """The line's largest distance from 1, as a factor of at least 1."""
    return max(max(ratio, 1 / ratio) for ratio in line if ratio)
