"""What charts have in common: SVG text whose colours are the page's, no files, no scripts."""

import io
import re
from collections.abc import Iterable
from typing import Any

from kcore.extras import needs
from kcore.report.units import duration, short_count

with needs("report"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

# Stand-ins for colours of the page, which differ by light and dark: `svg` puts CSS variables in their place.
INK, FAINT, RULE = "#010101", "#020202", "#030303"
SERIES = ("#040401", "#040402", "#040403", "#040404", "#040405", "#040406", "#040407", "#040408")
VARIABLES = {INK: "--ink", FAINT: "--faint", RULE: "--rule"} | {c: f"--series-{n}" for n, c in enumerate(SERIES)}
MARKERS = "osD^vPX*"
PANEL_WIDTH, PANEL_HEIGHT = 5.2, 3.6
STYLE: Any = {
    "svg.fonttype": "none",  # Text stays text, in the page's font.
    "svg.hashsalt": "kcore",
    "font.size": 10,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": RULE,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
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
    "legend.fontsize": 8.5,
}


def svg(figure: Figure, title: str) -> str:
    """The figure as an element of the page; `title` is for screen readers."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


def panels(rows: int, columns: int) -> tuple[Figure, Any]:
    """A figure and its axes by row and column."""
    figure = Figure(figsize=(PANEL_WIDTH * columns, PANEL_HEIGHT * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def plain_ticks(axis: Axes, counts: Iterable[int]) -> None:
    """Counts along, durations in ns upwards, both in plain words."""
    axis.grid(True, which="major")
    axis.set_xticks(sorted(set(counts)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())
