"""The partitions of a request as columns in the request's order, and their split into bulk decisions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from kcore.metadata.table.arrays import numbered
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication.kraft_results import KraftElections
from kcore.types import Bools, Int16s, Int32s, Int64s, Uuid

MOST_RUNS: Final = 64  # Most bulk decisions that follow a request's order, and most entries for one partition.


def rows_named(
    table: PartitionTable, topic_rows: Sequence[int], sizes: Sequence[int], partitions: Sequence[int]
) -> Int32s:
    """The row of each partition in `partitions`, -1 for an unknown partition.

    The first `sizes[0]` partitions belong to the topic in row `topic_rows[0]`, the next `sizes[1]` to the next topic.
    Topic row -1 is an unknown topic.
    """
    topics = np.repeat(np.array(topic_rows, np.int32), sizes)
    table.lookup.know_topics(len(table.topics))  # The newest topics may have no partition yet.
    rows = table.rows_of(np.maximum(topics, 0), np.array(partitions, np.int32)) if len(table.topics) else topics
    return np.where(topics < 0, np.int32(-1), rows)


def topic_rows_by_name(table: PartitionTable, names: Iterable[str]) -> list[int]:
    """The row of each topic; -1 for an unknown name."""
    return table.topics.rows(names)


def topic_rows_by_id(table: PartitionTable, ids: Iterable[Uuid]) -> list[int]:
    """The row of each topic by its id; -1 for an unknown id and for the zero Uuid."""
    found = [table.topics.row_of_id(each) for each in ids]
    return [-1 if row is None else row for row in found]


def is_current_epoch(brokers: BrokerTable, broker_id: int, broker_epoch: int) -> bool:
    """True if the broker is registered with this broker epoch (ClusterControlManager.checkBrokerEpoch)."""
    if broker_id not in brokers:
        return False
    row = brokers.row(broker_id)
    return bool(brokers.registered__b[row]) and int(brokers.epochs[row]) == broker_epoch


def named_too_often(rows: Int32s) -> Bools:
    """True for each entry whose partition is named by at least MOST_RUNS earlier entries.

    Kafka decides each entry on the state before the request. In kcore each further entry for a partition needs another
    bulk decision.
    """
    return (rows >= 0) & (numbered(rows) >= MOST_RUNS)


def in_runs(rows: Int32s, kinds: Int16s | None = None) -> Iterator[Int64s]:
    """Split the places in `rows` into parts. The rows of a part ascend strictly and have one kind.

    The parts keep the given order if this takes at most MOST_RUNS parts. Otherwise the order changes, which does not
    matter, because all entries are decided on the same state. A row with several entries is in as many parts.
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
    """Set the error of entries that are `wrong` and have no error yet. Callers make their checks in Kafka's order."""
    errors[wrong & (errors == 0)] = error


def places_of(changes: KraftElections, rows: Int32s) -> Int64s:
    """The place of each changed partition in `rows`, which ascends."""
    return np.searchsorted(rows, changes.rows)
