"""The cluster that metadata records tell of (KIP-631): brokers, topics, partitions, and all that is configured.

Records are applied in the log's order, as Kafka's MetadataDelta replays them; a transaction's (KIP-868) only once it
has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from kcore.errors import TableError
from kcore.metadata.arrays import Array
from kcore.metadata.image_brokers import BrokerRegistration
from kcore.metadata.image_partitions import PartitionRegistration, PartitionStates, uuids_of
from kcore.metadata.image_table import table_of_image
from kcore.metadata.partition_table import PartitionTable
from kcore.schema import metadata_records_brokers as broker_records
from kcore.schema import metadata_records_log as log_records
from kcore.schema import metadata_records_security as security_records
from kcore.schema import metadata_records_settings as setting_records
from kcore.schema import metadata_records_topics as topic_records
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid
from kcore.wire.columns import Rows

KRAFT_VERSION: Final = "kraft.version"
TOPIC_RESOURCE: Final = 2  # ConfigResource.Type.TOPIC
_UNKNOWN: Final = "", -1  # A topic that is not known.
_FENCING: Final = {1: True, -1: False}  # BrokerRegistrationFencingChange; 0 leaves it.
_SHUTDOWN: Final = {1: True}  # BrokerRegistrationInControlledShutdownChange; 0 leaves it.


@dataclass(slots=True, eq=False)
class ClusterImage:
    """The state after the records applied so far. TableError for a record that does not fit what is known.

    `table` is made when it is asked for, and anew after a record that changes it.
    """

    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    controllers: dict[int, broker_records.RegisterControllerRecord] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)  # By name, in the order of creation.
    partitions: PartitionStates = field(default_factory=PartitionStates)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)  # By resource type and name.
    next_producer_id: int = -1
    acls: dict[Uuid, security_records.AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = field(default_factory=dict)  # By entity.
    scram: dict[tuple[int, str], security_records.UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, security_records.DelegationTokenRecord] = field(default_factory=dict)
    zk_migration_state: int = 0
    _topics: dict[Uuid, tuple[str, int]] = field(default_factory=dict)  # Name and number by id.
    _transaction: list[MetadataRecord] | None = None
    _table: PartitionTable | None = None

    def apply(self, record: MetadataRecord) -> None:
        """One record of any type."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise TableError(f"{type(record).__name__} is no metadata record")
        if self._transaction is not None and handler not in _ENDS:
            self._transaction.append(record)
        else:
            handler(self, record)

    def create_all(self, topics: Rows, topic_places: Array, partitions: Rows, places: Array) -> bool:
        """Many TopicRecords and PartitionRecords as `apply` would have them; the places say in which order they came.

        False, and nothing changed, where they are for `apply`: in a transaction, or one does not fit.
        """
        names, ids = topics.name.tolist(), uuids_of(topics.topic_id)
        fresh = range(self.partitions.topic_count, self.partitions.topic_count + len(ids))
        numbers = dict(zip(ids, zip(fresh, topic_places.tolist(), strict=True), strict=True))
        known = not (self.topic_ids.keys().isdisjoint(names) and self._topics.keys().isdisjoint(ids))
        if self.in_transaction or known or len({*names}) < len(names) or len(numbers) < len(ids):
            return False
        starts, owners = _runs(partitions.topic_id)
        found = [numbers.get(each) or (self._topics.get(each, _UNKNOWN)[1], -1) for each in owners]
        if any(
            number < 0 or told > place for (number, told), place in zip(found, places[starts].tolist(), strict=True)
        ):
            return False
        owned = [number for number, _ in found]
        rows = self.partitions.fresh_rows(starts.tolist(), owned, partitions)
        if rows is None:
            return False
        for name, topic_id in zip(names, map(Uuid, ids), strict=True):
            self.topic_ids[name] = topic_id
            self._topics[topic_id] = name, self.partitions.add_topic()
        self.partitions.put_all(rows, np.repeat(owned, np.diff(starts, append=len(places))), partitions)
        self._table = None
        return True

    def change_all(self, changes: Rows) -> bool:
        """Many PartitionChangeRecords in their order, likewise."""
        starts, owners = _runs(changes.topic_id)
        indexes, rows = changes.partition_id.tolist(), list[int | None]()
        for owner, begin, end in zip(owners, starts.tolist(), [*starts.tolist(), len(indexes)][1:], strict=True):
            if owner not in self._topics:
                return False
            known = self.partitions.rows_of(self._topics[owner][1])
            rows.extend(map(known.get, indexes[begin:end]))
        if self.in_transaction or None in rows or not self.partitions.change_all(np.array(rows, np.int64), changes):
            return False
        self._table = None
        return True

    @property
    def in_transaction(self) -> bool:
        """Whether records wait for the end of their transaction; none of them shows yet."""
        return self._transaction is not None

    @property
    def table(self) -> PartitionTable:
        """The partitions with their brokers and topics; a broker is live if it is registered and not fenced."""
        if self._table is None:
            self._table = table_of_image(self.partitions, list(self._topics.items()), list(self.brokers.values()))
        return self._table

    def partition(self, topic: str, index: int) -> PartitionRegistration:
        """One partition, directories and eligible leader replicas included; TableError if there is none."""
        topic_id = self.topic_ids.get(topic)
        row = None if topic_id is None else self.partitions.rows_of(self._topics[topic_id][1]).get(index)
        if row is None:
            raise TableError(f"unknown partition {topic}-{index}")
        return self.partitions.registration(row)

    def _number(self, topic_id: Uuid) -> int:
        if topic_id not in self._topics:
            raise TableError(f"unknown topic id {topic_id}")
        return self._topics[topic_id][1]

    def _topic(self, record: topic_records.TopicRecord) -> None:
        if record.name in self.topic_ids:
            raise TableError(f"topic {record.name!r} exists")
        self.topic_ids[record.name] = record.topic_id
        self._topics[record.topic_id] = record.name, self.partitions.add_topic()
        self._table = None

    def _remove_topic(self, record: topic_records.RemoveTopicRecord) -> None:
        self.partitions.remove_topic(self._number(record.topic_id))
        name, _ = self._topics.pop(record.topic_id)
        del self.topic_ids[name]
        self.configs.pop((TOPIC_RESOURCE, name), None)
        self._table = None

    def _partition(self, record: topic_records.PartitionRecord) -> None:
        self.partitions.put(self._number(record.topic_id), record)
        self._table = None

    def _partition_change(self, record: topic_records.PartitionChangeRecord) -> None:
        row = self.partitions.rows_of(self._number(record.topic_id)).get(record.partition_id)
        if row is None:
            raise TableError(f"unknown partition {record.partition_id} of topic id {record.topic_id}")
        self.partitions.change(row, record)
        self._table = None

    def _clear_elr(self, record: topic_records.ClearElrRecord) -> None:
        if record.topic_name and record.topic_name not in self.topic_ids:
            raise TableError(f"unknown topic {record.topic_name!r}")
        for name, number in self._topics.values():
            if record.topic_name in ("", name):
                self.partitions.clear_elr(number)

    def _register_broker(self, record: broker_records.RegisterBrokerRecord) -> None:
        features = {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}
        self._put(
            BrokerRegistration(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                listeners=tuple(record.end_points),
                supported_features=features,
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                is_migrating_zk_broker=record.is_migrating_zk_broker,
                directories=tuple(record.log_dirs),
                cordoned_directories=_uuids(record.cordoned_log_dirs),
            )
        )

    def _unregister_broker(self, record: broker_records.UnregisterBrokerRecord) -> None:
        del self.brokers[self._registered(record.broker_id, record.broker_epoch).id]
        self._table = None

    def _fence_broker(self, record: broker_records.FenceBrokerRecord) -> None:
        self._put(replace(self._registered(record.id, record.epoch), fenced=True))

    def _unfence_broker(self, record: broker_records.UnfenceBrokerRecord) -> None:
        self._put(replace(self._registered(record.id, record.epoch), fenced=False))

    def _broker_change(self, record: broker_records.BrokerRegistrationChangeRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        if record.fenced not in (0, *_FENCING) or record.in_controlled_shutdown not in (0, *_SHUTDOWN):
            raise TableError(f"broker {broker.id}: no change is {record.fenced}, {record.in_controlled_shutdown}")
        cordoned = _uuids(record.cordoned_log_dirs)
        self._put(
            replace(
                broker,
                fenced=_FENCING.get(record.fenced, broker.fenced),
                in_controlled_shutdown=_SHUTDOWN.get(record.in_controlled_shutdown, broker.in_controlled_shutdown),
                directories=tuple(record.log_dirs) or broker.directories,
                cordoned_directories=broker.cordoned_directories if cordoned is None else cordoned,
            )
        )

    def _registered(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "is not registered" if broker is None else f"is registered under epoch {broker.epoch}, not {epoch}"
            raise TableError(f"broker {broker_id} {known}")
        return broker

    def _put(self, broker: BrokerRegistration) -> None:
        self.brokers[broker.id] = broker
        self._table = None

    def _register_controller(self, record: broker_records.RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = record

    def _feature_level(self, record: setting_records.FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return  # Written by mistake once; raft's own control record rules (KAFKA-18979).
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)

    def _config(self, record: setting_records.ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        values = self.configs.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[resource]

    def _client_quota(self, record: setting_records.ClientQuotaRecord) -> None:
        entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
        values = self.quotas.setdefault(entity, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self.quotas[entity]

    def _producer_ids(self, record: setting_records.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _acl(self, record: security_records.AccessControlEntryRecord) -> None:
        self.acls[record.id] = record

    def _remove_acl(self, record: security_records.RemoveAccessControlEntryRecord) -> None:
        if record.id not in self.acls:
            raise TableError(f"unknown ACL {record.id}")
        del self.acls[record.id]

    def _scram(self, record: security_records.UserScramCredentialRecord) -> None:
        self.scram[record.mechanism, record.name] = record

    def _remove_scram(self, record: security_records.RemoveUserScramCredentialRecord) -> None:
        self.scram.pop((record.mechanism, record.name), None)

    def _token(self, record: security_records.DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = record

    def _remove_token(self, record: security_records.RemoveDelegationTokenRecord) -> None:
        self.tokens.pop(record.token_id, None)

    def _zk_migration_state(self, record: log_records.ZkMigrationStateRecord) -> None:
        self.zk_migration_state = record.zk_migration_state

    def _no_op(self, record: log_records.NoOpRecord) -> None:
        """It moves the high watermark, and nothing else."""

    def _begin_transaction(self, record: log_records.BeginTransactionRecord) -> None:
        if self._transaction is not None:
            raise TableError("a transaction begins within another")
        self._transaction = []

    def _end_transaction(self, record: log_records.EndTransactionRecord) -> None:
        waiting, self._transaction = self._waiting(), None
        for each in waiting:
            self.apply(each)

    def _abort_transaction(self, record: log_records.AbortTransactionRecord) -> None:
        self._waiting()
        self._transaction = None

    def _waiting(self) -> list[MetadataRecord]:
        if self._transaction is None:
            raise TableError("a transaction ends that never began")
        return self._transaction


def _runs(topic_ids: Array) -> tuple[Array, list[Any]]:
    """Where another topic id than the one before begins, and those ids."""
    words = np.ascontiguousarray(topic_ids).view(np.uint64)
    starts = np.flatnonzero(np.append(True, (words[1:] != words[:-1]).any(axis=1))[: len(words)])
    return starts, uuids_of(topic_ids[starts])


def _uuids(values: list[Uuid] | None) -> tuple[Uuid, ...] | None:
    return None if values is None else tuple(values)


_HANDLERS: Final[dict[type[MetadataRecord], Callable[[ClusterImage, Any], None]]] = {
    broker_records.RegisterBrokerRecord: ClusterImage._register_broker,
    broker_records.UnregisterBrokerRecord: ClusterImage._unregister_broker,
    broker_records.FenceBrokerRecord: ClusterImage._fence_broker,
    broker_records.UnfenceBrokerRecord: ClusterImage._unfence_broker,
    broker_records.BrokerRegistrationChangeRecord: ClusterImage._broker_change,
    broker_records.RegisterControllerRecord: ClusterImage._register_controller,
    topic_records.TopicRecord: ClusterImage._topic,
    topic_records.RemoveTopicRecord: ClusterImage._remove_topic,
    topic_records.PartitionRecord: ClusterImage._partition,
    topic_records.PartitionChangeRecord: ClusterImage._partition_change,
    topic_records.ClearElrRecord: ClusterImage._clear_elr,
    setting_records.ConfigRecord: ClusterImage._config,
    setting_records.ClientQuotaRecord: ClusterImage._client_quota,
    setting_records.FeatureLevelRecord: ClusterImage._feature_level,
    setting_records.ProducerIdsRecord: ClusterImage._producer_ids,
    security_records.AccessControlEntryRecord: ClusterImage._acl,
    security_records.RemoveAccessControlEntryRecord: ClusterImage._remove_acl,
    security_records.UserScramCredentialRecord: ClusterImage._scram,
    security_records.RemoveUserScramCredentialRecord: ClusterImage._remove_scram,
    security_records.DelegationTokenRecord: ClusterImage._token,
    security_records.RemoveDelegationTokenRecord: ClusterImage._remove_token,
    log_records.ZkMigrationStateRecord: ClusterImage._zk_migration_state,
    log_records.NoOpRecord: ClusterImage._no_op,
    log_records.BeginTransactionRecord: ClusterImage._begin_transaction,
    log_records.EndTransactionRecord: ClusterImage._end_transaction,
    log_records.AbortTransactionRecord: ClusterImage._abort_transaction,
}
_ENDS: Final = (
    ClusterImage._begin_transaction,
    ClusterImage._end_transaction,
    ClusterImage._abort_transaction,
)
