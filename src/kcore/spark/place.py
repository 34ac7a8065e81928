"""Names the host, process, task and code that measured a row, and converts rows to Arrow."""

import os
import socket
from collections.abc import Iterable
from typing import Any

from kcore.extras import needs
from kcore.measure.report.own_code import own_sha256
from kcore.measure.workloads.workload_rows import ROW_SCHEMA

with needs("arrow"):
    import pyarrow as pa


def place(task: int | None = None) -> dict[str, Any]:
    """The columns host, pid, worker, task and kcore_sha256. On Spark the worker is the parent process, the executor's
    Python daemon."""
    host = socket.gethostname()
    worker = os.getpid() if task is None else os.getppid()
    at = {"host": host, "pid": os.getpid(), "worker": f"{host}:{worker}", "task": task}
    return at | {"kcore_sha256": own_sha256()}


def batch_of(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as one Arrow batch of ROW_SCHEMA; missing values are null."""
    return pa.RecordBatch.from_pylist(list(rows), schema=ROW_SCHEMA)
