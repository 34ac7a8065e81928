"""Derives events from the batches of a metadata log, as a pure function of the state before each batch."""

from collections.abc import Iterable, Iterator
from typing import Final

from kcore.measure.storm.replay.events import (
    Cause,
    ConfigsAltered,
    Consequence,
    ControlledShutdown,
    DirectoriesAssigned,
    DirectoriesLost,
    Elected,
    Event,
    FeaturesUpdated,
    IsrChange,
    IsrsChanged,
    MissedHeartbeats,
    NewTopic,
    NotReplayed,
    Partition,
    PartitionsAdded,
    ProducerIdsAllocated,
    QuotasAltered,
    Reassigned,
    Registration,
    Setting,
    TopicsCreated,
    TopicsDeleted,
    Unfenced,
    Unregistration,
)
from kcore.measure.storm.replay.partition_causes import CONSEQUENCES, PartitionCause, cause_of, isr_of, target_of
from kcore.measure.storm.replay.trace import NO_CONTROLLER, LogBatch
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema import metadata_records_brokers as brokers
from kcore.schema import metadata_records_security as security
from kcore.schema import metadata_records_settings as settings
from kcore.schema import metadata_records_topics as topics
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_log import ZkMigrationStateRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid

_FENCE, _UNFENCE, _SHUT_DOWN = 1, -1, 1  # Values of BrokerRegistrationChangeRecord.
_SECRET: Final = "the log has no password from which the credential could be made again"
_NOT_REPLAYED: Final[dict[type[MetadataRecord], tuple[str, str]]] = {
    security.AccessControlEntryRecord: ("ACL change", "the targets have no authorizer"),
    security.RemoveAccessControlEntryRecord: ("ACL change", "the targets have no authorizer"),
    security.UserScramCredentialRecord: ("SCRAM credential", _SECRET),
    security.RemoveUserScramCredentialRecord: ("SCRAM credential", _SECRET),
    security.DelegationTokenRecord: ("delegation token", "the targets have no key for tokens"),
    security.RemoveDelegationTokenRecord: ("delegation token", "the targets have no key for tokens"),
    brokers.RegisterControllerRecord: ("controller registration", "the controllers of a target register themselves"),
    brokers.UnregisterControllerRecord: ("controller registration", "the controllers of a target register themselves"),
    ZkMigrationStateRecord: ("migration from ZooKeeper", "the targets have no ZooKeeper"),
}
_CORDONED: Final = ("cordoned directories", "hollow brokers cordon no directory")
_BOOTSTRAP: Final = ("first feature levels", "the targets get these levels before the replay, if they have them")
_CONTROLLER: Final = ("new active controller", "the controllers of a target elect their own")


def events_of(image: ClusterImage, batches: Iterable[LogBatch]) -> Iterator[Event]:
    """The events of the batches in order. Applies each batch to `image`, which then has the state after it."""
    for batch in batches:
        yield from _Batch(image, batch).events()


class _Batch:
    """Collects the events of one batch in the order of their records.

    A batch may have the records of several requests. Consecutive records of the same kind are one event, unless they
    change the same partition twice.
    """

    def __init__(self, image: ClusterImage, batch: LogBatch) -> None:
        self.image, self.batch = image, batch
        self.found: list[tuple[int, Cause | Consequence | NotReplayed]] = []
        self.leaving, self.returning = _leaving_and_returning(image, batch)
        self.was_formatted = FEATURE_NAME in image.features
        self.created: dict[str, NewTopic] = {}

    def events(self) -> Iterator[Event]:
        if self.batch.controller != NO_CONTROLLER:
            self._add(self.batch.offset, NotReplayed(*_CONTROLLER))
        for offset, record in self.batch.records:
            self._take(offset, record)
            self.image.apply(record, offset)
        for offset, what in self.found:
            yield Event(self.batch.time_ms, offset, what)

    def _add(self, offset: int, what: Cause | Consequence | NotReplayed) -> None:
        self.found.append((offset, what))

    @property
    def _last(self) -> Cause | Consequence | NotReplayed | None:
        return self.found[-1][1] if self.found else None

    def _take(self, offset: int, record: MetadataRecord) -> None:
        match record:
            case topics.PartitionChangeRecord():
                self._partition_changed(offset, record)
            case topics.TopicRecord(name=name):
                self._topic_created(offset, name)
            case topics.PartitionRecord():
                self._partition_created(offset, record)
            case topics.RemoveTopicRecord():
                self._add(offset, TopicsDeleted((self._topic_name(record.topic_id),)))
            case settings.ConfigRecord():
                self._config_changed(offset, record)
            case topics.ClearElrRecord(topic_name=name):
                if name not in self.created:  # It also follows the first min.insync.replicas of a new topic.
                    self._add(offset, Consequence("ELRs cleared"))
            case _:
                self._take_other(offset, record)

    def _take_other(self, offset: int, record: MetadataRecord) -> None:
        match record:
            case brokers.RegisterBrokerRecord():
                self._registered(offset, record)
            case brokers.BrokerRegistrationChangeRecord():
                self._registration_changed(offset, record)
            case brokers.FenceBrokerRecord(id=broker_id):
                self._add(offset, MissedHeartbeats(broker_id))
            case brokers.UnfenceBrokerRecord(id=broker_id):
                self._add(offset, Unfenced(broker_id))
            case brokers.UnregisterBrokerRecord(broker_id=broker_id):
                self._add(offset, Unregistration(broker_id))
            case settings.FeatureLevelRecord(name=name, feature_level=level):
                self._add(offset, FeaturesUpdated({name: level}) if self.was_formatted else NotReplayed(*_BOOTSTRAP))
            case settings.ClientQuotaRecord():
                self._add(offset, QuotasAltered((record,)))
            case settings.ProducerIdsRecord(broker_id=broker_id):
                self._add(offset, ProducerIdsAllocated(broker_id))
            case _:
                kind, why = _NOT_REPLAYED.get(type(record), (type(record).__name__, "kcore has no request for it"))
                self._add(offset, NotReplayed(kind, why))

    def _registered(self, offset: int, record: brokers.RegisterBrokerRecord) -> None:
        before = self._broker(record.broker_id)
        is_clean = before is not None and before.in_controlled_shutdown
        if before is not None and not before.fenced:
            self._add(offset, MissedHeartbeats(record.broker_id))  # The earlier incarnation had ended.
        self._add(offset, Registration(record.broker_id, record.rack, tuple(record.log_dirs), is_clean))

    def _registration_changed(self, offset: int, record: brokers.BrokerRegistrationChangeRecord) -> None:
        before = self._broker(record.broker_id)
        if record.log_dirs and before is not None:
            lost = tuple(each for each in before.directories if each not in record.log_dirs)
            self._add(offset, DirectoriesLost(record.broker_id, lost))
        if record.in_controlled_shutdown == _SHUT_DOWN:
            self._add(offset, ControlledShutdown(record.broker_id))
        elif record.fenced == _FENCE:
            self._fenced(offset, record.broker_id, before)
        elif record.fenced == _UNFENCE:
            self._add(offset, Unfenced(record.broker_id))
        if record.cordoned_log_dirs:
            self._add(offset, NotReplayed(*_CORDONED))

    def _fenced(self, offset: int, broker_id: int, before: BrokerRegistration | None) -> None:
        """Adds a fencing. Kafka 4 writes another one when the session of a broker that is fenced already ends."""
        if before is not None and before.in_controlled_shutdown:
            self._add(offset, Consequence("broker fenced after its shutdown", broker_id=broker_id))
        elif before is not None and before.fenced:
            self._add(offset, Consequence("broker fenced again", broker_id=broker_id))
        else:
            self._add(offset, MissedHeartbeats(broker_id))

    def _topic_created(self, offset: int, name: str) -> None:
        """Begins a topic; a request may have created several topics."""
        self.created[name] = topic = NewTopic(name, {}, {})
        if isinstance(last := self._last, TopicsCreated):
            self.found[-1] = (offset, TopicsCreated((*last.topics, topic)))
        else:
            self._add(offset, TopicsCreated((topic,)))

    def _partition_created(self, offset: int, record: topics.PartitionRecord) -> None:
        name, replicas, last = self._topic_name(record.topic_id), tuple(record.replicas), self._last
        if name in self.created:
            self.created[name].assignments[record.partition_id] = replicas
            if isinstance(last, TopicsCreated):
                self.found[-1] = (offset, last)
        elif isinstance(last, PartitionsAdded) and last.topic == name:
            self.found[-1] = (offset, PartitionsAdded(name, {**last.assignments, record.partition_id: replicas}))
        else:
            self._add(offset, PartitionsAdded(name, {record.partition_id: replicas}))

    def _config_changed(self, offset: int, record: settings.ConfigRecord) -> None:
        if record.resource_type == ConfigResourceType.TOPIC and record.resource_name in self.created:
            self.created[record.resource_name].configs[record.name] = record.value
            return
        setting = Setting(record.resource_type, record.resource_name, record.name, record.value)
        if isinstance(last := self._last, ConfigsAltered):
            self.found[-1] = (offset, ConfigsAltered((*last.settings, setting)))
        else:
            self._add(offset, ConfigsAltered((setting,)))

    def _partition_changed(self, offset: int, record: topics.PartitionChangeRecord) -> None:
        partition = Partition(self._topic_name(record.topic_id), record.partition_id)
        before = self.image.partition(*partition)
        gone = {each for each in {*before.isr, *before.elr} if self._is_gone(each)}
        cause = cause_of(before, record, self.leaving, gone, self.returning)
        if cause in CONSEQUENCES:
            self._merge_consequence(offset, cause, partition)
            return
        if cause is PartitionCause.ISR:
            state = max(record.leader_recovery_state, 0)
            change = IsrChange(partition, before.leader, before.isr, isr_of(before, record), state)
            self._merge_isr(offset, before.leader, change)
        elif cause in (PartitionCause.REASSIGNMENT, PartitionCause.CANCELLATION):
            target = target_of(before, record) if cause is PartitionCause.REASSIGNMENT else None
            self._merge_move(offset, partition, target)
        elif cause is PartitionCause.DIRECTORIES:
            self._assigned(offset, partition, before, record)
        else:
            self._merge_election(offset, partition, cause is PartitionCause.UNCLEAN_ELECTION)

    def _merge_consequence(self, offset: int, cause: PartitionCause, partition: Partition) -> None:
        if isinstance(last := self._last, Consequence) and last.kind == cause.value:
            self.found[-1] = (offset, Consequence(last.kind, (*last.partitions, partition)))
        else:
            self._add(offset, Consequence(cause.value, (partition,)))

    def _merge_isr(self, offset: int, leader: int, change: IsrChange) -> None:
        last = self._last
        earlier = last.changes if isinstance(last, IsrsChanged) and last.leader == leader else ()
        if earlier and all(each.partition != change.partition for each in earlier):
            self.found[-1] = (offset, IsrsChanged(leader, (*earlier, change)))
        else:
            self._add(offset, IsrsChanged(leader, (change,)))

    def _merge_move(self, offset: int, partition: Partition, target: tuple[int, ...] | None) -> None:
        if isinstance(last := self._last, Reassigned) and partition not in last.moves:
            self.found[-1] = (offset, Reassigned({**last.moves, partition: target}))
        else:
            self._add(offset, Reassigned({partition: target}))

    def _merge_election(self, offset: int, partition: Partition, is_unclean: bool) -> None:
        last = self._last
        earlier = last.partitions if isinstance(last, Elected) and last.is_unclean == is_unclean else ()
        if earlier and partition not in earlier:
            self.found[-1] = (offset, Elected((*earlier, partition), is_unclean))
        else:
            self._add(offset, Elected((partition,), is_unclean))

    def _assigned(
        self,
        offset: int,
        partition: Partition,
        before: PartitionRegistration,
        record: topics.PartitionChangeRecord,
    ) -> None:
        """Adds the directories that differ to the report of their broker.

        A broker that reports a replica in an offline directory loses the replica in the same batch.
        """
        for broker_id, old, new in zip(before.replicas, before.directories, record.directories or (), strict=False):
            if old == new:
                continue
            broker = self._broker(broker_id)
            if broker is not None and new not in broker.directories:
                self.leaving.add(broker_id)
            last = self._last
            earlier: dict[Partition, Uuid] = {}
            if isinstance(last, DirectoriesAssigned) and last.broker_id == broker_id:
                earlier = last.directories
            if earlier and partition not in earlier:
                self.found[-1] = (offset, DirectoriesAssigned(broker_id, {**earlier, partition: new}))
            else:
                self._add(offset, DirectoriesAssigned(broker_id, {partition: new}))

    def _topic_name(self, topic_id: Uuid) -> str:
        row = self.image.topics.row_of_id(topic_id)
        assert row is not None, f"a record of the unknown topic {topic_id}"
        return self.image.topics.names[row] or ""

    def _broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.image.brokers.get(broker_id)

    def _is_gone(self, broker_id: int) -> bool:
        """True if the broker is fenced, in controlled shutdown, or not registered."""
        broker = self._broker(broker_id)
        return broker is None or broker.fenced or broker.in_controlled_shutdown


def _leaving_and_returning(image: ClusterImage, batch: LogBatch) -> tuple[set[int], set[int]]:
    """The brokers that the batch takes out of service, or out of one directory; and those that it unfences."""
    leaving, returning = set[int](), set[int]()
    for _, record in batch.records:
        match record:
            case brokers.BrokerRegistrationChangeRecord(broker_id=broker_id):
                (returning if record.fenced == _UNFENCE else leaving).add(broker_id)
            case (
                brokers.RegisterBrokerRecord(broker_id=broker_id) | brokers.UnregisterBrokerRecord(broker_id=broker_id)
            ):
                leaving.add(broker_id)
            case brokers.FenceBrokerRecord(id=broker_id):
                leaving.add(broker_id)
            case brokers.UnfenceBrokerRecord(id=broker_id):
                returning.add(broker_id)
    return leaving, returning
