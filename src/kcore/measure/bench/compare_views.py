"""Renders a comparison as text, Markdown and JSON: the verdict first, then the changed operations."""

import json
from collections.abc import Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.measure.bench.compare import Comparison, Pair
from kcore.measure.report.exits import Exit
from kcore.measure.report.markdown import markdown_table
from kcore.measure.report.units import duration

TEXT: Final = ("verdict", "noisy")
_STYLES: Final = {
    **{"slower": "bold red", "another result": "bold red", "doubtful": "bold yellow"},
    **{"faster": "green", "partly faster": "green"},
}
_MOST_NAMED: Final = 10  # Missing operations that are named without --all.
_SYMBOLS: Final = {Exit.GOOD: "✅", Exit.FAILED: "❌", Exit.INVALID: "⚠️"}


def pairs_of(comparison: Comparison, everything: bool) -> list[tuple[str, Pair]]:
    """The pairs to show, each with its verdict, slower ones before faster ones. `everything` adds unchanged pairs."""
    found = [("another result", pair) for pair in comparison.other_results]
    found += [("slower", pair) for pair in comparison.regressions]
    found += [("doubtful", pair) for pair in comparison.doubtful]
    found += [("faster", pair) for pair in comparison.improvements]
    found += [("partly faster", pair) for pair in comparison.partly_faster]
    return found + ([("", pair) for pair in comparison.unchanged] if everything else [])


def head_of(comparison: Comparison) -> tuple[str, ...]:
    """The headings of the columns of `cells_of`."""
    old, new = comparison.labels
    return (comparison.what, f"{old} median", f"{new} median", "medians", "bests", "verdict", "noisy")


def cells_of(word: str, pair: Pair, labels: tuple[str, str] = ("old", "new")) -> tuple[str, ...]:
    """The cells under the headings of `head_of`; the last cell says which runs are noisy."""
    noisy = ", ".join(label for label, run in zip(labels, (pair.old, pair.new), strict=True) if run.noise)
    medians = (f"{duration(each.median_ns)}" for each in (pair.old, pair.new))
    return (pair.title, *medians, f"{pair.median_ratio:.2f}x", f"{pair.min_ratio:.2f}x", word, noisy)


def others(comparison: Comparison, everything: bool = False) -> list[str]:
    """A line per missing or new operation and per doubt; without `everything`, long lists are shortened."""
    missing, new = comparison.only_old, comparison.only_new
    doubts = [f"doubtful: {pair.title}: {pair.doubt}" for pair in comparison.doubtful]
    lines = [f"missing: {title}: in the old run only" for title in _some(missing, everything)]
    if len(missing) > len(lines):
        lines.append(f"missing: {len(missing) - len(lines)} more {comparison.what}s: --all names them")
    if everything:
        lines += [f"new: {title}: in the new run only" for title in new]
    elif new:
        lines.append(f"new: {len(new)} {comparison.what}s in the new run only: --all names them")
    return [*doubts, *lines, *comparison.remarks]


def _some(titles: Sequence[str], everything: bool) -> Sequence[str]:
    return titles if everything else titles[:_MOST_NAMED]


def show(console: Console, comparison: Comparison, everything: bool = False) -> None:
    """Prints the verdict, the rule, a table of changed operations, then the operations in one run only."""
    style = {Exit.GOOD: "bold green"}.get(comparison.exit, "bold red")
    console.print(f"[{style}]{escape(comparison.verdict)}[/]", soft_wrap=True, highlight=False)
    console.print(f"[dim]{escape(comparison.rule)}[/]", soft_wrap=True, highlight=False)
    rows = pairs_of(comparison, everything)
    if rows:
        console.print(_table(comparison, rows))
    for line in others(comparison, everything):
        console.print(escape(line), soft_wrap=True, highlight=False)
    hidden = 0 if everything else len(comparison.unchanged)
    if hidden:
        console.print(f"[dim]{hidden} within the rule are not shown: --all[/]", highlight=False)


def _table(comparison: Comparison, rows: Sequence[tuple[str, Pair]]) -> Table:
    head = head_of(comparison)
    table = Table(header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in head:
        is_text = name in TEXT or name == head[0]
        table.add_column(name, overflow="fold", justify="left" if is_text else "right", no_wrap=not is_text)
    for word, pair in rows:
        table.add_row(*map(escape, cells_of(word, pair, comparison.labels)), style=_STYLES.get(word, ""))
    return table


def as_markdown(comparison: Comparison, everything: bool = False) -> str:
    """The comparison as a comment for a pull request; unchanged operations are folded."""
    symbol = _SYMBOLS[comparison.exit]
    parts = [f"**{symbol} kcore compare: {comparison.verdict}**\n", f"{comparison.rule}\n"]
    if rows := pairs_of(comparison, everything):
        parts.append(_markdown_rows(comparison, rows))
    if lines := others(comparison, everything):
        parts.append("".join(f"- {line}\n" for line in lines))
    if not everything and comparison.unchanged:
        within = _markdown_rows(comparison, [("", pair) for pair in comparison.unchanged])
        summary = f"<summary>{len(comparison.unchanged)} within the rule</summary>"
        parts.append(f"<details>{summary}\n\n{within}\n</details>\n")
    return "\n".join(parts)


def _markdown_rows(comparison: Comparison, rows: Sequence[tuple[str, Pair]]) -> str:
    cells = [cells_of(word, pair, comparison.labels) for word, pair in rows]
    return markdown_table(head_of(comparison), cells, TEXT)


def as_json(comparison: Comparison) -> str:
    """The comparison as one JSON object: the verdict, the exit code, the threshold, every pair."""
    words = {id(pair): word for word, pair in pairs_of(comparison, everything=True)}
    return json.dumps(
        {
            "verdict": comparison.verdict,
            "exit": int(comparison.exit),
            "threshold": comparison.thresholds.default,
            "labels": [*comparison.labels],
            "missing": list(comparison.only_old),
            "new": list(comparison.only_new),
            "remarks": list(comparison.remarks),
            "operations": [_as_row(words[id(pair)], pair) for pair in comparison.pairs],
        }
    )


def _as_row(word: str, pair: Pair) -> dict[str, Any]:
    return {
        **pair.new.named,
        "verdict": word or "within the rule",
        "old": pair.old.named,
        "threshold": pair.threshold,
        "doubt": pair.doubt,
        "median_ratio": pair.median_ratio,
        "min_ratio": pair.min_ratio,
        "old_median_ns": pair.old.median_ns,
        "new_median_ns": pair.new.median_ns,
        "old_interval_ns": [pair.old.low_ns, pair.old.high_ns],
        "new_interval_ns": [pair.new.low_ns, pair.new.high_ns],
        "noise": pair.noise,
    }
