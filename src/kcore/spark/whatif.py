"""Answers `kcore whatif --pairs` on Spark: tasks share the brokers and return the outcomes of their pairs."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from kcore.extras import needs
from kcore.whatif.cluster import Cluster, check_live
from kcore.whatif.pairs import PairCounter, PairOutcomes

with needs("spark"):
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from kcore.spark.pieces import Outcome, outcomes

_TASKS_A_SLOT: Final = 4  # A slot that finishes early takes another task.
_counters: dict[Any, PairCounter] = {}  # By broadcast, in a worker process: single outcomes are decided once there.


def pair_pieces(spark: SparkSession, cluster: Cluster) -> Iterator[Outcome]:
    """Yields each share of the pairs as soon as it is done, as a list of PairOutcomes. TableError without live brokers.

    The executors get the cluster once. If an executor is lost, the pairs of other shares are kept.
    """
    check_live(cluster)
    brokers = len(cluster.live_ids())
    count = max(1, min(brokers, spark.sparkContext.defaultParallelism * _TASKS_A_SLOT))
    shared = spark.sparkContext.broadcast(cluster)
    return outcomes(spark, partial(_pairs_of, shared), [range(first, brokers, count) for first in range(count)])


def _pairs_of(shared: "Broadcast[Cluster]", firsts: Sequence[int]) -> list[PairOutcomes]:
    """The pairs of the brokers at these places with all brokers after them; runs on an executor."""
    if id(shared.value) not in _counters:
        _counters.clear()
        _counters[id(shared.value)] = PairCounter(shared.value)
    counter = _counters[id(shared.value)]
    return [PairOutcomes.joined([counter.pairs_of(first) for first in firsts])]
