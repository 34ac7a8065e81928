"""Runs simulated worlds over Spark: tasks share the seeds and return a row each."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from kcore.extras import needs

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    from kcore.sim.raft.campaign import SCHEMA, Campaign, Row
    from kcore.spark.pieces import Outcome, outcomes

_EVENTS_A_PIECE: Final = 100_000  # Some seconds of a core.
_MOST_PIECES: Final = 1_000  # Every job of Spark's goes through the list of all pieces.
_TASKS_A_SLOT: Final = 8  # Worlds take different times: an executor that is done early takes another task.


def simulate(spark: SparkSession, campaign: Campaign, tasks: int | None = None) -> DataFrame:
    """One row per seed, in `campaign.SCHEMA`; the simulation runs whenever an action reads the DataFrame.

    `tasks`: by default eight per core of the cluster.
    """
    seeds = campaign.seeds
    count = min(len(seeds), tasks or spark.sparkContext.defaultParallelism * _TASKS_A_SLOT)
    ids = spark.range(seeds.start, seeds.stop, seeds.step, count)
    return ids.mapInArrow(partial(_lived, campaign), from_arrow_schema(SCHEMA))


def simulate_pieces(spark: SparkSession, campaign: Campaign) -> Iterator[Outcome]:
    """Yields each share of the rows when it is done: a lost executor costs no other share its rows."""
    count = pieces_of(campaign, spark.sparkContext.defaultParallelism)
    return outcomes(spark, partial(_rows_of, campaign), [campaign.seeds[first::count] for first in range(count)])


def pieces_of(campaign: Campaign, cores: int) -> int:
    """The number of pieces. Pieces are small, since an interruption or a lost executor costs the unfinished ones."""
    seeds = len(campaign.seeds)
    small = -(-seeds * campaign.events // _EVENTS_A_PIECE)
    return min(seeds, max(cores * _TASKS_A_SLOT, min(small, _MOST_PIECES)))


def _rows_of(campaign: Campaign, seeds: range) -> list[Row]:
    return [campaign.row(seed) for seed in seeds]


def _lived(campaign: Campaign, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task's seeds; runs in the executor."""
    for batch in batches:
        for seed in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pylist([campaign.row(seed)], schema=SCHEMA)
