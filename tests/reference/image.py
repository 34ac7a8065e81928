"""A cluster by its metadata records, in plain dicts: the slow twin of `kcore.metadata.image.image`.

It is also the twin of `kcore._ext.tables.partition_frames` and `kcore._ext.tables.partition_replay`. It shares only the
records with them, and takes only records that fit.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from kcore import schema as s

MIGRATING = bytes(16)


@dataclass
class SlowPartition:
    """One partition."""

    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int
    directories: list[bytes]
    adding: list[int]
    removing: list[int]
    elr: list[int]
    last_known_elr: list[int]


@dataclass
class SlowImage:
    """The state after all records."""

    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, Any] = field(default_factory=dict)  # RegisterBrokerRecords, changed as later records say.
    controllers: dict[int, Any] = field(default_factory=dict)
    topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[tuple[bytes, int], SlowPartition] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    quotas: dict[frozenset[tuple[str, str | None]], dict[str, float]] = field(default_factory=dict)
    acls: dict[bytes, Any] = field(default_factory=dict)
    scram: dict[tuple[int, str], Any] = field(default_factory=dict)
    tokens: dict[str, Any] = field(default_factory=dict)
    producer_ids: int = -1
    migration: int = 0
    waiting: list[Any] | None = None  # Records of the open transaction.

    def apply(self, record: Any) -> None:
        """One record."""
        name = type(record).__name__
        if name == "BeginTransactionRecord":
            self.waiting = []
        elif name == "AbortTransactionRecord":
            self.waiting = None
        elif name == "EndTransactionRecord":
            waiting, self.waiting = self.waiting or [], None
            for each in waiting:
                self.apply(each)
        elif self.waiting is not None:
            self.waiting.append(record)
        else:
            getattr(self, name)(record)

    def NoOpRecord(self, record: Any) -> None:
        pass

    def FeatureLevelRecord(self, record: Any) -> None:
        if record.name == "kraft.version":
            return
        self.features[record.name] = record.feature_level
        if not record.feature_level:
            del self.features[record.name]

    def RegisterBrokerRecord(self, record: Any) -> None:
        self.brokers[record.broker_id] = record

    def UnregisterBrokerRecord(self, record: Any) -> None:
        del self.brokers[record.broker_id]

    def FenceBrokerRecord(self, record: Any) -> None:
        self.brokers[record.id] = changed(self.brokers[record.id], fenced=True)

    def UnfenceBrokerRecord(self, record: Any) -> None:
        self.brokers[record.id] = changed(self.brokers[record.id], fenced=False)

    def BrokerRegistrationChangeRecord(self, record: Any) -> None:
        broker = self.brokers[record.broker_id]
        if record.fenced:
            broker = changed(broker, fenced=record.fenced == 1)
        if record.in_controlled_shutdown:
            broker = changed(broker, in_controlled_shutdown=True)
        if record.log_dirs:
            broker = changed(broker, log_dirs=record.log_dirs)
        if record.cordoned_log_dirs is not None:
            broker = changed(broker, cordoned_log_dirs=record.cordoned_log_dirs)
        self.brokers[record.broker_id] = broker

    def RegisterControllerRecord(self, record: Any) -> None:
        self.controllers[record.controller_id] = record

    def UnregisterControllerRecord(self, record: Any) -> None:
        del self.controllers[record.controller_id]

    def TopicRecord(self, record: Any) -> None:
        self.topics[record.topic_id] = record.name

    def RemoveTopicRecord(self, record: Any) -> None:
        name = self.topics.pop(record.topic_id)
        self.partitions = {key: each for key, each in self.partitions.items() if key[0] != record.topic_id}
        self.configs.pop((2, name), None)

    def PartitionRecord(self, record: Any) -> None:
        self.partitions[record.topic_id, record.partition_id] = SlowPartition(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovery=record.leader_recovery_state,
            directories=record.directories or [MIGRATING] * len(record.replicas),
            adding=record.adding_replicas,
            removing=record.removing_replicas,
            elr=record.eligible_leader_replicas or [],
            last_known_elr=[each for each in record.last_known_elr or [] if each != -1],  # Nobody.
        )

    def PartitionChangeRecord(self, record: Any) -> None:
        """PartitionRegistration.merge."""
        key = record.topic_id, record.partition_id
        old = self.partitions[key]
        new = replace(old, partition_epoch=old.partition_epoch + 1)
        for ours, theirs in {
            "replicas": "replicas",
            "isr": "isr",
            "adding": "adding_replicas",
            "removing": "removing_replicas",
            "elr": "eligible_leader_replicas",
            "last_known_elr": "last_known_elr",
        }.items():
            if getattr(record, theirs) is not None:
                new = replace(new, **{ours: getattr(record, theirs)})
        new = replace(new, last_known_elr=[each for each in new.last_known_elr if each != -1])
        if record.directories is not None:
            new = replace(new, directories=record.directories or [MIGRATING] * len(new.replicas))
        elif len(new.replicas) != len(old.replicas):
            new = replace(new, directories=[MIGRATING] * len(new.replicas))
        if record.leader != -2:
            new = replace(new, leader=record.leader, leader_epoch=old.leader_epoch + 1)
        if record.leader_recovery_state != -1:
            new = replace(new, recovery=record.leader_recovery_state)
        self.partitions[key] = new

    def ClearElrRecord(self, record: Any) -> None:
        """TopicDelta.maybeClearElr: a change of each partition that has any."""
        for key, each in self.partitions.items():
            if record.topic_name in ("", self.topics[key[0]]) and (each.elr or each.last_known_elr):
                self.partitions[key] = replace(
                    each, elr=[], last_known_elr=[], partition_epoch=each.partition_epoch + 1
                )

    def ConfigRecord(self, record: Any) -> None:
        resource = record.resource_type, record.resource_name
        values = {**self.configs.get(resource, {}), record.name: record.value}
        self.configs[resource] = {name: value for name, value in values.items() if value is not None}
        if not self.configs[resource]:
            del self.configs[resource]

    def ClientQuotaRecord(self, record: Any) -> None:
        entity = frozenset((each.entity_type, each.entity_name) for each in record.entity)
        values = {**self.quotas.get(entity, {}), record.key: None if record.remove else record.value}
        self.quotas[entity] = {key: value for key, value in values.items() if value is not None}
        if not self.quotas[entity]:
            del self.quotas[entity]

    def ProducerIdsRecord(self, record: Any) -> None:
        self.producer_ids = record.next_producer_id

    def AccessControlEntryRecord(self, record: Any) -> None:
        self.acls[record.id] = record

    def RemoveAccessControlEntryRecord(self, record: Any) -> None:
        del self.acls[record.id]

    def UserScramCredentialRecord(self, record: Any) -> None:
        self.scram[record.mechanism, record.name] = record

    def RemoveUserScramCredentialRecord(self, record: Any) -> None:
        self.scram.pop((record.mechanism, record.name), None)

    def DelegationTokenRecord(self, record: Any) -> None:
        self.tokens[record.token_id] = record

    def RemoveDelegationTokenRecord(self, record: Any) -> None:
        self.tokens.pop(record.token_id, None)

    def ZkMigrationStateRecord(self, record: Any) -> None:
        self.migration = record.zk_migration_state


def changed(broker: s.RegisterBrokerRecord, **fields: Any) -> s.RegisterBrokerRecord:
    """The registration with other values in these fields."""
    names = [each.name for each in s.RegisterBrokerRecord.__fields__]
    return s.RegisterBrokerRecord(**{**{name: getattr(broker, name) for name in names}, **fields})
