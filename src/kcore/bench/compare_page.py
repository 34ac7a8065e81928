"""A comparison as a page: the verdict, the rule, what changed, a chart of the ratios."""

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from kcore.bench.compare import Comparison, Pair
from kcore.bench.compare_views import TEXT, cells_of, head_of, pairs_of
from kcore.report.charts import draw_legend, lane_label, lanes_inches, set_lanes
from kcore.report.exits import Exit
from kcore.report.noise import INTERVAL, LIMITS
from kcore.report.page import bullets, charts, figure, folded_numbers, html_table, page, paragraphs
from kcore.report.palette import BAD, FAINT, GOOD, INK
from kcore.report.svg import Chart, draw, time_axis
from kcore.report.units import duration

_MARKS: Final = {"slower": "bad", "faster": "good", "another result": "bad"}
_DASHED: Final = (0, (4, 3))
_MOST_LANES: Final = 20  # Of a chart.
_RATIOS: Final = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100)


def as_html(comparison: Comparison, names: tuple[str, str]) -> str:
    """The page: verdict, rule, what changed, a chart of all ratios, everything folded."""
    changed = pairs_of(comparison, everything=False)
    kind = "good" if comparison.exit is Exit.GOOD else "bad"
    body = [
        f"<h1>kcore compare</h1>{paragraphs([f'old: {names[0]} · new: {names[1]}'], 'lead')}",
        paragraphs([comparison.verdict], kind),
        paragraphs([comparison.rule]),
        paragraphs(comparison.remarks, "warn"),
        _only("Missing: in the old run only", comparison.only_old, comparison.what),
        _only("New: in the new run only", comparison.only_new, comparison.what),
        "<h2>What changed</h2>",
        _html_rows(comparison, changed) if changed else paragraphs(["Nothing changed by more than the rule allows."]),
        "<h2>All ratios</h2>",
        charts((figure(chart) for chart in ratio_charts(comparison)), packed=True),
        f"<h3>Every {comparison.what}</h3>{_html_rows(comparison, pairs_of(comparison, everything=True))}",
        f'<h2 id="method">How to read it</h2>{paragraphs([LIMITS, INTERVAL])}',
    ]
    return page("kcore compare", body)


def _only(where: str, titles: Sequence[str], what: str) -> str:
    """What is in one run only, folded."""
    return folded_numbers(bullets(titles), f"{where}, {len(titles)} {what}s") if titles else ""


def _html_rows(comparison: Comparison, rows: Sequence[tuple[str, Pair]]) -> str:
    cells = [(cells_of(word, pair), False) for word, pair in rows]
    return html_table(head_of(comparison), cells, TEXT, [_MARKS.get(word, "") for word, _ in rows])


def ratio_charts(comparison: Comparison) -> list[str]:
    """A chart a workload: both ratios of the operations that moved most, the rule's bounds dashed."""
    found = []
    for workload in dict.fromkeys(pair.new.workload for pair in comparison.pairs):
        mine = [pair for pair in comparison.pairs if pair.new.workload == workload]
        moved = sorted(mine, key=lambda pair: -max(pair.slower, pair.faster))[:_MOST_LANES]
        found.append(_ratio_chart(workload, sorted(moved, key=lambda pair: -pair.slower), comparison.threshold))
    return found


def _ratio_chart(workload: str, pairs: Sequence[Pair], threshold: float) -> str:
    labels = [f"{pair.new.operation}, {pair.new.partitions:,} x {pair.new.brokers:,}" for pair in pairs]
    sizes = {(pair.new.partitions, pair.new.brokers) for pair in pairs}

    def body(chart: Chart) -> None:
        for lane, pair in enumerate(pairs):
            color = BAD if pair.is_regression(threshold) else GOOD if pair.is_improvement(threshold) else FAINT
            [line] = chart.axis.plot([pair.min_ratio, pair.median_ratio], [lane, lane], color=color, lw=3, alpha=0.6)
            chart.tip(line, _told(pair))
            chart.point(pair.median_ratio, lane, _told(pair), color=color, marker="o", ms=7)
            chart.point(pair.min_ratio, lane, _told(pair), color=color, marker="|", ms=11, mew=2)
            lane_label(chart, lane, labels[lane] if len(sizes) > 1 else pair.new.operation)
        for edge in (1 / threshold, threshold):
            chart.axis.axvline(edge, color=FAINT, ls=_DASHED, lw=1)
        ratios = [ratio for pair in pairs for ratio in (pair.min_ratio, pair.median_ratio)]
        time_axis(chart, log=True)
        chart.axis.xaxis.set_major_locator(FixedLocator(_RATIOS))
        chart.axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        chart.axis.set_xlim(min(0.95 / threshold, *ratios) * 0.97, max(1.05 * threshold, *ratios) * 1.03)
        set_lanes(chart, len(pairs), "new run over old run, log")
        styles: list[dict[str, Any]] = [
            {"color": INK, "marker": "o", "ms": 7, "ls": ""},
            {"color": INK, "marker": "|", "ms": 11, "ls": ""},
            {"color": FAINT, "ls": _DASHED},
        ]
        marks = [Line2D([], [], **style) for style in styles]
        draw_legend(chart, marks, ["of the medians", "of the best times", f"the rule's {threshold:g}x"])

    return draw(workload, lanes_inches(len(pairs), 3), body)


def _told(pair: Pair) -> str:
    return (
        f"{pair.new.title}\nold {duration(pair.old.median_ns)}, new {duration(pair.new.median_ns)}\n"
        f"ratio of medians {pair.median_ratio:.2f}, of best times {pair.min_ratio:.2f}"
    )
