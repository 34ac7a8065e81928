"""Runs a benchmark's cells one after the other in this process."""

from collections.abc import Sequence

from kcore.extras import needs
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.run_cell import run_cell
from kcore.metadata.table.partition_table import PartitionTable
from kcore.spark.finished_cells import FinishedCells, OnCell, ignored
from kcore.spark.place import batch_of, place
from kcore.spark.progress import OnProgress, silent

with needs("arrow"):
    import pyarrow as pa


class LocalRunner:
    """Runs cells without Spark."""

    def run(
        self,
        cells: Sequence[Cell],
        cluster: PartitionTable | None = None,
        on_progress: OnProgress = silent,
        on_cell: OnCell = ignored,
    ) -> pa.Table:
        """Returns all rows of all cells, in ROW_SCHEMA. After Ctrl-C it returns the rows of the finished cells."""
        done = FinishedCells(len(cells), on_progress, on_cell)
        try:
            for cell in cells:
                done.report(1, cell=str(cell))
                done.add(batch_of(row | place() for row in run_cell(cell, cluster)))
        except KeyboardInterrupt:
            pass  # The caller notices the missing cells, and sets the exit code.
        done.report(0)
        return done.table()
