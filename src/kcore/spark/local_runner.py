"""Run cells one after the other in this process."""

from collections.abc import Sequence

from kcore.extras import needs
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.run_cell import run_cell
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.spark.place import batch_of, place
from kcore.spark.progress import OnProgress, Progress, silent

with needs("arrow"):
    import pyarrow as pa


class LocalRunner:
    """The runner without Spark."""

    def run(self, cells: Sequence[Cell], cluster: bytes | None = None, on_progress: OnProgress = silent) -> pa.Table:
        """All rows of all cells, in ROW_SCHEMA; after an interruption, the rows of finished cells."""
        batches: list[pa.RecordBatch] = []
        try:
            for done, cell in enumerate(cells):
                on_progress(Progress(done, 1, len(cells), cell=str(cell)))
                batches.append(batch_of(row | place() for row in run_cell(cell, cluster)))
        except KeyboardInterrupt:
            pass  # The caller finds missing cells in the table, and sets the exit code.
        on_progress(Progress(len(batches), 0, len(cells)))
        return pa.Table.from_batches(batches, ROW_SCHEMA)
