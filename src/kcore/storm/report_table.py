"""A storm's results as tables: the same cells for a terminal and for the page."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.hollow.histograms import NOT_KNOWN
from kcore.report.units import duration, short_count, size, three_digits
from kcore.storm.report_rows import Row, is_good

_NS: Final = 1e6  # in a millisecond


def _ms(name: str) -> Callable[[Row], str]:
    return lambda row: "" if row[name] == NOT_KNOWN else duration(row[name] * _NS)


def _errors(row: Row) -> str:
    return " ".join(f"{name} {count:,}" for name, count in row["errors"].items())


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "first": _ms("first_ms"),
    "p50": _ms("p50_ms"),
    "p99": _ms("p99_ms"),
    "p99.9": _ms("p999_ms"),
    "last": _ms("last_ms"),
    "answer": _ms("answered_ms"),
    "changes": lambda row: f"{row['changes']:,}",
    "log": lambda row: size(row["log_bytes"]),
    "beat p99": _ms("heartbeat_p99_ms"),
    "CPU": lambda row: "" if row["controller_cpu_s"] == NOT_KNOWN else duration(row["controller_cpu_s"] * 1e9),
    "RSS": lambda row: "" if row["controller_rss_mb"] == NOT_KNOWN else size(row["controller_rss_mb"] * 1e6),
    "own CPU": lambda row: duration(row["own_cpu_s"] * 1e9),
    "own lag": _ms("lag_max_ms"),
}
LEGEND: Final = (
    "first, last: when the first broker knew the first change, and the last broker the last one, from the intended "
    "moment; p50, p99, p99.9: over brokers, when each knew the last change. answer: when the controller had "
    "answered all that it was asked. changes: records of the kinds that the scenario is about, in ZooKeeper mode "
    "partitions in LeaderAndIsr; log: bytes of all records, or requests. beat p99: latency of heartbeats meanwhile. "
    "CPU, RSS: what the controllers' processes took (time in the scenario, peak so far), where they can be seen. "
    "own: the load generator."
)


def sizes_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Merged rows by size of the cluster, each with a headline."""
    by_size = groupby(rows, lambda row: (row["wanted_brokers"], row["wanted_partitions"]))
    return [
        (f"{brokers:,} brokers, {partitions:,} partitions", list(group)) for (brokers, partitions), group in by_size
    ]


def ratio(row: Row, rows: Sequence[Row]) -> str:
    """Time to the last broker over that of the first target, same scenario and size; empty for the first itself."""
    same = [each for each in rows if each["scenario"] == row["scenario"]]
    if same[0] is row or min(row["last_ms"], same[0]["last_ms"]) <= 0:
        return ""
    return f"{three_digits(row['last_ms'] / same[0]['last_ms'])}x"


def cells_of(rows: Sequence[Row]) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """Head and lines for rows of one size: with several targets one below the other, and how they compare."""
    several = len({row["target"] for row in rows}) > 1
    head = ["scenario", *(["target"] if several else []), *COLUMNS, *(["ratio"] if several else [])]
    lines, before = [], ""
    for row in rows:
        starts = row["scenario"] != before
        before = row["scenario"]
        mark = "" if is_good(row) else " (partial)" if row["partial"] else " (invalid)"
        cells = [f"{row['scenario'] if starts else ''}{mark}", *([row["target"]] if several else [])]
        cells += [text(row) for text in COLUMNS.values()]
        lines.append((cells + ([ratio(row, rows)] if several else []), starts))
    return head, lines


def curve(rows: Sequence[Row]) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """Time to the last broker by scenario, target and brokers, a column a count of partitions; empty for one size."""
    sizes = {(row["wanted_brokers"], row["wanted_partitions"]) for row in rows}
    if len(sizes) < 2:
        return [], []
    partitions = sorted({each for _, each in sizes})
    found = {(r["scenario"], r["target"], r["wanted_brokers"], r["wanted_partitions"]): _ms("last_ms")(r) for r in rows}
    lines, before = [], ""
    for scenario, target, brokers in dict.fromkeys(sorted((key[:3] for key in found), key=lambda key: key[:2])):
        times = [found.get((scenario, target, brokers, count), "") for count in partitions]
        lines.append(([scenario if scenario != before else "", target, f"{brokers:,}", *times], scenario != before))
        before = scenario
    return ["last broker knows", "target", "brokers", *(short_count(count) for count in partitions)], lines


def findings(rows: Sequence[Row]) -> list[str]:
    """The notes of good rows, a line each."""
    return list(dict.fromkeys(f"{row['scenario']}: {row['note']}" for row in rows if is_good(row) and row["note"]))


def troubles(rows: Sequence[Row], missing: Sequence[str]) -> list[str]:
    """What went wrong, a line each: failed, invalid, partial, fencings that should not be, and what never ran."""
    lines = []
    for row in rows:
        what = f"{row['scenario']} on {row['target']}, {row['wanted_brokers']:,} x {row['wanted_partitions']:,}"
        if row["error"] is not None:
            lines.append(f"failed: {what}: {row['error']}")
        elif row["partial"] or not row["valid"]:
            lines.append(f"{'partial' if row['partial'] else 'invalid'}: {what}: {row['note']}")
        if row["false_fencings"]:
            lines.append(f"false fencings: {what}: {row['false_fencings']:,} running brokers")
        if row["errors"]:
            lines.append(f"errors: {what}: {_errors(row)}")
    return lines + [f"missing: {line}" for line in missing]


def show(console: Console, rows: Sequence[Row], found_troubles: Sequence[str]) -> None:
    """Merged rows, a table a size; the curve over sizes; what was found; then what went wrong."""
    for headline, group in sizes_of(rows):
        console.print(_table(f"[bold]{headline}[/]", *cells_of(group)))
    head, lines = curve(rows)
    if lines:
        console.print(_table("[bold]time until the last broker knows, by partitions[/]", head, lines))
    for line in findings(rows):
        console.print(f"[bold]{escape(line)}[/]", soft_wrap=True)
    for line in found_troubles:
        console.print(f"[bold red]{escape(line)}[/]", soft_wrap=True)


def _table(title: str, head: Sequence[str], lines: Sequence[tuple[Sequence[str], bool]]) -> Table:
    table = Table(title=title, title_justify="left", header_style="dim", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    left = {"scenario", "target", "last broker knows"}
    for name in head:
        is_left = name in left
        table.add_column(name, justify="left" if is_left else "right", no_wrap=True, min_width=len(name))
    for cells, _ in lines:
        table.add_row(*map(escape, cells))
    return table
