"""The page of `kcore bench quorum`: commit latency, throughput and processor time of each system under each load."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

from kcore.extras import needs
from kcore.measure.raft_bench.run_raft_bench import HEADER, Row
from kcore.measure.report.build import COLUMNS, builds_of
from kcore.measure.report.charts import Axis, Bar, bar_chart
from kcore.measure.report.dots import Dot, dot_chart
from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.figure_history import Figures, history_section
from kcore.measure.report.noise import about_the_machine
from kcore.measure.report.palette import FAINT, color_of
from kcore.measure.report.report_page import (
    about_the_run,
    answer,
    build_section,
    charts,
    figure,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.measure.report.units import duration, three_digits

with needs("report"):
    import pyarrow as pa

SCHEMA: Final = pa.schema(
    [
        ("system", pa.string()),
        ("rate", pa.int64()),  # Requested records per second.
        ("record_bytes", pa.int64()),
        ("linger_ms", pa.int64()),  # Null: the system's own linger.
        ("bytes_per_s", pa.float64()),  # Null if the measurement failed.
        ("p75_ms", pa.float64()),
        ("p99_ms", pa.float64()),
        ("p999_ms", pa.float64()),
        ("cpu_s_per_s", pa.float64()),  # CPU seconds per second of the three processes together.
        ("fault", pa.string()),  # Null without a fault.
        *COLUMNS,
    ]
)
_KIND: Final = ResultKind(SCHEMA, ("system", "rate", "record_bytes", "linger_ms", "p99_ms"), own=("system", "p999_ms"))
_HEAD: Final = ("system", "linger", "wanted")
_NS: Final = 1e6  # Nanoseconds in a millisecond.
_MOST_COUNTED_MS: Final = 249.0  # TestRaftServer counts every longer latency as this one.
_ABOUT: Final = (
    "Latency runs until the commit, from when a record was due (kcore) or appended (Kafka, whose tool counts longer "
    "latencies as 249 ms), in the last half minute to a minute that the leader printed. CPU: processor seconds per "
    "second of the three processes together. They share this machine and its disk: every voter flushes its appends."
)
_MARKERS: Final = {"p75": "|", "p99": "o", "p99.9": "D"}


def table_of(rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table, for the result file."""
    return pa.Table.from_pylist([row.as_dict() for row in rows], schema=SCHEMA)


def render(rows: Sequence[Row], facts: dict[str, Any], wanted: int, directory: Path | None = None) -> str:
    """The page; `wanted`: the number of rows of a complete run. Earlier runs are searched beside `directory`."""
    past = history_section(
        _HEAD, _p99s(rows), earlier_runs(directory, facts, _KIND), _read, lambda ms: duration(ms * _NS),
        "The latency that 99% of the records do not exceed. A single run varies: a ratio of it says little.",
    )  # fmt: skip
    loads = list(dict.fromkeys(row.load for row in rows))
    body = [
        "<h1>kcore bench quorum</h1>",
        paragraphs([f"{facts.get('when', '')} · three voters with fsync on loopback"], "lead"),
        _answer(rows),
        _verdict(rows, wanted),
        paragraphs(about_the_machine(facts), "warn"),
        navigation(["latency", "cost", "figures", *(["history"] if past else []), "targets", "machine", "method"]),
        '<h2 id="latency">Latency until the commit</h2>',
        charts(figure(_latency_chart([row for row in rows if row.load == load])) for load in loads),
        '<h2 id="cost">Throughput and processor time</h2>',
        charts([figure(_throughput_chart(rows)), figure(_cpu_chart(rows))]),
        '<h2 id="figures">All figures</h2>',
        html_table(HEADER, [(row.cells(), False) for row in rows], _HEAD, ["bad" if row.fault else "" for row in rows]),
        past,
        build_section(builds_of((row.as_dict() for row in rows), "system")),
        about_the_run(facts),
        f'<h2 id="method">How it was measured</h2>{paragraphs([_ABOUT])}',
    ]
    return page("kcore bench quorum", body)


def _verdict(rows: Sequence[Row], wanted: int) -> str:
    faults = [f"{row.system}, {_load(row)}: {row.fault.splitlines()[0]}" for row in rows if row.fault]
    if len(rows) < wanted:
        faults.append(f"partial run: {len(rows)} of {wanted} measurements are done")
    return paragraphs(faults, "bad") if faults else paragraphs(["Every system was measured under every load."], "good")


def _load(row: Row) -> str:
    _, linger, wanted, *_ = row.cells()
    return f"{wanted}, {'its own linger' if linger == 'default' else f'linger {linger}'}"


def _answer(rows: Sequence[Row]) -> str:
    """The page's answer: kcore's p99 as multiples of each other system's p99, over the loads that both systems ran."""
    p99s = {(row.system, row.load): row.measured.p99_ms for row in rows if row.measured is not None}
    lines = []
    ours = [row.system for row in rows if row.is_kcore]
    for mine, other in product(dict.fromkeys(ours), dict.fromkeys(row.system for row in rows if not row.is_kcore)):
        loads = [load for system, load in p99s if system == other and p99s.get((mine, load))]
        ratios = sorted(p99s[mine, load] / p99s[other, load] for load in loads if p99s[other, load])
        if ratios:
            spread = " to ".join(dict.fromkeys(three_digits(each) for each in (ratios[0], ratios[-1])))
            of_loads = "under one load" if len(ratios) == 1 else f"over {len(ratios)} loads"
            lines.append(f"{mine}'s p99 until the commit is {spread} times that of {other} {of_loads}.")
    return answer(" ".join(lines)) if lines else ""


def _latency_chart(rows: Sequence[Row]) -> str:
    """A chart of one load: a line per system, with its p75, p99 and p99.9."""
    dots = []
    for row in rows:
        if (its := row.measured) is None:
            continue
        times = {"p75": its.p75_ms, "p99": its.p99_ms, "p99.9": its.p999_ms}
        tip = f"{row.system}\n{_load(row)}\n{', '.join(f'{name} {ms:,.1f} ms' for name, ms in times.items())}"
        is_cut = not row.is_kcore and its.p99_ms >= _MOST_COUNTED_MS
        note = f"p99 {duration(its.p99_ms * _NS)}{' or more' if is_cut else ''}"
        color, ends = color_of(row.system), (its.p75_ms * _NS, max(times.values()) * _NS)
        dots += [
            Dot(row.system, its.p99_ms * _NS, color, tip, note, ends, _MARKERS["p99"]),
            *(Dot("", times[name] * _NS, color, tip, marker=_MARKERS[name], above=True) for name in ("p75", "p99.9")),
        ]
    legend = {name: (FAINT, marker) for name, marker in _MARKERS.items()}
    return dot_chart(f"Latency: {_load(rows[0])}", dots, Axis("from append to commit"), legend=legend)


def _throughput_chart(rows: Sequence[Row]) -> str:
    """A chart of the committed throughput beside the requested one."""
    bars = [
        _bar(row, row.measured.bytes_per_s / 1e6, "MB/s", row.load.rate * row.load.record_bytes / 1e6)
        for row in rows
        if row.measured is not None
    ]
    return bar_chart("Throughput", bars, Axis("committed, MB/s", lambda value: f"{value:g}"), bound="wanted")


def _cpu_chart(rows: Sequence[Row]) -> str:
    bars = [_bar(row, row.measured.cpu_s_per_s, "s a second") for row in rows if row.measured is not None]
    return bar_chart(
        "Processor time", bars, Axis("processor seconds a second, three voters", lambda value: f"{value:g}")
    )


def _bar(row: Row, value: float, unit: str, bound: float | None = None) -> Bar:
    tip = f"{row.system}\n{_load(row)}\n{three_digits(value)} {unit}"
    return Bar(f"{row.system}: {_load(row)}", value, color_of(row.system), tip, three_digits(value), bound)


def _p99s(rows: Sequence[Row]) -> Figures:
    """The p99 latencies in milliseconds, by system, linger and load."""
    return {row.cells()[:3]: row.measured.p99_ms for row in rows if row.measured is not None}


def _read(run: EarlierRun) -> Figures:
    return _p99s([Row.of(each) for each in run.table.to_pylist()])
