"""A broker's view of the cluster: partitions, brokers, the controller (Kafka's MetadataCache)."""

from collections.abc import Iterable

import numpy as np

from kcore.broker.replicas.replica import Key
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.types import ZERO_UUID, Int32s, Uuid

NO_CONTROLLER = -1


def empty_table() -> PartitionTable:
    """A table without partitions and brokers, before the first metadata arrives."""
    return PartitionTable.from_arrays(
        np.empty((0, 0), np.int32), topics=TopicTable([]), topic_rows=[], brokers=BrokerTable.from_arrays([])
    )


class ClusterView:
    """The last received metadata of the cluster. The receiver writes `table`, then calls `topics_changed`."""

    def __init__(self) -> None:
        self.table = empty_table()
        self.controller_id = NO_CONTROLLER
        self._names_by_id: dict[Uuid, str] | None = None
        self._offline: dict[Key, frozenset[int]] = {}

    def topics_changed(self) -> None:
        """Must be called after topics were added to `table` or removed from it."""
        self._names_by_id = None

    def set_offline(self, offline: Iterable[tuple[Key, frozenset[int]]]) -> None:
        """Sets the offline replicas of some partitions; an empty set marks all replicas of a partition online."""
        self._offline.update(offline)
        self._offline = {key: brokers for key, brokers in self._offline.items() if brokers}

    @property
    def has_offline(self) -> bool:
        """Whether any replica is offline."""
        return bool(self._offline)

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced."""
        brokers = self.table.brokers
        return broker_id in brokers and bool(brokers.live[brokers.row(broker_id)])

    def may_join_isr(self, broker_id: int) -> bool:
        """Whether the broker is alive and not in controlled shutdown, so that it may join an ISR (KIP-841)."""
        brokers = self.table.brokers
        return self.is_alive(broker_id) and not brokers.in_controlled_shutdown__b[brokers.row(broker_id)]

    def name_of(self, topic_id: Uuid) -> str | None:
        """The topic's name; None for an unknown id."""
        if self._names_by_id is None:
            topics = self.table.topics
            self._names_by_id = {each: name for each, name in zip(topics.ids, topics.names, strict=True) if name}
            self._names_by_id.pop(ZERO_UUID, None)
        return self._names_by_id.get(topic_id)

    def offline_replicas(self, row: int) -> frozenset[int]:
        """The brokers whose replica in a row of `table` is offline, as the broker or its disk has failed (KIP-112)."""
        table = self.table
        if table.directories__ps is not None:
            return self._on_failed_directories(row, table.directories__ps[row])
        key = table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row])
        return self._offline.get(key, frozenset())

    def _on_failed_directories(self, row: int, directories__s: Int32s) -> frozenset[int]:
        """The offline replicas in KRaft mode, by assigned directories and brokers' registrations (KIP-858)."""
        brokers, replicas__s = self.table.brokers, self.table.replicas__ps[row]
        online__s = brokers.directory_table.online(replicas__s, directories__s, brokers.lists_directories__b)
        return frozenset(brokers.ids[replicas__s[(replicas__s >= 0) & ~online__s]].tolist())

    def knows(self, key: Key) -> bool:
        """Whether the metadata has the partition."""
        topic, partition = key
        rows = self.table.rows_of_topic(topic) if topic in self.table.topics else ()
        return len(rows) > 0 and bool((self.table.partition_index__p[rows] == partition).any())
