"""One chart of all scenarios and targets over the size of the cluster: the controllers' work, and their CPU.

Each scenario has a row of panels: one for each of time and CPU, and each number of brokers. All axes are logarithmic
and the same in all rows: a lower line is better, and a flatter line scales better. The data is in `medians.json`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any, Final, NamedTuple

from kcore.measure.processes.kcore_quorum import KCORE_KRAFT
from kcore.measure.processes.target import KCORE_ZK
from kcore.measure.report.palette import FAINT, color_of, dash_of, marker_of
from kcore.measure.report.svg import Chart, count_axis, draw_grid, time_axis
from kcore.measure.report.units import duration
from kcore.measure.storm.phases import phases_of, work_ms
from kcore.measure.storm.report_rows import Row

TITLE: Final = (
    "How the controllers scale with the cluster: lower is faster, flatter scales better\n"
    "time: until the last broker knew; CPU: what the controller's process took meanwhile"
)
TIME: Final = "time"
CPU: Final = "CPU"
_LEAST_NS: Final = 1e5  # The least value of an axis.
_WIDTH, _PANEL = 2.1, 1.75  # Inches of a panel.
_LEAST_WIDTH: Final = 9.4  # Inches of the whole chart; fewer would make the text too large on the page.
_ENDS: Final = 1.2  # Inches to the left of the panels.
_ROOM: Final = 1.6  # How much wider a panel with the lines' names is.
_DRAWN: Final = 0.6  # The share of a panel's height between its title and its ticks.
_LABEL: Final = 0.13  # Inches between names.
_NAMES: Final = {KCORE_ZK: "kcore (ZK)", KCORE_KRAFT: "kcore"}
_KAFKA: Final = re.compile(r"kafka-(\d[^:]*?)(-zk)?")


class Figure(NamedTuple):
    """The figure of a column of panels, in ns, with its spread if there are repetitions."""

    what: str
    value: Callable[[Row], float]
    least: str
    most: str
    unit_ns: float


FIGURES: Final = (
    Figure(TIME, lambda row: work_ms(row) * 1e6, "work_min_ms", "work_max_ms", 1e6),
    Figure(CPU, lambda row: row["controller_cpu_s"] * 1e9, "cpu_min_s", "cpu_max_s", 1e9),
)


def name_of(target: str) -> str:
    """The name of a target for a reader who is new to kcore."""
    if found := _KAFKA.fullmatch(target):
        return f"Kafka {found[1]}{' (ZK)' if found[2] else ''}"
    return _NAMES.get(target, target)


class Size(NamedTuple):
    """The dimension on the axis, and the dimension that distinguishes the panels of a scenario."""

    along: str
    other: str  # Each value has its own panel.
    unit: str  # The unit of `along`.
    other_unit: str


PARTITIONS: Final = Size("wanted_partitions", "wanted_brokers", "partitions", "brokers")
BROKERS: Final = Size("wanted_brokers", "wanted_partitions", "brokers", "partitions")


def size_of(rows: Sequence[Row]) -> Size | None:
    """PARTITIONS if their number differs, BROKERS if only theirs does; None for one size."""
    if len({row[PARTITIONS.along] for row in rows}) > 1:
        return PARTITIONS
    return BROKERS if len({row[BROKERS.along] for row in rows}) > 1 else None


def curves_chart(rows: Sequence[Row]) -> str:
    """The chart of merged rows as an SVG element; empty for one size."""
    timed = [row for row in rows if phases_of(row) is not None]
    size = size_of(timed)
    if size is None:
        return ""
    scenarios = list(dict.fromkeys(row["scenario"] for row in timed))
    targets = list(dict.fromkeys(row["target"] for row in timed))
    columns = [(figure, other) for figure in FIGURES for other in sorted({row[size.other] for row in timed})]
    ends = [other == columns[-1][1] for _, other in columns]  # The last of a figure's panels has the lines' names.

    def body(panels: list[list[Chart]]) -> None:
        for name, of_scenario in zip(scenarios, panels, strict=True):
            mine = [row for row in timed if row["scenario"] == name]
            of_scenario[0].axis.set_title(name)
            for (figure, other), panel, is_end in zip(columns, of_scenario, ends, strict=True):
                found = [row for row in mine if row[size.other] == other]
                _panel(panel, figure, size, {target: [r for r in found if r["target"] == target] for target in targets})
                _axes(panel, figure, timed, size)
                panel.corner(f"{figure.what} · {other:,} {size.other_unit}")
                if is_end:
                    _name_lines(panel)
                if panel is not of_scenario[0] and not (figure is not FIGURES[0] and other == columns[0][1]):
                    panel.axis.tick_params(labelleft=False)
        for panel in panels[-1]:
            panel.axis.set_xlabel(size.unit)

    shares = [_ROOM if is_end else 1.0 for is_end in ends]
    inches = max(_LEAST_WIDTH, _ENDS + _WIDTH * sum(shares)), 0.75 + _PANEL * len(scenarios)
    return draw_grid(TITLE, inches, len(scenarios), shares, body)


def _axes(panel: Chart, figure: Figure, rows: Sequence[Row], size: Size) -> None:
    """Sets up the axes, which are the same in all panels of a figure."""
    values = [max(_LEAST_NS, value) for row in rows if (value := figure.value(row)) > 0] or [_LEAST_NS]
    count_axis(panel, {row[size.along] for row in rows})
    panel.axis.minorticks_off()
    panel.axis.set_ylim(min(values) / 1.6, max(values) * 2.6)  # Room above for the panel's description.
    time_axis(panel, log=True, along=False)
    panel.axis.yaxis.minorticks_off()


def _panel(panel: Chart, figure: Figure, size: Size, lines: Mapping[str, Sequence[Row]]) -> None:
    """Draws one line for each target."""
    for target, rows in lines.items():
        known = sorted((row for row in rows if figure.value(row) > 0), key=lambda row: int(row[size.along]))
        if not known:
            continue
        color, marker = color_of(target), marker_of(target, [*lines])
        x, y = [row[size.along] for row in known], [max(_LEAST_NS, figure.value(row)) for row in known]
        panel.axis.plot(x, y, color=color, ls=dash_of(target, [*lines]), lw=1.6)
        for at, ns, row in zip(x, y, known, strict=True):
            _point(panel, (at, ns), row, figure, {"color": color, "marker": marker})
        panel.ends.append((x[-1], y[-1], name_of(target), color))


def _point(panel: Chart, place: tuple[float, float], row: Row, figure: Figure, style: dict[str, Any]) -> None:
    x, y = place
    spread = ""
    if figure.least in row:
        low, high = (max(_LEAST_NS, row[name] * figure.unit_ns) for name in (figure.least, figure.most))
        panel.axis.plot([x, x], [low, high], color=style["color"], lw=3, alpha=0.35, solid_capstyle="butt")
        spread = f"\n{duration(low)} to {duration(high)} in {row['repetitions']} runs"
    text = (
        f"{row['scenario']} on {row['target']}\n{row['wanted_brokers']:,} brokers, {row['wanted_partitions']:,} "
        f"partitions\n{figure.what}: {duration(y)}{spread}"
    )
    panel.point(x, y, text, ms=5, **style)


def _name_lines(panel: Chart) -> None:
    """Writes each line's name after its end. Names that would touch are moved apart and joined to the ends by lines."""
    low, high = (log10(end) for end in panel.axis.get_ylim())
    step = (high - low) * _LABEL / (_PANEL * _DRAWN)
    ordered = sorted(panel.ends, key=lambda end: end[1])
    place = low - step
    least, most = panel.axis.get_xlim()
    panel.axis.set_xlim(least, most * (most / least) ** (_ROOM - 1))
    for nth, (x, y, text, color) in enumerate(ordered):
        above = len(ordered) - 1 - nth  # So many names must still fit above this one.
        place = max(min(log10(y), high - (above + 0.5) * step), place + step)
        line = {"arrowstyle": "-", "color": FAINT, "lw": 0.5} if abs(place - log10(y)) > step / 2 else None
        found = panel.axis.annotate(text, (x, y), (x * (most / least) ** 0.09, 10**place), textcoords="data",
                                    va="center", fontsize=8, color=color, arrowprops=line)  # fmt: skip
        found.set_in_layout(False)
