"""Names the place where a row was measured, and converts rows to Arrow."""

import os
import socket
from collections.abc import Iterable
from typing import Any

from kcore.extras import needs
from kcore.measure.workloads.workload_rows import ROW_SCHEMA

with needs("arrow"):
    import pyarrow as pa


def place(task: int | None = None) -> dict[str, Any]:
    """The columns of the place: on Spark, the parent of a Python worker is its executor's daemon."""
    host = socket.gethostname()
    worker = os.getpid() if task is None else os.getppid()
    return {"host": host, "pid": os.getpid(), "worker": f"{host}:{worker}", "task": task}


def batch_of(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as one Arrow batch of ROW_SCHEMA; missing values are null."""
    return pa.RecordBatch.from_pylist(list(rows), schema=ROW_SCHEMA)
