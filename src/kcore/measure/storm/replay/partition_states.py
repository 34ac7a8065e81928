"""The states of an image's partitions by name, and how much their epochs have grown."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kcore.measure.storm.replay.events import Partition
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.column_list import NO_TOPIC
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Uuid


class Epochs(NamedTuple):
    """The epochs of a partition, or how much they have grown since the replay's begin."""

    leader: int
    partition: int


Begin = Mapping[tuple[Uuid, int], Epochs]
"""The epochs at the begin by topic id and partition index; a topic that is created later begins with 0."""


def partitions_of(image: ClusterImage) -> Iterator[tuple[Partition, PartitionRegistration]]:
    """All partitions of an image with their states."""
    table = image.table
    for row in used_rows(table):
        state = table.state(row)
        yield Partition(state.topic, state.partition), table.registration(row)


def used_rows(table: PartitionTable) -> list[int]:
    """The rows of partitions; those of deleted topics are free."""
    rows: list[int] = np.flatnonzero(table.topic_row__p != NO_TOPIC).tolist()
    return rows


def row_of(image: ClusterImage, partition: Partition) -> int:
    """The partition's row in the table of partitions; -1 if it does not exist."""
    if partition.topic not in image.topics:
        return -1
    return int(image.table.row_at(image.topics.row(partition.topic), partition.partition_index))


def state_of(image: ClusterImage, partition: Partition) -> PartitionRegistration | None:
    """The partition's state; None if it does not exist."""
    row = row_of(image, partition)
    return None if row < 0 else image.table.registration(row)


def epochs_of(image: ClusterImage) -> dict[tuple[Uuid, int], Epochs]:
    """The epochs of all partitions, by topic id and partition index."""
    ids = image.topic_ids
    return {
        (ids[partition.topic], partition.partition_index): Epochs(state.leader_epoch, state.partition_epoch)
        for partition, state in partitions_of(image)
    }


def growth(image: ClusterImage, partition: Partition, state: PartitionRegistration, begin: Begin) -> Epochs:
    """How much the epochs of a partition in this state have grown since the begin."""
    topic_id = image.topics.ids[image.topics.row(partition.topic)]
    leader, changes = begin.get((topic_id, partition.partition_index), Epochs(0, 0))
    return Epochs(state.leader_epoch - leader, state.partition_epoch - changes)
