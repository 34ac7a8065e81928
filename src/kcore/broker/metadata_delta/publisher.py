"""Applies the changes of the metadata log between two offsets to a broker's replicas.

As in Kafka, removed replicas are stopped first; then other replicas become leaders and followers. Source:
BrokerMetadataPublisher, ReplicaManager.applyDelta and TopicDelta.localChanges of 4.3.1.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

import numpy as np

from kcore.broker.replicas.replica import Key, Replica
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.image.delta import MetadataDelta
from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors, exception_of
from kcore.types import ZERO_UUID, Uuid

BROKERS: Final = "brokers"


class ReplicaDirectories(Protocol):
    """Puts the logs of the broker's replicas into their assigned directories."""

    def begin(self, topic_ids: Mapping[Key, Uuid]) -> None:
        """Called with all partitions of this broker in a whole image; the first call compares the logs on the disks."""

    def prepare(self, topic_ids: Mapping[Key, Uuid]) -> None:
        """Called with new or changed partitions; creates missing logs in online directories."""

    def serves(self, key: Key, topic_id: Uuid) -> bool:
        """Whether the replica may lead and follow; False if its records may be in an offline directory."""

    def dropped(self, key: Key, topic_id: Uuid) -> None:
        """Called when the broker no longer has the replica."""


class MetadataPublisher:
    """Applies an image to the replicas of one broker.

    The image must keep deltas (`ClusterImage.keep_deltas`). `publish` is called after each replay of committed records.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        image: ClusterImage,
        before: Callable[[Key, Replica], None] | None = None,
        on_held: Callable[[Key, Replica], None] | None = None,
        directories: ReplicaDirectories | None = None,
    ) -> None:
        """`before` is called before each order to a replica, `on_held` after each order that has succeeded.

        `directories` is None if the logs are in memory.
        """
        self._replicas, self._before, self._on_held, self._directories = replicas, before, on_held, directories
        self._held: dict[Key, Uuid] = {}  # Topic ids of this broker's partitions, including ones without a live leader.
        self.begin_anew(image)

    def begin_anew(self, image: ClusterImage) -> None:
        """Uses another image, after a snapshot was loaded. The next `publish` compares all partitions."""
        self._image = image
        self._published: int | None = None  # All records below this offset are applied; None: compare everything.
        self._replicas.cluster.table = image.table

    def publish(self, now_ms: int) -> dict[Key, Errors]:
        """Applies the image to the replicas. Returns the errors by partition."""
        image, published = self._image, self._published
        delta = None if published is None else image.changes_between(published, image.end_offset)
        self._published = image.end_offset
        if delta is None or delta.created_topics or delta.deleted_topics:
            self._replicas.cluster.topics_changed()
        errors = self._everything(now_ms) if delta is None else self._changes(delta, now_ms)
        self._replicas.cluster_changed()
        return errors

    def _everything(self, now_ms: int) -> dict[Key, Errors]:
        """Applies a whole image, as there is no delta; replicas that the image does not have are strays."""
        table, broker_id = self._image.table, self._replicas.broker_id
        rows: list[int] = []
        if broker_id in table.brokers:
            rows = np.flatnonzero((table.replicas__ps == table.brokers.row(broker_id)).any(axis=1)).tolist()
        self._stop_topics_of_another_id(rows)
        keys = self._topic_ids(rows)
        if self._directories is not None:
            self._directories.begin(keys)
        for key in self._held.keys() - keys.keys():
            self._drop(key)
        self._replicas.hold_only({*keys})
        self._remove_logs_of_another_id(rows)
        return self._become(rows, now_ms)

    def _changes(self, delta: MetadataDelta, now_ms: int) -> dict[Key, Errors]:
        table, replicas = self._image.table, self._replicas
        if delta.deleted_topics:
            for key in [each for each, topic_id in self._held.items() if topic_id in delta.deleted_topics]:
                self._drop(key)
        rows = delta.rows_of_broker(table, replicas.broker_id).tolist()
        self._stop_topics_of_another_id(rows)
        for row in set(delta.rows.tolist()).difference(rows):
            if (key := self._key(row)) in self._held:
                self._drop(key)
        if delta.touched(BROKERS):  # Replicas that follow a broker that was fenced or unfenced get an order, too.
            rows = [*rows, *self._led_by(delta.touched(BROKERS)).difference(rows)]
        return self._become(rows, now_ms)

    def _stop_topics_of_another_id(self, rows: Iterable[int]) -> None:
        """Drops replicas whose topic was deleted and created again with the same name."""
        table = self._image.table
        for row in rows:
            topic_id = table.topics.ids[table.topic_row__p[row]]
            if self._held.get(key := self._key(row), topic_id) != topic_id:
                self._drop(key)

    def _remove_logs_of_another_id(self, rows: Iterable[int]) -> None:
        """Removes logs whose topic was created again while this broker was down (LogManager.isStrayReplica)."""
        table, replicas = self._image.table, self._replicas
        for row in rows:
            key = self._key(row)
            with suppress(exception_of(Errors.KAFKA_STORAGE_ERROR)):  # The directory is then taken offline.
                if replicas.topic_id_on_disk(key) not in (ZERO_UUID, table.topics.ids[table.topic_row__p[row]]):
                    replicas.remove(key)

    def _drop(self, key: Key) -> None:
        """Stops the replica and deletes its log. A log in a failed directory is a stray once the directory is back."""
        topic_id = self._held.pop(key)
        self._replicas.stop(key, delete=True)
        self._replicas.forget_offline(key)
        if self._directories is not None:
            self._directories.dropped(key, topic_id)

    def _led_by(self, broker_ids: set[int]) -> set[int]:
        """The rows of held partitions whose leader is one of the brokers."""
        table = self._image.table
        leaders = {table.brokers.row(each) for each in broker_ids if each in table.brokers}
        held = (table.row_at(table.topics.row(topic), index) for topic, index in self._held)
        return {row for row in held if row >= 0 and int(table.leader__p[row]) in leaders}

    def _become(self, rows: Iterable[int], now_ms: int) -> dict[Key, Errors]:
        """Gives orders to the replicas of these rows; leaders first, because other brokers' followers wait for them."""
        own, rows = self._replicas.broker_id, [*rows]
        if self._directories is not None:
            self._directories.prepare(self._topic_ids(rows))
        orders = sorted(map(self._order, rows), key=lambda order: (order[1].leader != own, order[0]))
        errors = {key: self._carry_out(key, replica, now_ms) for key, replica in orders}
        return {key: error for key, error in errors.items() if error is not Errors.NONE}

    def _carry_out(self, key: Key, replica: Replica, now_ms: int) -> Errors:
        """Gives one order: lead or follow. If the leader is not alive, the replica has no role."""
        self._held[key] = replica.topic_id
        if self._directories is not None:
            if not self._directories.serves(key, replica.topic_id):
                self._replicas.go_offline(key)
                return Errors.KAFKA_STORAGE_ERROR
            self._replicas.forget_offline(key)
        if self._before is not None:
            self._before(key, replica)
        error = self._replicas.become(key, replica, now_ms)
        if error is Errors.NONE and self._on_held is not None:
            self._on_held(key, replica)
        if error is Errors.NONE and not self._replicas.cluster.is_alive(replica.leader):
            return self._replicas.stop(key, delete=False)
        return error

    def _key(self, row: int) -> Key:
        table = self._image.table
        return table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row])

    def _topic_ids(self, rows: Iterable[int]) -> dict[Key, Uuid]:
        table = self._image.table
        return {self._key(row): table.topics.ids[table.topic_row__p[row]] for row in rows}

    def _order(self, row: int) -> tuple[Key, Replica]:
        """The partition and its state in a row of the image; `is_new` if this broker does not have the replica yet."""
        table, key = self._image.table, self._key(row)
        state = table.state(row)
        return key, Replica(
            topic_id=table.topics.ids[table.topic_row__p[row]],
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            replicas=state.replicas,
            partition_epoch=state.partition_epoch,
            leader_recovery_state=state.leader_recovery_state,
            is_new=key not in self._held,
        )
