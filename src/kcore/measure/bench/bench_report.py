"""Renders a run as one HTML page to send to a colleague: tables, charts, and the limits of the figures."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from kcore.measure.bench.bench_charts import (
    cost_chart,
    distance_chart,
    distance_of,
    median_chart,
    shapes_charts,
    spread_chart,
    workers_chart,
)
from kcore.measure.bench.bench_history import History
from kcore.measure.bench.bench_results import (
    Row,
    Summary,
    disagreements,
    failed_alone,
    missing,
    mixed_code,
    not_measured,
    summarise,
)
from kcore.measure.bench.shapes_table import shape_rows
from kcore.measure.bench.tables import COLUMNS
from kcore.measure.report.host_speeds import about_the_hosts
from kcore.measure.report.noise import INTERVAL, LIMITS, about_the_machine
from kcore.measure.report.report_page import (
    Mark,
    Marked,
    about_the_run,
    answer,
    charts,
    figure,
    folded_numbers,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.measure.report.result_files import facts_of
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.units import duration, three_digits
from kcore.measure.workloads.catalog import WORKLOADS
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.measure import BUDGET_NS, SAMPLES_AT_LEAST, SAMPLES_AT_MOST

COLUMNS_NOTE = (
    "Times are of one run; lines and bars are medians, bands reach from the best to the p99. 95%: confidence interval "
    "of the median; each: per handled partition; x memcpy: best time over memcpy of the least bytes to move; "
    "peak: growth of memory in one run."
)
NOTES = (
    "A cell makes its input, runs each operation once to warm it up, measures one run's memory, then times runs until "
    f"{BUDGET_NS / 1e9:.1f} s are spent, at least {SAMPLES_AT_LEAST} and at most {SAMPLES_AT_MOST}. Python's collector "
    "is off while the clock runs. With few samples the p99 is the slowest run.",
    INTERVAL,
    LIMITS,
    "Every run's result is hashed, and the hashes within a cell and between repetitions are compared: a time "
    "counts only if all results are equal.",
    "Memcpy copies the least bytes that an operation must move (the message, or the columns read and written) between "
    "mapped buffers, in the same process after the operation. Below a microsecond no ratio is given. Its caches are "
    "warmer than those of real work, so no operation reaches a ratio of 1.",
    "Peak memory is the growth of the process's resident high-water mark in one run, with its result and without its "
    "input; memory that the allocator already held does not count.",
    "The master ran one cell per slot at the same time; these share caches and memory bandwidth. For less noisy "
    "figures use --master 'local[1]'. Compare ratios within one run, not absolute times between machines.",
)


def render(
    table: pa.Table,
    cells: Sequence[Cell],
    directory: Path | None = None,
    storm: str = "",
    runs_at: ResultTable | None = None,
) -> str:
    """Renders the page for a run of `cells`. Earlier runs are searched beside `directory`, and in the table `runs_at`.

    `storm`: the HTML section of the storm that ended the run, or empty.
    """
    rows, facts = table.to_pylist(), facts_of(table)
    summaries = summarise(rows)
    history = History(directory, facts, summaries, runs_at)
    past = history.section()
    names = list(dict.fromkeys(summary.workload for summary in summaries))
    later = [*(["history"] if past else []), "workers", "plan", "machine", "method"]
    anchors = [*(["storm"] if storm else []), *names, *later]
    title = f"kcore bench: {facts.get('title', 'plan')}"
    body = (
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(facts.get("when", ""))} · {len(cells)} cells · {_where(facts)}</p>',
        _answer(summaries),
        _verdict(rows, cells),
        paragraphs(history.verdict()),
        paragraphs([*about_the_machine(facts), *about_the_hosts(facts), *_noise(summaries)], "warn"),
        navigation(anchors),
        storm,
        _overview(summaries),
        *(_workload(name, list(group)) for name, group in groupby(summaries, lambda summary: summary.workload)),
        past,
        _workers(rows),
        f'<h2 id="plan">Plan</h2><pre>{escape(facts.get("plan", ""))}</pre>',
        about_the_run(facts),
        f'<h2 id="method">How it was measured</h2>{paragraphs(NOTES)}',
    )
    return page(title, body)


def _where(facts: dict[str, Any]) -> str:
    master, slots = facts.get("master"), facts.get("slots", 1)
    return "one after the other, without Spark" if master is None else f"Spark on {escape(master)}, {slots} at a time"


def _answer(summaries: Sequence[Summary]) -> str:
    """The page's answer: the operations' times as multiples of the time to copy the bytes that they must move."""
    found = distance_of([summary for summary in summaries if summary.workload != "shapes"])
    if not found:
        return ""
    times = [each.times_memcpy or 0.0 for each in found]
    ends = " to ".join(f"{three_digits(times[at])} ({found[at].workload}, {found[at].operation})" for at in (-1, 0))
    sentence = (
        f"An operation takes {three_digits(median(times))} times as long as copying its bytes: the median of "
        f"{len(found)} operations, from {ends}."
    )
    noisy = [each for each in found if each.noise]
    why = f"{len(noisy)} of these {len(found)} figures are noisy"
    return answer(sentence, [Mark("noisy", why)] if noisy else [])


def _verdict(rows: Sequence[Row], cells: Sequence[Cell]) -> str:
    """One sentence if all cells succeeded; otherwise one line for each failure."""
    bad = [
        f"failed: {row['workload']}, {row['partitions']:,} partitions, {row['brokers']:,} brokers, "
        f"repetition {row['repetition']}: {row['error']}"
        for row in failed_alone(rows)
    ]
    bad += [f"not measured: {line}" for line in not_measured(rows)]
    bad += [f"results differ: {line}" for line in disagreements(rows)]
    bad += [f"kcore's code differs: {line}" for line in mixed_code(rows)]
    bad += [f"missing: {cell}" for cell in missing(rows, cells)]
    if not bad:
        return paragraphs(["Every cell ran, and all repetitions gave the same results."], "good")
    return paragraphs(bad, "bad")


def _noise(summaries: Sequence[Summary]) -> list[str]:
    """One sentence if any operation is noisy."""
    noisy = [summary for summary in summaries if summary.spread.noise]
    if not noisy:
        return []
    return [f"{len(noisy)} of {len(summaries)} figures are noisy: their marks say why."]


def _overview(summaries: Sequence[Summary]) -> str:
    chosen = distance_of([summary for summary in summaries if summary.workload != "shapes"])
    figures = []
    for name in dict.fromkeys(summary.workload for summary in chosen):
        mine = [summary for summary in chosen if summary.workload == name]
        figures.append(figure(distance_chart(name, mine), numbers=_distances(mine)))
    if not figures:
        return ""
    caption = (
        "Best time over memcpy of the least bytes to move, each operation at its largest size; followed by the "
        "best time per handled partition."
    )
    return f"<h2>How far from memcpy</h2>{paragraphs([caption], 'lead')}{charts(figures, packed=True)}"


def _distances(summaries: Sequence[Summary]) -> str:
    head = ("operation", "partitions", "best", "memcpy", "x memcpy", "best each")
    rows = [
        (
            s.operation,
            f"{s.partitions:,}",
            duration(s.min_ns),
            duration(s.memcpy_ns),
            three_digits(s.times_memcpy or 0),
            duration(s.min_ns / max(1, s.handled_partitions)),
        )
        for s in summaries
    ]
    return html_table(head, [(row, False) for row in rows])


def _workload(name: str, summaries: Sequence[Summary]) -> str:
    head = f'<h2 id="{name}">{name}</h2><p class="lead">{escape(WORKLOADS[name].summary)}</p>'
    if name == "shapes":
        columns, *shapes = shape_rows(summaries)
        caption = "Messages of the same partitions. KIP-380 moved the topic's name from each partition to its topic."
        drawn = charts(figure(chart) for chart in shapes_charts(summaries))
        return head + paragraphs([caption]) + drawn + html_table(columns, [(row, False) for row in shapes])
    return head + charts(_drawn(name, summaries)) + _several_spreads(summaries) + _figures(summaries)


def _sizes(summaries: Sequence[Summary]) -> list[tuple[int, int]]:
    return sorted({(summary.partitions, summary.brokers) for summary in summaries})


def _drawn(name: str, summaries: Sequence[Summary]) -> list[str]:
    """A chart per group: times against partitions if there are several sizes, otherwise the distributions."""
    brokers = sorted({summary.brokers for summary in summaries})
    found = []
    for group in dict.fromkeys(summary.group for summary in summaries):
        for count in brokers:
            mine = [each for each in summaries if (each.group, each.brokers) == (group, count)]
            title = f"{name}: {group}" + (f", {count:,} brokers" if len(brokers) > 1 else "")
            several = len({each.partitions for each in mine}) > 1
            if mine:
                found += [cost_chart(title, mine)] if several else []
                found += [] if several else [median_chart(title, mine), spread_chart(f"{title}, spread", mine)]
    return [figure(chart) for chart in found]


def _several_spreads(summaries: Sequence[Summary]) -> str:
    """Charts of the distributions at the largest size, in a closed section; empty if all cells have the same size."""
    if len({summary.partitions for summary in summaries}) == 1:
        return ""
    largest = _sizes(summaries)[-1]
    at_largest = [each for each in summaries if (each.partitions, each.brokers) == largest]
    title = f"at {largest[0]:,} partitions, {largest[1]:,} brokers"
    drawn = charts(
        figure(spread_chart(f"{group}, {title}", [each for each in at_largest if each.group == group]))
        for group in dict.fromkeys(each.group for each in at_largest)
    )
    return folded_numbers(drawn, f"Distributions {title}")


def _figures(summaries: Sequence[Summary]) -> str:
    ordered = sorted(summaries, key=lambda summary: (summary.partitions, summary.brokers))
    starts = {id(next(group)) for _, group in groupby(ordered, lambda summary: (summary.partitions, summary.brokers))}
    varies = {
        name: len({getattr(each, name) for each in ordered}) > 1 for name in ("partitions", "brokers")
    }  # Values that all rows share are in the text above the table.
    shown = [name for name, several in varies.items() if several]
    rows: list[tuple[Sequence[str | Marked], bool]] = [
        (
            (_marked(s), *(f"{getattr(s, name):,}" for name in shown), *(text(s) for text in COLUMNS.values())),
            id(s) in starts,
        )
        for s in ordered
    ]
    fixed = [f"{getattr(ordered[0], name):,} {name}" for name, several in varies.items() if not several]
    table = html_table(("operation", *shown, *COLUMNS), rows)
    lead = paragraphs([". ".join([*([", ".join(fixed)] if fixed else []), COLUMNS_NOTE])], "note")
    return f"<details open><summary>The numbers</summary>{lead}{table}</details>"


def _marked(summary: Summary) -> Marked:
    return Marked(summary.operation, [Mark("noisy", "; ".join(summary.noise))] if summary.noise else [])


def _workers(rows: Sequence[Row]) -> str:
    caption = "Each bar is a cell, with set-up and warm-up; a lane is a Python process of a Spark executor."
    return f'<h2 id="workers">Who ran what</h2>{figure(workers_chart(rows), caption)}'
