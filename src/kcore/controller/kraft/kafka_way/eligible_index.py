"""The partitions by the brokers in their ELRs, as Kafka's controller keeps them, with its faults (BrokersToElrs).

A ClearElrRecord empties ELRs and leaves the index as it is. So a broker that was in such an ELR stays there, also when
the topic is deleted; and when it enters and leaves that ELR again, its list of partitions may come to name partition 0.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy

from kcore.schema import metadata_records_log as log_records
from kcore.schema.metadata_records_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid

_Elrs = dict[int, list[int]]  # By partition.


class EligibleIndex:
    """Follows the records of the log one by one."""

    def __init__(self) -> None:
        self._partitions: dict[int, dict[Uuid, list[int]]] = {}  # By broker and topic.
        self._elrs: dict[Uuid, _Elrs] = {}  # By topic: those that are not empty.
        self._topics: dict[str, Uuid] = {}
        self._before: EligibleIndex | None = None  # The open transaction.

    def of_broker(self, broker_id: int) -> Iterator[tuple[Uuid, int]]:
        """Topic and partition of every entry; some may be there twice, or be of topics that are gone."""
        for topic_id, partitions in self._partitions.get(broker_id, {}).items():
            for partition in partitions:
                yield topic_id, partition

    def replay(self, record: MetadataRecord) -> None:
        """One record, of any type."""
        if isinstance(record, TopicRecord):
            self._topics[record.name] = record.topic_id
        elif isinstance(record, PartitionRecord | PartitionChangeRecord):
            if record.eligible_leader_replicas is not None:
                self._change(record.topic_id, record.partition_id, record.eligible_leader_replicas)
        elif isinstance(record, RemoveTopicRecord):
            self._remove_topic(record.topic_id)
        elif isinstance(record, ClearElrRecord):
            for topic_id in [self._topics[record.topic_name]] if record.topic_name else list(self._elrs):
                self._elrs.pop(topic_id, None)
        elif isinstance(record, log_records.BeginTransactionRecord):
            self._before = deepcopy(self)
        elif isinstance(record, log_records.EndTransactionRecord):
            self._before = None
        elif isinstance(record, log_records.AbortTransactionRecord) and self._before is not None:
            vars(self).update(vars(self._before))

    def _change(self, topic_id: Uuid, partition: int, elr: Iterable[int]) -> None:
        elrs = self._elrs.setdefault(topic_id, {})
        before, after = {*elrs.pop(partition, ())}, {*elr}
        if after:
            elrs[partition] = [*after]
        for broker_id in sorted(before - after):
            self._remove(broker_id, topic_id, partition)
        for broker_id in sorted(after - before):
            self._partitions.setdefault(broker_id, {}).setdefault(topic_id, []).append(partition)

    def _remove(self, broker_id: int, topic_id: Uuid, partition: int) -> None:
        by_topic = self._partitions[broker_id]
        listed = by_topic.pop(topic_id)
        rest = [each for each in listed if each != partition]
        rest += [0] * (len(listed) - 1 - len(rest))  # Kafka's array is one shorter, and filled with zeros.
        if rest:
            by_topic[topic_id] = rest

    def _remove_topic(self, topic_id: Uuid) -> None:
        for elr in self._elrs.pop(topic_id, {}).values():
            for broker_id in elr:
                self._partitions.get(broker_id, {}).pop(topic_id, None)
        self._topics = {name: each for name, each in self._topics.items() if each != topic_id}
