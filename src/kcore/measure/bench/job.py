"""Runs a plan's cells by a runner and returns the results as one Arrow table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kcore.errors import ClusterFileError, FileKindError, StorageError
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.bench.bench_results import in_order
from kcore.measure.report.machine import Load, described_jvm, facts
from kcore.measure.report.result_files import with_facts
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.clusters import cluster_size
from kcore.spark.local_runner import LocalRunner
from kcore.spark.progress import OnProgress, silent
from kcore.storage.files import MOST_CLUSTER_FILE, read_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Runner(Protocol):
    """Runs the cells of a plan: LocalRunner or SparkRunner."""

    def run(self, cells: list[Cell], cluster: bytes | None, on_progress: OnProgress) -> pa.Table: ...


def run(
    plan: Plan | Mapping[str, Any] | str | Path = "default",
    spark: "SparkSession | None" = None,
    on_progress: OnProgress = silent,
) -> pa.Table:
    """Runs a plan (a Plan, a mapping, a built-in plan's name or a file), on Spark if a session is given.

    Returns one row per operation and cell, in `kcore.measure.workloads.workload_rows.ROW_SCHEMA`; a failed cell is one
    row with its error. The schema's metadata has the machine, versions and plan. Raises PlanError or ClusterFileError
    if the plan or its cluster file is invalid.
    """
    wanted = Plan.of(plan)
    cluster = read_cluster(wanted.cluster) if wanted.cluster is not None else None
    before = Load.now()
    table = _runner(spark).run(wanted.cells(), cluster, on_progress)
    return with_facts(in_order(table), facts(before) | _how(wanted, spark))


def read_cluster(path: str) -> bytes:
    """The content of a cluster file; ClusterFileError if the file contains no cluster."""
    try:
        content = read_bytes(path, MOST_CLUSTER_FILE)
    except (FileKindError, StorageError) as error:
        raise ClusterFileError(str(error) if path in str(error) else f"{path}: {error}") from None
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror}") from None
    try:
        cluster_size(content)
    except ClusterFileError as error:
        raise ClusterFileError(f"{path}: {error}") from None
    return content


def as_it_is(plan: Plan) -> Plan:
    """The plan with the size of its cluster file in place of its own sizes."""
    if plan.cluster is None:
        return plan
    partitions, brokers = cluster_size(read_cluster(plan.cluster))
    sizes: dict[str, Any] = {"partitions": (partitions,), "brokers": (brokers,)}
    return replace(plan, workloads=tuple(replace(workload, **sizes) for workload in plan.workloads))


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
