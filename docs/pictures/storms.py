"""Draws storms.svg from storms.json: how long each controller takes under the same storm.

    python docs/pictures/storms.py                      # draw the picture again
    python docs/pictures/storms.py out/storm-FOLDER     # first take these results in place of the recorded ones

The results are those of `./kcore storm --target kafka-4.3.1 --target kcore-kraft --repeat 3`. Only Python's
own library is used.
"""

import json
import sys
from math import log10
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
DATA, PICTURE = HERE / "storms.json", HERE / "storms.svg"
NAMES = {"kafka-4.3.1": "Kafka 4.3.1", "kcore-kraft": "kcore"}
TARGETS = tuple(NAMES)
WORK = {
    "register": "20 brokers register",
    "create": "all topics are created",
    "preferred-election": "preferred leaders return",
    "controlled-shutdown": "a broker shuts down",
    "reassign": "a broker's replicas move",
    "dir-lost": "a log directory fails",
    "isr-storm": "followers leave ISRs and return",
    "delete-topics": "a quarter of the topics goes",
    "rolling-restart": "rolling restart of brokers",
}
"""Scenarios that wait for the controller alone, with their labels."""
SESSION = {
    "broker-lost": "a broker is killed",
    "rack-lost": "a rack is killed",
    "bounce": "a killed broker returns at once",
}
"""Scenarios in which a broker's session must end first."""

WIDTH, LEFT, RIGHT, TOP = 860, 236, 84, 96
ROW, BAR, GAP = 34, 12, 44  # px: a scenario, one bar of it, the heading between both groups
LOWEST_MS, HIGHEST_MS = 1, 60_000
TICKS = {1: "1 ms", 10: "10 ms", 100: "100 ms", 1_000: "1 s", 10_000: "10 s", 60_000: "60 s"}
STYLE = """
  .page { fill: #ffffff; stroke: #d5dae0 } .ink { fill: #1b2530 } .faint { fill: #5a6673 } .rule { stroke: #e1e5ea }
  .kafka { fill: #b4762b } .kcore { fill: #1f6fb5 }
  text { font: 13px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 } .small { font-size: 12px }
  .end { text-anchor: end } .middle { text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .page { fill: #12171d; stroke: #2c3640 } .ink { fill: #e6ebf0 } .faint { fill: #9aa7b4 } .rule { stroke: #27313b }
    .kafka { fill: #d99a4e } .kcore { fill: #58a6e8 }
  }
"""


def taken(folder: Path) -> dict[str, Any]:
    """What the picture needs of a storm's results: for each scenario and target the times of all repetitions, in ms."""
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    last_ms: dict[str, dict[str, list[float]]] = {name: {target: [] for target in TARGETS} for name in WORK | SESSION}
    for row in rows:
        if row["scenario"] in last_ms and row["valid"] and row["error"] is None:
            last_ms[row["scenario"]][row["target"]].append(round(row["last_ms"], 1))
    sizes = {"brokers": rows[0]["wanted_brokers"], "partitions": rows[0]["wanted_partitions"]}
    return sizes | {"controllers": rows[0]["controllers"], "last_ms": last_ms}


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


def bars_of(y: int, label: str, times: dict[str, list[float]]) -> list[str]:
    """One scenario: its label, and a bar a target with the median in words."""
    drawn = [text(LEFT - 10, y + 19, label, "ink end")]
    for at, (target, kind) in enumerate(zip(TARGETS, ("kafka", "kcore"), strict=True)):
        middle, top = median(times[target]), y + 3 + at * (BAR + 1)
        drawn.append(f'<rect x="{LEFT}" y="{top}" width="{x_of(middle) - LEFT:.1f}" height="{BAR}" class="{kind}"/>')
        drawn.append(text(x_of(middle) + 6, top + BAR - 1, shown(middle), "faint small"))
    return drawn


def draw(data: dict[str, Any]) -> str:
    """The picture as SVG; its colours follow the reader's light or dark setting."""
    last_ms = data["last_ms"]
    work = sorted(WORK, key=lambda name: median(last_ms[name][TARGETS[0]]))
    bottom = TOP + ROW * (len(work) + len(SESSION)) + GAP
    sizes = f"{data['brokers']} brokers, {data['partitions']:,} partitions, replication factor 3"
    runs = len(last_ms["create"][TARGETS[0]])
    of_runs = "one run" if runs == 1 else f"medians of {runs} runs"
    rows = [
        text(20, 30, "Until the last broker knew: Kafka's controller and kcore's under the same storm", "ink title"),
        text(20, 52, f"{sizes}; {of_runs}. The axis is logarithmic; a shorter bar is better.", "faint"),
    ]
    for at, (target, kind) in enumerate(zip(TARGETS, ("kafka", "kcore"), strict=True)):
        rows.append(f'<rect x="{20 + 120 * at}" y="64" width="12" height="12" class="{kind}"/>')
        rows.append(text(38 + 120 * at, 75, NAMES[target]))
    for tick, words in TICKS.items():
        x = x_of(tick)
        rows.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" class="rule"/>')
        rows.append(text(x, bottom + 18, words, "faint small middle"))
    for at, name in enumerate(work):
        rows += bars_of(TOP + ROW * at, WORK[name], last_ms[name])
    y = TOP + ROW * len(work) + GAP
    words = "With a session time-out in it: no controller knows sooner that the broker is gone (9 s after a heartbeat)"
    rows.append(text(20, y - 14, words, "faint"))
    for at, (name, label) in enumerate(SESSION.items()):
        rows += bars_of(y + ROW * at, label, last_ms[name])
    height = bottom + 34
    inner = "\n".join(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Until the last broker knew, by scenario: Kafka 4.3.1 and kcore">\n<style>{STYLE}</style>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="page"/>\n{inner}\n</svg>\n'
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        DATA.write_text(json.dumps(taken(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")
    PICTURE.write_text(draw(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")
