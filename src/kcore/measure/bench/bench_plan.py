"""Benchmark plans in TOML: which workloads to run, at which sizes and how often. Unknown keys are errors."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from kcore.errors import PlanError, StorageError
from kcore.measure.bench.builtin import BUILT_IN
from kcore.measure.bench.plan_rules import RULES
from kcore.measure.workloads.catalog import WORKLOADS
from kcore.measure.workloads.cell import IN_SYNC, PARTITIONS_A_TOPIC, REPLICATION_FACTOR, Cell
from kcore.measure.workloads.clusters import LEAST_LIVE, brokers_gone
from kcore.storage.files import read_text
from kcore.suggestions import did_you_mean

MOST_CELLS = 100_000
TOP_KEYS = ("workload", "cluster")
GENERATED_KEYS = ("replication_factor", "topics", "partitions_per_topic", "racks")
CLUSTER_KEYS = (*GENERATED_KEYS, "isr", "brokers_gone")
TOPICS = ("topics", "partitions_per_topic")
HEADER = re.compile(r"^\s*\[\[\s*workload\s*\]\]")


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """One `[[workload]]`: each size of `partitions` runs with each size of `brokers`."""

    name: str
    partitions: tuple[int, ...] = (100_000,)
    brokers: tuple[int, ...] = (100,)
    repeat: int = 3
    seed: int = 1
    replication_factor: int = REPLICATION_FACTOR
    topics: int | None = None
    partitions_per_topic: int = PARTITIONS_A_TOPIC
    racks: int = 0
    isr: str = IN_SYNC
    brokers_gone: float = 0.0
    warm_up_s: float = 0.0
    duration_s: float = 0.0

    @property
    def has_cluster(self) -> bool:
        return WORKLOADS[self.name].has_cluster

    @property
    def cell_count(self) -> int:
        """The number of cells; equal sizes count once."""
        return len({*self.partitions}) * len({*self.brokers}) * self.repeat

    def cells(self, of_file: bool = False) -> list[Cell]:
        """One cell per size and repetition; `of_file`: the cluster comes from a file."""
        sizes = product(self.partitions, self.brokers, range(self.repeat))
        return [self._cell(partitions, brokers, nth, of_file) for partitions, brokers, nth in sizes]

    def _cell(self, partitions: int, brokers: int, nth: int, of_file: bool) -> Cell:
        cell = Cell(self.name, partitions, brokers, self.seed, nth)
        cell = replace(cell, warm_up_s=self.warm_up_s, duration_s=self.duration_s)
        if not self.has_cluster:
            return cell
        cell = replace(cell, isr=self.isr, brokers_gone=self.brokers_gone)
        if of_file:
            return replace(cell, replication_factor=None, racks=None)
        topics = self.topics
        if topics is None and self.partitions_per_topic != PARTITIONS_A_TOPIC:
            topics = max(1, partitions // self.partitions_per_topic)
        return replace(cell, replication_factor=self.replication_factor, topics=topics, racks=self.racks)


DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(WorkloadPlan)}


@dataclass(frozen=True, slots=True)
class Plan:
    """The workloads to run. `cluster` names a file with a real cluster, in place of generated clusters."""

    workloads: tuple[WorkloadPlan, ...]
    cluster: str | None = None
    title: str = "plan"

    @classmethod
    def of(cls, plan: "Plan | Mapping[str, Any] | str | Path") -> Self:
        """Makes a plan from a plan, a mapping, a built-in plan's name, or a file; PlanError if it is invalid."""
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
            close = did_you_mean(plan, BUILT_IN)
            raise PlanError(
                f"{plan}: neither a built-in plan ({names}) nor a file that can be read: {error}{close}"
            ) from None
        return cls.parse(text, str(plan))

    @classmethod
    def parse(cls, text: str, title: str = "plan") -> Self:
        """Parses TOML text. An error message starts with `title`, and with the line number if it is found."""
        try:
            mapping = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"{title}: not TOML: {error}") from None
        return cls._of_mapping(mapping, title, text)

    @classmethod
    def _of_mapping(cls, mapping: Mapping[str, Any], title: str, text: str) -> Self:
        for key in mapping:
            if key not in TOP_KEYS:
                close = did_you_mean(key, TOP_KEYS, f"a plan has {', '.join(TOP_KEYS)}")
                raise PlanError(f"{_place(title, text, key)}unknown key '{key}'{close}")
        cluster = mapping.get("cluster")
        if cluster is not None and not isinstance(cluster, str):
            raise PlanError(f"{_place(title, text, 'cluster')}'cluster' must be a file name, not {cluster!r}")
        entries = mapping.get("workload")
        if not isinstance(entries, list) or not entries:
            raise PlanError(f"{_place(title, text, 'workload')}'workload' must be one or more [[workload]] tables")
        plan = cls(tuple(_entry(entry, nth, title, text) for nth, entry in enumerate(entries)), cluster, title)
        plan.check()
        return plan

    def check(self) -> None:
        """Raises PlanError for values that contradict each other, such as more replicas than brokers."""
        for workload in self.workloads:
            if wrong := contradiction(workload, self.cluster is not None):
                raise PlanError(f"{self.title}, {workload.name}: {wrong}")
        # Cells are counted before they are made: three short lists may describe billions of cells.
        if (count := sum(workload.cell_count for workload in self.workloads)) > MOST_CELLS:
            raise PlanError(f"{self.title}: {count:,} cells are more than {MOST_CELLS:,}")

    def with_options(self, **options: Any) -> "Plan":
        """A copy of the plan in which each option that is not None replaces that key in every workload.

        `name` cannot be replaced. Keys of clusters are not applied to workloads without a cluster. Raises PlanError for
        an invalid value.
        """
        given = {key: value for key, value in options.items() if value is not None}
        for key, value in given.items():
            check_value(key, value, f"{key}: ")
        for one, other in (TOPICS, TOPICS[::-1]):
            if one in given and other not in given:
                given[other] = DEFAULTS[other]  # The option replaces both of the plan's keys.
        usual = {key: value for key, value in given.items() if key not in CLUSTER_KEYS}
        workloads = (replace(each, **(given if each.has_cluster else usual)) for each in self.workloads)
        plan = replace(self, workloads=tuple(workloads))
        plan.check()
        return plan

    def cells(self) -> list[Cell]:
        """Every cell, the largest first: a long cell that started last would delay the end of the run."""
        cells = [cell for workload in self.workloads for cell in workload.cells(self.cluster is not None)]
        return sorted(dict.fromkeys(cells), key=lambda cell: -cell.partitions)

    def to_toml(self) -> str:
        """The plan as TOML text that parses to the same plan."""
        head = f"cluster = {json.dumps(self.cluster)}\n\n" if self.cluster is not None else ""
        return head + "\n".join(_toml(workload) for workload in self.workloads)


def _toml(workload: WorkloadPlan) -> str:
    always = ("name", "partitions", "brokers", "repeat", "seed")
    values = {each.name: getattr(workload, each.name) for each in fields(workload)}
    shown = {key: value for key, value in values.items() if key in always or value != DEFAULTS[key]}
    lines = (f"{key} = {json.dumps(value)}" for key, value in shown.items())
    return "\n".join(["[[workload]]", *lines, ""])


def contradiction(workload: WorkloadPlan, of_file: bool) -> str:
    """The contradiction between a workload's keys, empty if none; `of_file`: the cluster comes from a file."""
    given = [key for key in CLUSTER_KEYS if getattr(workload, key) != DEFAULTS[key]]
    if not workload.has_cluster:
        return f"it has logs and no cluster, so no '{given[0]}'" if given else ""
    own = [key for key in given if key in GENERATED_KEYS]
    if of_file:
        return f"'{own[0]}' is of generated clusters, and the plan has a cluster file" if own else ""
    brokers, partitions = min(workload.brokers), min(workload.partitions)
    if workload.replication_factor > brokers:
        return f"'replication_factor' {workload.replication_factor} is more than the {brokers} brokers"
    if workload.racks > brokers:
        return f"'racks' {workload.racks} is more than the {brokers} brokers"
    if (workload.topics or 0) > partitions:
        return f"'topics' {workload.topics} is more than the {partitions} partitions"
    if all(key in given for key in TOPICS):
        return "give 'topics' or 'partitions_per_topic', not both"
    gone = brokers_gone(workload.brokers_gone, brokers)
    if gone > brokers - LEAST_LIVE:
        return f"'brokers_gone' {workload.brokers_gone} is {gone} of {brokers} brokers, and {LEAST_LIVE} must stay"
    return ""


def check_value(key: str, value: Any, where: str) -> None:
    """Raises PlanError if the key of a workload cannot have this value."""
    fits, wanted, names = RULES[key]
    if not fits(value):
        raise PlanError(f"{where}'{key}' must be {wanted}, not {value!r}{did_you_mean(value, names)}")


def _entry(entry: Any, nth: int, title: str, text: str) -> WorkloadPlan:
    if not isinstance(entry, Mapping):
        raise PlanError(f"{_place(title, text, 'workload')}'workload' must be [[workload]] tables, not {entry!r}")
    for key, value in entry.items():
        where = _place(title, text, key, nth)
        if key not in RULES:
            close = did_you_mean(key, RULES, f"a workload has {', '.join(RULES)}")
            raise PlanError(f"{where}unknown key '{key}'{close}")
        check_value(key, value, where)
    if "name" not in entry:
        raise PlanError(f"{_place(title, text, None, nth)}'name' is missing")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return WorkloadPlan(**values)


def _place(title: str, text: str, key: str | None, nth: int | None = None) -> str:
    """Title, line and table of a key for an error, found by a text search: `tomllib` keeps no positions."""
    table = 0
    key_line = re.compile(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=" if key is not None else r"^\s*\[\[")
    where = title if nth is None else f"{title}, workload {nth + 1}"
    for number, line in enumerate(text.splitlines(), 1):
        table += HEADER.match(line) is not None
        if key_line.match(line) and (nth is None or table == nth + 1):
            return f"{where}, line {number}: "
    return f"{where}: "
