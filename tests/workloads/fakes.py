"""A workload that needs nothing but NumPy, and rows that were never measured."""

from typing import Any

import numpy as np
import pytest

from kcore.measure.workloads import measure
from kcore.measure.workloads.catalog import WORKLOADS, Workload
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.measure import Operation

PLAN = {"workload": [{"name": "fake", "partitions": [10, 100, 1000], "brokers": [3, 30], "repeat": 2, "seed": 1}]}


def setup(cell: Cell, cluster: bytes | None) -> list[Operation]:
    """Sorts as many numbers as there are partitions."""
    numbers = np.random.default_rng(cell.seed).integers(0, 1000, cell.partitions)

    def operation(name: str) -> Operation:
        return Operation(name, lambda: np.sort(numbers), lambda result: [result], len(numbers), numbers.nbytes)

    return [operation("numbers: sort"), operation("numbers: sort again")]


FAKE = Workload("fake", "sorts numbers", setup)


def row(**given: Any) -> dict[str, Any]:
    """A row of one good operation, with some columns replaced."""
    samples_ns = given.get("samples_ns", [100, 200, 300])
    return {
        "workload": "codec",
        "operation": "numbers: sort",
        "partitions": 100,
        "brokers": 10,
        "seed": 1,
        "repetition": 0,
        "replication_factor": 3,
        "topics": None,
        "racks": 0,
        "isr": "in-sync",
        "brokers_gone": 0.0,
        "warm_up_s": 0.0,
        "duration_s": 0.0,
        "handled_partitions": 100,
        "samples_ns": samples_ns,
        "min_ns": min(samples_ns),
        "median_ns": int(np.median(samples_ns)),
        "p99_ns": max(samples_ns),
        "memcpy_ns": 50,
        "moved_bytes": 800,
        "wire_bytes": 800,
        "memory_bytes": None,
        "peak_bytes": 4096,
        "process_peak_bytes": 1 << 20,
        "digest": "aa",
        "error": None,
        "started_ms": 1_700_000_000_000,
        "cell_ns": 1_000_000,
        "host": "here",
        "pid": 7,
        "worker": "here:6",
        "task": 0,
        "kcore_sha256": "cc" * 32,
        "kcore_commit": None,
    } | given


@pytest.fixture
def fake_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `fake` a workload that plans may name."""
    monkeypatch.setitem(WORKLOADS, "fake", FAKE)
    monkeypatch.setattr(measure, "BUDGET_NS", 0)  # The fewest samples.
