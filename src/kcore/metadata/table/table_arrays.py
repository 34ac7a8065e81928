"""The arguments of `PartitionTable.from_arrays` by name: every source of a table returns them in this form."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy.typing as npt

from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.topic_table import TopicTable

BrokerLists = Mapping[int, Sequence[int]]  # Partition row -> broker ids.


class TableArrays(TypedDict, total=False):
    """p partitions; brokers as ids; 2-D arrays padded with -1."""

    replicas: npt.ArrayLike  # p by slot
    isr: npt.ArrayLike | None  # p by position
    leaders: npt.ArrayLike | None  # p, as the following arrays
    leader_epochs: npt.ArrayLike | None
    partition_epochs: npt.ArrayLike | None
    controller_epochs: npt.ArrayLike | None
    leader_recovery_states: npt.ArrayLike | None
    topics: TopicTable | None
    topic_rows: npt.ArrayLike | None
    partition_indexes: npt.ArrayLike | None
    brokers: BrokerTable | None
    adding: BrokerLists | None
    removing: BrokerLists | None
