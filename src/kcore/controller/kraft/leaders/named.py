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

MOST_RUNS: Final = 64  # Decisions per request; also the limit of entries for one partition.


def rows_named(
    table: PartitionTable, topic_rows: Sequence[int], sizes: Sequence[int], partitions: Sequence[int]
) -> Int32s:
    """The row of each named partition, -1 for an unknown one: `sizes[k]` of them belong to topic row `topic_rows[k]`.

    A topic row of -1 is an unknown topic.
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
    """Whether the broker is registered, as that incarnation (ClusterControlManager.checkBrokerEpoch)."""
    if broker_id not in brokers:
        return False
    row = brokers.row(broker_id)
    return bool(brokers.registered__b[row]) and int(brokers.epochs[row]) == broker_epoch


def named_too_often(rows: Int32s) -> Bools:
    """True for entries that name a partition which MOST_RUNS earlier entries name.

    Kafka decides each entry on the state before the request; here each entry for the same partition needs a decision of
    its own.
    """
    return (rows >= 0) & (numbered(rows) >= MOST_RUNS)


def in_runs(rows: Int32s, kinds: Int16s | None = None) -> Iterator[Int64s]:
    """Places in `rows`, in parts: the rows of a part ascend strictly and have one kind.

    The parts follow the given order if that takes at most MOST_RUNS parts. Otherwise the order is lost, which does not
    matter: all are decided on the same state. A row is in as many parts as there are entries for it.
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
    """Set the error of entries that are `wrong` and have no error yet; callers check in Kafka's order."""
    errors[wrong & (errors == 0)] = error


def places_of(changes: KraftElections, rows: Int32s) -> Int64s:
    """The places of the changed partitions in `rows`, which ascend."""
    return np.searchsorted(rows, changes.rows)
