"""The page of the comparison with rivals: the targets, how many times as fast kcore is, every figure."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa

from kcore.measure.report.charts import Axis, Bar, bar_chart
from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.figure_history import Figures as PastFigures
from kcore.measure.report.figure_history import history_section
from kcore.measure.report.noise import LIMITS, about_the_machine
from kcore.measure.report.palette import BAD
from kcore.measure.report.palette import KCORE as KCORE_COLOR
from kcore.measure.report.report_page import (
    about_the_run,
    answer,
    bullets,
    charts,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.measure.report.report_page import figure as html_figure
from kcore.measure.report.units import duration, three_digits
from kcore.measure.rivals.rival_names import TITLES, figure, short_name, view_of
from kcore.measure.rivals.rival_peers import GROUPS
from kcore.measure.rivals.rival_targets import KCORE, OBJECTS, RIVALS, Figures, TargetResult

_TOLD: Final = (
    "Every peer is a process of its own. Its times count only if its results are correct; peers take turns, "
    "so that noise affects all of them. Each figure is the least time of all runs of a case.",
    "Bars: how many times as fast as the fastest rival library kcore is, by least times. Below 1x it is slower.",
    LIMITS,
)
_KIND: Final = ResultKind(
    pa.schema([("peer", pa.string()), ("case", pa.string()), ("partitions", pa.int64()), ("ns_min", pa.float64())]),
    ("peer", "case", "partitions", "ns_min"),
    own=("peer", "case"),
    file="rivals.parquet",
)
_HEAD: Final = ("case", "peer", "partitions")
_NOISY: Final = 1.25  # A case is noisy if its median is this many times its least time.


def render(
    rows: Sequence[dict[str, Any]],
    targets: Sequence[TargetResult],
    notes: Sequence[str],
    options: str,
    facts: dict[str, Any],
    directory: Path | None = None,
) -> str:
    """The page of a run: its rows, targets, notes and options. Earlier runs are searched beside `directory`."""
    sections = [
        (view or group, [row for row in rows if row["group"] == group and view_of(row["case"]) == view])
        for group in GROUPS
        for view in dict.fromkeys(view_of(row["case"]) for row in rows if row["group"] == group)
    ]
    figures, past = Figures(rows), _history(rows, facts, directory)
    body = [
        "<h1>kcore rivals</h1>",
        f'<p class="lead">{escape(facts.get("when", ""))} · {escape(options)}</p>',
        _answer(rows, figures),
        _verdict(rows, targets),
        paragraphs(about_the_machine(facts), "warn"),
        bullets(notes, "note"),
        navigation(["targets", *(name for name, _ in sections), *(["history"] if past else []), "method"]),
        _targets(targets),
        *(_section(name, mine, figures) for name, mine in sections),
        past,
        about_the_run(facts),
        f'<h2 id="method">How it was measured</h2>{paragraphs(_TOLD)}',
    ]
    return page("kcore rivals", body)


def _history(rows: Sequence[dict[str, Any]], facts: dict[str, Any], directory: Path | None) -> str:
    """The section with kcore's least time of each case, in this run and in earlier runs."""
    earlier = earlier_runs(directory, facts, _KIND)
    about = "kcore's least time of each case; a partition each, or a message. A single run varies by several percent."
    return history_section(_HEAD, _leasts(rows), earlier, _read, duration, about)


def _read(run: EarlierRun) -> PastFigures:
    return _leasts(run.table.to_pylist())


def _leasts(rows: Sequence[dict[str, Any]]) -> PastFigures:
    """kcore's least times in ns, by case, peer and partitions."""
    mine = [row for row in rows if row["peer"] in (KCORE, OBJECTS) and row["ns_min"]]
    sizes = [f"{row['partitions']:,}" if row["partitions"] else "" for row in mine]
    return {(row["case"], row["peer"], size): row["ns_min"] for row, size in zip(mine, sizes, strict=True)}


def _answer(rows: Sequence[dict[str, Any]], figures: Figures) -> str:
    """The page's answer: kcore against the fastest rival library, over all cases that both have."""
    if any(row["agrees"] is False for row in rows):
        return answer("No answer: results differ, and times of different results do not compare.", kind="bad")
    speeds = []
    for case in dict.fromkeys(row["case"] for row in rows):
        ours = figures.ns(KCORE, case) or figures.ns(OBJECTS, case)
        if ours and (theirs := figures.fastest(case)):
            speeds.append(theirs / ours)
    if not speeds:
        return ""
    slower = sum(speed < 1 for speed in speeds)
    cases = "1 case" if len(speeds) == 1 else f"{len(speeds)} cases"
    ends = f"from {three_digits(min(speeds))} to {three_digits(max(speeds))}, slower in {slower or 'none'}"
    sentence = f"kcore is {three_digits(median(speeds))} times as fast as the fastest rival library"
    return answer(f"{sentence}: the median of {cases}, {ends}.")


def _verdict(rows: Sequence[dict[str, Any]], targets: Sequence[TargetResult]) -> str:
    wrong = [f"{row['peer']}: {row['case']} gives another result" for row in rows if row["agrees"] is False]
    judged = [each for each in targets if each.met is not None]
    met = sum(bool(each.met) for each in judged)
    line = f"{met} of {len(judged)} targets met" + (", all results agree." if not wrong else ".")
    kind = "good" if met == len(judged) and not wrong else "bad"
    return paragraphs([line], kind) + paragraphs(wrong, "bad")


def _targets(targets: Sequence[TargetResult]) -> str:
    answers = {True: "yes", False: "no", None: ""}
    rows = [
        (each.target, each.bound, "" if each.value is None else f"{figure(each.value)} {each.unit}", answers[each.met])
        for each in targets
    ]
    marks = ["bad" if each.met is False else "" for each in targets]
    head = ("target", "bound", "measured", "met")
    table = html_table(head, [(row, False) for row in rows], marks=marks)
    return f'<h2 id="targets">Targets</h2>{table}' if rows else ""


def _section(name: str, rows: Sequence[dict[str, Any]], figures: Figures) -> str:
    title = TITLES.get(name, f"{name}: ns a partition, least of all runs")
    chart = html_figure(_speed_chart(name, rows, figures))
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    look_up = figures.mib if name == "memory" else figures.ns
    cases = list(dict.fromkeys(row["case"] for row in rows))
    noise = {case: _noise([row for row in rows if row["case"] == case]) for case in cases}
    lines = [
        ((short_name(case), *(_text(look_up(peer, case)) for peer in peers), noise[case]), False) for case in cases
    ]
    table = html_table(("case", *peers, "median over least"), lines, ("median over least",))
    return f'<h2 id="{name}">{escape(title)}</h2>{charts([chart])}{table}'


def _text(value: float | None) -> str:
    return "" if value is None else figure(value)


def _noise(rows: Sequence[dict[str, Any]]) -> str:
    """The peers whose median is far above their least time: the machine was busy, or the peer was not warm."""
    found = [
        f"{row['peer']} {row['ns_median'] / row['ns_min']:.2f}x"
        for row in rows
        if row["ns_min"] and row["ns_median"] > _NOISY * row["ns_min"]
    ]
    return ", ".join(found)


def _speed_chart(name: str, rows: Sequence[dict[str, Any]], figures: Figures) -> str:
    """A chart of kcore's speed against the fastest rival library; it has no bars if no rival took part."""
    bars = []
    mine = OBJECTS if name == "small" else KCORE
    for case in dict.fromkeys(row["case"] for row in rows):
        ours, theirs = figures.ns(mine, case), figures.fastest(case)
        if ours and theirs:
            rival = next(peer for peer in RIVALS if figures.ns(peer, case) == theirs)
            tip = f"{short_name(case)}\n{mine} {figure(ours)} ns, {rival} {figure(theirs)} ns"
            speed = theirs / ours
            color = KCORE_COLOR if speed >= 1 else BAD
            bars.append(Bar(short_name(case), speed, color, tip, f"{three_digits(speed)}x {rival}"))
    axis = Axis("times as fast as the fastest rival", lambda value: f"{value:g}x")
    return bar_chart(f"{name}: against the fastest rival", bars, axis)
