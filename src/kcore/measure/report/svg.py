"""Draws all charts as SVG elements with the page's colours; marks show texts (tips) when the pointer is on them."""

import io
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any, Final

from kcore.extras import needs
from kcore.measure.report.palette import FAINT, INK, RULE, VARIABLES
from kcore.measure.report.units import short_count, short_duration

with needs("report"):
    from matplotlib import rc_context
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, NullFormatter

WIDTH = 4.6  # Inches. Text then has the same size on a phone's screen as in a column of the page.
STYLE: Final[dict[str, Any]] = {
    "svg.fonttype": "none",  # Text stays text, in the page's font.
    "font.size": 10,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": RULE,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
_MOST_TICKS: Final = 6
_TIP: Final = re.compile(r'<g id="tip-(\d+)">')
_NEEDLESS: Final = (
    (re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", re.DOTALL), ""),
    # matplotlib numbers its groups; nothing refers to these ids.
    (re.compile(r' id="[a-zA-Z][a-zA-Z0-9]*(?:\.[a-z]+)?(?:_\d+)+"'), ""),
    (re.compile(r"font-family: [^;\"]*; ?"), ""),
    (re.compile(r"font: ((?:[a-z0-9]+ )*[\d.]+px) [^;\"]*"), r"font: \1 sans-serif"),
    (re.compile(r' transform="rotate\(-0 [^"]*"'), ""),
)
_PLACES: Final = re.compile(r' (?:d|x|y|transform|viewBox|width|height)="[^"]*"')
_DECIMALS: Final = re.compile(r"(\d\.\d\d)\d+")
_LINES: Final = re.compile(r">\s*\n\s*<|\s*\n\s*")  # Line breaks: nothing between elements, one space in an attribute.


class Chart:
    """One panel, and the tips of its marks. A screen reader reads the title of the panel."""

    def __init__(self, title: str, figure: Figure, axis: Axes, tips: list[str]) -> None:
        """`tips`: shared by the panels of a figure."""
        self.title, self.figure, self.axis = title, figure, axis
        self.ends: list[tuple[float, float, str, str]] = []  # Ends of lines: x, y, name, colour.
        self._tips = tips

    @classmethod
    def alone(cls, title: str, height: float, width: float = WIDTH) -> "Chart":
        """A figure of one panel."""
        figure = Figure(figsize=(width, height), layout="constrained")
        axis = figure.subplots()
        axis.set_title(title)
        return cls(title, figure, axis, [])

    def tip(self, artist: Artist, text: str) -> None:
        """Sets the text that the page shows when the pointer is on the mark."""
        artist.set_gid(f"tip-{len(self._tips)}")
        self._tips.append(text)

    def point(self, x: float, y: float, text: str, **style: Any) -> None:
        """Draws a marker with a tip."""
        [mark] = self.axis.plot([x], [y], **{"ls": "", "clip_on": False, "ms": 6, **style})
        self.tip(mark, text)

    def corner(self, text: str) -> None:
        """Writes what the panel shows into its upper left corner."""
        self.axis.text(0.02, 0.98, text, transform=self.axis.transAxes, va="top", fontsize=8, color=FAINT)

    def svg(self) -> str:
        """The chart as an SVG element."""
        return svg(self.figure, self.title, self._tips)


def draw(title: str, height: float, body: Callable[[Chart], None], width: float = WIDTH) -> str:
    """Returns a chart in the pages' style as an SVG element; `body` draws into the chart."""
    style: Any = STYLE | {"svg.hashsalt": title}  # The title makes ids differ between the charts of a page.
    with rc_context(style):
        chart = Chart.alone(title, height, width)
        body(chart)
        return chart.svg()


def draw_grid(
    title: str,
    inches: tuple[float, float],
    rows: int,
    widths: Sequence[float],
    body: Callable[[list[list[Chart]]], None],
) -> str:
    """Returns panels in rows and columns under one title, as an SVG element; `body` draws into the panels.

    `widths`: the relative widths of the columns. The second line of the title is small.
    """
    style: Any = STYLE | {"svg.hashsalt": title}
    head, _, below = title.partition("\n")
    with rc_context(style):
        figure = Figure(
            figsize=inches, layout=ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - 0.5 / inches[1]), hspace=0.04)
        )
        figure.text(0.01, 1 - 0.08 / inches[1], head, va="top", fontsize=13, fontweight="bold", color=INK)
        figure.text(0.01, 1 - 0.33 / inches[1], below, va="top", fontsize=10, color=FAINT)
        axes, tips = figure.subplots(rows, len(widths), squeeze=False, width_ratios=widths), list[str]()
        body([[Chart(title, figure, axis, tips) for axis in row] for row in axes])
        return svg(figure, head, tips)


def svg(figure: Figure, title: str, tips: list[str]) -> str:
    """The figure as an element of the page; marks with the id tip-N get the Nth of `tips`."""
    refuse_misleading_bars(figure)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = _smaller(text)
    text = _TIP.sub(lambda found: f'<g class="tip"><title>{escape(tips[int(found[1])])}</title>', text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)


def refuse_misleading_bars(figure: Figure) -> None:
    """AssertionError for bars on a logarithmic axis, or on one without zero: a bar's length would mislead."""
    for axis in figure.axes:
        for bars in axis.containers:
            if isinstance(bars, BarContainer):
                along = axis.xaxis if bars.orientation == "horizontal" else axis.yaxis
                low, high = sorted(along.get_view_interval())
                assert along.get_scale() == "linear" and low <= 0 <= high, "bars need a linear axis with zero"


def _smaller(text: str) -> str:
    """The same picture in a third of the bytes: coordinates with two decimals, fonts from the page's style sheet."""
    for pattern, instead in _NEEDLESS:
        text = pattern.sub(instead, text)
    text = _PLACES.sub(lambda found: _DECIMALS.sub(r"\1", found[0]), text)
    return _LINES.sub(lambda found: "><" if found[0].startswith(">") else " ", text)


def time_axis(chart: Chart, log: bool, along: bool = True) -> None:
    """Sets up the horizontal axis, or the vertical one without `along`, for durations in ns; ticks read "20 µs"."""
    axis = chart.axis.xaxis if along else chart.axis.yaxis
    if log:
        (chart.axis.set_xscale if along else chart.axis.set_yscale)("log")
        axis.set_major_locator(_RoundTicks())
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_duration(value)))
    axis.set_minor_formatter(NullFormatter())
    chart.axis.grid(True, axis="x" if along else "y")


class _RoundTicks(Locator):
    """The ticks of a log axis: 1, 2 and 5 of each decade, but at most _MOST_TICKS."""

    def __call__(self) -> Any:
        assert self.axis is not None
        low, high = self.axis.get_view_interval()
        return self.tick_values(low, high)

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        if not 0 < vmin < vmax:
            return []
        decades = range(floor(log10(vmin)), ceil(log10(vmax)) + 1)
        found: list[float] = []
        for steps in ((1, 2, 5), (1,)):
            found = [step * 10.0**decade for decade in decades for step in steps]
            found = [value for value in found if vmin * 0.999 <= value <= vmax * 1.001]
            if len(found) <= _MOST_TICKS:
                return found
        return found[:: -(-len(found) // _MOST_TICKS)]


def count_axis(chart: Chart, counts: Iterable[int]) -> None:
    """Makes the horizontal axis logarithmic, with a tick for each count."""
    chart.axis.set_xscale("log")
    chart.axis.set_xticks(sorted(set(counts)))
    chart.axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    chart.axis.xaxis.set_minor_formatter(NullFormatter())
