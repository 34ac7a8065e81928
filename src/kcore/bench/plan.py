"""A plan: which workloads at which sizes, how often. Written as TOML; what it does not know is an error."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from kcore.bench.builtin import BUILT_IN
from kcore.constants import MAX_BROKERS
from kcore.errors import PlanError, StorageError
from kcore.storage.files import read_text
from kcore.workloads.catalog import WORKLOADS
from kcore.workloads.cell import Cell

LEAST_BROKERS = 3  # As many as the replicas of a generated partition.
MOST_PARTITIONS = 100_000_000
MOST_REPETITIONS = 1_000
MOST_SEED = 2**63 - 1
MOST_CELLS = 100_000
TOP_KEYS = ("workload", "cluster")
HEADER = re.compile(r"^\s*\[\[\s*workload\s*\]\]")


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """One `[[workload]]`: every size of `partitions` with every size of `brokers`."""

    name: str
    partitions: tuple[int, ...] = (100_000,)
    brokers: tuple[int, ...] = (100,)
    repeat: int = 3
    seed: int = 1

    def cells(self) -> list[Cell]:
        """A cell a size and repetition."""
        sizes = product(self.partitions, self.brokers, range(self.repeat))
        return [Cell(self.name, partitions, brokers, self.seed, nth) for partitions, brokers, nth in sizes]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `cluster` names a file that stands for the generated cluster."""

    workloads: tuple[WorkloadPlan, ...]
    cluster: str | None = None
    title: str = "plan"

    @classmethod
    def of(cls, plan: "Plan | Mapping[str, Any] | str | Path") -> Self:
        """From a plan, a mapping like the TOML's, a built-in plan's name, or a file; PlanError says what is wrong."""
        if isinstance(plan, cls):
            return plan
        if isinstance(plan, Mapping):
            return cls._of_mapping(plan, "plan", "")
        if str(plan) in BUILT_IN:
            return cls.parse(BUILT_IN[str(plan)], str(plan))
        try:
            text = read_text(Path(str(plan)))
        except (OSError, StorageError) as error:
            names = " and ".join(f"'{name}'" for name in BUILT_IN)
            raise PlanError(f"{plan}: neither a built-in plan ({names}) nor a file that can be read: {error}") from None
        return cls.parse(text, str(plan))

    @classmethod
    def parse(cls, text: str, title: str = "plan") -> Self:
        """From TOML text; `title` stands before what is wrong, with the line where it can be told."""
        try:
            mapping = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"{title}: not TOML: {error}") from None
        return cls._of_mapping(mapping, title, text)

    @classmethod
    def _of_mapping(cls, mapping: Mapping[str, Any], title: str, text: str) -> Self:
        for key in mapping:
            if key not in TOP_KEYS:
                raise PlanError(f"{_place(title, text, key)}unknown key '{key}'; a plan has {', '.join(TOP_KEYS)}")
        cluster = mapping.get("cluster")
        if cluster is not None and not isinstance(cluster, str):
            raise PlanError(f"{_place(title, text, 'cluster')}'cluster' must be a file name, not {cluster!r}")
        entries = mapping.get("workload")
        if not isinstance(entries, list) or not entries:
            raise PlanError(f"{_place(title, text, 'workload')}'workload' must be one or more [[workload]] tables")
        plan = cls(tuple(_entry(entry, nth, title, text) for nth, entry in enumerate(entries)), cluster, title)
        if len(plan.cells()) > MOST_CELLS:
            raise PlanError(f"{title}: {len(plan.cells()):,} cells are more than {MOST_CELLS:,}")
        return plan

    def with_options(self, **options: Any) -> "Plan":
        """The same plan with what is not None replaced in every workload: partitions, brokers, repeat, seed."""
        given = {key: value for key, value in options.items() if value is not None}
        for key, value in given.items():
            check_value(key, value, f"{key}: ")
        return replace(self, workloads=tuple(replace(workload, **given) for workload in self.workloads))

    def cells(self) -> list[Cell]:
        """Every cell, the largest first: a long one that starts last would be waited for alone."""
        cells = [cell for workload in self.workloads for cell in workload.cells()]
        return sorted(dict.fromkeys(cells), key=lambda cell: -cell.partitions)

    def to_toml(self) -> str:
        """The plan as a file that gives the same plan."""
        head = f"cluster = {json.dumps(self.cluster)}\n\n" if self.cluster is not None else ""
        return head + "\n".join(_toml(workload) for workload in self.workloads)


def _toml(workload: WorkloadPlan) -> str:
    return (
        f"[[workload]]\nname = {json.dumps(workload.name)}\npartitions = {list(workload.partitions)}\n"
        f"brokers = {list(workload.brokers)}\nrepeat = {workload.repeat}\nseed = {workload.seed}\n"
    )


def _is_integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_sizes(low: int, high: int) -> Callable[[Any], bool]:
    fits = _is_integer(low, high)
    return lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(fits, value))


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and value in WORKLOADS, f"one of {', '.join(WORKLOADS)}"),
    "partitions": (_is_sizes(1, MOST_PARTITIONS), f"a list of integers from 1 to {MOST_PARTITIONS:,}"),
    "brokers": (_is_sizes(LEAST_BROKERS, MAX_BROKERS), f"a list of integers from {LEAST_BROKERS} to {MAX_BROKERS:,}"),
    "repeat": (_is_integer(1, MOST_REPETITIONS), f"an integer from 1 to {MOST_REPETITIONS:,}"),
    "seed": (_is_integer(0, MOST_SEED), f"an integer from 0 to {MOST_SEED}"),
}


def check_value(key: str, value: Any, where: str) -> None:
    """PlanError if a workload's key cannot have that value."""
    fits, wanted = RULES[key]
    if not fits(value):
        raise PlanError(f"{where}'{key}' must be {wanted}, not {value!r}")


def _entry(entry: Any, nth: int, title: str, text: str) -> WorkloadPlan:
    if not isinstance(entry, Mapping):
        raise PlanError(f"{_place(title, text, 'workload')}'workload' must be [[workload]] tables, not {entry!r}")
    for key, value in entry.items():
        where = _place(title, text, key, nth)
        if key not in RULES:
            raise PlanError(f"{where}unknown key '{key}'; a workload has {', '.join(RULES)}")
        check_value(key, value, where)
    if "name" not in entry:
        raise PlanError(f"{_place(title, text, None, nth)}'name' is missing")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return WorkloadPlan(**values)


def _place(title: str, text: str, key: str | None, nth: int | None = None) -> str:
    """Title, line and table of a key, as far as they can be told: `tomllib` keeps no positions."""
    table = 0
    key_line = re.compile(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=" if key is not None else r"^\s*\[\[")
    where = title if nth is None else f"{title}, workload {nth + 1}"
    for number, line in enumerate(text.splitlines(), 1):
        table += HEADER.match(line) is not None
        if key_line.match(line) and (nth is None or table == nth + 1):
            return f"{where}, line {number}: "
    return f"{where}: "
