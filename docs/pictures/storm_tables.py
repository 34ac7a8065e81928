"""Writes the tables of storms between two comments of a page: `<!-- storm: NAME -->` and `<!-- end of storm -->`."""

import re
from collections.abc import Callable
from statistics import median

from storm_data import COMMANDS, COMPARED, HERE, KRAFT, NAMES, ZK, Row, Storm, pairs

ROOT = HERE.parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs/storms.md")
BLOCK = re.compile(r"(<!-- storm: ([a-z-]+) -->\n).*?(<!-- end of storm -->)", re.DOTALL)
LABELS = {
    "register": "all brokers registered",
    "create": "all topics created",
    "heartbeat": "idle for 10 s",
    "broker-lost": "a broker killed (without the session time-out)",
    "controlled-shutdown": "a broker shuts down",
    "bounce": "a killed broker returns at once",
    "failover": "another controller takes over",
    "controller-killed": "the active controller killed, until a topic can be created",
}
HEADLINE = 100_000
"""The partitions of the table in the README, and of the picture."""


def seconds(ms: float) -> str:
    """Three digits: 6.41 ms, 64.1 ms, 641 ms, 6.41 s."""
    return f"{digits(ms)} ms" if ms < 999.5 else f"{digits(ms / 1_000)} s"


def digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def memory(megabytes: float) -> str:
    mib = megabytes * 1e6 / 2**20
    return f"{mib:.0f} MiB" if mib < 1_000 else f"{mib / 1_024:.2f} GiB"


def times(ratio: float) -> str:
    """Two digits: 1.3x, 12x."""
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def compared(kafka: Row, kcore: Row) -> str:
    """The medians of both, and how many times as long Kafka's needs, with the spread over the repetitions."""
    if not kafka["work_ms"] or not kcore["work_ms"]:
        return ""
    one, other = median(kafka["work_ms"]), median(kcore["work_ms"])
    ratios = [mine / its for mine, its in zip(kafka["work_ms"], kcore["work_ms"], strict=False)]
    spread = f" ({times(min(ratios))} to {times(max(ratios))})" if len(ratios) > 1 else ""
    return f"{seconds(one)} / {seconds(other)}, {times(one / other)}{spread}"


def both(name: str, show: Callable[[float], str]) -> Callable[[Row, Row], str]:
    """A cell with one figure of both controllers; empty where it was not measured."""
    return lambda kafka, kcore: f"{show(kafka[name])} / {show(kcore[name])}" if name in kafka and name in kcore else ""


FIGURES = (
    ("the election alone", both("elected", seconds)),
    ("controllers' CPU", both("controller_cpu_s", lambda value: f"{digits(value)} s")),
    ("heartbeats' 99th percentile", both("heartbeat_p99_ms", seconds)),
)


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def peak(storm: Storm, target: str, partitions: int) -> str:
    """The most memory of a target's controllers in any scenario."""
    mine = [each for each in storm["rows"] if (each["target"], each["partitions"]) == (target, partitions)]
    return memory(max(each["controller_rss_mb"] for each in mine if "controller_rss_mb" in each))


def table(name: str, storm: Storm) -> str:
    """All scenarios and sizes of a storm, and the command that runs it."""
    targets = COMPARED.get(name, KRAFT)
    sizes = sorted({each["partitions"] for each in storm["rows"]})
    by_size = {size: {scenario: (one, other) for scenario, one, other in pairs(storm, size, targets)} for size in sizes}
    lines = [
        row(f"{NAMES[targets[0]]} / kcore", *(f"{size:,} partitions" for size in sizes)),
        "|---" * (len(sizes) + 1) + "|",
    ]
    for scenario in dict.fromkeys(scenario for found in by_size.values() for scenario in found):
        shown = [("**" + LABELS[scenario] + "**", compared), *FIGURES]
        for label, cell in shown:
            cells = [cell(*by_size[size][scenario]) if scenario in by_size[size] else "" for size in sizes]
            if any(cells) or cell is compared:
                lines.append(row(label, *cells))
    lines.append(
        row("**memory at most**", *(" / ".join(peak(storm, each, size) for each in targets) for size in sizes))
    )
    return "\n".join([*lines, "", about(storm), "", "```sh", command(name), "```", ""])


def command(name: str) -> str:
    """`./kcore storm` and its arguments, in lines that fit a page."""
    lines = ["./kcore storm"]
    for word in re.findall(r"--\S+ \S+|\S+", COMMANDS[name]):
        lines[-1:] = [f"{lines[-1]} {word}"] if len(lines[-1]) + len(word) < 116 else [lines[-1] + " \\", f"    {word}"]
    return "\n".join(lines)


def about(storm: Storm) -> str:
    """When and where it was measured, and how many repetitions count."""
    counts = sorted({each["repetitions"] for each in storm["rows"]})
    runs = " or ".join(map(str, counts))
    taken = (
        f"Medians of {runs} repetitions, in which the controllers took turns; in brackets the least and the greatest "
        "ratio of a repetition."
    )
    machine = f"kcore {storm['versions']['kcore']} on {storm['cores']} cores ({storm['processor']})"
    return f"{'A single run.' if counts == [1] else taken} Measured on {storm['when']} with {machine}."


def headline(storms: dict[str, Storm]) -> str:
    """The table of the README: both modes at one size."""
    kraft = {name: both_rows for name, *both_rows in pairs(storms["kraft"], HEADLINE)}
    killed = {name: both_rows for name, *both_rows in pairs(storms["quorum"], HEADLINE)}["controller-killed"]
    zk = {name: both_rows for name, *both_rows in pairs(storms["zookeeper"], HEADLINE, ZK)}

    def works(rows: list[Row] | None) -> list[str]:
        return [seconds(median(each["work_ms"])) for each in rows] if rows else ["", ""]

    def cpus(rows: list[Row]) -> list[str]:
        return [f"{digits(each['controller_cpu_s'])} s" for each in rows]

    lost, stops = "broker-lost", "controlled-shutdown"
    return "\n".join(
        [
            row("", NAMES[KRAFT[0]], "kcore, KRaft mode", "Kafka 3.9.1, ZooKeeper mode", "kcore, ZooKeeper mode"),
            "|---|---|---|---|---|",
            row("all topics created", *works(kraft["create"]), "", ""),
            row(LABELS[lost], *works(kraft[lost]), *works(zk[lost])),
            row(LABELS[stops], *works(kraft[stops]), *works(zk[stops])),
            row("another controller takes over", *works(killed), *works(zk["failover"])),
            row("the election alone", *(seconds(each["elected"]) for each in killed), "", ""),
            row("controller's CPU: a broker killed", *cpus(kraft[lost]), *cpus(zk[lost])),
            row("controller's memory at most", *(peak(storms["kraft"], each, HEADLINE) for each in KRAFT),
                *(peak(storms["zookeeper"], each, HEADLINE) for each in ZK)),
            "",
        ]
    )  # fmt: skip


def written(page: str, storms: dict[str, Storm]) -> str:
    """The page with each of its blocks made again."""

    def block(found: re.Match[str]) -> str:
        name = found[2]
        return found[1] + (headline(storms) if name == "headline" else table(name, storms[name])) + found[3]

    return BLOCK.sub(block, page)
