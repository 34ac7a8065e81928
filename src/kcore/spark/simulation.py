"""Runs simulated worlds over Spark: tasks share the seeds and return a row each."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from kcore.extras import needs

with needs("spark"):
    from pyspark.sql import SparkSession

    from kcore.sim.raft.campaign import Campaign, Row
    from kcore.spark.pieces import Outcome, outcomes

_EVENTS_A_PIECE: Final = 100_000  # Some seconds of a core.
_MOST_PIECES: Final = 1_000  # Every job of Spark's goes through the list of all pieces.
_TASKS_A_SLOT: Final = 8  # Worlds take different times: an executor that is done early takes another task.


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
