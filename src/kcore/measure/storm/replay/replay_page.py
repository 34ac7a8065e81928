"""The page of a replay: a chart of the timeline, then the tables of the report."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

from kcore.measure.report.palette import color_of, marker_of
from kcore.measure.report.report_page import charts, fact_lists, figure, html_table, page
from kcore.measure.report.svg import Chart, draw_grid, time_axis
from kcore.measure.report.units import short_duration
from kcore.measure.storm.replay.describe import MINUTE_MS
from kcore.measure.storm.replay.recording import Recording, text_of
from kcore.measure.storm.replay.replay_report import TEXT, tables_of, troubles
from kcore.measure.storm.replay.run_replay import EventResult, TargetReplay

_MOST_MARKS: Final = 150  # The most marks of a target in a panel.
_LEAST_MS: Final = 0.1  # A logarithmic axis has no 0.
_NS_IN_MS: Final = 1e6
_INCHES: Final = (9.0, 5.4)
_CAPTION: Final = (
    "Top: the time from an event until the last live broker knew its record. Bottom: how long after its due time the "
    "event was done. A mark is the slowest event of its part of the trace."
)


def render(recording: Recording, results: Sequence[TargetReplay], facts: dict[str, Any], speed: float) -> str:
    """The page."""
    chart = timeline_chart(results)
    body = [
        f"<h1>Replay of {escape(recording.name)}</h1>",
        f"<p>{text_of(recording.from_ms)} to {text_of(recording.to_ms)} UTC, {speed:g} times as fast as recorded: "
        f"{len(recording.causes):,} events</p>",
        charts([figure(chart, _CAPTION)]) if chart else "",
        fact_lists(facts),
    ]
    for title, head, lines in tables_of(results):
        if lines:
            body += [f"<h2>{escape(title)}</h2>", html_table(head, [(line, False) for line in lines], TEXT)]
    body += [f"<p>{escape(line)}</p>" for line in troubles(results)]
    return page("Replay", body)


def timeline_chart(results: Sequence[TargetReplay]) -> str:
    """The events over the time of the trace, as an SVG element: until known, and late. Empty without an event."""
    shown = [each for each in results if each.events]
    if not shown:
        return ""
    times_ms = [event.time_ms for each in shown for event in each.events]
    begin_ms, span_ms = min(times_ms), max(times_ms) - min(times_ms) + 1

    def part(event: EventResult) -> int:
        return (event.time_ms - begin_ms) * _MOST_MARKS // span_ms

    def body(panels: list[list[Chart]]) -> None:
        [known], [late] = panels
        time_axis(known, log=True, along=False)
        time_axis(late, log=False, along=False)
        known.axis.set(ylabel="until the last broker knew")
        late.axis.set(ylabel="late", xlabel=f"minutes since {text_of(begin_ms)} UTC")
        for panel, value in ((known, _known_ms), (late, _late_ms)):
            for result in shown:
                slowest = _slowest(result.events, value, part)
                _marks(panel, result.target, [each.target for each in shown], slowest, value, begin_ms)
        known.axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(shown))

    return draw_grid("Timeline of the replay\neach target's slowest events", _INCHES, 2, (1,), body)


def _known_ms(event: EventResult) -> float:
    return event.known_ms


def _late_ms(event: EventResult) -> float:
    return max(0.0, event.late_ms)


def _slowest(
    events: Sequence[EventResult], value: Callable[[EventResult], float], part: Callable[[EventResult], int]
) -> list[EventResult]:
    """The event with the largest value of each part of the trace; events without a value are left out."""
    found: dict[int, EventResult] = {}
    for event in events:
        if value(event) >= 0 and value(event) >= value(found.get(part(event), event)):
            found[part(event)] = event
    return [*found.values()]


def _marks(
    panel: Chart,
    target: str,
    targets: Sequence[str],
    events: Sequence[EventResult],
    value: Callable[[EventResult], float],
    begin_ms: int,
) -> None:
    style: dict[str, Any] = {"color": color_of(target), "marker": marker_of(target, targets), "ms": 4, "alpha": 0.7}
    for event in events:
        height_ns = max(_LEAST_MS, value(event)) * _NS_IN_MS
        text = f"{target}, {text_of(event.time_ms)}\n{event.kind}: {short_duration(value(event) * _NS_IN_MS)}"
        panel.point((event.time_ms - begin_ms) / MINUTE_MS, height_ns, text, **style)
    panel.axis.plot([], [], ls="", label=target, **style)
