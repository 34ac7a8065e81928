"""A run as one HTML page that can be sent to a colleague: tables, charts, and what the figures do not say."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

import pyarrow as pa

from kcore.bench.charts import cost_chart, distance_chart, shapes_chart, workers_chart
from kcore.bench.results import Row, Summary, disagreements, failures, missing, summarise
from kcore.bench.shapes_table import shape_rows
from kcore.bench.tables import COLUMNS, figures_of
from kcore.report.keep import facts_of
from kcore.report.page import fact_lists, figure, html_table, page
from kcore.workloads.catalog import WORKLOADS
from kcore.workloads.cell import Cell
from kcore.workloads.measure import BUDGET_NS, SAMPLES_AT_LEAST, SAMPLES_AT_MOST

NOTES = (
    "A cell makes its input, runs each operation once to warm it up, weighs one run, then times runs until "
    f"{BUDGET_NS / 1e9:.1f} s are spent, at least {SAMPLES_AT_LEAST} and at most {SAMPLES_AT_MOST}. Python's collector "
    "is off while the clock runs. With few samples the p99 is the slowest run.",
    "Every run's result is hashed, and the hash compared within the cell and with the other repetitions: a time "
    "counts only if the same was computed.",
    "Memcpy is copying the bytes that must at least move (the message, or the columns read and written) between "
    "buffers already mapped, in the same process right after. Below a microsecond no ratio is given. It has caches "
    "warmer than real work does, so a ratio of 1 is out of reach.",
    "Peak memory is the growth of the process's resident high-water mark in one run, its result included, its input "
    "not; memory already held by the allocator does not count.",
    "As many cells ran at a time as the master has slots, and they share caches and memory bandwidth. For quieter "
    "figures use --master 'local[1]'. Take ratios within one run, not absolute times between machines.",
)


def render(table: pa.Table, cells: Sequence[Cell]) -> str:
    """The page for the rows of a run that was to measure `cells`."""
    rows, facts = table.to_pylist(), facts_of(table)
    summaries = summarise(rows)
    names = list(dict.fromkeys(summary.workload for summary in summaries))
    links = "".join(f'<a href="#{name}">{name}</a>' for name in (*names, "workers", "plan", "method"))
    title = f"kcore bench: {facts.get('title', 'plan')}"
    body = (
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(facts.get("when", ""))} · {len(cells)} cells · {_where(facts)}</p>',
        _verdict(rows, cells),
        f"<nav>{links}</nav>",
        fact_lists(facts),
        _overview(summaries),
        *(_workload(name, list(group)) for name, group in groupby(summaries, lambda summary: summary.workload)),
        _workers(rows),
        f'<h2 id="plan">Plan</h2><pre>{escape(facts.get("plan", ""))}</pre>',
        f'<h2 id="method">How it was measured</h2>{"".join(f"<p>{escape(note)}</p>" for note in NOTES)}',
    )
    return page(title, body)


def _where(facts: dict[str, Any]) -> str:
    master, slots = facts.get("master"), facts.get("slots", 1)
    return "one after the other, without Spark" if master is None else f"Spark on {escape(master)}, {slots} at a time"


def _verdict(rows: Sequence[Row], cells: Sequence[Cell]) -> str:
    """One line if all is well, else every failure by name."""
    bad = [
        f"failed: {row['workload']}, {row['partitions']:,} partitions, {row['brokers']:,} brokers, "
        f"repetition {row['repetition']}: {row['error']}"
        for row in failures(rows)
    ]
    bad += [f"results differ: {line}" for line in disagreements(rows)]
    bad += [f"missing: {cell}" for cell in missing(rows, cells)]
    if not bad:
        return '<p class="good">Every cell ran, and all repetitions gave the same results.</p>'
    return "".join(f'<p class="bad">{escape(line)}</p>' for line in bad)


def _overview(summaries: Sequence[Summary]) -> str:
    chart = distance_chart([summary for summary in summaries if summary.workload != "shapes"])
    if not chart:
        return ""
    caption = "Best time over memcpy, each operation at its largest size; beside it the best time a partition handled."
    return f"<h2>How far from memcpy</h2>{figure(chart, caption)}"


def _workload(name: str, summaries: Sequence[Summary]) -> str:
    head = f'<h2 id="{name}">{name}</h2><p class="lead">{escape(WORKLOADS[name].summary)}</p>'
    if name == "shapes":
        columns, *shapes = shape_rows(summaries)
        caption = "Messages of the same partitions. KIP-380 moved the topic's name from each partition to its topic."
        return head + html_table(columns, [(row, False) for row in shapes]) + figure(shapes_chart(summaries), caption)
    ordered = sorted(summaries, key=lambda summary: (summary.partitions, summary.brokers))
    starts = {id(next(group)) for _, group in groupby(ordered, lambda summary: (summary.partitions, summary.brokers))}
    sizes = [(f"{summary.partitions:,}", f"{summary.brokers:,}") for summary in ordered]
    rows = [((s.operation, *counts, *figures_of(s)), id(s) in starts) for s, counts in zip(ordered, sizes, strict=True)]
    table = html_table(("operation", "partitions", "brokers", "handled", *COLUMNS), rows)
    caption = (
        "Median time; the band reaches from the best to the p99. Dashed: memcpy of the bytes that the operation "
        "must at least move."
    )
    chart = figure(cost_chart(name, summaries), caption)
    return f"{head}{chart}<details open><summary>Figures</summary>{table}</details>"


def _workers(rows: Sequence[Row]) -> str:
    caption = "Each bar is a cell, set-up and warm-up included; a lane is a Python process of a Spark executor."
    return f'<h2 id="workers">Who ran what</h2>{figure(workers_chart(rows), caption)}'
