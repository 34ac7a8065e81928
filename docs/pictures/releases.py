"""Draws the charts of docs/releases.md from storms.json, and writes the tables of the page.

    python docs/pictures/releases.py

    python docs/pictures/releases.py out/A out/B    # First take the profiles of these storms into releases.json.

`storms.py --measure kraft quorum 300-brokers zookeeper zookeeper-300` measures these storms again. Only Python's own
library is used.
"""

import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from statistics import median

from storm_data import HERE, NAMES, RELEASES, ZK, Row, Storm, load
from storm_tables import ROOT, about, command, digits, peak, row, seconds, times
from storms import LINE, STYLE, text

PAGE = ROOT / "docs/releases.md"
PROFILES = HERE / "releases.json"
"""By name of a column: the controllers' CPU seconds while a broker was lost, by layer."""
PROFILED = "broker-lost"
LEAST_CPU_S = 0.3  # Layers below this in all columns are left out.
BLOCK = re.compile(r"(<!-- releases: ([a-z-]+) -->\n).*?(<!-- end of releases -->)", re.DOTALL)
SYSTEMS = (ZK[0], *RELEASES, ZK[1])
"""From top to bottom of each chart and table."""
LEAST_CHANGE = 1.15
"""`changes` names a change from this ratio on, and where the times of all repetitions are apart."""


@dataclass(frozen=True)
class Shape:
    """A cluster under storms: the name of its storm in KRaft mode and in ZooKeeper mode."""

    title: str
    kraft: str
    zookeeper: str


ONE = Shape("one controller, 20 brokers, 100,000 partitions", "kraft", "zookeeper")
THREE = Shape("three controllers, 20 brokers, 100,000 partitions", "quorum", "")
MANY = Shape("one controller, 300 brokers, 20,000 partitions", "300-brokers", "zookeeper-300")
FAILOVER = Shape("20 brokers, 100,000 partitions", "quorum", "zookeeper")
SHAPES = (ONE, THREE, MANY)
STORMS = ("kraft", "quorum", "300-brokers", "zookeeper", "zookeeper-300")


@dataclass(frozen=True)
class Event:
    """The subject of a chart: a scenario of KRaft mode, the same of ZooKeeper mode, and the clusters that have it."""

    title: str
    kraft: str
    zookeeper: str
    shapes: tuple[Shape, ...]


EVENTS = {
    "create": Event("All topics are created", "create", "", SHAPES),
    "broker-lost": Event("A broker is killed (without the session time-out)", "broker-lost", "broker-lost", SHAPES),
    "controlled-shutdown": Event("A broker shuts down", "controlled-shutdown", "controlled-shutdown", SHAPES),
    "takeover": Event("Another controller takes over", "controller-killed", "failover", (FAILOVER,)),
}
WIDTH, LEFT, RIGHT, TOP, HEADING, LANE, GAP = 860, 236, 40, 66, 30, 20, 34  # px


def found(storms: dict[str, Storm], event: Event, shape: Shape) -> dict[str, Row]:
    """The rows of an event in a cluster, by target, in the order of `SYSTEMS`."""
    wanted = {(shape.kraft, event.kraft), (shape.zookeeper, event.zookeeper)}
    rows = {
        each["target"]: each
        for storm, scenario in wanted
        if storm and scenario
        for each in storms[storm]["rows"]
        if each["scenario"] == scenario and each["work_ms"]
    }
    return {system: rows[system] for system in SYSTEMS if system in rows}


def kind(system: str) -> str:
    """The style of a system's colour."""
    return "kcore" if system.startswith("kcore") else "kafka"


def panel(y: int, title: str, rows: dict[str, Row]) -> tuple[int, list[str]]:
    """One cluster: a lane a system with a point at its median and a line of its spread, on an axis of its own."""
    every = [ms for each in rows.values() for ms in each["work_ms"]]
    low, high = floor(log10(min(every))), ceil(log10(max(every)) + 0.15)
    bottom = y + HEADING + LANE * len(rows)

    def x_of(ms: float) -> float:
        return round(LEFT + (log10(ms) - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    drawn = [text(LEFT, y + 18, title, "ink head")]
    for power in range(low, high + 1):
        x = x_of(10**power)
        drawn.append(f'<line x1="{x}" y1="{y + HEADING - 4}" x2="{x}" y2="{bottom}" class="rule"/>')
        drawn.append(text(x, bottom + 16, tick(10**power), "faint small middle"))
    for at, (system, each) in enumerate(rows.items()):
        middle, least, most = (x_of(of(each["work_ms"])) for of in (median, min, max))
        lane = y + HEADING + LANE * at + LINE // 2
        drawn += [
            text(LEFT - 10, lane + 4, NAMES[system], "ink end"),
            f'<line x1="{least}" y1="{lane}" x2="{most}" y2="{lane}" class="{kind(system)} spread"/>',
            f'<circle cx="{middle}" cy="{lane}" r="4" class="{kind(system)}"/>',
            text(max(middle, most) + 8, lane + 4, seconds(median(each["work_ms"])), "faint small"),
        ]
    return bottom + GAP, drawn


def tick(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1_000 else f"{ms / 1_000:g} s"


def chart(storms: dict[str, Storm], event: Event) -> str:
    """The chart of an event as SVG: the clusters below each other."""
    y, drawn = TOP, []
    for shape in event.shapes:
        y, more = panel(y, shape.title, found(storms, event, shape))
        drawn += more
    note = "Points: medians. Lines: least to greatest repetition. The axes are logarithmic; further left is faster."
    head = [text(20, 30, f"{event.title}: time until the last broker knows", "ink title"), text(20, 50, note, "faint")]
    inner = "\n".join([*head, *drawn])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" '
        f'aria-label="{event.title}, by release of Kafka">\n<style>{STYLE}</style>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{y - 1}" rx="8" class="page"/>\n{inner}\n</svg>\n'
    )


def table(storms: dict[str, Storm], event: Event) -> str:
    """The figures of an event: a row a system, a column a cluster."""
    columns = [found(storms, event, shape) for shape in event.shapes]
    lines = [row("", *(shape.title for shape in event.shapes)), "|---" * (len(columns) + 1) + "|"]
    for system in SYSTEMS:
        cells = [figures(column[system]) if system in column else "" for column in columns]
        if any(cells):
            lines.append(row(NAMES[system], *cells))
    return "\n".join([*lines, ""])


def figures(each: Row) -> str:
    """The median, the spread, and what else was measured: the election alone, the controllers' CPU time."""
    works = each["work_ms"]
    shown = f"{seconds(median(works))} ({seconds(min(works))} to {seconds(max(works))})"
    if "elected" in each:
        shown += f", the election alone {seconds(each['elected'])}"
    return f"{shown}, CPU {digits(each['controller_cpu_s'])} s" if "controller_cpu_s" in each else shown


def changes(storms: dict[str, Storm]) -> str:
    """The changes between two releases that exceed the spread."""
    kafka = RELEASES[:-1]
    lines = [row("from", "to", "event", "cluster", "time", "times as long"), "|---" * 6 + "|"]
    for before, after in ((ZK[0], kafka[0]), *pairwise(kafka), (kafka[0], kafka[-1])):
        for event in EVENTS.values():
            for shape in event.shapes:
                rows = found(storms, event, shape)
                if before in rows and (cells := changed(rows[before], rows[after])) is not None:
                    lines.append(row(NAMES[before], NAMES[after], event.title, shape.title, *cells))
    return "\n".join([*lines, ""])


def changed(before: Row, after: Row) -> tuple[str, str] | None:
    """Both medians and their ratio; None where the repetitions overlap, or where the ratio is small."""
    old, new = before["work_ms"], after["work_ms"]
    ratio = median(new) / median(old)
    apart = min(new) > max(old) or max(new) < min(old)
    if not apart or max(ratio, 1 / ratio) < LEAST_CHANGE:
        return None
    return f"{seconds(median(old))} to {seconds(median(new))}", f"**{times(ratio)}**" if ratio > 1 else f"{ratio:.2f}x"


def memory(storms: dict[str, Storm]) -> str:
    """The most memory of all controllers of a system in any scenario, a column a cluster."""
    lines = [row("", *(shape.title for shape in SHAPES)), "|---" * (len(SHAPES) + 1) + "|"]
    for system in SYSTEMS:
        cells = []
        for shape in SHAPES:
            name = shape.zookeeper if system in ZK else shape.kraft
            cells.append(peak(storms[name], system, storms[name]["rows"][0]["partitions"]) if name else "")
        lines.append(row(NAMES[system], *cells))
    return "\n".join([*lines, ""])


def taken(folders: list[Path]) -> dict[str, dict[str, float]]:
    """The CPU time by layer of all targets in the folders of profiled storms."""
    columns: dict[str, dict[str, float]] = {}
    for folder in folders:
        rows = [json.loads(line) for line in (folder / "profile.jsonl").read_text(encoding="utf-8").splitlines()]
        for target in dict.fromkeys(each["target"] for each in rows):
            sums: dict[str, float] = defaultdict(float)
            for each in rows:
                if (each["target"], each["scenario"]) == (target, PROFILED):
                    sums[each["layer"]] += each["cpu_s"]
            count = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))["storm"]["controllers"]
            name = NAMES[target] if count == 1 else f"{NAMES[target]}, {count} controllers"
            columns[name] = {layer: round(cpu_s, 3) for layer, cpu_s in sums.items()}
    return columns


def profiles(columns: Mapping[str, Mapping[str, float]]) -> str:
    """The CPU time by layer, a column a profiled target."""
    lines = [row("CPU while a broker is killed", *columns), "|---" * (len(columns) + 1) + "|"]
    lines.append(row("all", *(f"{digits(sum(each.values()))} s" for each in columns.values())))
    layers = dict.fromkeys(layer for each in columns.values() for layer, cpu_s in each.items() if cpu_s >= LEAST_CPU_S)
    for layer in layers:
        lines.append(row(layer, *(f"{digits(each.get(layer, 0.0))} s" for each in columns.values())))
    return "\n".join([*lines, ""])


def commands(storms: dict[str, Storm]) -> str:
    """How the storms were measured, and the commands."""
    blocks = [f"{about(storms[name])}\n\n```sh\n{command(name)}\n```\n" for name in STORMS]
    return "\n".join(blocks)


def written(page: str, storms: dict[str, Storm]) -> str:
    """The page with each of its blocks made again."""
    made = {name: table(storms, event) for name, event in EVENTS.items()}
    made |= {"changes": changes(storms), "memory": memory(storms), "commands": commands(storms)}
    made["profiles"] = profiles(json.loads(PROFILES.read_text(encoding="utf-8")))
    return BLOCK.sub(lambda block: block[1] + made[block[2]] + block[3], page)


def main(folders: list[Path]) -> None:
    if folders:
        PROFILES.write_text(json.dumps(taken(folders), indent=1) + "\n", encoding="utf-8")
    storms = load()
    for name, event in EVENTS.items():
        (HERE / f"releases-{name}.svg").write_text(chart(storms, event), encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), storms), encoding="utf-8")


if __name__ == "__main__":
    main([*map(Path, sys.argv[1:])])
