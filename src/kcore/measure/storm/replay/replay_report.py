"""The report of a replay: figures by kind of event and by minute, different ends and decisions."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.report.build import COLUMNS
from kcore.measure.storm.replay.compare_states import Group
from kcore.measure.storm.replay.describe import MINUTE_MS
from kcore.measure.storm.replay.recording import Recording, text_of
from kcore.measure.storm.replay.run_replay import EventResult, ReplayOptions, TargetReplay
from kcore.printable import printable

LATE_MS: Final = 1_000.0  # A replay falls behind if an event is done so much later than its due time.
TEXT: Final = ("event", "target", "errors", "differs", "reason", "examples", "minute", "why")
_KINDS: Final = ("event", "target", "events", "answered p50 ms", "known p50 ms", "known p99 ms", "known max ms",
                 "late max ms", "errors")  # fmt: skip
_MINUTES: Final = ("minute", "target", "events", "known p99 ms", "known max ms", "late max ms", "behind")
ROW_SCHEMA: Final = pa.schema([
    ("target", pa.string()), *COLUMNS, ("kind", pa.string()), ("time_ms", pa.int64()), ("late_ms", pa.float64()),
    ("answered_ms", pa.float64()), ("known_ms", pa.float64()), ("errors", pa.list_(pa.string())),
    ("deviation", pa.string()),
])  # fmt: skip
_GROUPS: Final = ("target", "differs", "partitions", "reason", "examples")
_SUMMARY: Final = ("target", "events", "same ends", "other ends", "same decisions", "other decisions", "peak events/s",
                   "CPU s", "memory MB", "false fencings", "seconds")  # fmt: skip
Lines = list[Sequence[str]]


def tables_of(results: Sequence[TargetReplay]) -> list[tuple[str, Sequence[str], Lines]]:
    """All tables of the report: title, head, lines."""
    good = [each for each in results if not each.error and each.planned]
    return [
        ("targets", _SUMMARY, [_summary(each) for each in good]),
        ("events by kind: until the last broker knew", _KINDS, _by_kind(good)),
        ("timeline", _MINUTES, _by_minute(good)),
        ("partitions that end otherwise than recorded", _GROUPS, _groups(good, "ends")),
        ("decisions otherwise than recorded, by the first difference", _GROUPS, _groups(good, "decisions")),
    ]


def troubles(results: Sequence[TargetReplay]) -> list[str]:
    """A line for each target that failed, for each part of the first state that could not be made, for Ctrl-C."""
    lines = [f"failed: {each.target}: {each.error}" for each in results if each.error]
    lines += [f"{each.target}: {problem}" for each in results for problem in each.problems]
    if any(not each.is_whole and not each.error for each in results):
        lines.append(f"interrupted: {'; '.join(f'{each.target} {_progress(each)}' for each in results)}")
    return lines


def _progress(result: TargetReplay) -> str:
    if result.error:
        return "failed"
    if result.is_whole:
        return "is complete"
    if not result.planned:
        return "has replayed nothing"
    return f"has replayed {len(result.events):,} of {result.planned:,} events, and its end is not compared"


def show(console: Console, results: Sequence[TargetReplay]) -> None:
    """Prints the tables and the troubles."""
    for title, head, lines in tables_of(results):
        if not lines:
            continue
        table = Table(title=f"[bold]{title}[/]", title_justify="left", header_style="dim", box=box.SIMPLE_HEAD)
        for name in head:
            table.add_column(name, justify="left" if name in TEXT else "right")
        for cells in lines:
            table.add_row(*(escape(printable(each)) for each in cells))
        console.print(table)
    for line in troubles(results):
        console.print(f"[bold red]{escape(printable(line))}[/]", soft_wrap=True)


def table_of(results: Sequence[TargetReplay]) -> pa.Table:
    """A row for each event on each target, with the target's build."""
    rows = [
        {"target": result.target, **result.build.as_row(), **asdict(event)}
        for result in results
        for event in result.events
    ]
    return pa.Table.from_pylist(rows, schema=ROW_SCHEMA)


def facts_of(recording: Recording, results: Sequence[TargetReplay], options: ReplayOptions) -> dict[str, Any]:
    """The facts of a run beside its rows: what was replayed and how, and the summary of each target."""
    times = {"from": text_of(recording.from_ms), "to": text_of(recording.to_ms)}
    return {
        "replay": {"trace": recording.name, **times, **asdict(options)},
        "targets": [each.target for each in results],
        "summaries": [summary_of(each) for each in results],
    }


def summary_of(result: TargetReplay) -> dict[str, Any]:
    """The result of a target without its events, for JSON."""
    values = asdict(result)
    values.pop("events")
    return values | {"events": len(result.events), "build": result.build.as_row()}


def _summary(result: TargetReplay) -> Sequence[str]:
    return (
        result.target,
        f"{len(result.events):,}",
        f"{result.same_ends:,}",
        f"{sum(each.partitions for each in result.ends):,}",
        f"{result.same_decisions:,}",
        f"{sum(each.partitions for each in result.decisions):,}",
        f"{result.peak_events_s:,}",
        _figure(result.controller_cpu_s),
        _figure(result.controller_rss_mb),
        f"{result.false_fencings:,}",
        f"{result.seconds:,.1f}",
    )


def _by_kind(results: Sequence[TargetReplay]) -> Lines:
    kinds = dict.fromkeys(event.kind for result in results for event in result.events)
    lines: Lines = []
    for kind in kinds:
        for result in results:
            events = [each for each in result.events if each.kind == kind]
            errors = dict.fromkeys(error for each in events for error in each.errors)
            known = _known(events)
            lines.append(
                (
                    kind, result.target, f"{len(events):,}",
                    _percentile([each.answered_ms for each in events], 50), _percentile(known, 50),
                    _percentile(known, 99), _percentile(known, 100),
                    _percentile([each.late_ms for each in events], 100), "; ".join(errors),
                )
            )  # fmt: skip
    return lines


def _by_minute(results: Sequence[TargetReplay]) -> Lines:
    minutes = sorted({event.time_ms // MINUTE_MS for result in results for event in result.events})
    lines: Lines = []
    for minute in minutes:
        for result in results:
            events = [each for each in result.events if each.time_ms // MINUTE_MS == minute]
            known, late = _known(events), [each.late_ms for each in events]
            behind = sum(each > LATE_MS for each in late)
            lines.append(
                (
                    text_of(minute * MINUTE_MS, to_minute=True), result.target, f"{len(events):,}",
                    _percentile(known, 99), _percentile(known, 100), _percentile(late, 100),
                    f"{behind:,}" if behind else "",
                )
            )  # fmt: skip
    return lines


def _groups(results: Sequence[TargetReplay], name: str) -> Lines:
    found: list[tuple[str, Group]] = [(result.target, each) for result in results for each in getattr(result, name)]
    return [
        (target, group.what, f"{group.partitions:,}", group.reason, "; ".join(group.examples))
        for target, group in found
    ]


def _known(events: Iterable[EventResult]) -> list[float]:
    return [each.known_ms for each in events if each.known_ms != NOT_KNOWN]


def _percentile(values: Sequence[float], share: float) -> str:
    return f"{float(np.percentile(values, share)):,.1f}" if values else ""


def _figure(value: float) -> str:
    return "" if value == NOT_KNOWN else f"{value:,.1f}"
