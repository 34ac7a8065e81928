"""Run cells on Spark: one cell a task, rows back as Arrow."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from uuid import uuid4

from kcore.extras import needs
from kcore.spark.progress import OnProgress, Progress, silent
from kcore.workloads.cell import Cell
from kcore.workloads.run import failed_row, run_cell

with needs("spark"):
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark import SparkContext, TaskContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    from kcore.spark.place import batch_of, place
    from kcore.workloads.rows import ROW_SCHEMA

POLL_S = 0.2


def run_task(
    cells: Sequence[Cell], cluster: bytes | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In the executor: the cells that the task's ids name (one), measured."""
    context = TaskContext.get()
    task = context.partitionId() if context is not None else None
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield batch_of(row | place(task) for row in run_cell(cells[index], cluster))


class SparkRunner:
    """The runner over a Spark session; the session stays the caller's."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, cells: Sequence[Cell], cluster: bytes | None = None, on_progress: OnProgress = silent) -> pa.Table:
        """All rows of all cells, of ROW_SCHEMA; none if it is interrupted."""
        watched = _Watch(len(cells), on_progress)
        try:
            return self._run(cells, cluster, watched)
        except KeyboardInterrupt:
            return ROW_SCHEMA.empty_table()

    def _run(self, cells: Sequence[Cell], cluster: bytes | None, watch: "_Watch") -> pa.Table:
        """One job; if a task dies, its halves, until the cell that kills its worker stands alone.

        Spark drops the results of a whole stage with one dead task. An error that Python can catch never gets
        here: it is a row already.
        """
        try:
            table = self._job(cells, cluster, watch)
        except (PySparkException, Py4JError) as error:
            if len(cells) == 1:
                table = pa.Table.from_batches([batch_of([failed_row(cells[0], _reason(error))])])
            else:
                middle = len(cells) // 2
                halves = (cells[:middle], cells[middle:])
                return pa.concat_tables([self._run(half, cluster, watch) for half in halves])
        watch.finished(len(cells))
        return table

    def _job(self, cells: Sequence[Cell], cluster: bytes | None, watch: "_Watch") -> pa.Table:
        context = self._session.sparkContext
        group = f"kcore-{uuid4()}"
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(self._collect, group, cells, cluster)
            try:
                watch.until(job, context, group)
            except KeyboardInterrupt:
                context.cancelJobGroup(group)
                raise
        return job.result()

    def _collect(self, group: str, cells: Sequence[Cell], cluster: bytes | None) -> pa.Table:
        self._session.sparkContext.setJobGroup(group, "kcore cells", interruptOnCancel=True)
        ids = self._session.range(0, len(cells), 1, len(cells))  # As many partitions as ids: one cell a task.
        rows = ids.mapInArrow(partial(run_task, tuple(cells), cluster), from_arrow_schema(ROW_SCHEMA))
        return rows.toArrow().cast(ROW_SCHEMA)


class _Watch:
    """Asks Spark's status tracker how far a job is, and passes that on."""

    def __init__(self, total: int, on_progress: OnProgress) -> None:
        self._total = total
        self._on_progress = on_progress
        self._finished = 0

    def finished(self, count: int) -> None:
        """Another job is over and its rows are here."""
        self._finished += count
        self._on_progress(Progress(self._finished, 0, self._total))

    def until(self, job: Future[pa.Table], context: SparkContext, group: str) -> None:
        """Tell of the job group's tasks until the job is done."""
        tracker = context.statusTracker()
        while not wait([job], timeout=POLL_S).done:
            stages = [
                tracker.getStageInfo(stage)
                for number in tracker.getJobIdsForGroup(group)
                for stage in (getattr(tracker.getJobInfo(number), "stageIds", ()))
            ]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            running = sum(stage.numActiveTasks for stage in stages if stage is not None)
            self._on_progress(Progress(self._finished + done, running, self._total))


def _reason(error: Exception) -> str:
    """The line of Spark's error that gives the cause."""
    lines = [line.strip() for line in str(error).splitlines()]
    reasons = [line for line in lines if "Lost task" in line or line.startswith("Caused by:")]
    return f"the worker died: {(reasons or lines)[0]}"
