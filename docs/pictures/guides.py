"""Takes charts from the pages of real results into the guides.

    python docs/pictures/guides.py out/replay-FOLDER replay
    python docs/pictures/guides.py out/whatif-FOLDER whatif-racks
    python docs/pictures/guides.py out/whatif-FOLDER - whatif-min-isr     # The second heat map of --pairs.

Each name is a picture, in the order of the page's charts; `-` leaves one out.
"""

import re
import sys
from pathlib import Path

from kcore.measure.report.palette import DARK, LIGHT, css

HERE = Path(__file__).parent
CHART = re.compile(r'<svg role="img".*?</svg>', re.DOTALL)
OPENING = re.compile(r"<svg[^>]*>")


def alone(chart: str) -> str:
    """A chart of a page as a file of its own, with the page's colours in light and dark mode."""
    style = (
        f"<style>:root {{ {css(LIGHT)} }} @media (prefers-color-scheme: dark) {{ :root {{ {css(DARK)} }} }} "
        "text { font-family: system-ui, sans-serif }</style>"
        '<rect width="100%" height="100%" rx="6" style="fill: var(--page)"/>'
    )
    return OPENING.sub(lambda found: found[0] + style, chart, count=1) + "\n"


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    found = CHART.findall((Path(folder) / "report.html").read_text(encoding="utf-8"))
    for name, chart in zip(names, found, strict=True):
        if name != "-":
            (HERE / f"{name}.svg").write_text(alone(chart), encoding="utf-8")
