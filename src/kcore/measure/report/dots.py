"""Charts of points with their spread, on logarithmic axes too; bars need a zero, which such an axis does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kcore.extras import needs
from kcore.measure.report.charts import Axis, draw_legend, lane_label, lane_note, lanes_inches, set_lanes
from kcore.measure.report.palette import FAINT, PAGE, RULE
from kcore.measure.report.svg import Chart, draw, time_axis

with needs("report"):
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter

_SAME_LABEL: Final = 0.55  # The distance of two points under one label, in lanes.
_DASHED: Final = (0, (4, 3))


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: a figure, and its least and greatest value if it was measured several times.

    The label is above the point; a dot without label belongs to the label before. `doubts`: words such as noisy.
    """

    label: str
    value: float
    color: str
    tip: str
    note: str = ""
    spread: tuple[float, float] | None = None
    marker: str = "o"
    doubts: Sequence[str] = ()
    above: bool = False  # On the lane of the dot before it.


def dot_chart(
    title: str,
    dots: Sequence[Dot],
    axis: Axis,
    *,
    legend: Mapping[str, tuple[str, str]] | None = None,
    line: tuple[float, str] | None = None,
    ends: tuple[float, float] | None = None,
) -> str:
    """The dots as an SVG element, the first on top; empty without dots. `legend`: colour and marker of each name.

    `line`: a value to compare with, and its name. `ends`: further values that the axis must show, to compare charts.
    """
    lanes, lane = [], -1.0
    for dot in dots:
        lane += 0.0 if dot.above else 1.0 if dot.label else _SAME_LABEL
        lanes.append(lane)
    names = [*(legend or {}), *([line[1]] if line else [])]

    def body(chart: Chart) -> None:
        for at, dot in zip(lanes, dots, strict=True):
            _dot(chart, at, dot)
        time_axis(chart, axis.log)
        if (form := axis.form) is not None:
            chart.axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))
        values = [value for dot in dots for value in (dot.value, *(dot.spread or ()))]
        _set_ends(chart, [*values, *(ends or ()), *([line[0]] if line else [])], axis.log)
        set_lanes(chart, lane + 1, axis.along)
        marks = [Line2D([], [], color=color, marker=marker, ms=6, ls="") for color, marker in (legend or {}).values()]
        if line:
            chart.axis.axvline(line[0], color=FAINT, ls=_DASHED, lw=1)
            marks.append(Line2D([], [], color=FAINT, ls=_DASHED, lw=1))
        draw_legend(chart, marks, names)

    return draw(title, lanes_inches(lane + 1, -(-len(names) // 2)), body) if dots else ""


def _dot(chart: Chart, lane: float, dot: Dot) -> None:
    if not dot.above:  # A dotted line leads from the label to the point.
        chart.axis.axhline(lane, color=RULE, lw=0.8, ls=":", zorder=0)
    if dot.spread is not None:
        [reach] = chart.axis.plot(dot.spread, [lane, lane], color=dot.color, lw=3, alpha=0.4, solid_capstyle="butt")
        chart.tip(reach, dot.tip)
    chart.point(dot.value, lane, dot.tip, color=dot.color, marker=dot.marker, ms=7, mec=PAGE, mew=0.8)
    lane_label(chart, lane, dot.label)
    end = max(dot.value, dot.spread[1] if dot.spread else dot.value)
    lane_note(chart, end, lane, " · ".join(filter(None, (dot.note, *dot.doubts))))


def _set_ends(chart: Chart, values: Sequence[float], log: bool) -> None:
    """Sets the ends of the axis, with room for the notes on the right."""
    low, high = min(values), max(values)
    if log:
        low, high = low / 1.4, max(high, low * 2)
        chart.axis.set_xlim(low, high * (high / low) ** 0.4)
    else:
        room = (high - low) or high or 1.0
        chart.axis.set_xlim(low - 0.05 * room, high + 0.35 * room)
