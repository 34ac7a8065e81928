"""Draws storms.svg from storms.json, and writes the tables of storms into the pages.

    python docs/pictures/storms.py                        # Draw and write all of it again.

    python docs/pictures/storms.py --measure kraft quorum # First run these storms of storm_data.py.

    python docs/pictures/storms.py out/kraft              # First take these results, by the names of their folders.

Only Python's own library is used.
"""

import json
import subprocess
import sys
from math import log10
from pathlib import Path
from statistics import median

from storm_data import COMMANDS, HERE, KRAFT, NAMES, ZK, Row, Storm, kept, load, pairs, save
from storm_tables import PAGES, ROOT, written

PICTURE = HERE / "storms.svg"
PARTITIONS = 100_000
MODES = {
    f"KRaft mode, {NAMES[KRAFT[0]]}": (
        KRAFT,
        {"kraft": ("create", "broker-lost", "controlled-shutdown"), "quorum": ("controller-killed",)},
    ),
    "ZooKeeper mode, Kafka 3.9.1": (ZK, {"zookeeper": ("failover", "broker-lost", "controlled-shutdown", "bounce")}),
}
"""By heading: the targets, and by storm the scenarios that the picture has of it."""
LABELS = {
    "create": "all topics are created",
    "failover": "another controller takes over",
    "controller-killed": "the active one of three is killed",
    "broker-lost": "a broker is killed",
    "controlled-shutdown": "a broker shuts down",
    "bounce": "a killed broker returns at once",
}

WIDTH, LEFT, RIGHT, TOP = 860, 236, 150, 84
ROW, LINE, HEADING = 34, 13, 46  # px: a scenario, one controller of it, the heading above a mode
LOWEST_MS, HIGHEST_MS = 1, 120_000
TICKS = {1: "1 ms", 10: "10 ms", 100: "100 ms", 1_000: "1 s", 10_000: "10 s", 100_000: "100 s"}
# The colours of the reports' pages (kcore.measure.report.palette), which a test compares.
STYLE = """
  .page { fill: #ffffff; stroke: #dde1e6 } .ink { fill: #1b1f24 } .faint { fill: #5d6673 } .rule { stroke: #dde1e6 }
  .kafka { fill: #c2500a; stroke: #c2500a } .kcore { fill: #0b62c4; stroke: #0b62c4 }
  .spread { stroke-width: 4; stroke-opacity: 0.35 } .lane { stroke-dasharray: 1 3 }
  text { font: 13px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 } .small { font-size: 12px }
  .head { font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14171b; stroke: #343a42 } .ink { fill: #e8eaed } .faint { fill: #a0a8b4 } .rule { stroke: #343a42 }
    .kafka { fill: #ff9e57; stroke: #ff9e57 } .kcore { fill: #6cb0ff; stroke: #6cb0ff }
  }
"""


def x_of(time_ms: float) -> float:
    """Where a time is on the logarithmic axis."""
    share = log10(max(time_ms, LOWEST_MS) / LOWEST_MS) / log10(HIGHEST_MS / LOWEST_MS)
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def shown(time_ms: float) -> str:
    """Three digits at most: 64 ms, 1.5 s, 34 s."""
    if time_ms < 1_000:
        return f"{time_ms:.0f} ms"
    return f"{time_ms / 1_000:.1f} s" if time_ms < 10_000 else f"{time_ms / 1_000:.0f} s"


def text(x: float, y: float, words: str, kind: str = "ink") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{words}</text>'


def points_of(y: int, label: str, works: tuple[list[float], list[float]]) -> list[str]:
    """One scenario: its label, for each target a point at the median and a line of the spread, and the ratio.

    A logarithmic axis has no zero, so there are no bars.
    """
    drawn = [text(LEFT - 10, y + 19, label, "ink end")]
    for at, (times_ms, kind) in enumerate(zip(works, ("kafka", "kcore"), strict=True)):
        middle, half = median(times_ms), y + 9 + at * LINE
        least, most = x_of(min(times_ms)), x_of(max(times_ms))
        drawn.append(f'<line x1="{LEFT}" y1="{half}" x2="{WIDTH - RIGHT}" y2="{half}" class="rule lane"/>')
        if len(times_ms) > 1:
            drawn.append(f'<line x1="{least}" y1="{half}" x2="{most}" y2="{half}" class="{kind} spread"/>')
        drawn.append(f'<circle cx="{x_of(middle)}" cy="{half}" r="4" class="{kind}"/>')
        drawn.append(text(max(x_of(middle), most) + 8, half + 4, shown(middle), "faint small"))
    drawn.append(text(WIDTH - 20, y + 19, ratio_of(*works), "ink end"))
    return drawn


def ratio_of(kafka: list[float], kcore: list[float]) -> str:
    """The ratio of the medians, with the least and the greatest ratio of a repetition that both have."""
    ratios = [one / other for one, other in zip(kafka, kcore, strict=False)]
    found = times(median(kafka) / median(kcore))
    return f"{found} ({times(min(ratios))} to {times(max(ratios))})" if len(ratios) > 1 else found


def times(ratio: float) -> str:
    """Two digits at least: 1.3x, 12x."""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"


def mode_of(y: int, name: str, rows: list[tuple[str, Row, Row]]) -> tuple[int, list[str]]:
    """One mode: its heading and its scenarios, the quickest of Kafka's first; and where the next one begins."""
    runs = {len(row["work_ms"]) for _, *both in rows for row in both}
    sizes = f"{rows[0][1]['brokers']} brokers, {PARTITIONS:,} partitions, replication factor 3"
    of_runs = f"medians of {' or '.join(map(str, sorted(runs)))} runs; lines: their spread"
    drawn = [text(20, y + 24, name, "ink head"), text(LEFT, y + 24, f"{sizes}; {of_runs}", "faint small")]
    y += HEADING
    for scenario, kafka, kcore in sorted(rows, key=lambda row: median(row[1]["work_ms"])):
        drawn += points_of(y, LABELS[scenario], (kafka["work_ms"], kcore["work_ms"]))
        y += ROW
    return y, drawn


def draw(storms: dict[str, Storm]) -> str:
    """The picture as SVG; its colours follow the reader's light or dark setting."""
    y, drawn = TOP, []
    for name, (targets, chosen) in MODES.items():
        found = [(storm, pair) for storm in chosen for pair in pairs(storms[storm], PARTITIONS, targets)]
        y, more = mode_of(y, name, [pair for storm, pair in found if pair[0] in chosen[storm]])
        drawn += more
    rows = [
        text(20, 30, "Time until the last broker has the change: Kafka's controller and kcore's in the same storm",
             "ink title"),
        text(20, 52, "The wait for a killed broker's session is left out. The axis is logarithmic; further left is "
             "faster.", "faint"),
        text(WIDTH - 20, 75, "Kafka / kcore (least to greatest)", "faint small end"),
    ]  # fmt: skip
    for at, (words, kind) in enumerate((("Kafka", "kafka"), ("kcore", "kcore"))):
        rows.append(f'<circle cx="{26 + 90 * at}" cy="70" r="5" class="{kind}"/>')
        rows.append(text(38 + 90 * at, 75, words))
    for tick, words in TICKS.items():
        x = x_of(tick)
        rows.append(f'<line x1="{x}" y1="{TOP + HEADING - 8}" x2="{x}" y2="{y}" class="rule"/>')
        rows.append(text(x, y + 18, words, "faint small middle"))
    height = y + 34
    inner = "\n".join([*rows, *drawn])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Time until the last broker has the change: Kafka and kcore">\n<style>{STYLE}</style>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="page"/>\n{inner}\n</svg>\n'
    )


def main(arguments: list[str]) -> None:
    measure = arguments[:1] == ["--measure"]
    folders = [Path("out/storms", name) for name in arguments[1:]] if measure else [*map(Path, arguments)]
    for folder in folders:
        if measure:
            command = ["./kcore", "storm", *COMMANDS[folder.name].split(), "--out", str(folder)]
            subprocess.run(command, cwd=ROOT, check=True)
        result = json.loads((ROOT / folder / "medians.json").read_text(encoding="utf-8"))
        save(load() | {folder.name: kept(result)})
    storms = load()
    PICTURE.write_text(draw(storms), encoding="utf-8")
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8"), storms), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
