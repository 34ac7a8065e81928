"""From an image's parts to a PartitionTable."""

from collections.abc import Sequence

import numpy as np

from kcore.metadata.arrays import Array
from kcore.metadata.image_brokers import BrokerRegistration, broker_table
from kcore.metadata.image_partitions import PartitionStates
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.table_arrays import BrokerLists
from kcore.metadata.topics import TopicTable
from kcore.types import Uuid


def table_of_image(
    partitions: PartitionStates,
    topics: Sequence[tuple[Uuid, tuple[str, int]]],
    registrations: Sequence[BrokerRegistration],
) -> PartitionTable:
    """The table of the partitions of `topics` (id, name and number), by topic as given and partition index."""
    rows = partitions.living_rows()
    replicas, isr = partitions.replicas.padded(rows), partitions.isr.padded(rows)
    leaders = np.array(partitions.leader, np.int32)[rows]
    # Numbers only rise, so the topics that are left have theirs in order.
    numbers = np.array([number for _, (_, number) in topics], np.int32)
    topic_rows = np.searchsorted(numbers, np.array(partitions.topic, np.int32)[rows])
    places = np.full(len(partitions.topic), -1, np.int64)
    places[rows] = np.arange(len(rows))
    return PartitionTable.from_arrays(
        replicas,
        isr=isr,
        leaders=leaders,
        leader_epochs=np.array(partitions.leader_epoch, np.int32)[rows],
        partition_epochs=np.array(partitions.partition_epoch, np.int32)[rows],
        leader_recovery_states=np.array(partitions.recovery, np.int8)[rows],
        topics=TopicTable([name for _, (name, _) in topics], [topic_id for topic_id, _ in topics]),
        topic_rows=topic_rows,
        partition_indexes=np.array(partitions.index, np.int32)[rows],
        brokers=broker_table(registrations, replicas, isr, leaders),
        adding=_moves(partitions.adding, places),
        removing=_moves(partitions.removing, places),
    )


def _moves(moves: dict[int, tuple[int, ...]], places: Array) -> BrokerLists:
    return {int(places[row]): brokers for row, brokers in moves.items()}
