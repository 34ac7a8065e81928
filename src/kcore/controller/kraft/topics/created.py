"""What a request creates, gathered over its topics: TopicRecords, ConfigRecords and PartitionRecords in Kafka's order.

A run of topics without settings is one PartitionCreations, so that records come from columns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kcore.controller.kraft.context import ControllerContext
from kcore.controller.kraft.decision import Records, Versioned
from kcore.controller.kraft.topics.placing import stacked
from kcore.metadata.partition_values import PartitionCreations
from kcore.replication.kraft_placement import NewPartitions, new_partitions
from kcore.schema.metadata_records_topics import TopicRecord
from kcore.types import Int32s, Uuid


class NewTopic(NamedTuple):
    """A topic and its new partitions, in the order of their numbers."""

    name: str
    topic_id: Uuid
    replicas__ps: Int32s
    first_partition: int = 0
    configs: Sequence[Versioned] = ()
    is_new: bool = True


def records_of(context: ControllerContext, topics: Sequence[NewTopic]) -> list[Records]:
    """Records of all, in order. The topics' replicas are sound, and one of each partition's is active."""
    if not topics:
        return []
    made = new_partitions(context.image.brokers, context.level, stacked([each.replicas__ps for each in topics]))
    starts = np.cumsum([0, *(len(each.replicas__ps) for each in topics)])
    records: list[Records] = []
    for first, end in _runs(topics):
        head = topics[first]
        if head.configs:
            records += [Versioned(TopicRecord(name=head.name, topic_id=head.topic_id)), *head.configs]
        records.append(_creations(topics[first:end], made, int(starts[first]), bool(head.configs)))
    return records


def count_of(topics: Sequence[NewTopic]) -> int:
    """How many records that are."""
    return sum(len(each.replicas__ps) + len(each.configs) + each.is_new for each in topics)


def _runs(topics: Sequence[NewTopic]) -> list[tuple[int, int]]:
    """Where settings stand between a topic's record and its partitions', a run begins."""
    firsts = [place for place, each in enumerate(topics) if not place or each.configs]
    return list(zip(firsts, [*firsts[1:], len(topics)], strict=True))


def _creations(
    topics: Sequence[NewTopic], made: NewPartitions, start: int, first_is_written: bool
) -> PartitionCreations:
    sizes = [len(each.replicas__ps) for each in topics]
    rows = slice(start, start + sum(sizes))
    is_new = np.array([each.is_new for each in topics])
    is_new[0] &= not first_is_written
    numbers = [np.arange(each.first_partition, each.first_partition + len(each.replicas__ps)) for each in topics]
    return PartitionCreations(
        names=[each.name for each in topics],
        topic_ids=[each.topic_id for each in topics],
        is_new=is_new,
        topics=np.repeat(np.arange(len(topics), dtype=np.int32), sizes),
        partitions=np.concatenate(numbers).astype(np.int32),
        replicas=made.replicas__ps[rows],
        isr=made.isr__pi[rows],
        leaders=made.leaders[rows],
        directories=made.directories__ps[rows],
    )
