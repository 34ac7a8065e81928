"""The partitions that a request names, as columns in the request's order, and the order in which they are decided."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from kcore.metadata.table.arrays import numbered
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication.kraft_results import KraftElections
from kcore.types import Bools, Int16s, Int32s, Int64s, Uuid

MOST_RUNS: Final = 64  # Decisions a request; also how often it may name one partition.


def rows_named(
    table: PartitionTable, topic_rows: Sequence[int], sizes: Sequence[int], partitions: Sequence[int]
) -> Int32s:
    """The row of each named partition, -1 for an unknown one: `sizes[k]` of them are of topic row `topic_rows[k]`.

    A topic row of -1 is an unknown topic.
    """
    topics = np.repeat(np.array(topic_rows, np.int32), sizes)
    table.lookup.know_topics(len(table.topics))  # The newest topics may have no partition yet.
    rows = table.rows_of(np.maximum(topics, 0), np.array(partitions, np.int32)) if len(table.topics) else topics
    return np.where(topics < 0, np.int32(-1), rows)


def topic_rows_by_name(table: PartitionTable, names: Iterable[str]) -> list[int]:
    """The row of each topic; -1 where there is none."""
    return table.topics.rows(names)


def topic_rows_by_id(table: PartitionTable, ids: Iterable[Uuid]) -> list[int]:
    """The row of each topic by its id; -1 where there is none, as for the zero Uuid."""
    found = [table.topics.row_of_id(each) for each in ids]
    return [-1 if row is None else row for row in found]


def is_current_epoch(brokers: BrokerTable, broker_id: int, broker_epoch: int) -> bool:
    """Whether the broker is registered, as that incarnation (ClusterControlManager.checkBrokerEpoch)."""
    if broker_id not in brokers:
        return False
    row = brokers.row(broker_id)
    return bool(brokers.registered__b[row]) and int(brokers.epochs[row]) == broker_epoch


def named_too_often(rows: Int32s) -> Bools:
    """Which entries name a partition that MOST_RUNS entries before them name.

    Kafka decides each of them upon the state before the request; each costs a decision of its own.
    """
    return (rows >= 0) & (numbered(rows) >= MOST_RUNS)


def in_runs(rows: Int32s, kinds: Int16s | None = None) -> Iterator[Int64s]:
    """Places in `rows`, part by part: the rows of a part ascend strictly, and are of one kind.

    The parts follow the order that is given where MOST_RUNS suffice for that. Otherwise the order is lost, which says
    nothing: all are decided upon one state. A row is in as many parts as name it.
    """
    if not len(rows):
        return
    breaks = rows[1:] <= rows[:-1]
    if kinds is not None:
        breaks |= kinds[1:] != kinds[:-1]
    bounds = np.flatnonzero(breaks) + 1
    if len(bounds) < MOST_RUNS:
        yield from np.split(np.arange(len(rows)), bounds)
        return
    kinds = np.zeros(len(rows), np.int16) if kinds is None else kinds
    repeats = numbered(rows)
    order = np.lexsort((rows, kinds, repeats))
    last = np.flatnonzero((np.diff(repeats[order]) != 0) | (np.diff(kinds[order]) != 0)) + 1
    yield from np.split(order, last)


def mark(errors: Int16s, wrong: Bools, error: Errors) -> None:
    """Sets the error of entries that are `wrong` and have no error yet; callers check in Kafka's order."""
    errors[wrong & (errors == 0)] = error


def places_of(changes: KraftElections, rows: Int32s) -> Int64s:
    """The places in `rows`, which ascend, of the partitions that change."""
    return np.searchsorted(rows, changes.rows)
