"""A campaign of simulated quorums as a page: what failed with its story, how much was simulated, what happened."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from kcore.report.charts import Axis, Bar, Part, bar_chart
from kcore.report.page import (
    bullets,
    charts,
    fact_lists,
    figure,
    folded_numbers,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.report.svg import SERIES
from kcore.sim.raft.campaign import Row
from kcore.sim.raft.coverage import never_seen

_MOST_STORIES: Final = 20
_MOST_SEEDS: Final = 300  # In the table; all are in the results. Those that failed come first.
_MOST_BARS: Final = 12
_MEASURES: Final = {"events": "events", "committed": "records committed", "epochs": "epochs"}


def render(rows: Sequence[Row], summary: str, facts: dict[str, Any]) -> str:
    """The page of all seeds."""
    failed = [row for row in rows if row["invariant"] is not None]
    verdict = f"All invariants held in {len(rows):,} seeds." if not failed else f"{len(failed):,} seeds failed."
    body = [
        "<h1>kcore sim raft</h1>",
        paragraphs([f"{facts.get('when', '')} · {len(rows):,} seeds of {facts.get('events', 0):,} events"], "lead"),
        paragraphs([verdict], "bad" if failed else "good"),
        paragraphs([summary]),
        navigation([*(["failures"] if failed else []), "seeds", "coverage"]),
        fact_lists(facts),
        _failures(failed),
        _seeds(rows),
        _coverage(rows),
    ]
    return page("kcore sim raft", body)


def _failures(failed: Sequence[Row]) -> str:
    if not failed:
        return ""
    parts = ['<h2 id="failures">Failures</h2>']
    for row in failed[:_MOST_STORIES]:
        story = "\n".join([*row["story"], "", f"again: {row['replay']}"])
        parts.append(paragraphs([f"seed {row['seed']}: {row['invariant']}: {row['text']}"], "bad"))
        parts.append(folded_numbers(f"<pre>{escape(story)}</pre>", "The last events"))
    rest = Counter(row["invariant"] for row in failed[_MOST_STORIES:])
    parts.append(bullets(f"and {count} more of {name}" for name, count in rest.most_common()))
    return "".join(parts)


def _seeds(rows: Sequence[Row]) -> str:
    """How even the worlds are, and the numbers of each."""
    drawn = charts(figure(_histogram(title, [int(row[name]) for row in rows])) for name, title in _MEASURES.items())
    head = ("seed", "events", "committed", "epochs", "simulated s", "seconds", "invariant")
    lines = [
        (
            str(row["seed"]),
            f"{row['events']:,}",
            f"{row['committed']:,}",
            f"{row['epochs']:,}",
            f"{row['simulated_ms'] / 1e3:,.0f}",
            f"{row['seconds']:.2f}",
            row["invariant"] or "",
        )
        for row in sorted(rows, key=lambda row: row["invariant"] is None)[:_MOST_SEEDS]
    ]
    table = html_table(head, [(line, False) for line in lines], ("invariant",))
    some = f"The numbers of {len(lines):,} of {len(rows):,} seeds" if len(lines) < len(rows) else "The numbers"
    return f'<h2 id="seeds">Seeds</h2>{drawn}{folded_numbers(table, some)}'


def _histogram(title: str, values: Sequence[int]) -> str:
    """How many seeds had so many."""
    low, high = min(values), max(values)
    width = max(1, -(-(high - low + 1) // _MOST_BARS))
    counts = Counter((value - low) // width for value in values)
    bars = []
    for at in range(max(counts) + 1):
        first, last = low + at * width, low + (at + 1) * width - 1
        label = f"{first:,} to {last:,}" if width > 1 else f"{first:,}"
        part = Part(counts[at], SERIES[0], f"{title}: {label}\n{counts[at]:,} of {len(values):,} seeds")
        bars.append(Bar(label, [part], f"{counts[at]:,}"))
    return bar_chart(f"Seeds by {title}", bars, Axis("seeds", lambda value: f"{value:,.0f}"))


def _coverage(rows: Sequence[Row]) -> str:
    """How often everything happened, the rarest first; then what never did."""
    times: Counter[str] = Counter()
    seeds: Counter[str] = Counter()
    for row in rows:
        times.update(dict(row["coverage"]))
        seeds.update(name for name, _ in row["coverage"])
    never = never_seen(times)
    lines = [(name, f"{times[name]:,}", f"{seeds[name]:,}") for name in sorted(times, key=lambda name: times[name])]
    told = paragraphs([f"{len(times):,} kinds of events happened; {len(never):,} never did."])
    table = html_table(("what", "times", "seeds"), [(line, False) for line in lines])
    unseen = folded_numbers(bullets(never), f"What never happened, {len(never)}") if never else ""
    return f'<h2 id="coverage">What happened</h2>{told}{unseen}{table}'
