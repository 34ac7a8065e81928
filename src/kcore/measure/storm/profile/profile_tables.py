"""A profile as rows of results and as tables: CPU time by layer, event and thread, scenario by scenario."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kcore.measure.report.units import duration
from kcore.measure.storm.profile.profile_cell import CellProfile
from kcore.measure.storm.profile.profile_rules import LAYERS, OTHER

ProfileRow = dict[str, Any]
Lines = list[tuple[list[str], bool]]

_NS: Final = 1e9
_KEY: Final = ("layer", "event", "thread")
_LEAST_SHARE: Final = 0.01  # Share of a scenario's time; smaller events and threads are in one line.


def rows_of(profiles: Iterable[CellProfile]) -> list[ProfileRow]:
    """One row per target, size, repetition, scenario, layer, event and thread: CPU seconds and number of samples."""
    found: list[ProfileRow] = []
    for profile in profiles:
        cell = profile.cell
        named = {"target": cell.target.name, "brokers": cell.brokers, "partitions": cell.partitions}
        for window in profile.windows:
            sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
            for share in window.shares:
                taken = sums[share.layer, share.event, share.thread]
                taken[0] += share.cpu_s
                taken[1] += share.samples
            about = named | {"repetition": cell.repetition, "scenario": window.scenario}
            found += [
                about | dict(zip(_KEY, key, strict=True)) | {"cpu_s": round(cpu_s, 6), "samples": int(samples)}
                for key, (cpu_s, samples) in sums.items()
            ]
    return found


def sizes_of(rows: Sequence[ProfileRow]) -> list[tuple[str, list[ProfileRow]]]:
    """The rows by target and size, each with a headline."""
    groups: dict[str, list[ProfileRow]] = {}
    for row in rows:
        title = f"{row['target']}, {row['brokers']:,} brokers, {row['partitions']:,} partitions"
        groups.setdefault(title, []).append(row)
    return list(groups.items())


def layer_table(rows: Sequence[ProfileRow]) -> tuple[list[str], Lines]:
    """The table of one target and size: CPU time and its share by layer and scenario, as means of repetitions."""
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    taken = _sums(rows, lambda row: (row["layer"], row["scenario"]))
    totals = [sum(taken.get((layer, name), 0.0) for layer in LAYERS) for name in scenarios]
    seen = _sums(rows, lambda row: (row["scenario"],), "samples")
    lines: Lines = [(["all", *(_time(total) for total in totals)], False)]
    for layer in LAYERS:
        times = [taken.get((layer, name), 0.0) for name in scenarios]
        if any(times):
            lines.append(([layer, *map(_with_share, times, totals)], False))
    lines.append((["samples", *(f"{seen[name,]:,.0f}" for name in scenarios)], True))
    return ["layer", *scenarios], lines


def event_table(rows: Sequence[ProfileRow]) -> tuple[list[str], Lines]:
    """The table of one target and size: the events of each scenario, the most expensive first."""
    return _ranked(rows, "event")


def thread_table(rows: Sequence[ProfileRow]) -> tuple[list[str], Lines]:
    """The table of one target and size: each scenario's threads. Names that differ only by a number share a line."""
    return _ranked(rows, "thread")


def _ranked(rows: Sequence[ProfileRow], column: str) -> tuple[list[str], Lines]:
    lines: Lines = []
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        taken = _sums([row for row in rows if row["scenario"] == scenario], lambda row: (row[column],))
        total = sum(taken.values())
        shown = {key[0]: cpu_s for key, cpu_s in taken.items() if cpu_s >= _LEAST_SHARE * total and key[0] != OTHER}
        ordered = sorted(shown.items(), key=lambda item: -item[1])
        if (rest := total - sum(shown.values())) > 0:
            ordered.append(("the rest", rest))
        for at, (name, cpu_s) in enumerate(ordered):
            lines.append(([scenario if not at else "", name, _time(cpu_s), _percent(cpu_s, total)], not at))
    return ["scenario", column, "CPU", "share"], lines


def _sums(
    rows: Sequence[ProfileRow], key: Callable[[ProfileRow], tuple[str, ...]], column: str = "cpu_s"
) -> dict[tuple[str, ...], float]:
    """The sums of a column by key, as means over the repetitions."""
    repetitions: dict[str, set[int]] = defaultdict(set)  # A scenario may have failed in some repetitions.
    for row in rows:
        repetitions[row["scenario"]].add(row["repetition"])
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for row in rows:
        sums[key(row)] += row[column] / len(repetitions[row["scenario"]])
    return sums


def _time(cpu_s: float) -> str:
    return duration(cpu_s * _NS)


def _percent(cpu_s: float, total: float) -> str:
    return f"{cpu_s / total:.0%}" if total else ""


def _with_share(cpu_s: float, total: float) -> str:
    return f"{_time(cpu_s)} ({_percent(cpu_s, total)})" if cpu_s else ""
