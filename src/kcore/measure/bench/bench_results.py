"""The results of a run, one row per operation and cell: their summaries, checks and files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.noise import Spread, interval
from kcore.measure.report.own_code import DIGITS
from kcore.measure.workloads.catalog import WORKLOADS
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.workload_rows import KEY, ROW_SCHEMA
from kcore.spark.failures import is_spark_at_fault

Row = dict[str, Any]
_MEASURED: Final = ("samples_ns", "handled_partitions", "memcpy_ns", "moved_bytes", "digest")
NEEDED: Final = (*KEY, *_MEASURED, "error")  # Older versions wrote results without the other columns.
_SHARES: Final = {"quarter_ns": 25, "median_ns": 50, "three_quarters_ns": 75, "p99_ns": 99}
_BOUNDS: Final = ("low_ns", "high_ns")


@dataclass(frozen=True, slots=True)
class Summary:
    """All repetitions of one operation at one size; its times are over all samples."""

    workload: str
    operation: str
    partitions: int
    brokers: int
    seed: int
    handled_partitions: int
    repetitions: int
    samples: int
    min_ns: int
    quarter_ns: int
    median_ns: int
    three_quarters_ns: int
    p99_ns: int
    low_ns: int  # The low end of the confidence interval of the median.
    high_ns: int
    memcpy_ns: int
    moved_bytes: int
    wire_bytes: int | None
    memory_bytes: int | None
    peak_bytes: int | None
    digest: str
    times_ns: Sequence[int] = field(default=(), repr=False)  # All samples, sorted.

    @property
    def ns_per_partition(self) -> float:
        return self.median_ns / max(1, self.handled_partitions)

    @property
    def partitions_per_s(self) -> float:
        return self.handled_partitions * 1e9 / max(1, self.median_ns)

    @property
    def bytes_per_s(self) -> float | None:
        return None if self.wire_bytes is None else self.wire_bytes * 1e9 / max(1, self.median_ns)

    @property
    def times_memcpy(self) -> float | None:
        """Best time over best memcpy of the same bytes; None if memcpy is too short to be timed."""
        return self.min_ns / self.memcpy_ns if self.memcpy_ns >= 1_000 else None

    @property
    def spread(self) -> Spread:
        """The spread of all samples, for charts and for remarks on noise."""
        middle = (self.quarter_ns, self.median_ns, self.three_quarters_ns)
        return Spread(self.samples, self.min_ns, *middle, self.p99_ns, self.low_ns, self.high_ns)

    @property
    def noise(self) -> list[str]:
        """The reasons why the figures are noisy, in words."""
        return self.spread.noise

    @property
    def named(self) -> Row:
        """The fields of KEY by name: they identify the row within a run."""
        return {name: getattr(self, name) for name in KEY}

    @property
    def group(self) -> str:
        return self.operation.partition(": ")[0]

    @property
    def action(self) -> str:
        return self.operation.partition(": ")[2] or self.operation

    @property
    def title(self) -> str:
        return f"{self.workload} / {self.operation} / {self.partitions:,} partitions / {self.brokers:,} brokers"

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in KEY)

    def as_row(self) -> Row:
        """The row for JSON: the fields except the samples, and the derived figures."""
        noise = {"noise": self.noise}
        derived = ("ns_per_partition", "partitions_per_s", "bytes_per_s", "times_memcpy")
        kept = {name: value for name, value in asdict(self).items() if name != "times_ns"}
        return kept | {name: getattr(self, name) for name in derived} | noise


def summarise(rows: Iterable[Row]) -> list[Summary]:
    """Merges the repetitions of each operation, without failed rows, in the order of workload, operation and size."""
    grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["error"] is None:
            grouped[tuple(row[name] for name in KEY)].append(row)
    return [_summary(repetitions) for repetitions in grouped.values()]


def _summary(rows: Sequence[Row]) -> Summary:
    samples_ns = np.sort(np.concatenate([row["samples_ns"] for row in rows]))
    shares = {name: int(np.percentile(samples_ns, share)) for name, share in _SHARES.items()}
    bounds = {name: int(samples_ns[at]) for name, at in zip(_BOUNDS, interval(len(samples_ns)), strict=True)}
    peaks = [row["peak_bytes"] for row in rows if row["peak_bytes"] is not None]
    same = ("handled_partitions", "moved_bytes", "wire_bytes", "memory_bytes", "digest")
    return Summary(
        **{name: rows[0][name] for name in (*KEY, *same)} | shares | bounds,
        repetitions=len(rows),
        samples=len(samples_ns),
        min_ns=int(samples_ns[0]),
        memcpy_ns=min(row["memcpy_ns"] for row in rows),
        peak_bytes=max(peaks, default=None),
        times_ns=tuple(samples_ns.tolist()),
    )


def failures(rows: Iterable[Row]) -> list[Row]:
    """The rows of cells that failed."""
    return [row for row in rows if row["error"] is not None]


def failed_alone(rows: Iterable[Row]) -> list[Row]:
    """The rows of cells that failed by themselves: Spark did not lose them."""
    return [row for row in failures(rows) if not is_spark_at_fault(row["error"])]


def not_measured(rows: Iterable[Row]) -> list[str]:
    """The cells that Spark lost, one line for each reason, with the number of cells."""
    reasons = Counter(row["error"] for row in failures(rows) if is_spark_at_fault(row["error"]))
    return [f"{count:,} cell{'s' if count > 1 else ''}: {reason}" for reason, count in reasons.items()]


def disagreements(rows: Iterable[Row]) -> list[str]:
    """The operations whose repetitions gave different results, one line each, with the digests."""
    digests: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in rows:
        if row["error"] is None:
            digests[tuple(row[name] for name in KEY)].add(row["digest"])
    return [
        f"{workload} / {operation} / {partitions:,} partitions / {brokers:,} brokers / seed {seed}: "
        + " != ".join(sorted(found))
        for (workload, operation, partitions, brokers, seed), found in digests.items()
        if len(found) > 1
    ]


def mixed_code(rows: Iterable[Row]) -> list[str]:
    """If rows come from several codes of kcore, one line for each code, with its hosts; otherwise empty."""
    hosts: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["kcore_sha256"] is not None:
            hosts[row["kcore_sha256"]].add(str(row["host"]))
    lines = [f"{sha256[:DIGITS]} on {', '.join(sorted(where))}" for sha256, where in hosts.items()]
    return lines if len(lines) > 1 else []


def missing(rows: Iterable[Row], cells: Sequence[Cell]) -> list[Cell]:
    """The cells of a plan that have no row."""
    names = [each.name for each in fields(Cell)]
    seen = {Cell(**{name: row[name] for name in names}) for row in rows}
    return [cell for cell in cells if cell not in seen]


def verdict(rows: Sequence[Row], cells: Sequence[Cell]) -> Exit:
    """The exit code of a run of these cells. If Spark lost a cell's executor, the cell is unmeasured, not failed."""
    failed = failures(rows)
    if disagreements(rows) or mixed_code(rows) or missing(rows, cells):
        return Exit.INVALID
    if any(is_spark_at_fault(row["error"]) for row in failed):
        return Exit.INVALID
    return Exit.FAILED if failed else Exit.GOOD


def in_order(table: pa.Table) -> pa.Table:
    """Sorts the rows by workload, size and repetition; rows of one cell keep the workload's order."""
    order = sorted(range(len(table)), key=_sort_key(table.to_pylist()))
    return table.take(pa.array(order, pa.int64()))  # Arrow cannot infer the type of an empty list.


def _sort_key(rows: Sequence[Row]) -> Any:
    places = {name: nth for nth, name in enumerate(WORKLOADS)}
    names = ("partitions", "brokers", "seed", "repetition")
    return lambda nth: (places[rows[nth]["workload"]], *(rows[nth][name] for name in names), nth)


def read(path: Path) -> pa.Table:
    """Reads a results folder or one of its files; raises ValueError or OSError for other paths."""
    table = result_files.read_results(
        result_files.results_file(path), lambda rows: pa.Table.from_pylist(rows, schema=ROW_SCHEMA)
    )
    return checked(table)


def checked(table: pa.Table) -> pa.Table:
    """The table in ROW_SCHEMA; ValueError if it does not have the results of `kcore bench`."""
    try:
        table = result_files.filled(table, ROW_SCHEMA, NEEDED)
    except ValueError as error:
        raise ValueError(f"no results of kcore bench: {error}") from None
    for number, row in enumerate(table.to_pylist()):
        if missing := lacking(row):
            raise ValueError(f"no results of kcore bench: row {number} {missing}")
    return table


def lacking(row: Row) -> str:
    """The values that a row must have and lacks, as the end of an error; empty if it has all."""
    wanted = KEY if row.get("error") is not None else (*KEY, *_MEASURED)
    has_all = all(row.get(name) not in (None, []) for name in wanted) and None not in (row.get("samples_ns") or ())
    return "" if has_all else f"lacks one of {', '.join(wanted)}"
