"""Runs a benchmark's cells on Spark: one cell per task, whose rows return as Arrow."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial

from kcore.extras import needs
from kcore.measure.report.own_code import own_sha256
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.run_cell import failed_row, run_cell
from kcore.metadata.table.partition_table import PartitionTable
from kcore.spark.failures import INSTALL, is_spark_at_fault
from kcore.spark.finished_cells import FinishedCells, OnCell, ignored
from kcore.spark.pieces import outcomes
from kcore.spark.place import batch_of, place
from kcore.spark.progress import OnProgress, silent

with needs("spark"):
    import pyarrow as pa
    from pyspark import Broadcast, TaskContext
    from pyspark.sql import SparkSession


def run_task(cluster: "Broadcast[PartitionTable | None]", sha256: str, cell: Cell) -> pa.RecordBatch:
    """Runs one cell and returns its rows; runs on the executor. `sha256`: the driver's code, without which nothing is
    measured."""
    context = TaskContext.get()
    task = context.partitionId() if context is not None else None
    here = place(task)
    if here["kcore_sha256"] != sha256:
        said = f"{here['host']} has other code of kcore than the driver: {INSTALL}"
        return batch_of([failed_row(cell, said) | here])
    return batch_of(row | here for row in run_cell(cell, cluster.value))


class SparkRunner:
    """Runs cells on a Spark session. The caller starts and stops the session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(
        self,
        cells: Sequence[Cell],
        cluster: PartitionTable | None = None,
        on_progress: OnProgress = silent,
        on_cell: OnCell = ignored,
    ) -> pa.Table:
        """Returns all rows of all cells, in ROW_SCHEMA. After Ctrl-C it returns the rows of the finished cells.

        A cell that ends its worker or loses its executor gives a row with the error. `run_cell` itself turns a Python
        exception into such a row.
        """
        done = FinishedCells(len(cells), on_progress, on_cell)
        last = ""
        sent = self._session.sparkContext.broadcast(cluster)

        def on_running(running: int) -> None:
            done.report(min(running, done.total - len(done.batches)), cell=last)

        work = partial(run_task, sent, own_sha256())
        try:
            with closing(outcomes(self._session, work, cells, on_running)) as found:
                for each in found:
                    if each.error:
                        done.report(0, each.error)
                    if each.again:
                        continue
                    last = str(cells[each.number])
                    done.add(_failed(cells[each.number], each.error) if each.error else each.result)
        except KeyboardInterrupt:
            pass  # The caller notices the missing cells, and sets the exit code.
        done.report(0)
        return done.table()


def _failed(cell: Cell, error: str) -> pa.RecordBatch:
    return batch_of([failed_row(cell, error if is_spark_at_fault(error) else f"the worker died: {error}")])
