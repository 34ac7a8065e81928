"""Runs simulated worlds on Spark: tasks share the seeds and return one row for each."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from kcore.extras import needs

with needs("spark"):
    from pyspark.sql import SparkSession

    from kcore.sim.raft.campaign import Campaign, Row
    from kcore.spark.pieces import Outcome, outcomes

_EVENTS_A_PIECE: Final = 100_000  # Simulated events: some seconds of one core.
_MOST_PIECES: Final = 1_000  # Each Spark job handles the list of all pieces: more pieces slow every job.
_TASKS_A_SLOT: Final = 8  # Worlds differ in run time: a slot that finishes early takes another task.


def simulate_pieces(spark: SparkSession, campaign: Campaign) -> Iterator[Outcome]:
    """Yields each share of the rows as soon as it is done. If an executor is lost, the rows of other shares are
    kept."""
    count = pieces_of(campaign, spark.sparkContext.defaultParallelism)
    return outcomes(spark, partial(_rows_of, campaign), [campaign.seeds[first::count] for first in range(count)])


def pieces_of(campaign: Campaign, cores: int) -> int:
    """The number of pieces. Pieces are small: an interruption or a lost executor loses the work of unfinished ones."""
    seeds = len(campaign.seeds)
    small = -(-seeds * campaign.events // _EVENTS_A_PIECE)
    return min(seeds, max(cores * _TASKS_A_SLOT, min(small, _MOST_PIECES)))


def _rows_of(campaign: Campaign, seeds: range) -> list[Row]:
    return [campaign.row(seed) for seed in seeds]
