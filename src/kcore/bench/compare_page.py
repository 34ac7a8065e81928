"""A comparison as a page: the verdict, the rule, what changed, a chart of the ratios."""

from collections.abc import Sequence
from typing import Final

from kcore.bench.compare import Comparison, Pair
from kcore.bench.compare_views import HEAD, TEXT, cells_of, pairs_of
from kcore.report.charts import Axis, Bar, Part, bar_chart
from kcore.report.exits import Exit
from kcore.report.noise import INTERVAL, LIMITS
from kcore.report.page import bullets, figure, folded_numbers, html_table, page, paragraphs
from kcore.report.svg import BAD, FAINT, SERIES
from kcore.report.units import duration

_MARKS: Final = {"slower": "bad", "faster": "good", "another result": "bad"}
_MOST_BARS: Final = 40


def as_html(comparison: Comparison, names: tuple[str, str]) -> str:
    """The page: verdict, rule, what changed, a chart of all ratios, everything folded."""
    changed = pairs_of(comparison, everything=False)
    kind = "good" if comparison.exit is Exit.GOOD else "bad"
    body = [
        f"<h1>kcore compare</h1>{paragraphs([f'old: {names[0]} · new: {names[1]}'], 'lead')}",
        paragraphs([comparison.verdict], kind),
        paragraphs([comparison.rule]),
        paragraphs(comparison.remarks, "warn"),
        _only("Missing: in the old run only", comparison.only_old),
        _only("New: in the new run only", comparison.only_new),
        "<h2>What changed</h2>",
        _html_rows(changed) if changed else paragraphs(["Nothing changed by more than the rule allows."]),
        "<h2>All ratios</h2>",
        figure(ratio_chart(comparison), "The ratio that is nearer to 1 of the medians and the best times."),
        f"<h3>Every operation</h3>{_html_rows(pairs_of(comparison, everything=True))}",
        f'<h2 id="method">How to read it</h2>{paragraphs([LIMITS, INTERVAL])}',
    ]
    return page("kcore compare", body)


def _only(what: str, titles: Sequence[str]) -> str:
    """Operations of one run, folded."""
    return folded_numbers(bullets(titles), f"{what}, {len(titles)} operations") if titles else ""


def _html_rows(rows: Sequence[tuple[str, Pair]]) -> str:
    cells = [(cells_of(word, pair), False) for word, pair in rows]
    return html_table(HEAD, cells, TEXT, [_MARKS.get(word, "") for word, _ in rows])


def ratio_chart(comparison: Comparison) -> str:
    """A bar an operation, from 1 to the ratio that the rule looks at; those that moved most, if there are many."""
    moved = sorted(comparison.pairs, key=lambda pair: -max(pair.slower, pair.faster))[:_MOST_BARS]
    bars = [_ratio_bar(pair, comparison) for pair in sorted(moved, key=lambda pair: -_nearer(pair))]
    legend = {"slower than the rule allows": (BAD, False), "faster by the rule": (SERIES[2], False),
              "within the rule": (FAINT, False)}  # fmt: skip
    axis = Axis("ratio, 1 is the old run", lambda value: f"{value:g}x", start=1.0)
    return bar_chart("New run over old run", bars, axis, legend=legend)


def _nearer(pair: Pair) -> float:
    """Above 1 where both ratios are, below 1 where both are, else 1: only what both say counts."""
    return pair.slower if pair.slower > 1 else 1 / pair.faster if pair.faster > 1 else 1.0


def _ratio_bar(pair: Pair, comparison: Comparison) -> Bar:
    ratio = _nearer(pair)
    slow, fast = pair.is_regression(comparison.threshold), pair.is_improvement(comparison.threshold)
    color = BAD if slow else SERIES[2] if fast else FAINT
    tip = (
        f"{pair.new.title}\nold {duration(pair.old.median_ns)}, new {duration(pair.new.median_ns)}\n"
        f"ratio of medians {pair.median_ratio:.2f}, of bests {pair.min_ratio:.2f}"
    )
    return Bar(pair.new.title, [Part(ratio - 1.0, color, tip)], f"{ratio:.2f}x")
