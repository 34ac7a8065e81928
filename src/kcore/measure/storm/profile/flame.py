"""Flame graphs: a static one for the page and the documentation, and an interactive one from async-profiler.

A frame's width is its CPU time. The outermost frames are the scenario and the thread.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from matplotlib.patches import Rectangle

from kcore.measure.report.palette import DARK, FAINT, LIGHT, PAGE, SERIES, css
from kcore.measure.report.svg import Chart, draw
from kcore.measure.report.units import duration
from kcore.measure.storm.profile.async_profiler import converter
from kcore.measure.storm.profile.profile_cell import CellProfile
from kcore.measure.storm.profile.profile_rules import DECISION, LOG, LOGGING, NETWORK, RAFT, REQUESTS, STATE, WIRE
from kcore.measure.storm.profile.samples import folded

Stack = tuple[str, ...]

_US: Final = 1e6
LEAST: Final = 0.007  # Share of the width; narrower frames are not drawn.
_MOST_DEPTH: Final = 34
_WIDTH: Final = 11.0  # Inches.
_ROW: Final = 0.19
_LETTER: Final = 0.007  # A letter's share of the width.
_ALPHA: Final = 0.55
_COLORED: Final = dict(zip((NETWORK, REQUESTS, WIRE, RAFT, LOG, DECISION, STATE, LOGGING), SERIES, strict=True))


def stacks_of(profiles: Iterable[CellProfile]) -> dict[Stack, tuple[int, str]]:
    """By stack (scenario, thread, frames), its microseconds of CPU time and its layer."""
    found: dict[Stack, float] = defaultdict(float)
    layers: dict[Stack, str] = {}
    for profile in profiles:
        for window in profile.windows:
            for share in window.shares:
                stack = (window.scenario, share.thread, *share.frames)
                found[stack] += share.cpu_s * _US
                layers[stack] = share.layer
    return {stack: (round(us), layers[stack]) for stack, us in sorted(found.items())}


def folded_stacks(stacks: dict[Stack, tuple[int, str]]) -> str:
    """One line per stack, in the format that tools for flame graphs read; counts are microseconds."""
    return folded((stack, us) for stack, (us, _) in stacks.items())


def write_page(title: str, stacks: Path, page: Path) -> None:
    """Writes a page with the flame graph of a file of folded stacks; TargetError or NoJavaError if that fails."""
    converter("--output", "html", "--title", title, str(stacks), str(page))


@dataclass(slots=True)
class _Node:
    us: int = 0
    inner: "dict[str, _Node]" = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def layer(self) -> str:
        """The layer that took most of the time."""
        return max(self.layers, key=lambda name: self.layers[name])


def _tree(stacks: dict[Stack, tuple[int, str]]) -> _Node:
    root = _Node()
    for stack, (us, layer) in stacks.items():
        node = root
        for name in ("", *stack[:_MOST_DEPTH]):
            node = node.inner.setdefault(name, _Node()) if name else root
            node.us += us
            node.layers[layer] += us
    return root


def drawn(title: str, stacks: dict[Stack, tuple[int, str]]) -> str:
    """The flame graph as an SVG element, with the root at the top and a colour per layer; empty without CPU time."""
    root = _tree(stacks)
    if not root.us:
        return ""
    depth = _depth(root, root.us)
    chart_height = 0.9 + _ROW * depth

    def body(chart: Chart) -> None:
        seen: dict[str, str] = {}
        _draw(chart, "all", root, 0.0, 0, root.us, seen)
        chart.axis.set(xlim=(0, 1), ylim=(depth, 0))
        chart.axis.axis("off")
        named = [layer for layer in _COLORED if layer in seen]
        handles = [Rectangle((0, 0), 1, 1, color=_COLORED[layer], alpha=_ALPHA) for layer in named]
        if len(named) < len(seen):
            handles, named = [*handles, Rectangle((0, 0), 1, 1, color=FAINT, alpha=_ALPHA)], [*named, "other layers"]
        chart.figure.legend(handles, named, loc="outside lower left", ncols=len(named))

    return draw(title, chart_height, body, _WIDTH)


def standalone(element: str) -> str:
    """The text of an SVG file with the flame graph `element`, in the pages' light and dark colours."""
    light, dark = css(LIGHT), css(DARK)
    style = f"svg {{ {light} font-family: sans-serif }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
    return element.replace("><", f"><style>{style}</style><", 1) + "\n"


def _depth(node: _Node, whole: int) -> int:
    return 1 + max((_depth(each, whole) for each in node.inner.values() if each.us >= LEAST * whole), default=0)


def _draw(chart: Chart, name: str, node: _Node, x: float, row: int, whole: int, seen: dict[str, str]) -> None:
    width = node.us / whole
    color = _COLORED.get(node.layer, FAINT)
    seen[node.layer] = color
    mark = Rectangle((x, row + 0.04), width, 0.92, facecolor=color, edgecolor=PAGE, lw=0.5, alpha=_ALPHA)
    chart.axis.add_patch(mark)
    chart.tip(mark, f"{name}\n{duration(node.us * 1e3)}, {width:.1%}")
    if (room := int(width / _LETTER)) >= 4:
        short = _short(name)
        text = short if len(short) <= room else f"{short[: room - 1]}…"
        chart.axis.text(x + 0.002, row + 0.53, text, va="center", ha="left", fontsize=7.5)
    for inner_name, inner in sorted(node.inner.items()):
        if inner.us >= LEAST * whole:
            _draw(chart, inner_name, inner, x, row + 1, whole, seen)
        x += inner.us / whole


def _short(frame: str) -> str:
    """The class and the function of a frame, without its file or package."""
    if frame.endswith(")") and " (" in frame:
        return frame.rpartition(" (")[0]
    return ".".join(frame.split(".")[-2:]) if frame.count(".") > 1 else frame
