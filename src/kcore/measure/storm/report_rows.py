"""Rows of a storm's report, one per scenario, target, size and repetition, and the merging of repetitions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any, Final

import pyarrow as pa

from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.report.build import COLUMNS, Build
from kcore.measure.storm.phases import Phases, phases_of, work_ms
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell

Row = dict[str, Any]  # The columns of `row_of`; merged rows also have `repetitions`, `tried`, `excluded` and a spread.

BULKY: Final = ("known_ms", "heartbeats")
"""Columns that JSON on stdout leaves out: they have a figure for each broker or bucket."""
KEY: Final = ("wanted_brokers", "wanted_partitions", "scenario", "target")
_ARROW: Final[dict[Any, pa.DataType]] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_SPECIAL: Final = {
    "records": pa.map_(pa.string(), pa.int64()),
    "errors": pa.map_(pa.string(), pa.int64()),
    "waves_ms": pa.map_(pa.string(), pa.float64()),
    "known_ms": pa.list_(pa.float64()),
    "heartbeats": pa.list_(pa.int64()),
}
_OF_CELL: Final = {
    "target": str,
    "security": str,
    "wanted_brokers": int,
    "wanted_partitions": int,
    "repetition": int,
    "seed": int,
    "partial": bool,
    "error": str,
}
ROW_SCHEMA: Final = pa.schema(
    [(name, _ARROW[kind]) for name, kind in _OF_CELL.items()]
    + [*COLUMNS]
    + [(each.name, _SPECIAL.get(each.name) or _ARROW[each.type]) for each in fields(ScenarioResult)]
)
_NUMBERS: Final = tuple(each for each in fields(ScenarioResult) if each.type in (int, float))
MEDIANS: Final = (
    *("first_ms", "last_ms", "p50_ms", "p99_ms", "answered_ms", "heartbeat_p99_ms"),
    *("controller_cpu_s", "controller_rss_mb", "own_cpu_s", "changes", "requests", "log_bytes"),
)
"""The columns whose medians `medians` returns, in addition to the phases."""


def row_of(cell: Cell, result: ScenarioResult, seed: int, *, partial: bool = False, error: str | None = None) -> Row:
    """The row of a result; `error`: why the scenario failed, in which case the figures mean little."""
    return {
        "target": cell.target.name,
        "security": cell.target.security,
        "wanted_brokers": cell.brokers,
        "wanted_partitions": cell.partitions,
        "repetition": cell.repetition,
        "seed": seed,
        "partial": partial,
        "error": error,
        **Build(cell.target.text).as_row(),
        **result.as_row(),
    }


def failed_row(cell: Cell, scenario: str, controllers: int, seed: int, error: str) -> Row:
    """The row of a scenario without a result."""
    return row_of(cell, ScenarioResult(scenario, 0, 0, controllers), seed, error=error)


def table_of(rows: Iterable[Row]) -> pa.Table:
    """The rows as an Arrow table."""
    flat = [
        {name: [*value.items()] if isinstance(value, dict) else value for name, value in row.items()} for row in rows
    ]
    return pa.Table.from_pylist(flat, schema=ROW_SCHEMA)


def is_profiled(rows: Iterable[Row]) -> bool:
    """True if the run was profiled. Samplers take CPU time: its figures compare with profiled runs only."""
    return any(row["profiled"] for row in rows)


def is_good(row: Row) -> bool:
    """True if the row counts: the scenario did not fail, and its result is valid and complete."""
    return row["error"] is None and row["valid"] and not row["partial"]


def why_left_out(row: Row) -> str:
    """Why a row that is not good does not count, in one line."""
    if row["error"] is not None:
        lines = row["error"].splitlines()
        return f"failed: {lines[0] if lines else 'without a reason'}"
    return row["invalid"] or ("only a part of it ran" if row["partial"] else "the file does not say why")


def merged(rows: Sequence[Row]) -> list[Row]:
    """Merges the repetitions of each size, scenario and target, in this order; no row if all repetitions failed.

    Every figure is the median of the repetitions' figures; only errors and false fencings are added up. Repetitions
    that do not count are in no figure: `excluded` is their number among the `tried` ones. If no repetition counts,
    there are no figures.
    """
    tried = _groups(rows)
    groups = {key: group for key, group in tried.items() if any(row["error"] is None for row in group)}
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    targets = list(dict.fromkeys(row["target"] for row in rows))
    order = sorted(groups, key=lambda key: (*key[:2], scenarios.index(key[2]), targets.index(key[3])))
    return [_merged(groups[key]) for key in order]


def _merged(rows: Sequence[Row]) -> Row:
    good = [row for row in rows if is_good(row)]
    counts = {"repetitions": len(good), "tried": len(rows), "excluded": len(rows) - len(good)}
    if not good:
        rows = [row for row in rows if row["error"] is None]
        return rows[0] | _no_figures(rows[0]) | counts | {"partial": any(row["partial"] for row in rows)}
    if len(good) == 1:
        return good[0] | counts
    one = good[0] | counts | {"phases": _typical_phases(good), "known_ms": [], "heartbeats": []}
    one |= {each.name: each.type(_typical([row[each.name] for row in good])) for each in _NUMBERS}  # type: ignore[operator]
    if times := works(good):
        one |= {"work_min_ms": times[0], "work_max_ms": times[-1]}
    if cpus := [row["controller_cpu_s"] for row in good if row["controller_cpu_s"] != NOT_KNOWN]:
        one |= {"cpu_min_s": min(cpus), "cpu_max_s": max(cpus)}
    one["waves_ms"] = {name: median(values) for name, values in _waves(good).items()}
    one["false_fencings"] = sum(row["false_fencings"] for row in good)
    one["errors"] = dict(sum((Counter(row["errors"]) for row in good), Counter()))
    for name in ("note", "work_unknown"):
        one[name] = "; ".join(dict.fromkeys(row[name] for row in good if row[name]))
    return one


def _no_figures(row: Row) -> Row:
    """The columns of a merged row in which no repetition counts."""
    kept = ("valid", "invalid", "controllers", "profiled")
    return ScenarioResult(row["scenario"], 0, 0, 0).as_row() | {name: row[name] for name in kept}


def _typical_phases(rows: Sequence[Row]) -> Phases | None:
    """The medians of the wait and of the work; the work is divided as in the repetition with the median work."""
    found = sorted((phases for row in rows if (phases := phases_of(row)) is not None), key=lambda each: each.work)
    if not found:
        return None
    middle, work = found[(len(found) - 1) // 2], median(each.work for each in found)
    if not middle.work:
        middle = replace(middle, spread=1.0)
    share = work / middle.work
    return Phases(
        session=median(each.session for each in found),
        noticed=median(each.noticed for each in found),
        decided=middle.decided * share,
        first=middle.first * share,
        spread=middle.spread * share,
    )


def works(rows: Sequence[Row]) -> list[float]:
    """The controllers' work in ms in ascending order, from the rows in which it is known."""
    return sorted(ms for row in rows if (ms := work_ms(row)) != NOT_KNOWN)


def medians(rows: Sequence[Row]) -> list[Row]:
    """A dict for JSON for each size, scenario and target: median, spread and every value of each figure.

    Repetitions that failed, or do not count, are left out: `excluded` has their reasons by repetition.
    Values are in the order of the repetitions.
    """
    found = []
    excluded = _groups([row for row in rows if not is_good(row)])
    for (brokers, partitions, scenario, target), group in repetitions(rows).items():
        ordered = sorted(group, key=lambda row: row["repetition"])
        phases = [phases_of(row) for row in ordered]
        figures: dict[str, list[float]] = {
            f"{name}_ms": [getattr(each, name) for each in phases if each] for name in ("work", "session", "noticed")
        }
        figures |= {name: [row[name] for row in ordered if row[name] != NOT_KNOWN] for name in MEDIANS}
        names = {"scenario": scenario, "target": target, "brokers": brokers, "partitions": partitions}
        figures |= _waves(ordered)
        summaries = {name: _summary(values) for name, values in figures.items() if values}
        summaries["excluded"] = {
            str(row["repetition"]): why_left_out(row)
            for row in excluded.get((brokers, partitions, scenario, target), [])
        }
        found.append({**names, "repetitions": len(group), "controllers": group[0]["controllers"], **summaries})
    return found


def _waves(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The times of each wave, by its name."""
    names = dict.fromkeys(name for row in rows for name in row["waves_ms"])
    return {name: [row["waves_ms"][name] for row in rows if name in row["waves_ms"]] for name in names}


def _summary(values: Sequence[float]) -> dict[str, Any]:
    rounded = [round(value, 3) for value in values]
    return {"median": round(median(rounded), 3), "min": min(rounded), "max": max(rounded), "values": rounded}


def repetitions(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows that count, grouped by KEY: one row per repetition."""
    return _groups([row for row in rows if is_good(row)])


def _groups(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in KEY), []).append(row)
    return groups


def _typical(values: Sequence[float]) -> float:
    known = [value for value in values if value != NOT_KNOWN]
    return float(median(known)) if known else NOT_KNOWN


def missing(rows: Iterable[Row], expected: Iterable[tuple[Cell, str]]) -> list[str]:
    """The cells and scenarios of a plan that have no row."""
    names = ("target", "wanted_brokers", "wanted_partitions", "repetition", "scenario")
    seen = {tuple(row[name] for name in names) for row in rows}
    return [
        f"{scenario} on {cell}"
        for cell, scenario in expected
        if (cell.target.name, cell.brokers, cell.partitions, cell.repetition, scenario) not in seen
    ]


def different_ends(rows: Iterable[Row]) -> list[str]:
    """A line for each scenario that left different states in ZooKeeper under two targets."""
    ends: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in rows:
        if row["error"] is None and row["end_state"]:
            key = row["scenario"], row["wanted_brokers"], row["wanted_partitions"], row["repetition"]
            ends.setdefault(key, {})[row["target"]] = row["end_state"]
    return [
        f"different ends: {scenario}, {brokers:,} x {partitions:,}, repetition {nth + 1}: the state in ZooKeeper is "
        f"not the same under {' and '.join(found)}"
        for (scenario, brokers, partitions, nth), found in ends.items()
        if len({*found.values()}) > 1
    ]
