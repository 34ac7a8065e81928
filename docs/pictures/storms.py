"""Draws storms.svg from storms.json: how long each controller works under the same storm, in KRaft and ZooKeeper mode.

    python docs/pictures/storms.py                 # draw the picture again
    python docs/pictures/storms.py out/storms      # first take these results in place of the recorded ones

The results are those of one command, which takes about half an hour:

    ./kcore storm --target kafka-4.3.1 --target kcore-kraft --target kafka-3.9.1-zk --target kcore-zk
        --repeat 3 --heap 3g --out out/storms

Targets may also be recorded apart: give several folders. Only Python's own library is used.
"""

import json
import sys
from math import log10
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
DATA, PICTURE = HERE / "storms.json", HERE / "storms.svg"
MODES = {
    "KRaft mode": {"kafka-4.3.1": "Kafka 4.3.1", "kcore-kraft": "kcore"},
    "ZooKeeper mode": {"kafka-3.9.1-zk": "Kafka 3.9.1", "kcore-zk": "kcore"},
}
LABELS = {
    "register": "all brokers register",
    "create": "all topics are created",
    "failover": "another controller takes over",
    "broker-lost": "a broker is killed",
    "rack-lost": "a rack is killed",
    "broker-back": "a lost broker returns",
    "controlled-shutdown": "a broker shuts down",
    "bounce": "a killed broker returns at once",
    "rolling-restart": "rolling restart of brokers",
    "preferred-election": "preferred leaders return",
    "isr-storm": "followers leave ISRs and return",
    "reassign": "a broker's replicas move",
    "assign": "a broker reports directories",
    "dir-lost": "a log directory fails",
    "delete-topics": "topics are deleted",
}

WIDTH, LEFT, RIGHT, TOP = 860, 236, 150, 84
ROW, LINE, HEADING = 34, 13, 46  # px: a scenario, one controller of it, the heading above a mode
LOWEST_MS, HIGHEST_MS = 1, 120_000
TICKS = {1: "1 ms", 10: "10 ms", 100: "100 ms", 1_000: "1 s", 10_000: "10 s", 100_000: "100 s"}
# The colours of the reports' pages (kcore.report.palette), which a test compares.
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


def taken(folders: list[Path]) -> dict[str, Any]:
    """What the picture needs of storms' medians.json: a list a mode, of scenarios with the work in ms of each run."""
    rows = [row for folder in folders for row in json.loads((folder / "medians.json").read_text())["medians"]]
    found: dict[str, Any] = {}
    for mode, names in MODES.items():
        mine = [row for row in rows if row["target"] in names and "work_ms" in row and row["scenario"] in LABELS]
        if sizes := {(row["brokers"], row["partitions"], row["controllers"]) for row in mine}:
            if len(sizes) > 1:
                raise SystemExit(f"{mode}: the picture has one size, and these results have {sorted(sizes)}")
            work: dict[str, dict[str, list[float]]] = {}
            for row in mine:
                work.setdefault(row["scenario"], {})[row["target"]] = [round(ms, 1) for ms in row["work_ms"]["values"]]
            whole = {name: times for name, times in work.items() if times.keys() == names.keys()}
            brokers, partitions, controllers = sizes.pop()
            about = {"brokers": brokers, "partitions": partitions, "controllers": controllers}
            found[mode] = about | {"work_ms": whole}
    return found


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


def points_of(y: int, label: str, works: dict[str, list[float]], targets: list[str]) -> list[str]:
    """One scenario: its label, for each target a point at the median and a line of the spread, and the ratio.

    A logarithmic axis has no zero, so there are no bars.
    """
    drawn = [text(LEFT - 10, y + 19, label, "ink end")]
    for at, (target, kind) in enumerate(zip(targets, ("kafka", "kcore"), strict=True)):
        middle, half = median(works[target]), y + 9 + at * LINE
        least, most = x_of(min(works[target])), x_of(max(works[target]))
        drawn.append(f'<line x1="{LEFT}" y1="{half}" x2="{WIDTH - RIGHT}" y2="{half}" class="rule lane"/>')
        if len(works[target]) > 1:
            drawn.append(f'<line x1="{least}" y1="{half}" x2="{most}" y2="{half}" class="{kind} spread"/>')
        drawn.append(f'<circle cx="{x_of(middle)}" cy="{half}" r="4" class="{kind}"/>')
        drawn.append(text(max(x_of(middle), most) + 8, half + 4, shown(middle), "faint small"))
    drawn.append(text(WIDTH - 20, y + 19, ratio_of(*(works[target] for target in targets)), "ink end"))
    return drawn


def ratio_of(kafka: list[float], kcore: list[float]) -> str:
    """The ratio of the medians, with the least and the greatest ratio of a repetition that both have."""
    ratios = [one / other for one, other in zip(kafka, kcore, strict=False)]
    found = times(median(kafka) / median(kcore))
    return f"{found} ({times(min(ratios))} to {times(max(ratios))})" if len(ratios) > 1 else found


def times(ratio: float) -> str:
    """Two digits at least: 1.3x, 12x."""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"


def mode_of(y: int, name: str, data: dict[str, Any]) -> tuple[int, list[str]]:
    """One mode: its heading and its scenarios, the quickest of Kafka's first; and where the next one begins."""
    targets = list(MODES[name])
    work = data["work_ms"]
    runs = max(len(times) for scenario in work.values() for times in scenario.values())
    of_runs = "one run" if runs == 1 else f"medians of {runs} runs, lines: their spread"
    sizes = f"{data['brokers']} brokers, {data['partitions']:,} partitions, replication factor 3"
    drawn = [text(20, y + 24, f"{name}, {MODES[name][targets[0]]}", "ink head"),
             text(LEFT, y + 24, f"{sizes}; {of_runs}", "faint small")]  # fmt: skip
    y += HEADING
    for scenario in sorted(work, key=lambda each: median(work[each][targets[0]])):
        drawn += points_of(y, LABELS[scenario], work[scenario], targets)
        y += ROW
    return y, drawn


def draw(data: dict[str, Any]) -> str:
    """The picture as SVG; its colours follow the reader's light or dark setting."""
    y, drawn = TOP, []
    for name, mode in data.items():
        y, more = mode_of(y, name, mode)
        drawn += more
    rows = [
        text(20, 30, "Until the last broker knew: Kafka's controller and kcore's under the same storm", "ink title"),
        text(20, 52, "Waiting for sessions of brokers to end is left out. The axis is logarithmic; further left is "
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
        f'aria-label="Until the last broker knew, by scenario: Kafka and kcore">\n<style>{STYLE}</style>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="page"/>\n{inner}\n</svg>\n'
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        DATA.write_text(json.dumps(taken([*map(Path, sys.argv[1:])]), indent=1) + "\n", encoding="utf-8")
    PICTURE.write_text(draw(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")
