"""The rows of the cells that are done, and the progress that they make."""

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from kcore.extras import needs
from kcore.measure.report.own_code import own_sha256
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.spark.failures import is_spark_at_fault
from kcore.spark.progress import OnProgress, Progress

with needs("arrow"):
    import pyarrow as pa

OnCell: TypeAlias = Callable[[pa.RecordBatch], None]


def ignored(batch: pa.RecordBatch) -> None:
    """Ignores the rows of a finished cell, for callers that take the whole table."""


class FinishedCells:
    """Collects the rows of each finished cell, passes them on, and reports progress.

    `on_cell` gets the rows of cells that were measured or failed by themselves. It does not get cells that Spark lost,
    and cells that came to an executor with other code.
    """

    def __init__(self, total: int, on_progress: OnProgress, on_cell: OnCell) -> None:
        self.total = total
        self.batches: list[pa.RecordBatch] = []
        self._on_progress, self._on_cell = on_progress, on_cell
        self._failed = 0
        self._hosts: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a cell that is done."""
        self.batches.append(batch)
        errors = [error for error in batch["error"].to_pylist() if error is not None]
        self._failed += bool(errors)
        self._hosts.update({*batch["host"].to_pylist()} - {None})
        codes = {*batch["kcore_sha256"].to_pylist()} - {None}
        if not any(map(is_spark_at_fault, errors)) and codes <= {own_sha256()}:
            self._on_cell(batch)

    def report(self, running: int, trouble: str = "", cell: str = "") -> None:
        """Reports the progress."""
        hosts = tuple(self._hosts.most_common())
        self._on_progress(Progress(len(self.batches), running, self.total, trouble, cell, self._failed, hosts))

    def table(self) -> pa.Table:
        """All rows, in ROW_SCHEMA."""
        return pa.Table.from_batches(self.batches, ROW_SCHEMA)
