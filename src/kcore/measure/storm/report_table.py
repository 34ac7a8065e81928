"""A storm's results as tables: the same cells for a terminal and for the page."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.report.build import HEAD, build_lines, builds_of
from kcore.measure.report.units import duration, short_count, size, three_digits
from kcore.measure.storm.expected import EXPECTED_ERRORS, expected_of, unexpected_of
from kcore.measure.storm.phases import phases_of, work_ms
from kcore.measure.storm.report_rows import Row, different_ends, is_good
from kcore.measure.storm.report_security import is_secured, security_costs
from kcore.printable import printable

_NS: Final = 1e6  # Nanoseconds in a millisecond.


def _ms(name: str) -> Callable[[Row], str]:
    return lambda row: "" if row[name] == NOT_KNOWN else duration(row[name] * _NS)


def _errors(errors: dict[str, int]) -> str:
    return " ".join(f"{name} {count:,}" for name, count in errors.items())


def _known(name: str, text: Callable[[float], str]) -> Callable[[Row], str]:
    return lambda row: "" if row[name] == NOT_KNOWN else text(row[name])


def _waiting(name: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        phases = phases_of(row)
        return "" if phases is None or not (ms := getattr(phases, name)) else duration(ms * _NS)

    return text


def _work(row: Row) -> str:
    return "" if (ms := work_ms(row)) == NOT_KNOWN else duration(ms * _NS)


def _spread(least: str, most: str, unit_ns: float) -> Callable[[Row], str]:
    """Writes the least and the greatest value over repetitions; empty for a row without a spread."""

    def text(row: Row) -> str:
        return "" if least not in row else f"{duration(row[least] * unit_ns)} to {duration(row[most] * unit_ns)}"

    return text


def _rate(row: Row) -> str:
    """Changes per second until the controller's last answer."""
    return "" if row["answered_ms"] <= 0 else f"{row['changes'] / row['answered_ms'] * 1e3:,.0f}"


def _over_brokers(name: str, fewest: int) -> Callable[[Row], str]:
    """A percentile over brokers; blank for fewer than `fewest` brokers, where it would be the last broker's time."""
    text = _ms(name)
    return lambda row: text(row) if row["wanted_brokers"] >= fewest else ""


Columns = dict[str, Callable[[Row], str]]
TIMES: Final[Columns] = {
    "session": _waiting("session"),
    "noticed": _waiting("noticed"),
    "work": _work,
    "wrote": _waiting("decided"),
    "first": _ms("first_ms"),
    "p50": _ms("p50_ms"),
    "p99": _over_brokers("p99_ms", 100),
    "p99.9": _over_brokers("p999_ms", 1_000),
    "last": _ms("last_ms"),
    "answer": _ms("answered_ms"),
}
COSTS: Final[Columns] = {
    "changes": lambda row: f"{row['changes']:,}",
    "a second": _rate,
    "log": lambda row: size(row["log_bytes"]),
    "beat p99": _ms("heartbeat_p99_ms"),
    "CPU": _known("controller_cpu_s", lambda value: duration(value * 1e9)),
    "RSS": _known("controller_rss_mb", lambda value: size(value * 1e6)),
    "own CPU": lambda row: duration(row["own_cpu_s"] * 1e9),
    "own lag": _ms("lag_max_ms"),
    "errors": lambda row: _errors(row["errors"]),
}
SPREAD: Final = "min to max"  # Ends a column's title, as in "work, min to max": the range over repetitions.
_SPREADS: Final[Columns] = {
    "work": _spread("work_min_ms", "work_max_ms", _NS),
    "CPU": _spread("cpu_min_s", "cpu_max_s", 1e9),
}
ALL_ERRORS: Final = "errors, added up"
TEXT: Final = ("scenario", "target", "security", "errors", ALL_ERRORS)
LEGEND: Final = (
    "session: the wait for brokers' sessions to end, which is not the controller's work: from the death until the "
    "session time-out after the last heartbeat, or while the controller refused a registration because of the earlier "
    "session; in ZooKeeper mode until ZooKeeper removed the broker's znode. noticed: from the end of the session until "
    "the controller wrote the first record of the fencing (the time stamp of its batch). Most of this is the wait for "
    "the controller's next check of all sessions; in ZooKeeper mode a watch notifies the controller, and this part is "
    "work. work: from that first record, from the znode's removal, or without a session from the intended moment, "
    "until the last broker knew: the controller, the log, the brokers' fetches; blank if the wait for a session is not "
    "known. wrote: the part of the work until the controller wrote the first change. first, last: from the intended "
    "moment until the first broker knew the first change, and until the last broker knew the last change; p50, p99, "
    "p99.9: over brokers, until each knew the last change; blank with fewer than 100 or 1,000 brokers. answer: until "
    "the controller had answered all requests. changes: records of the types that the scenario counts, in ZooKeeper "
    "mode partitions in LeaderAndIsr, or in StopReplica if topics are deleted; a second: changes per second until the "
    "last answer; log: bytes of all records, or requests. beat p99: latency of heartbeats in the scenario. CPU, RSS: "
    "CPU time in the scenario and peak memory so far of the controllers' processes, if they are visible. own: the load "
    "generator. errors: counts by name."
)


def sizes_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Merged rows grouped by size of the cluster, each group with a headline."""
    by_size = groupby(rows, lambda row: (row["wanted_brokers"], row["wanted_partitions"]))
    return [
        (f"{brokers:,} brokers, {partitions:,} partitions", list(group)) for (brokers, partitions), group in by_size
    ]


def ratio(row: Row, rows: Sequence[Row]) -> str:
    """The work divided by the work of the table's first target, same scenario and size; empty for the first target."""
    first = {each["scenario"]: each for each in rows if each["target"] == rows[0]["target"]}.get(row["scenario"])
    if first is None or first is row or min(work_ms(row), work_ms(first)) <= 0:
        return ""
    return f"{three_digits(work_ms(row) / work_ms(first))}x"


def cells_of(rows: Sequence[Row], columns: Columns) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """Head and lines for rows of one size, with TIMES or COSTS. TIMES of several targets have a ratio of work, too."""
    several = len({row["target"] for row in rows}) > 1
    shown: Columns = {"security": lambda row: row["security"]} if any(map(is_secured, rows)) else {}
    has_repetitions = are_medians(rows)
    for name, text in columns.items():
        shown[ALL_ERRORS if name == "errors" and has_repetitions else name] = text
        if has_repetitions and name in _SPREADS:
            shown[f"{name}, {SPREAD}"] = _SPREADS[name]
    if columns is TIMES and several:
        shown[f"ratio to {rows[0]['target']}"] = lambda row: ratio(row, rows)
    head = ["scenario", *(["target"] if several else []), *shown]
    lines, before = [], ""
    for row in rows:
        starts = row["scenario"] != before
        before = row["scenario"]
        cells = [f"{row['scenario']}{_mark(row)}", *([row["target"]] if several else [])]
        has_figures = row.get("repetitions", 1) > 0
        lines.append((cells + [text(row) if has_figures else "" for text in shown.values()], starts))
    return head, lines


def are_medians(rows: Sequence[Row]) -> bool:
    """Whether figures of these merged rows are medians over repetitions."""
    return any(row.get("repetitions", 1) > 1 for row in rows)


def titles(rows: Sequence[Row]) -> tuple[str, str]:
    """The titles of TIMES and COSTS for these merged rows: what they show, and by which statistic."""
    rule = ": each figure is the median over the repetitions that count" if are_medians(rows) else ""
    return f"when brokers knew{rule}", f"what it took{rule}"


def _mark(row: Row) -> str:
    """The text after a scenario's name if the scenario, or some of its repetitions, do not count; otherwise empty."""
    if not is_good(row):
        return " (partial)" if row["partial"] else " (invalid)"
    return f" ({row['excluded']} of {row['tried']} do not count)" if row.get("excluded") else ""


def curve(rows: Sequence[Row]) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """A table of the time that each scenario's work took.

    It has a line per scenario, target and number of brokers, and a column per number of partitions. Head and lines are
    empty if all rows have the same size of cluster.
    """
    sizes = {(row["wanted_brokers"], row["wanted_partitions"]) for row in rows}
    if len(sizes) < 2:
        return [], []
    partitions = sorted({each for _, each in sizes})
    found = {(r["scenario"], r["target"], r["wanted_brokers"], r["wanted_partitions"]): _work(r) for r in rows}
    lines, before = [], ""
    for scenario, target, brokers in dict.fromkeys(sorted((key[:3] for key in found), key=lambda key: key[:2])):
        times = [found.get((scenario, target, brokers, count), "") for count in partitions]
        lines.append(([scenario, target, f"{brokers:,}", *times], scenario != before))
        before = scenario
    return ["work", "target", "brokers", *(short_count(count) for count in partitions)], lines


def findings(rows: Sequence[Row]) -> list[str]:
    """A line for each note of a good row, for each row whose work is not known, and for the cost of each protocol."""
    good = [row for row in rows if is_good(row)]
    lines = [f"{row['scenario']}: {row['note']}" for row in good if row["note"]]
    unknown = [f"{_what(row)}: the work is not known: {row['work_unknown']}" for row in good if row["work_unknown"]]
    return list(dict.fromkeys([*lines, *unknown, *security_costs(rows)]))


def troubles(rows: Sequence[Row], missing: Sequence[str]) -> list[str]:
    """Faults, a line each: failed, invalid or partial results, false fencings, and scenarios that never ran."""
    is_repeated = any(row["repetition"] for row in rows)
    lines = _failures(rows, is_repeated)
    for row in rows:
        what = _what(row, is_repeated)
        if row["error"] is None and not is_good(row):
            lines.append(f"{'partial' if row['partial'] else 'invalid'}: {what}: {row['invalid']}")
        if row["false_fencings"]:
            lines.append(f"false fencings: {what}: {row['false_fencings']:,} running brokers")
        if found := unexpected_of(row["scenario"], row["errors"]):
            lines.append(f"errors: {what}: {_errors(found)}")
    return [*lines, *different_ends(rows), *(f"missing: {line}" for line in missing)]


def _failures(rows: Sequence[Row], is_repeated: bool) -> list[str]:
    """A line for each cluster and error. The line names the scenarios that have no result because of this error.

    If the cluster did not start, these are all its scenarios.
    """
    scenarios: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["error"] is not None:
            scenarios.setdefault((_where(row, is_repeated), row["error"]), []).append(row["scenario"])
    return [f"failed: {', '.join(names)} on {where}: {error}" for (where, error), names in scenarios.items()]


def _what(row: Row, is_repeated: bool = False) -> str:
    return f"{row['scenario']} on {_where(row, is_repeated)}"


def _where(row: Row, is_repeated: bool) -> str:
    again = f", repetition {row['repetition'] + 1}" if is_repeated else ""
    return f"{row['target']}, {row['wanted_brokers']:,} x {row['wanted_partitions']:,}{again}"


def expected(rows: Sequence[Row]) -> list[str]:
    """A line for each error that a scenario provokes; such errors are not faults."""
    lines = []
    for row in rows:
        for name, count in expected_of(row["scenario"], row["errors"]).items():
            why = EXPECTED_ERRORS[row["scenario"]][name]
            lines.append(f"expected: {_what(row)}: {name} {count:,}: {why}")
    return lines


def show(console: Console, rows: Sequence[Row], found_troubles: Sequence[str]) -> None:
    """Prints merged rows: tables for each size, the work by size, builds, findings, expected errors, then faults."""
    for headline, group in sizes_of(rows):
        for title, columns in zip(titles(group), (TIMES, COSTS), strict=True):
            console.print(_table(f"[bold]{headline}[/]: {title}", *cells_of(group, columns)))
    head, lines = curve(rows)
    if lines:
        console.print(_table("[bold]work until the last broker knew, by partitions[/]", head, lines))
    head, built = build_lines(builds_of(rows, "target"))
    if len(head) > 1:
        console.print(_table("[bold]targets[/]", head, [(line, False) for line in built]))
    for line in findings(rows):
        console.print(f"[bold]{escape(printable(line))}[/]", soft_wrap=True)
    for line in expected(rows):
        console.print(f"[dim]{escape(printable(line))}[/]", soft_wrap=True)
    for line in found_troubles:
        console.print(f"[bold red]{escape(printable(line))}[/]", soft_wrap=True)


def _table(title: str, head: Sequence[str], lines: Sequence[tuple[Sequence[str], bool]]) -> Table:
    table = Table(title=title, title_justify="left", header_style="dim", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        is_left = name in (*TEXT, *HEAD)
        # An error's name of 40 letters may be wider than the rest of the terminal, as may JVM options.
        folds = name in ("errors", ALL_ERRORS, *HEAD[1:])
        justify: Any = "left" if is_left else "right"
        table.add_column(name, justify=justify, no_wrap=not folds, min_width=len(name), overflow="fold")
    for cells, _ in lines:
        table.add_row(*map(escape, cells))
    return table
