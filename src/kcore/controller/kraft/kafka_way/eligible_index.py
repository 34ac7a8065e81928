"""Kafka's index of partitions by the brokers in their ELRs, with its faults (BrokersToElrs).

A ClearElrRecord empties ELRs but not the index. So a broker that was in a cleared ELR stays in the index, even after
the topic is deleted. When the broker enters and leaves that ELR again, the index may name partition 0 in its place.
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

_Elrs = dict[int, list[int]]  # ELRs by partition.


class EligibleIndex:
    """Applies the records of the log one by one."""

    def __init__(self) -> None:
        self._partitions: dict[int, dict[Uuid, list[int]]] = {}  # By broker and topic.
        self._elrs: dict[Uuid, _Elrs] = {}  # The ELRs with members, by topic.
        self._topics: dict[str, Uuid] = {}
        self._before: EligibleIndex | None = None  # The state before the open transaction.

    def of_broker(self, broker_id: int) -> Iterator[tuple[Uuid, int]]:
        """Topic and partition of each entry of the broker; entries may be duplicates, or name deleted topics."""
        for topic_id, partitions in self._partitions.get(broker_id, {}).items():
            for partition in partitions:
                yield topic_id, partition

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of any type."""
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
        rest += [0] * (len(listed) - 1 - len(rest))  # Kafka's new array has one entry less, and zeros at its end.
        if rest:
            by_topic[topic_id] = rest

    def _remove_topic(self, topic_id: Uuid) -> None:
        for elr in self._elrs.pop(topic_id, {}).values():
            for broker_id in elr:
                self._partitions.get(broker_id, {}).pop(topic_id, None)
        self._topics = {name: each for name, each in self._topics.items() if each != topic_id}
