"""The charts of a benchmark's report, and the texts of their marks."""

from collections.abc import Sequence

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kcore.measure.bench.bench_results import Row, Summary
from kcore.measure.bench.shapes_table import shape_rows
from kcore.measure.report.charts import Axis, Bar, Box, bar_chart, box_chart
from kcore.measure.report.dots import Dot, dot_chart
from kcore.measure.report.palette import FAINT, KCORE, MARKERS, SERIES
from kcore.measure.report.svg import Chart, count_axis, draw, time_axis
from kcore.measure.report.units import duration, size, three_digits

MEMCPY = "memcpy of the bytes"
_DASHED = (0, (4, 3))


def cost_chart(title: str, summaries: Sequence[Summary]) -> str:
    """Draws times against partitions on log axes: a line per operation, a band from best to p99, memcpy dashed."""
    names = list(dict.fromkeys(summary.operation for summary in summaries))
    lines = [sorted((s for s in summaries if s.operation == name), key=lambda s: s.partitions) for name in names]

    def body(chart: Chart) -> None:
        for nth, line in enumerate(lines):
            x, color = [summary.partitions for summary in line], SERIES[nth % len(SERIES)]
            bounds = [s.min_ns for s in line], [s.p99_ns for s in line]
            chart.axis.fill_between(x, *bounds, color=color, alpha=0.15, linewidth=0)
            medians = [summary.median_ns for summary in line]
            marker = MARKERS[nth % len(MARKERS)]
            chart.axis.plot(x, medians, color=color, lw=1.8, marker=marker, ms=6, label=line[0].action)
            for summary in line:
                chart.point(summary.partitions, summary.median_ns, tip(summary), color=color, marker=marker)
        _memcpy_bounds(chart, lines)
        chart.axis.set_yscale("log")
        time_axis(chart, log=True, along=False)
        count_axis(chart, [summary.partitions for summary in summaries])
        chart.axis.set(xlabel="partitions of the cluster", ylabel="time of a run")
        chart.figure.legend(loc="outside lower left", ncols=2, handlelength=1.8)

    return draw(title, 3.3 + 0.14 * (len(lines) + 2), body)


def _memcpy_bounds(chart: Chart, lines: Sequence[Sequence[Summary]]) -> None:
    """Draws memcpy lines: one grey line if all operations move the same bytes, otherwise one in each line's colour."""
    sizes = {(s.partitions, s.moved_bytes) for line in lines for s in line}
    shared = len(sizes) == len({partitions for partitions, _ in sizes})
    # Copies of the same bytes differ only by noise: one line is drawn, from the operation with the most sizes.
    chosen = [max(lines, key=len)] if shared else lines
    chart.axis.plot([], [], color=FAINT, ls=_DASHED, lw=1.1, marker=".", ms=4, label=MEMCPY)
    for nth, line in enumerate(chosen):
        points = [(s.partitions, s.memcpy_ns) for s in line if s.memcpy_ns > 0]
        if points:
            color = FAINT if shared else SERIES[nth % len(SERIES)]
            chart.axis.plot(*zip(*points, strict=True), color=color, ls=_DASHED, lw=1.1, marker=".", ms=4)


def median_chart(title: str, summaries: Sequence[Summary]) -> str:
    """Draws the median of each operation at one size, and memcpy of the same bytes."""
    bars = [
        Bar(each.action, each.median_ns, KCORE, tip(each), _noted_median(each), each.memcpy_ns or None)
        for each in summaries
    ]
    return bar_chart(title, bars, Axis("median time of a run"), bound=MEMCPY)


def spread_chart(title: str, summaries: Sequence[Summary]) -> str:
    """Draws the distribution of each operation's times at one size."""
    boxes = [Box(f"{each.action}, {duration(each.median_ns)}", each.spread, KCORE, tip(each)) for each in summaries]
    return box_chart(title, boxes)


def tip(summary: Summary) -> str:
    """The text that the pointer shows at a mark: the figures of one operation at one size."""
    lines = [
        f"{summary.operation}, {summary.partitions:,} partitions, {summary.brokers:,} brokers",
        f"median {duration(summary.median_ns)} (95%: {duration(summary.low_ns)} to {duration(summary.high_ns)})",
        f"best {duration(summary.min_ns)}, p99 {duration(summary.p99_ns)}, {summary.samples:,} samples",
    ]
    if summary.times_memcpy is not None:
        lines.append(f"{three_digits(summary.times_memcpy)} x memcpy of {size(summary.moved_bytes)}")
    return "\n".join(lines + summary.spread.noise)


def distance_of(summaries: Sequence[Summary]) -> list[Summary]:
    """Each operation at the largest size for which memcpy was timed; the largest multiple of memcpy comes first."""
    largest: dict[tuple[str, str], Summary] = {}
    for summary in summaries:
        key = (summary.workload, summary.operation)
        if summary.times_memcpy is not None and (key not in largest or summary.partitions >= largest[key].partitions):
            largest[key] = summary
    return sorted(largest.values(), key=lambda summary: summary.times_memcpy or 0, reverse=True)


def distance_chart(workload: str, summaries: Sequence[Summary]) -> str:
    """Draws the time of each operation as a multiple of memcpy, on a log axis."""
    dots = [
        Dot(each.operation, each.times_memcpy, KCORE, tip(each), _distance_note(each))
        for each in summaries
        if each.times_memcpy
    ]
    axis = Axis("best time as a multiple of memcpy, log", lambda value: f"{value:g}x", log=True)
    return dot_chart(workload, dots, axis, ends=(1.0, 1.0))


def _distance_note(summary: Summary) -> str:
    each = duration(summary.min_ns / max(1, summary.handled_partitions))
    return f"{three_digits(summary.times_memcpy or 0)}x, {each} each"


def _noted_median(summary: Summary) -> str:
    return f"{duration(summary.median_ns)}{' · noisy' if summary.noise else ''}"


def shapes_charts(summaries: Sequence[Summary]) -> list[str]:
    """Draws the bytes per partition of every message shape: on the wire, as columns, as objects."""
    head, *rows = shape_rows(summaries)
    names = [row[0].replace("Request", "") for row in rows]
    return [_shapes_chart(head[at], [*zip(names, (row[at] for row in rows), strict=True)]) for at in (1, 2, 3)]


def _shapes_chart(title: str, rows: Sequence[tuple[str, str]]) -> str:
    bars = [
        Bar(name, float(text.replace(",", "")), KCORE, f"{name} {title}: {text} bytes a partition", text)
        for name, text in rows
        if text
    ]
    return bar_chart(f"Bytes a partition {title}", bars, Axis("bytes", lambda value: f"{value:,.0f}"))


def workers_chart(rows: Sequence[Row]) -> str:
    """Draws when each cell ran, and on which worker process; empty if no row names a process."""
    cells = {(row["pid"], row["started_ms"], row["cell_ns"], row["workload"]) for row in rows if row["pid"] is not None}
    if not cells:
        return ""
    start_ms = min(cell[1] for cell in cells)
    lanes = sorted({(row["worker"], row["pid"]) for row in rows if row["pid"] is not None})
    lane_of = {pid: nth for nth, (_, pid) in enumerate(lanes)}
    names = list(dict.fromkeys(row["workload"] for row in rows))
    colors = {name: SERIES[nth % len(SERIES)] for nth, name in enumerate(names)}

    def body(chart: Chart) -> None:
        for pid, started_ms, cell_ns, name in sorted(cells):
            begin_ns = (started_ms - start_ms) * 1e6
            [bar] = chart.axis.barh([lane_of[pid]], [cell_ns], 0.6, left=begin_ns, color=colors[name], alpha=0.85)
            chart.tip(bar, f"{name}\nfrom {duration(begin_ns)}, for {duration(cell_ns)}")
        time_axis(chart, log=False)
        chart.axis.set_yticks(range(len(lanes)), [f"pid {pid}" for _, pid in lanes], fontsize=9)
        chart.axis.set(xlabel="since the first cell began", ylim=(len(lanes) - 0.4, -0.6))
        marks = [Patch(color=colors[name], alpha=0.85) for name in names]
        chart.figure.legend(marks, names, loc="outside lower left", ncols=3, handlelength=1.2)

    return draw("Cells by worker and time", 1.5 + 0.3 * len(lanes), body)


def history_chart(title: str, labels: Sequence[str], ratios: dict[str, Sequence[float | None]], bound: float) -> str:
    """Draws each operation's medians in earlier runs as multiples of this run's median, with the thresholds dashed."""

    def body(chart: Chart) -> None:
        for nth, (name, line) in enumerate(ratios.items()):
            color = SERIES[nth % len(SERIES)]
            points = [(at, ratio) for at, ratio in enumerate(line) if ratio is not None]
            chart.axis.plot(*zip(*points, strict=True), color=color, lw=1.3)
            for at, ratio in points:
                text = f"{name}\n{labels[at]}: {three_digits(ratio)} x this run's median"
                chart.point(at, ratio, text, color=color, marker=MARKERS[nth % len(MARKERS)], ms=5)
        for edge in (bound, 1 / bound):
            chart.axis.axhline(edge, color=FAINT, ls=_DASHED, lw=1)
        chart.axis.set(ylabel="median over this run's", xlabel="runs, oldest first; the last is this one")
        chart.axis.set_xticks(range(len(labels)), [str(at + 1) for at in range(len(labels))])
        chart.axis.grid(True, axis="y")
        names = list(ratios)
        marks = [Line2D([], [], color=SERIES[n % len(SERIES)], marker=MARKERS[n % len(MARKERS)], ms=5) for n in
                 range(len(names))]  # fmt: skip
        rule = Line2D([], [], color=FAINT, ls=_DASHED, lw=1)
        chart.figure.legend([*marks, rule], [*names, f"{bound:g}x either way"], loc="outside lower left", ncols=1,
                            handlelength=1.6)  # fmt: skip

    return draw(title, 2.6 + 0.2 * (len(ratios) + 1), body)
