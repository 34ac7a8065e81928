"""Results as tables for a terminal."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.bench.results import Summary, disagreements, failures
from kcore.bench.shapes_table import shape_rows
from kcore.report.units import duration, quantity, size, three_digits

COLUMNS = ("min", "median", "p99", "each", "each/s", "x memcpy", "peak")


def show(console: Console, summaries: Sequence[Summary], rows: Sequence[dict[str, Any]]) -> None:
    """Every summary, a table a workload; then what failed and what disagrees. "Each" is a partition handled."""
    for workload, group in groupby(summaries, lambda summary: summary.workload):
        timed = list(group)
        if workload == "shapes":
            console.print(_shapes(timed))
        else:
            console.print(_timings(workload, timed))
    for row in failures(rows):
        cell = f"{row['workload']} {row['partitions']:,} partitions {row['brokers']:,} brokers #{row['repetition']}"
        console.print(f"[bold red]failed[/] {cell}: {escape(row['error'])}")
    for line in disagreements(rows):
        console.print(f"[bold red]results differ[/] {escape(line)}")


def _timings(workload: str, summaries: Sequence[Summary]) -> Table:
    table = Table(title=f"[bold]{workload}[/]", title_justify="left", header_style="dim", box=box.SIMPLE_HEAD)
    table.add_column("operation", overflow="fold", min_width=22)
    for name in ("handled", *COLUMNS):
        table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(summaries, key=lambda summary: (summary.partitions, summary.brokers))
    for (partitions, brokers), group in groupby(ordered, lambda summary: (summary.partitions, summary.brokers)):
        table.add_section()
        table.add_row(f"[bold]{partitions:,} partitions, {brokers:,} brokers[/]")
        for summary in group:
            table.add_row(f"  {summary.operation}", *figures_of(summary))
    return table


def figures_of(summary: Summary) -> list[str]:
    """The figures of one operation, as text; the report has the same."""
    ratio = summary.times_memcpy
    return [
        f"{summary.handled_partitions:,}",
        duration(summary.min_ns),
        duration(summary.median_ns),
        duration(summary.p99_ns),
        duration(summary.ns_per_partition),
        quantity(summary.partitions_per_s),
        "" if ratio is None else three_digits(ratio),
        size(summary.peak_bytes),
    ]


def _shapes(summaries: Sequence[Summary]) -> Table:
    title = "[bold]shapes[/]: bytes a partition, before and after KIP-380"
    table = Table(title=title, title_justify="left", header_style="dim", box=box.SIMPLE_HEAD)
    head, *rest = shape_rows(summaries)
    for name in head:
        table.add_column(name, justify="left" if name == head[0] else "right")
    for row in rest:
        table.add_row(*row)
    return table
