"""The page of `kcore sim raft` and `cluster`: failures with their last events, the work, and the kinds of events."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from kcore.measure.report.charts import Axis, Bar, bar_chart
from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.figure_history import Figures, history_section
from kcore.measure.report.palette import KCORE
from kcore.measure.report.report_page import (
    about_the_run,
    answer,
    bullets,
    charts,
    figure,
    folded_numbers,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.measure.report.units import three_digits
from kcore.sim.raft.campaign import SCHEMA, Campaign, Row
from kcore.sim.raft.coverage import counted

_MOST_STORIES: Final = 20
_MOST_SEEDS: Final = 300  # Rows of the table, failed seeds first; the results have all.
_MOST_BARS: Final = 12
_LEAST_SEEDS: Final = 20  # Fewer values are listed instead of drawn as a histogram.
_KIND: Final = ResultKind(
    SCHEMA, ("seed", "events", "committed", "seconds", "invariant"), own=("invariant", "coverage")
)
_HEAD: Final = ("what", "worlds")
_RAFT: Final = Campaign(range(0))  # Worlds of `kcore sim raft`.
_MEASURES: Final = {"events": "events", "committed": "records committed", "epochs": "epochs"}


def render(
    rows: Sequence[Row],
    summary: str,
    facts: dict[str, Any],
    directory: Path | None = None,
    campaign: Campaign = _RAFT,
) -> str:
    """The page of all seeds; `directory` is the run's folder, beside which earlier runs are searched."""
    failed = [row for row in rows if row["invariant"] is not None]
    verdict = f"All invariants held in {len(rows):,} seeds." if not failed else f"{len(failed):,} seeds failed."
    past = _history(rows, facts, directory)
    body = [
        f"<h1>{campaign.name}</h1>",
        paragraphs([f"{facts.get('when', '')} · {len(rows):,} seeds of {facts.get('events', 0):,} events"], "lead"),
        answer(verdict, kind="bad" if failed else "good"),
        paragraphs([summary]),
        navigation([*(["failures"] if failed else []), "seeds", "coverage", *(["history"] if past else [])]),
        _failures(failed),
        _seeds(rows),
        _coverage(rows, campaign),
        past,
        about_the_run(facts),
    ]
    return page(campaign.name, body)


def _history(rows: Sequence[Row], facts: Mapping[str, Any], directory: Path | None) -> str:
    """The history: how much was simulated and how fast, in this run and in earlier runs of the same worlds."""
    earlier = earlier_runs(directory, facts, _KIND)
    about = "Runs with as many events a seed and the same options. More work in an event makes fewer events a minute."
    return history_section(_HEAD, _speeds(rows, facts), earlier, _read, three_digits, about)


def _read(run: EarlierRun) -> Figures:
    return _speeds(run.table.to_pylist(), run.facts)


def _speeds(rows: Sequence[Row], facts: Mapping[str, Any]) -> Figures:
    """The figures by measure and options of the worlds; failed seeds count, too."""
    given = "".join(f", {name} {value}" for name, value in facts.get("options", {}).items() if value is not None)
    worlds = f"{facts.get('events', 0):,} events a seed{given}"
    minutes = sum(row["seconds"] for row in rows) / 60
    figures: dict[tuple[str, ...], float] = {("seeds", worlds): len(rows)}
    figures["seeds that failed", worlds] = sum(row["invariant"] is not None for row in rows)
    if minutes:
        for name in ("events", "committed"):
            figures[f"{_MEASURES[name]} a minute of a core", worlds] = sum(row[name] for row in rows) / minutes
    return figures


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
    """The section of seeds: the distribution of events, records and epochs, and the numbers of each seed."""
    values = {title: [int(row[name]) for row in rows] for name, title in _MEASURES.items()}
    if len(rows) < _LEAST_SEEDS:
        drawn = bullets(f"{title}: {', '.join(f'{each:,}' for each in sorted(own))}" for title, own in values.items())
    else:
        drawn = charts(figure(_histogram(title, own)) for title, own in values.items())
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
    """A histogram of a measure: the number of seeds for each range of its values."""
    low, high = min(values), max(values)
    width = max(1, -(-(high - low + 1) // _MOST_BARS))
    counts = Counter((value - low) // width for value in values)
    bars = []
    for at in range(max(counts) + 1):
        first, last = low + at * width, low + (at + 1) * width - 1
        label = f"{first:,} to {last:,}" if width > 1 else f"{first:,}"
        tip = f"{title}: {label}\n{counts[at]:,} of {len(values):,} seeds"
        bars.append(Bar(label, counts[at], KCORE, tip, f"{counts[at]:,}"))
    return bar_chart(f"Seeds by {title}", bars, Axis("seeds", lambda value: f"{value:,.0f}"))


def _coverage(rows: Sequence[Row], campaign: Campaign) -> str:
    """How often each kind of event happened, the rarest first; then the kinds that never happened."""
    times, seeds = counted(row["coverage"] for row in rows)
    never = campaign.missing(times)
    lines = [(name, f"{times[name]:,}", f"{seeds[name]:,}") for name in sorted(times, key=lambda name: times[name])]
    counts = paragraphs([f"{len(times):,} kinds of events happened; {len(never):,} never did."])
    table = html_table(("what", "times", "seeds"), [(line, False) for line in lines])
    unseen = folded_numbers(bullets(never), f"{len(never):,} events that never happened") if never else ""
    return f'<h2 id="coverage">What happened</h2>{counts}{unseen}{table}'
