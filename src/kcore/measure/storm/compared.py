"""Reads results of `kcore storm` for `kcore compare`, as one figure per scenario, target and size."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kcore.measure.bench.compare import Compared
from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.report import result_files
from kcore.measure.report.build import Build
from kcore.measure.report.noise import Spread, spread
from kcore.measure.storm.report_rows import KEY, ROW_SCHEMA, Row, is_good, repetitions, table_of, why_left_out, works

NEEDED: Final = (*KEY, "last_ms", "session_ms", "heartbeat_p99_ms", "error", "valid", "partial")
ABOUT: Final = (
    "Times are the controllers' work until the last broker knew, without session time-outs; if a scenario changes "
    "nothing, the p99 of heartbeats."
)
_WORK: Final = "work"
_HEARTBEAT: Final = "heartbeat p99"
_NS: Final = 1e6  # Nanoseconds in a millisecond.
_PLANNED: Final = frozenset({"brokers", "partitions", "targets", "scenarios", "repeat", "seed", "master"})
_OLD_NAMES: Final = {"mind": "metadata"}  # Fields of older plans.


@dataclass(frozen=True, slots=True)
class ScenarioFigure:
    """The controllers' work in a scenario, over its repetitions; the p99 of heartbeats if nothing changes."""

    scenario: str
    target: str
    brokers: int
    partitions: int
    what: str
    spread: Spread
    times_ns: Sequence[float]
    digest: str = ""  # Not compared: two storms never write the same records.

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.scenario, self.target, self.brokers, self.partitions, self.what)

    @property
    def title(self) -> str:
        return f"{self.scenario} / {self.operation} / {self.partitions:,} partitions / {self.brokers:,} brokers"

    @property
    def workload(self) -> str:
        return self.scenario

    @property
    def operation(self) -> str:
        return self.target if self.what == _WORK else f"{self.target}, {self.what}"

    @property
    def named(self) -> dict[str, Any]:
        """The names that distinguish this figure from the other figures of a run."""
        names = ("scenario", "target", "brokers", "partitions", "what")
        return {name: getattr(self, name) for name in names}

    @property
    def median_ns(self) -> int:
        return round(self.spread.median)

    @property
    def min_ns(self) -> int:
        return round(self.spread.least)

    @property
    def low_ns(self) -> int:
        return round(self.spread.low)

    @property
    def high_ns(self) -> int:
        return round(self.spread.high)

    @property
    def noise(self) -> list[str]:
        """In words, what makes the figures doubtful."""
        return ["a single repetition"] if self.spread.count == 1 else self.spread.noise


def read(path: Path) -> pa.Table:
    """Reads a folder of results, one of its files, or the output of --json; ValueError or OSError for other input."""
    try:
        table = result_files.read_results(result_files.results_file(path), table_of)
    except (AttributeError, TypeError, ValueError) as error:  # Also from `table_of`, for rows of other commands.
        raise _not_comparable(error) from None
    return checked(table)


def checked(table: pa.Table) -> pa.Table:
    """The table in ROW_SCHEMA; ValueError if it does not have the results of `kcore storm`."""
    try:
        table = result_files.filled(table, ROW_SCHEMA, NEEDED)
    except ValueError as error:
        raise _not_comparable(error) from None
    for number, row in enumerate(table.to_pylist()):
        if lacking := [name for name in NEEDED if name != "error" and row[name] is None]:
            raise _not_comparable(f"row {number} lacks {', '.join(lacking)}")
    return table


def _not_comparable(reason: object) -> ValueError:
    return ValueError(f"no results of kcore storm that can be compared: {reason}")


def left_out(rows: Sequence[Row]) -> list[str]:
    """One line for each repetition that does not count."""
    lines = []
    for row in rows:
        if not is_good(row):
            size = f"{row['wanted_partitions']:,} partitions, {row['wanted_brokers']:,} brokers"
            lines.append(f"{row['scenario']} on {row['target']}, {size}, is left out: {why_left_out(row)}")
    return lines


def never_ran(rows: Sequence[Row], facts: Mapping[str, Any]) -> list[str]:
    """Scenarios with fewer repetitions than the plan has, a line each: the run was interrupted."""
    wanted = tomllib.loads(facts.get("plan", "")).get("storm", {}).get("repeat", 1)
    ran = Counter(tuple(row[name] for name in KEY) for row in rows)
    return [
        f"{scenario} on {target}, {partitions:,} partitions, {brokers:,} brokers, ran {count} of {wanted} times"
        for (brokers, partitions, scenario, target), count in ran.items()
        if count < wanted
    ]


def figures_of(rows: Sequence[Row]) -> list[ScenarioFigure]:
    """The figures of the repetitions that count."""
    found = []
    for (brokers, partitions, scenario, target), group in repetitions([row for row in rows if is_good(row)]).items():
        what, times = _WORK, works(group)
        if not times:
            what, times = _HEARTBEAT, [row["heartbeat_p99_ms"] for row in group]
            times = [ms for ms in times if ms != NOT_KNOWN]
        if times:
            times_ns = [ms * _NS for ms in times]
            found.append(ScenarioFigure(scenario, target, brokers, partitions, what, spread(times_ns), times_ns))
    return found


def map_hint(old: Sequence[Compared], new: Sequence[Compared]) -> list[str]:
    """Suggests a --map if each run has a target that the other lacks; otherwise empty."""
    before, after = ([*dict.fromkeys(str(figure.named["target"]) for figure in run)] for run in (old, new))
    gone, come = (
        [name for name in names if name not in others] for names, others in ((before, after), (after, before))
    )
    if not gone or not come:
        return []
    return [
        f"The old run has the target {', '.join(gone)}, the new run {', '.join(come)}: "
        f"--map {gone[0]}={come[0]} compares them."
    ]


def remarks_on(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """How the plans of two storms differ, apart from the fields that name a figure and the number of repetitions."""
    plans = [tomllib.loads(facts.get("plan", "")).get("storm", {}) for facts in (old, new)]
    if not all(plans):
        unknown = [name for name, plan in zip(("old", "new"), plans, strict=True) if not plan]
        return [f"The {' and the '.join(unknown)} run kept no plan: whether the options were the same is not known."]
    flat = [{_OLD_NAMES.get(name, name): each for name, each in plan.items() if name not in _PLANNED} for plan in plans]
    lines = _other_builds(old.get("builds", {}), new.get("builds", {}))
    for name in sorted(flat[0].keys() | flat[1].keys()):
        before, after = (each.get(name) or None for each in flat)  # Older plans lack newer options: they were not set.
        if before != after:
            lines.append(f"The plans differ in {name}: {before} in the old run, {after} in the new one.")
    return lines


def _other_builds(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """How the builds of the targets with the same names differ, a line each."""
    return [
        f"Target {name}: {line}."
        for name in old.keys() & new.keys()
        for line in Build.of(old[name]).differences(Build.of(new[name]))
    ]
