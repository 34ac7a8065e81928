"""Two runs side by side: what became slower, by name."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.bench.results import Summary
from kcore.report.exits import Exit
from kcore.report.units import duration

THRESHOLD = 1.25


@dataclass(frozen=True, slots=True)
class Pair:
    """One named cell in both runs."""

    old: Summary
    new: Summary

    @property
    def median_ratio(self) -> float:
        return self.new.median_ns / max(1, self.old.median_ns)

    @property
    def min_ratio(self) -> float:
        return self.new.min_ns / max(1, self.old.min_ns)

    @property
    def same_result(self) -> bool:
        return self.old.digest == self.new.digest

    def is_regression(self, threshold: float) -> bool:
        """Both the best and the median are slower: noise moves the median alone, luck the best alone."""
        return min(self.median_ratio, self.min_ratio) > threshold


@dataclass(frozen=True, slots=True)
class Comparison:
    """Cells of both runs, and the names of those in one run only."""

    pairs: Sequence[Pair]
    only_old: Sequence[str]
    only_new: Sequence[str]
    threshold: float

    @property
    def regressions(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.is_regression(self.threshold)]

    @property
    def other_results(self) -> list[Pair]:
        return [pair for pair in self.pairs if not pair.same_result]

    @property
    def exit(self) -> Exit:
        """INVALID where times compare different things: nothing in common, a cell lost, other results."""
        if not self.pairs or self.only_old or self.other_results:
            return Exit.INVALID
        return Exit.FAILED if self.regressions else Exit.GOOD


def compare(old: Sequence[Summary], new: Sequence[Summary], threshold: float = THRESHOLD) -> Comparison:
    """Pair the named cells of two runs; a ratio above `threshold` is a regression."""
    before, after = ({summary.key: summary for summary in summaries} for summaries in (old, new))
    return Comparison(
        pairs=[Pair(before[key], after[key]) for key in before if key in after],
        only_old=[before[key].title for key in before if key not in after],
        only_new=[after[key].title for key in after if key not in before],
        threshold=threshold,
    )


def show(console: Console, comparison: Comparison) -> None:
    """The pairs, slowest ratio first, then what is to be said of them."""
    table = Table(header_style="dim", pad_edge=False)
    table.add_column("cell", overflow="fold")
    for name in ("old median", "new median", "ratio of medians", "ratio of bests"):
        table.add_column(name, justify="right")
    for pair in sorted(comparison.pairs, key=lambda pair: -pair.median_ratio):
        style = "bold red" if pair.is_regression(comparison.threshold) else ""
        ratios = (f"{pair.median_ratio:.2f}", f"{pair.min_ratio:.2f}")
        medians = (duration(pair.old.median_ns), duration(pair.new.median_ns))
        table.add_row(pair.new.title, *medians, *ratios, style=style)
    console.print(table)
    for pair in comparison.regressions:
        console.print(f"[bold red]regression[/] {escape(pair.new.title)}: {pair.median_ratio:.2f} times the old median")
    for pair in comparison.other_results:
        console.print(f"[bold red]another result[/] {escape(pair.new.title)}: the times do not compare")
    for title in comparison.only_old:
        console.print(f"[bold red]missing[/] {escape(title)}: in the old run only")
    for title in comparison.only_new:
        console.print(f"[dim]new[/] {escape(title)}: in the new run only")
    if not comparison.pairs:
        console.print("[bold red]nothing to compare[/]: the runs have no cell in common")
