"""Renders a comparison as a page: the verdict, the rule, the changed operations, a chart of the ratios."""

from collections.abc import Sequence
from math import log
from typing import Any, Final

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from kcore.measure.bench.compare import Comparison, Pair
from kcore.measure.bench.compare_views import TEXT, cells_of, head_of, pairs_of
from kcore.measure.report.charts import draw_legend, lane_label, lane_note, lanes_inches, set_lanes
from kcore.measure.report.exits import Exit
from kcore.measure.report.noise import INTERVAL, LIMITS
from kcore.measure.report.palette import BAD, FAINT, GOOD, INK
from kcore.measure.report.report_page import (
    Mark,
    Marked,
    answer,
    bullets,
    charts,
    figure,
    folded_numbers,
    html_table,
    page,
    paragraphs,
)
from kcore.measure.report.svg import Chart, draw, time_axis
from kcore.measure.report.units import duration

_MARKS: Final = {
    **{"slower": "bad", "another result": "bad", "doubtful": "bad"},
    **{"faster": "good", "partly faster": "good"},
}
_DASHED: Final = (0, (4, 3))
_MOST_LANES: Final = 20  # Lanes in a chart.
_MOST_TICKS: Final = 9
_RATIOS: Final = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100, 0.01, 0.02, 0.05)


def as_html(comparison: Comparison, names: tuple[str, str]) -> str:
    """The page: the verdict, the rule, the changed operations, a chart of all ratios, and all operations."""
    changed = pairs_of(comparison, everything=False)
    kind = "good" if comparison.exit is Exit.GOOD else "bad"
    old, new = (f"{label}: {name}" for label, name in zip(comparison.labels, names, strict=True))
    body = [
        f"<h1>kcore compare</h1>{paragraphs([f'{old} · {new}'], 'lead')}",
        answer(comparison.verdict, kind=kind),
        paragraphs([comparison.rule]),
        paragraphs(comparison.remarks, "warn"),
        _only("Missing: in the old run only", comparison.only_old, comparison.what),
        _only("New: in the new run only", comparison.only_new, comparison.what),
        "<h2>What changed</h2>",
        _html_rows(comparison, changed) if changed else paragraphs([_unchanged(comparison)]),
        "<h2>All ratios</h2>",
        charts((figure(chart) for chart in ratio_charts(comparison)), packed=True),
        f"<h3>Every {comparison.what}</h3>{_html_rows(comparison, pairs_of(comparison, everything=True))}",
        f'<h2 id="method">How to read it</h2>{paragraphs([LIMITS, INTERVAL])}',
    ]
    return page("kcore compare", body)


def _unchanged(comparison: Comparison) -> str:
    """The sentence in place of an empty table: nothing changed, or there is no verdict."""
    if comparison.exit is Exit.GOOD:
        return f"No {comparison.what} changed by more than the rule allows."
    return f"There is {comparison.verdict}."


def _only(where: str, titles: Sequence[str], what: str) -> str:
    """A folded list of the operations that only one run has."""
    return folded_numbers(bullets(titles), f"{where}, {len(titles)} {what}s") if titles else ""


def _html_rows(comparison: Comparison, rows: Sequence[tuple[str, Pair]]) -> str:
    cells = [(_marked(word, pair, comparison), False) for word, pair in rows]
    return html_table(head_of(comparison), cells, TEXT, [_MARKS.get(word, "") for word, _ in rows])


def _marked(word: str, pair: Pair, comparison: Comparison) -> list[str | Marked]:
    """The cells of a row, with the verdict and the noise as marks that explain themselves."""
    *cells, verdict, noisy = cells_of(word, pair, comparison.labels)
    doubt = Marked("", [Mark("doubtful", pair.doubt)]) if word == "doubtful" else verdict
    return [*cells, doubt, Marked("", [Mark("noisy", pair.noise)]) if noisy else ""]


def ratio_charts(comparison: Comparison) -> list[str]:
    """A chart per workload: both ratios of the operations that changed most, with the rule's thresholds dashed."""
    found = []
    for workload in dict.fromkeys(pair.new.workload for pair in comparison.pairs):
        mine = [pair for pair in comparison.pairs if pair.new.workload == workload]
        moved = sorted(mine, key=lambda pair: -max(pair.slower, pair.faster))[:_MOST_LANES]
        found.append(_ratio_chart(workload, sorted(moved, key=lambda pair: -pair.slower), comparison))
    return found


def _ratio_chart(workload: str, pairs: Sequence[Pair], comparison: Comparison) -> str:
    labels = [f"{pair.new.operation}, {pair.new.partitions:,} x {pair.new.brokers:,}" for pair in pairs]
    sizes = {(pair.new.partitions, pair.new.brokers) for pair in pairs}

    def body(chart: Chart) -> None:
        for lane, pair in enumerate(pairs):
            color = BAD if pair.is_regression or pair.doubt else GOOD if pair.is_improvement else FAINT
            [line] = chart.axis.plot([pair.min_ratio, pair.median_ratio], [lane, lane], color=color, lw=3, alpha=0.6)
            chart.tip(line, _tip(pair))
            chart.point(pair.median_ratio, lane, _tip(pair), color=color, marker="o", ms=7)
            chart.point(pair.min_ratio, lane, _tip(pair), color=color, marker="|", ms=11, mew=2)
            lane_label(chart, lane, labels[lane] if len(sizes) > 1 else pair.new.operation)
            if pair.doubt:
                lane_note(chart, max(pair.median_ratio, pair.min_ratio), lane, "doubtful")
            edges = (1 / pair.threshold, pair.threshold)
            chart.axis.vlines(edges, lane - 0.5, lane + 0.5, color=FAINT, ls=_DASHED, lw=1)
        ratios = [ratio for pair in pairs for ratio in (pair.min_ratio, pair.median_ratio)]
        time_axis(chart, log=True)
        chart.axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        widest, (old, new) = max(pair.threshold for pair in pairs), comparison.labels
        chart.axis.set_xlim(min(0.95 / widest, *ratios) * 0.97, max(1.05 * widest, *ratios) * 1.03)
        chart.axis.xaxis.set_major_locator(FixedLocator(_ticks(*chart.axis.get_xlim())))
        set_lanes(chart, len(pairs), f"{new} run over {old} run, log")
        styles: list[dict[str, Any]] = [
            {"color": INK, "marker": "o", "ms": 7, "ls": ""},
            {"color": INK, "marker": "|", "ms": 11, "ls": ""},
            {"color": FAINT, "ls": _DASHED},
        ]
        marks = [Line2D([], [], **style) for style in styles]
        draw_legend(chart, marks, ["of the medians", "of the best times", "the rule's thresholds"])

    return draw(workload, lanes_inches(len(pairs), 3), body)


def _ticks(low: float, high: float) -> list[float]:
    """The _RATIOS between `low` and `high` to label, from 1 outward, with room for their labels."""
    apart, found = log(high / low) / _MOST_TICKS, [1.0]
    for ratio in sorted(_RATIOS, key=lambda each: abs(log(each))):
        if low <= ratio <= high and all(abs(log(ratio / other)) >= apart for other in found):
            found.append(ratio)
    return found


def _tip(pair: Pair) -> str:
    return (
        f"{pair.title}\nold {duration(pair.old.median_ns)}, new {duration(pair.new.median_ns)}\n"
        f"ratio of medians {pair.median_ratio:.2f}, of best times {pair.min_ratio:.2f}"
        + (f"\ndoubtful: {pair.doubt}" if pair.doubt else "")
    )
