"""Runs a plan's cells by a runner and returns the results as one Arrow table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kcore.errors import ClusterFileError
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.bench.bench_results import failures, in_order, missing
from kcore.measure.bench.cell_journal import CellJournal
from kcore.measure.report.host_speeds import as_fact
from kcore.measure.report.machine import Load, described_jvm, facts
from kcore.measure.report.own_code import OwnCode, own_code
from kcore.measure.report.result_files import with_facts
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.metadata.table.partition_table import PartitionTable
from kcore.sources.load import load_cluster
from kcore.spark.failures import is_spark_at_fault
from kcore.spark.finished_cells import OnCell, ignored
from kcore.spark.local_runner import LocalRunner
from kcore.spark.progress import OnProgress, Progress, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Runner(Protocol):
    """Runs the cells of a plan: LocalRunner or SparkRunner."""

    def run(
        self, cells: list[Cell], cluster: PartitionTable | None, on_progress: OnProgress, on_cell: OnCell
    ) -> pa.Table: ...


def run(
    plan: Plan | Mapping[str, Any] | str | Path = "default",
    spark: "SparkSession | None" = None,
    on_progress: OnProgress = silent,
    cluster: PartitionTable | None = None,
    journal: CellJournal | None = None,
) -> pa.Table:
    """Runs a plan (a Plan, a mapping, a built-in plan's name or a file), on Spark if a session is given.

    `cluster`: that of the plan's source, if the caller has read it already. `journal` keeps the rows of each cell when
    it is done; cells whose rows it has already are not run again.

    Returns one row per operation and cell, in `kcore.measure.workloads.workload_rows.ROW_SCHEMA`; a failed cell is one
    row with its error. The schema's metadata has the machine, versions and plan. Raises PlanError or ClusterFileError
    if the plan or its cluster is invalid.
    """
    wanted = Plan.of(plan)
    if wanted.cluster is not None and cluster is None:
        cluster = read_cluster(wanted.cluster)
    before, times = Load.now(), _calibrated(spark)
    table = _all_rows(_runner(spark), wanted, cluster, on_progress, journal)
    if times and _is_measured(table, wanted):
        times = [*times, *_calibrated(spark)]
    hosts = {"hosts": as_fact(times)} if times else {}
    return with_facts(_with_commit(in_order(table), own_code()), facts(before) | _how(wanted, spark) | hosts)


def _calibrated(spark: "SparkSession | None") -> list[tuple[str, list[int]]]:
    """The times of the calibration cell on the cluster's hosts; empty without Spark."""
    if spark is None:
        return []
    from kcore.spark.calibration import calibrated

    return calibrated(spark)


def _is_measured(table: pa.Table, plan: Plan) -> bool:
    """False if the run was interrupted or has lost executors: a calibration could wait for an executor for ever."""
    rows = table.to_pylist()
    return not missing(rows, plan.cells()) and not any(is_spark_at_fault(row["error"]) for row in failures(rows))


def _all_rows(
    runner: Runner, plan: Plan, cluster: PartitionTable | None, on_progress: OnProgress, journal: CellJournal | None
) -> pa.Table:
    """Runs the cells that the journal lacks; returns the rows of all cells."""
    if journal is None:
        return runner.run(plan.cells(), cluster, on_progress, ignored)
    journal.begin()
    earlier = pa.Table.from_batches(journal.batches, ROW_SCHEMA)
    done = len(journal.batches)
    failed = sum(any(batch["error"].is_valid().to_pylist()) for batch in journal.batches)

    def with_earlier(progress: Progress) -> None:
        total, all_failed = progress.total + done, progress.failed + failed
        on_progress(replace(progress, done=progress.done + done, total=total, failed=all_failed))

    found = runner.run(missing(earlier.to_pylist(), plan.cells()), cluster, with_earlier, journal.add)
    return pa.concat_tables([earlier, found])


def read_cluster(source: str, command_config: str | Path | None = None) -> PartitionTable:
    """The partitions of a source as `load_cluster` takes it; ClusterFileError if it has no cluster that can be used."""
    table = load_cluster(source, command_config=command_config).table
    if not table.partition_count or not table.brokers.live.any():
        raise ClusterFileError(f"{source}: the cluster has no partition, or no live broker")
    return table


def as_it_is(plan: Plan, cluster: PartitionTable) -> Plan:
    """The plan with the size of the cluster in place of its own sizes."""
    sizes: dict[str, Any] = {"partitions": (cluster.partition_count,), "brokers": (len(cluster.brokers),)}
    return replace(plan, workloads=tuple(replace(workload, **sizes) for workload in plan.workloads))


def _with_commit(table: pa.Table, code: OwnCode) -> pa.Table:
    """Adds the driver's commit to the rows that the same code measured."""
    commits = [code.commit if each == code.sha256 else None for each in table["kcore_sha256"].to_pylist()]
    at = table.schema.get_field_index("kcore_commit")
    return table.set_column(at, table.schema.field(at), pa.array(commits, pa.string()))


def _runner(spark: "SparkSession | None") -> Runner:
    if spark is None:
        return LocalRunner()
    from kcore.spark.spark_runner import SparkRunner

    return SparkRunner(spark)


def _how(plan: Plan, spark: "SparkSession | None") -> dict[str, Any]:
    if spark is None:
        return {"plan": plan.to_toml(), "title": plan.title, "master": None, "slots": 1}
    context = spark.sparkContext
    property_of = context._jvm.System.getProperty if context._jvm is not None else lambda _: None
    jvm = described_jvm((name, property_of(f"java.{name}") or "") for name in ("vm.name", "vm.version", "vendor"))
    return {
        "plan": plan.to_toml(),
        "title": plan.title,
        "master": context.master,
        "slots": context.defaultParallelism,
        "java": property_of("java.version"),
        "jvm": jvm,
    }
