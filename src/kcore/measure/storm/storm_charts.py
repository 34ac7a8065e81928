"""The charts of a storm's report: the parts of its time, when brokers knew, the latency of heartbeats."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kcore.measure.hollow.histograms import NOT_KNOWN, percentile_ms
from kcore.measure.report.charts import Axis, Event, Lane, Part, Shares, shares_chart, timeline_chart
from kcore.measure.report.dots import Dot, dot_chart
from kcore.measure.report.noise import quantile
from kcore.measure.report.palette import PHASES, color_of, dash_of, marker_of
from kcore.measure.report.units import duration
from kcore.measure.storm.curves import name_of
from kcore.measure.storm.phases import Phases, knew_after_ms, phases_of, work_ms
from kcore.measure.storm.report_rows import Row, is_good

_NS: Final = 1e6  # Nanoseconds in a millisecond.
_LEAST_NS: Final = 1e5  # The least value on a log axis.
_SHARES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_SCENARIOS_A_CHART: Final = 5
_LEAST_HEARTBEATS: Final = 20  # Fewer values do not show a distribution.
_QUANTILES: Final = 200  # Quantiles of heartbeats, which are kept as counts by bucket.
SESSION: Final = "session time-out"
NOTICED: Final = "to the first record of the fencing"
DECIDED: Final = "to the first change written"
FIRST: Final = "to the first broker"
SPREAD: Final = "to the last broker"
PARTS: Final = dict(zip((SESSION, NOTICED, DECIDED, FIRST, SPREAD), PHASES, strict=True))
"""The colour of each part of a scenario's time."""
ANSWERED: Final = "controller answered"
HALF: Final = "half of the brokers"
EVENTS: Final = {ANSWERED: "D", HALF: "v"}


def work_charts(rows: Sequence[Row]) -> list[str]:
    """Charts of the work, some scenarios in each, a point per target. Notes have the session's time: it is no work."""
    targets = list(dict.fromkeys(row["target"] for row in rows))
    timed = [row for row in rows if phases_of(row) is not None]
    scenarios = list(dict.fromkeys(row["scenario"] for row in timed))
    works = [max(_LEAST_NS, work_ms(row) * _NS) for row in timed]
    axis = Axis("work until the last broker knew, log", log=True)
    legend = {name_of(name): (color_of(name), marker_of(name, targets)) for name in targets}
    found = []
    for first in range(0, len(scenarios), _SCENARIOS_A_CHART):
        names = scenarios[first : first + _SCENARIOS_A_CHART]
        dots, label = [], ""
        for row in timed:
            if row["scenario"] in names:
                dots.append(_work_dot(row, "" if row["scenario"] == label else row["scenario"], targets))
                label = row["scenario"]
        title = f"Work: {names[0]} to {names[-1]}" if len(names) > 1 else f"Work: {names[0]}"
        found.append(dot_chart(title, dots, axis, legend=legend, ends=(min(works), max(works))))
    return found


def _work_dot(row: Row, label: str, targets: Sequence[str]) -> Dot:
    """The point of a row, with the spread of its repetitions, and a word if it is invalid."""
    phases = phases_of(row)
    assert phases is not None, "only timed rows have a point"
    work = max(_LEAST_NS, phases.work * _NS)
    waited = (phases.session + phases.noticed) * _NS
    note = duration(work) + (f" + {duration(waited)} session" if waited else "")
    ends = None
    if "work_min_ms" in row:
        ends = max(_LEAST_NS, row["work_min_ms"] * _NS), max(_LEAST_NS, row["work_max_ms"] * _NS)
    target, doubts = row["target"], () if is_good(row) else ("invalid",)
    return Dot(label, work, color_of(target), tip(row, phases), note, ends, marker_of(target, targets), doubts)


def tip(row: Row, phases: Phases) -> str:
    """The text that the marks of a scenario show at the pointer: the whole time and its parts."""
    parts = [f"{name}: {duration(ms * _NS)}" for name, ms in zip(PARTS, _times(phases), strict=True) if ms]
    return "\n".join([f"{row['scenario']} on {row['target']}: {duration(row['last_ms'] * _NS)} in all", *parts])


def _times(phases: Phases) -> tuple[float, ...]:
    """The phases in ms, in the order of PARTS."""
    return phases.session, phases.noticed, phases.decided, phases.first, phases.spread


def timeline(scenario: str, rows: Sequence[Row]) -> str:
    """A chart of the parts of the work, a lane per target. A lane's label names the wait before the work."""
    lanes = []
    for row in rows:
        phases = phases_of(row)
        if phases is None:
            continue
        named = [(name, ms) for name, ms in zip(PARTS, _times(phases), strict=True) if name not in (SESSION, NOTICED)]
        parts = [Part(ms * _NS, PARTS[name], f"{name}: {duration(ms * _NS)}") for name, ms in named]
        waited = phases.session + phases.noticed
        marks = {ANSWERED: row["answered_ms"], HALF: row["p50_ms"]}
        events = [Event((ms - waited) * _NS, name) for name, ms in marks.items() if ms != NOT_KNOWN and ms >= waited]
        label = f"{name_of(row['target'])}: {duration(phases.work * _NS)} of work"
        lanes.append(Lane(f"{label} after {duration(waited * _NS)} of session" if waited else label, parts, events))
    kinds = [name for name in PARTS if name not in (SESSION, NOTICED)]
    has = {name for lane in lanes for name, part in zip(kinds, lane.parts, strict=True) if part.length}
    legend = {name: color for name, color in PARTS.items() if name in has}
    return timeline_chart(f"{scenario}: timeline", lanes, "since the controller's work began", legend, EVENTS)


def knowing_lines(groups: Mapping[str, Sequence[Row]]) -> list[Shares]:
    """A line per target: when each broker knew the last change. `groups`: the repetitions by target."""
    lines = []
    for target, rows in groups.items():
        each = [[ms * _NS for ms in knew_after_ms(row)] for row in rows]
        if times := [ns for repetition in each for ns in repetition]:
            lines.append(Shares(target, times, color_of(target), dash_of(target, [*groups]), each))
    return lines


def knowing_chart(scenario: str, groups: Mapping[str, Sequence[Row]]) -> str:
    """A chart of the share of brokers that knew the last change, by time."""
    lines = knowing_lines(groups)
    sessions = any(row["session_ms"] > 0 for rows in groups.values() for row in rows)
    along = "since the work began, after the session" if sessions else "since the intended moment"
    return shares_chart(f"{scenario}: who knew when", lines, along, "brokers", log=_is_wide(lines))


def heartbeat_lines(groups: Mapping[str, Sequence[Row]]) -> list[Shares]:
    """A line per target: the latency of its heartbeats. `groups`: the repetitions by target."""
    lines = []
    for target, rows in groups.items():
        counts = [row["heartbeats"] for row in rows if row["heartbeats"]]
        buckets = np.sum(counts, axis=0) if counts else np.zeros(0, np.int64)
        if (total := int(buckets.sum())) >= _LEAST_HEARTBEATS:
            shares = [(at + 1) / min(total, _QUANTILES) for at in range(min(total, _QUANTILES))]
            times = [percentile_ms(buckets, share) * _NS for share in shares]
            lines.append(Shares(target, times, color_of(target), dash_of(target, [*groups]), total=total))
    return lines


def heartbeat_chart(scenario: str, groups: Mapping[str, Sequence[Row]]) -> str:
    """A chart of the share of heartbeats that were answered, by time."""
    lines = heartbeat_lines(groups)
    title = f"{scenario}: latency of heartbeats"
    return shares_chart(title, lines, "from when a heartbeat was due to its answer", "heartbeats", log=_is_wide(lines))


def quantiles(lines: Sequence[Shares]) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """The numbers of a shares chart: head and lines of a table."""
    head = ["target", "number", *(f"{share:.0%}" for share in _SHARES)]
    rows = [(line.name, line.total or len(line.times), sorted(line.times)) for line in lines]
    times = [[duration(quantile(ordered, share)) for share in _SHARES] for _, _, ordered in rows]
    return head, [([name, f"{count:,}", *each], False) for (name, count, _), each in zip(rows, times, strict=True)]


def _is_wide(lines: Sequence[Shares]) -> bool:
    """Whether the times span so much that only a log axis shows them all."""
    times = [ns for line in lines for ns in line.times]
    return bool(times) and min(times) > 0 and max(times) > 10 * min(times)
