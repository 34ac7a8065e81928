"""Runs a benchmark's cells one after the other in this process."""

from collections.abc import Sequence

from kcore.extras import needs
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.run_cell import run_cell
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.metadata.table.partition_table import PartitionTable
from kcore.spark.place import batch_of, place
from kcore.spark.progress import OnProgress, Progress, silent

with needs("arrow"):
    import pyarrow as pa


class LocalRunner:
    """Runs cells without Spark."""

    def run(
        self, cells: Sequence[Cell], cluster: PartitionTable | None = None, on_progress: OnProgress = silent
    ) -> pa.Table:
        """Returns all rows of all cells, in ROW_SCHEMA. After Ctrl-C it returns the rows of the finished cells."""
        batches: list[pa.RecordBatch] = []
        try:
            for done, cell in enumerate(cells):
                on_progress(Progress(done, 1, len(cells), cell=str(cell)))
                batches.append(batch_of(row | place() for row in run_cell(cell, cluster)))
        except KeyboardInterrupt:
            pass  # The caller notices the missing cells, and sets the exit code.
        on_progress(Progress(len(batches), 0, len(cells)))
        return pa.Table.from_batches(batches, ROW_SCHEMA)
