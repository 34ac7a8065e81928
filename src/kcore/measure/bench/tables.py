"""Prints results as tables on a terminal."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.measure.bench.bench_results import Summary, disagreements, failed_alone, mixed_code, not_measured
from kcore.measure.bench.shapes_table import shape_rows
from kcore.measure.report.units import duration, quantity, size, three_digits

PAGE_ONLY = ("95%",)  # Columns for which a terminal has no room.


def show(console: Console, summaries: Sequence[Summary], rows: Sequence[dict[str, Any]]) -> None:
    """Prints a table per workload, then failures and differing results. The column "each" is per handled partition."""
    for workload, group in groupby(summaries, lambda summary: summary.workload):
        timed = list(group)
        if workload == "shapes":
            console.print(_shapes(timed))
        else:
            console.print(_timings(workload, timed))
    if noisy := [summary for summary in summaries if summary.spread.noise]:
        console.print(f"{len(noisy)} of {len(summaries)} figures are noisy: report.html marks them")
    for row in failed_alone(rows):
        cell = f"{row['workload']} {row['partitions']:,} partitions {row['brokers']:,} brokers #{row['repetition']}"
        console.print(f"[bold red]failed[/] {cell}: {escape(row['error'])}")
    for line in not_measured(rows):
        console.print(f"[bold red]not measured[/] {escape(line)}", soft_wrap=True)
    for line in disagreements(rows):
        console.print(f"[bold red]results differ[/] {escape(line)}")
    for line in mixed_code(rows):
        console.print(f"[bold red]kcore's code differs[/] {escape(line)}", soft_wrap=True)


def _timings(workload: str, summaries: Sequence[Summary]) -> Table:
    table = Table(title=f"[bold]{workload}[/]", title_justify="left", header_style="dim", box=box.SIMPLE_HEAD)
    table.add_column("operation", overflow="fold", min_width=22)
    shown = {name: text for name, text in COLUMNS.items() if name not in PAGE_ONLY}
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(summaries, key=lambda summary: (summary.partitions, summary.brokers))
    for (partitions, brokers), group in groupby(ordered, lambda summary: (summary.partitions, summary.brokers)):
        table.add_section()
        table.add_row(f"[bold]{partitions:,} partitions, {brokers:,} brokers[/]")
        for summary in group:
            table.add_row(f"  {summary.operation}", *(text(summary) for text in shown.values()))
    return table


def _interval(summary: Summary) -> str:
    """The interval of the median; the unit is written once if both ends have the same unit."""
    low, high = duration(summary.low_ns), duration(summary.high_ns)
    same = low.split(" ")[-1] == high.split(" ")[-1]
    return f"{low.split(' ')[0] if same else low} to {high}"


COLUMNS: Final[dict[str, Callable[[Summary], str]]] = {
    "handled": lambda summary: f"{summary.handled_partitions:,}",
    "min": lambda summary: duration(summary.min_ns),
    "median": lambda summary: duration(summary.median_ns),
    "95%": _interval,
    "p99": lambda summary: duration(summary.p99_ns),
    "each": lambda summary: duration(summary.ns_per_partition),
    "each/s": lambda summary: quantity(summary.partitions_per_s),
    "x memcpy": lambda summary: "" if summary.times_memcpy is None else three_digits(summary.times_memcpy),
    "peak": lambda summary: size(summary.peak_bytes),
}
"""The figures of one operation, as text."""


def _shapes(summaries: Sequence[Summary]) -> Table:
    title = "[bold]shapes[/]: bytes a partition, before and after KIP-380"
    table = Table(title=title, title_justify="left", header_style="dim", box=box.SIMPLE_HEAD)
    head, *rest = shape_rows(summaries)
    for name in head:
        table.add_column(name, justify="left" if name == head[0] else "right")
    for row in rest:
        table.add_row(*row)
    return table
