"""Runs one cell, in a Spark task or in this process."""

import time
import traceback
from dataclasses import asdict
from typing import Any

import numpy as np

from kcore.measure.workloads.catalog import WORKLOADS
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.measure import Measurement, Operation, measure
from kcore.measure.workloads.memory import process_peak
from kcore.metadata.table.partition_table import PartitionTable

Row = dict[str, Any]


def run_cell(cell: Cell, cluster: PartitionTable | None = None) -> list[Row]:
    """Measures every operation of the cell's workload: one row each, or one row with the error.

    `cluster`: a real cluster in place of a generated one; the cell works on a copy.
    """
    started_ms = time.time_ns() // 1_000_000
    start = time.perf_counter_ns()
    try:
        rows = [
            _row(operation, measure(operation, cell.warm_up_s, cell.duration_s), cell.variant)
            for operation in WORKLOADS[cell.workload].setup(cell, cluster)
        ]
    except Exception as error:
        rows = [{"operation": "", "error": _story(error)}]
    took_ns = time.perf_counter_ns() - start
    shared = {"started_ms": started_ms, "cell_ns": took_ns, "process_peak_bytes": process_peak()}
    return [asdict(cell) | row | shared for row in rows]


def failed_row(cell: Cell, error: str) -> Row:
    """The row of a cell whose process died before it returned rows."""
    return asdict(cell) | {"operation": "", "error": error}


def _row(operation: Operation, measured: Measurement, variant: str) -> Row:
    samples_ns = np.array(measured.samples_ns)
    return {
        "operation": _name(operation.name, variant),
        "handled_partitions": operation.partitions,
        "samples_ns": measured.samples_ns,
        "min_ns": int(samples_ns.min()),
        "median_ns": int(np.median(samples_ns)),
        "p99_ns": int(np.percentile(samples_ns, 99)),
        "memcpy_ns": measured.memcpy_ns,
        "moved_bytes": operation.moved_bytes,
        "wire_bytes": operation.wire_bytes,
        "memory_bytes": operation.memory_bytes,
        "peak_bytes": measured.peak_bytes,
        "digest": measured.digest,
    }


def _name(operation: str, variant: str) -> str:
    """The operation's name with the variant in its group, so that it is not compared with the default cluster."""
    group, colon, action = operation.partition(": ")
    return f"{group} ({variant}){colon}{action}" if variant else operation


def _story(error: Exception) -> str:
    """The error with the function and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
