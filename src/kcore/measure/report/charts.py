"""Charts that several reports use: bars, distributions, shares by time, timelines. Charts of points are in `dots`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kcore.extras import needs
from kcore.measure.report.noise import Spread
from kcore.measure.report.palette import FAINT, INK, PAGE
from kcore.measure.report.svg import Chart, draw, time_axis
from kcore.measure.report.units import duration

with needs("report"):
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter
    from matplotlib.transforms import blended_transform_factory

_LANE: Final = 0.42  # Inches of a bar and the label above it.
_FRAME: Final = 0.95  # Inches of the title, the axis and the label of the axis.
_LEGEND: Final = 0.28  # Inches of a row of the legend.
_FARTHEST: Final = 3.0  # A line of a box chart ends at this many medians at most; the note has the p99 itself.
_MARKED_POINTS: Final = 32  # The most marks on a line of shares by time; more would hide the line.


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a timeline's lane. `length`: in ns; `tip`: the text that the page shows at the pointer."""

    length: float
    color: str
    tip: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from zero to `value`.

    `label` is above the bar. `note` is beside the bar, or beside the label if `bound` is larger than `value`.
    """

    label: str
    value: float
    color: str
    tip: str
    note: str = ""
    bound: float | None = None  # A figure to compare `value` with, on the same axis.


@dataclass(frozen=True, slots=True)
class Axis:
    """The horizontal axis, labelled `along`: durations in ns unless `form` writes the values. `log`: points only."""

    along: str
    form: Callable[[float], str] | None = None
    log: bool = False


def bar_chart(title: str, bars: Sequence[Bar], axis: Axis, *, bound: str = "") -> str:
    """Bars from zero on a linear axis, the first on top; `bound`: the bounds' name in the legend.

    A quantity that needs a logarithmic axis is a point: see `kcore.measure.report.dots`.
    """
    assert not axis.log, "a bar on a logarithmic axis has no meaningful length: draw points"

    def body(chart: Chart) -> None:
        for lane, bar in enumerate(bars):
            _bar(chart, lane, bar)
        time_axis(chart, log=False)
        if (form := axis.form) is not None:
            chart.axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))
        chart.axis.set_xlim(0, max(max(bar.value, bar.bound or 0.0) for bar in bars) * 1.3 or 1.0)
        set_lanes(chart, len(bars), axis.along)
        marks: list[Artist] = [Line2D([], [], color=INK, marker="D", ms=5, ls="")] if bound else []
        draw_legend(chart, marks, names)

    names = [bound] if bound else []
    return draw(title, lanes_inches(len(bars), len(names)), body) if bars else ""


def _bar(chart: Chart, lane: float, bar: Bar) -> None:
    [mark] = chart.axis.barh([lane], [bar.value], 0.34, color=bar.color, alpha=0.9)
    chart.tip(mark, bar.tip)
    if bar.bound is not None:
        chart.axis.plot([bar.bound], [lane], color=INK, marker="D", ms=5, ls="", mec=PAGE)
    if (bar.bound or 0.0) > bar.value:  # A note after the bound would look like the bound's.
        lane_label(chart, lane, f"{bar.label}: {bar.note}" if bar.note else bar.label)
    else:
        lane_label(chart, lane, bar.label)
        lane_note(chart, bar.value, lane, bar.note)


@dataclass(frozen=True, slots=True)
class Box:
    """A distribution, in ns."""

    label: str
    spread: Spread
    color: str
    tip: str


def box_chart(title: str, boxes: Sequence[Box]) -> str:
    """Distributions as multiples of the median: a line from best to p99, a bar for the middle half, a mark for the
    median with its 95% interval.
    """

    def body(chart: Chart) -> None:
        axis = chart.axis
        for lane, box in enumerate(boxes):
            its, unit = box.spread, max(1.0, box.spread.median)
            reach = [its.least / unit, min(_FARTHEST, its.p99 / unit)]
            [line] = axis.plot(reach, [lane, lane], color=box.color, lw=2.5, alpha=0.5)
            first, third = (min(_FARTHEST, ns / unit) for ns in (its.quarter, its.three_quarters))
            [bar] = axis.plot([first, third], [lane, lane], color=box.color, lw=9, alpha=0.9, solid_capstyle="butt")
            [interval] = axis.plot([its.low / unit, its.high / unit], [lane] * 2, color=INK, lw=2.5, marker="|", ms=11)
            axis.plot([1], [lane], color=PAGE, mec=INK, marker="o", ms=5, ls="")
            for mark in (line, bar, interval):
                chart.tip(mark, box.tip)
            lane_label(chart, lane, box.label)
            end = min(_FARTHEST, its.p99 / unit)
            note = f"{its.p99 / unit:.2f}x" + (" \u25b8" if its.p99 / unit > _FARTHEST else "")
            lane_note(chart, end, lane, note)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.grid(True, axis="x")
        units = [max(1.0, box.spread.median) for box in boxes]
        low = min(box.spread.least / unit for box, unit in zip(boxes, units, strict=True))
        high = min(_FARTHEST, max(box.spread.p99 / unit for box, unit in zip(boxes, units, strict=True)))
        axis.set_xlim(low - 0.04 * (high - low), high + 0.2 * (high - low) or 1.1)
        set_lanes(chart, len(boxes), "time of a run, over its median")
        marks = [Line2D([], [], color=INK, lw=2.5, marker="o", mfc=PAGE, ms=5), Patch(color=FAINT),
                 Line2D([], [], color=FAINT, lw=2.5, alpha=0.5)]  # fmt: skip
        draw_legend(chart, marks, ["median, 95% interval", "middle half", "best to p99"])

    return draw(title, _FRAME + _LANE * len(boxes) + 2 * _LEGEND, body) if boxes else ""


@dataclass(frozen=True, slots=True)
class Shares:
    """A line of a shares chart: the time in ns of each broker or heartbeat. `repetitions`: the times by repetition.

    `total`: the number of all times if `times` has only quantiles of them; otherwise 0.
    """

    name: str
    times: Sequence[float]
    color: str
    dash: str = "-"
    repetitions: Sequence[Sequence[float]] = field(default_factory=tuple)
    total: int = 0

    def tip(self, at: int, what: str) -> str:
        """The text that the mark of the time `at`, in ascending order, shows at the pointer."""
        count = len(self.times)
        some = f"{(at + 1) / count:.0%} of {self.total:,}" if self.total else f"{at + 1} of {count}"
        return f"{self.name}: {some} {what}\nafter {duration(sorted(self.times)[at])}"


def shares_chart(title: str, lines: Sequence[Shares], along: str, what: str, log: bool = False) -> str:
    """Empirical distribution functions: the share of `what` whose time is over, by time; a band over repetitions."""

    def body(chart: Chart) -> None:
        for line in lines:
            color = line.color
            _band(chart, line, color)
            times = sorted(line.times)
            shares = [(at + 1) / len(times) for at in range(len(times))]
            x, y = [times[0], *times, max(max(each.times) for each in lines)], [0.0, *shares, 1.0]
            chart.axis.step(x, y, where="post", color=color, ls=line.dash, lw=1.8, label=line.name)
            step = -(-len(times) // _MARKED_POINTS)
            for at in sorted({*range(0, len(times), step), len(times) - 1}):
                chart.point(times[at], shares[at], line.tip(at, what), color=color, marker="o", ms=4)
        time_axis(chart, log)
        chart.axis.grid(True, axis="y")
        chart.axis.yaxis.set_major_formatter(PercentFormatter(1.0))
        chart.axis.set(xlabel=along, ylabel=f"share of the {what}", ylim=(0, 1.04))
        draw_legend(chart, *chart.axis.get_legend_handles_labels())

    return draw(title, 3.1 + _LEGEND, body) if lines and all(len(line.times) for line in lines) else ""


def _band(chart: Chart, line: Shares, color: str) -> None:
    """Draws the band between the soonest and the latest repetition, at each share."""
    if len(line.repetitions) < 2:
        return
    ordered = [sorted(each) for each in line.repetitions if each]
    shares = [at / 40 for at in range(41)]
    rows = [[each[min(len(each) - 1, int(share * len(each)))] for each in ordered] for share in shares]
    chart.axis.fill_betweenx(shares, [min(row) for row in rows], [max(row) for row in rows], color=color, alpha=0.15,
                             linewidth=0)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """A point of a timeline: its time in ns, and what happened."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a timeline: consecutive parts from 0, and events on them."""

    label: str
    parts: Sequence[Part]
    events: Sequence[Event]


def timeline_chart(
    title: str, lanes: Sequence[Lane], along: str, legend: Mapping[str, str], kinds: Mapping[str, str]
) -> str:
    """Lanes below each other on a linear axis from 0: parts are bars, events are marks.

    `legend`: the colour of each part's name; `kinds`: the marker of each event's name.
    """

    def body(chart: Chart) -> None:
        for nth, lane in enumerate(lanes):
            end = 0.0
            for part in lane.parts:
                [bar] = chart.axis.barh([nth], [part.length], 0.3, left=end, color=part.color)
                chart.tip(bar, part.tip)
                end += part.length
            for event in lane.events:
                chart.point(event.at, nth, f"{event.name}\nafter {duration(event.at)}", color=INK, mec=PAGE, mew=0.7,
                            marker=kinds.get(event.name, "|"), ms=7)  # fmt: skip
            lane_label(chart, nth, lane.label)
        time_axis(chart, log=False)
        last = max(max([sum(part.length for part in lane.parts), *(e.at for e in lane.events)]) for lane in lanes)
        chart.axis.set_xlim(0, last * 1.04 or 1.0)
        set_lanes(chart, len(lanes), along)
        seen = [name for name in kinds if any(event.name == name for lane in lanes for event in lane.events)]
        marks = [Line2D([], [], color=INK, marker=kinds[name], ms=7, ls="") for name in seen]
        patches = [Patch(color=color) for color in legend.values()]
        draw_legend(chart, [*patches, *marks], [*legend, *seen])

    inches = _LEGEND * -(-(len(legend) + len(kinds)) // 2)
    return draw(title, _FRAME + (_LANE + 0.06) * len(lanes) + inches, body) if lanes else ""


def lane_label(chart: Chart, lane: float, text: str) -> None:
    """Writes a label above the lane, from the left edge, so that bars have the whole width of a narrow screen."""
    place = blended_transform_factory(chart.axis.transAxes, chart.axis.transData)
    label = chart.axis.text(0.0, lane - 0.27, text, transform=place, va="bottom", ha="left", fontsize=9, color=FAINT)
    label.set_in_layout(False)  # Otherwise a long label would make the axis narrower.


def lane_note(chart: Chart, end: float, lane: float, text: str) -> None:
    """Writes text after the end of a lane."""
    chart.axis.annotate(text, (end, lane), (6, 0), textcoords="offset points", va="center", fontsize=9)


def lanes_inches(count: float, legend_rows: int) -> float:
    """The height in inches of a chart with `count` lanes."""
    return _FRAME + _LANE * count + _LEGEND * legend_rows


def set_lanes(chart: Chart, count: float, along: str) -> None:
    """Removes the left axis, labels the horizontal one with `along`, and puts the first lane on top."""
    chart.axis.set_yticks([])
    chart.axis.spines["left"].set_visible(False)
    chart.axis.set_ylim(count - 0.6, -0.75)
    chart.axis.set_xlabel(along)


def draw_legend(chart: Chart, marks: Sequence[Artist], names: Sequence[str]) -> None:
    """Draws the legend below the axis, if there are names."""
    if names:
        chart.figure.legend(list(marks), list(names), loc="outside lower left", ncols=2, handlelength=1.4,
                            columnspacing=1.2, borderaxespad=0.2)  # fmt: skip
