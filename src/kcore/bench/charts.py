"""Charts as SVG text for the report: no files, no scripts, colours from the page's style sheet."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from kcore.bench.results import Row, Summary
from kcore.bench.shapes_table import shape_rows
from kcore.report.svg import FAINT, INK, MARKERS, PANEL_WIDTH, SERIES, STYLE, panels, plain_ticks, svg
from kcore.report.units import duration, three_digits


def cost_chart(workload: str, summaries: Sequence[Summary]) -> str:
    """Cost against partitions on log axes: a panel a group and broker count, a line an operation, memcpy dashed."""
    groups = list(dict.fromkeys(summary.group for summary in summaries))
    brokers = sorted({summary.brokers for summary in summaries})
    wanted = [(group, count) for group in groups for count in brokers]
    columns = min(2, len(wanted))
    with rc_context(STYLE):
        figure, axes = panels(-(-len(wanted) // columns), columns)
        for panel, axis in zip(wanted, axes.flat, strict=False):
            group, count = panel
            chosen = [summary for summary in summaries if (summary.group, summary.brokers) == panel]
            _cost_panel(axis, chosen)
            axis.set_title(f"{group}, {count:,} brokers" if len(brokers) > 1 else group)
        for axis in axes.flat[len(wanted) :]:
            axis.set_axis_off()
        return svg(figure, f"{workload}: time against partitions")


def _cost_panel(axis: Axes, summaries: Sequence[Summary]) -> None:
    operations = list(dict.fromkeys(summary.operation for summary in summaries))
    lines = [sorted((s for s in summaries if s.operation == name), key=lambda s: s.partitions) for name in operations]
    for nth, line in enumerate(lines):
        x, color = [summary.partitions for summary in line], SERIES[nth % len(SERIES)]
        axis.fill_between(x, [s.min_ns for s in line], [s.p99_ns for s in line], color=color, alpha=0.15, linewidth=0)
        median = [summary.median_ns for summary in line]
        axis.plot(x, median, color=color, marker=MARKERS[nth % 8], ms=5, lw=1.8, label=line[0].action)
    _memcpy_bounds(axis, lines)
    axis.set(xscale="log", yscale="log", xlabel="partitions of the cluster", ylabel="time")
    plain_ticks(axis, [summary.partitions for summary in summaries])
    axis.legend(loc="upper left", handlelength=1.8)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * (high / low) ** 0.35)  # Room for the legend.


def _memcpy_bounds(axis: Axes, lines: Sequence[Sequence[Summary]]) -> None:
    """Dashed: grey if all operations move the same bytes, else in each one's colour."""
    sizes = {(s.partitions, s.moved_bytes) for line in lines for s in line}
    shared = len(sizes) == len({partitions for partitions, _ in sizes})
    # Copies of the same bytes differ by noise alone: one line for all, that of the operation with the most sizes.
    chosen = [max(lines, key=len)] if shared else lines
    axis.plot([], [], color=FAINT, ls=(0, (4, 3)), lw=1.1, marker=".", ms=4, label="memcpy of the bytes moved")
    for nth, line in enumerate(chosen):
        points = [(s.partitions, s.memcpy_ns) for s in line if s.memcpy_ns > 0]
        if points:
            color = FAINT if shared else SERIES[nth % len(SERIES)]
            axis.plot(*zip(*points, strict=True), color=color, ls=(0, (4, 3)), lw=1.1, marker=".", ms=4)


def distance_chart(summaries: Sequence[Summary]) -> str:
    """How many times memcpy each operation costs, at the largest size that it ran at."""
    largest: dict[tuple[str, str], Summary] = {}
    for summary in summaries:
        key = (summary.workload, summary.operation)
        if summary.times_memcpy is not None and (key not in largest or summary.partitions >= largest[key].partitions):
            largest[key] = summary
    chosen = sorted(largest.values(), key=lambda summary: summary.times_memcpy or 0, reverse=True)
    if not chosen:
        return ""
    with rc_context(STYLE):
        figure = Figure(figsize=(2 * PANEL_WIDTH, 0.8 + 0.27 * len(chosen)), layout="constrained")
        axis = figure.subplots()
        ratios = [summary.times_memcpy or 0 for summary in chosen]
        names = list(dict.fromkeys(summary.workload for summary in summaries))
        colors = [SERIES[names.index(summary.workload) % len(SERIES)] for summary in chosen]
        axis.hlines(range(len(chosen)), 1, ratios, color=colors, lw=1.4, alpha=0.6)
        axis.scatter(ratios, range(len(chosen)), color=colors, s=28, zorder=3)
        for nth, summary in enumerate(chosen):
            each = duration(summary.min_ns / max(1, summary.handled_partitions))
            note = f"  {three_digits(ratios[nth])}x, {each} each"
            axis.annotate(
                note,
                (max(1, ratios[nth]), nth),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=FAINT,
            )
        axis.axvline(1, color=INK, lw=1)
        axis.set(xscale="log", xlabel="best time as a multiple of memcpy of the same bytes")
        axis.set_ylim(-0.7, len(chosen) - 0.3)
        labels = [f"{summary.workload} · {summary.operation}" for summary in chosen]
        axis.set_yticks(range(len(chosen)), labels, fontsize=8.5)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axis.set_xlim(right=max(ratios) * 6)
        axis.grid(True, axis="x")
        return svg(figure, "distance from memcpy")


def shapes_chart(summaries: Sequence[Summary]) -> str:
    """Bytes a partition of every shape: on the wire, as columns, as objects."""
    head, *rows = shape_rows(summaries)
    with rc_context(STYLE):
        figure, axes = panels(1, 2)
        for axis, columns in zip(axes.flat, ((1,), (2, 3)), strict=True):
            height = 0.8 / len(columns)
            for nth, column in enumerate(columns):
                widths = [float(row[column].replace(",", "") or 0) for row in rows]
                at = [place + nth * height for place in range(len(rows))]
                bars = axis.barh(at, widths, height * 0.92, color=SERIES[column - 1], label=head[column])
                axis.bar_label(bars, [row[column] for row in rows], fontsize=8, color=INK, padding=3)
            middles = [place + height * (len(columns) - 1) / 2 for place in range(len(rows))]
            axis.set_yticks(middles, [row[0].replace("Request", "") for row in rows])
            axis.invert_yaxis()
            axis.set_title("bytes a partition " + ("on the wire" if columns == (1,) else "in memory"))
            axis.grid(True, axis="x")
            axis.margins(x=0.12)
            if len(columns) > 1:
                axis.set_xscale("log")
                axis.legend(loc="lower right")
                axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return svg(figure, "bytes a partition before and after KIP-380")


def workers_chart(rows: Sequence[Row]) -> str:
    """When each cell ran, and on which worker process."""
    cells = {(row["pid"], row["started_ms"], row["cell_ns"], row["workload"]) for row in rows if row["pid"] is not None}
    if not cells:
        return ""
    start_ms = min(cell[1] for cell in cells)
    lanes = sorted({(row["worker"], row["pid"]) for row in rows if row["pid"] is not None})
    lane_of = {pid: nth for nth, (_, pid) in enumerate(lanes)}
    names = list(dict.fromkeys(row["workload"] for row in rows))
    with rc_context(STYLE):
        figure = Figure(figsize=(2 * PANEL_WIDTH, 1.1 + 0.32 * len(lanes)), layout="constrained")
        axis = figure.subplots()
        for name in names:
            chosen = [cell for cell in cells if cell[3] == name]
            axis.barh(
                [lane_of[cell[0]] for cell in chosen],
                [cell[2] / 1e9 for cell in chosen],
                0.62,
                left=[(cell[1] - start_ms) / 1e3 for cell in chosen],
                label=name,
                color=SERIES[names.index(name) % len(SERIES)],
                alpha=0.8,
                edgecolor=INK,
                linewidth=0.4,
            )
        axis.set_yticks(range(len(lanes)), [f"worker {worker}, pid {pid}" for worker, pid in lanes], fontsize=8)
        axis.set(xlabel="seconds since the first cell began", ylim=(-0.6, len(lanes) - 0.4))
        axis.grid(True, axis="x")
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(names))
        return svg(figure, "cells by worker and time")
