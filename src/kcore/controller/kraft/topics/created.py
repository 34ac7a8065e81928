"""The records of created topics: TopicRecords, ConfigRecords and PartitionRecords in Kafka's order.

One PartitionCreations has all partitions of a request, so that their records are encoded from columns.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from kcore.controller.kraft.decision import Records, Versioned, pause_if_many
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.topics.placing import stacked
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.replication.kraft_placement import new_partitions
from kcore.types import Int32s, Int64s, Uuid
from kcore.wire.metadata_frames import encode_metadata_record


class NewTopic(NamedTuple):
    """A topic, new or not, and its new partitions by ascending number."""

    name: str
    topic_id: Uuid
    replicas__ps: Int32s
    first_partition: int = 0
    configs: Sequence[Versioned] = ()
    is_new: bool = True


def records_of(context: ControllerContext, topics: Sequence[NewTopic]) -> Generator[None, None, list[Records]]:
    """The records of all topics, in order. The caller has checked that each partition has an active replica."""
    if not topics:
        return []
    yield from pause_if_many(len(topics))
    replicas__ps = stacked([each.replicas__ps for each in topics])
    yield from pause_if_many(len(topics))
    return [(yield from _creations(context, topics, replicas__ps))]


def count_of(topics: Sequence[NewTopic]) -> int:
    """The number of records that the topics make."""
    return sum(len(each.replicas__ps) + len(each.configs) + each.is_new for each in topics)


def _creations(
    context: ControllerContext, topics: Sequence[NewTopic], replicas__ps: Int32s
) -> Generator[None, None, PartitionCreations]:
    made = new_partitions(context.image.brokers, context.level, replicas__ps)
    yield from pause_if_many(len(topics))
    sizes = [len(each.replicas__ps) for each in topics]
    firsts = np.repeat(np.array([each.first_partition for each in topics]), sizes)
    return PartitionCreations(
        names=[each.name for each in topics],
        topic_ids=[each.topic_id for each in topics],
        is_new=np.array([each.is_new for each in topics]),
        topics=np.repeat(np.arange(len(topics), dtype=np.int32), sizes),
        partitions=(firsts + _counted(sizes)).astype(np.int32),
        replicas=made.replicas__ps,
        isr=made.isr__pi,
        leaders=made.leaders,
        directories=made.directories__ps,
        further={
            place: [encode_metadata_record(*record) for record in each.configs]
            for place, each in enumerate(topics)
            if each.configs
        },
    )


def _counted(sizes: Sequence[int]) -> Int64s:
    """For each size the numbers from 0 to size - 1, concatenated."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
