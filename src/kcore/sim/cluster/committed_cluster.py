"""The cluster that the committed records describe, in plain Python: a slow twin of `kcore.metadata.image`.

It reads each committed record once, and shares no code with the image that the nodes use. So it shows a wrong replay,
and it is the world's own view of the cluster, which no node's failure changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from kcore.schema import metadata_records_brokers as brokers
from kcore.schema import metadata_records_log as logs
from kcore.schema import metadata_records_topics as topics
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid

PartitionId: TypeAlias = tuple[Uuid, int]  # A topic's id, and the partition's index.
NO_LEADER: Final = -1
_SAME_LEADER: Final = -2  # PartitionChangeRecord: the leader does not change.
_SAME: Final = -1  # PartitionChangeRecord: the recovery state does not change.
_FENCING: Final = {1: True, -1: False}


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's registration, as PartitionRegistration has it."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int

    def directory_of(self, broker_id: int) -> Uuid | None:
        """The directory of a broker's replica."""
        found = dict(zip(self.replicas, self.directories, strict=False))
        return found.get(broker_id)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's registration."""

    epoch: int
    incarnation_id: Uuid
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(slots=True)
class Happened:
    """The changes of one batch, for the checks of transitions."""

    partitions: list[tuple[PartitionId, Partition | None, Partition]] = field(default_factory=list)  # Before, after.
    registrations: list[tuple[int, int, Broker | None, Broker]] = field(default_factory=list)  # Offset, id, and both.
    stale: list[str] = field(default_factory=list)  # Changes that name another broker epoch than the registered one.

    def restarted(self) -> set[int]:
        """The brokers that registered a new incarnation."""
        return {
            broker_id
            for _, broker_id, before, after in self.registrations
            if before is None or before.incarnation_id != after.incarnation_id
        }


class CommittedCluster:
    """The cluster at `end`; `happened` has the changes since the last `take`."""

    def __init__(self) -> None:
        self.end = 0
        self.names: dict[Uuid, str] = {}  # Topics.
        self.partitions: dict[PartitionId, Partition] = {}
        self.brokers: dict[int, Broker] = {}
        self.configs: dict[str, dict[str, str]] = {}  # By topic.
        self.features: dict[str, int] = {}
        self.created: set[Uuid] = set()  # All topics that there ever were.
        self.last_epochs: dict[int, int] = {}  # By broker id: its highest broker epoch ever.
        self.is_in_transaction = False
        self.records = 0  # Records that changed the cluster.
        self.happened = Happened()
        self._waiting: list[tuple[int, MetadataRecord]] = []  # Records of the open transaction.

    def take(self) -> Happened:
        """The changes since the last call."""
        happened, self.happened = self.happened, Happened()
        return happened

    def apply(self, offset: int, record: MetadataRecord) -> None:
        """Applies a committed record."""
        match record:
            case logs.NoOpRecord():
                return
            case logs.BeginTransactionRecord():
                self.is_in_transaction, self._waiting = True, []
            case logs.EndTransactionRecord():
                self.is_in_transaction = False
                for each in self._waiting:
                    self._apply(*each)
            case logs.AbortTransactionRecord():
                self.is_in_transaction, self._waiting = False, []
            case _ if self.is_in_transaction:
                self._waiting.append((offset, record))
            case _:
                self._apply(offset, record)

    def _apply(self, offset: int, record: MetadataRecord) -> None:
        self.records += 1
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, offset, record)

    # Topics.

    def topic(self, offset: int, record: topics.TopicRecord) -> None:
        self.names[record.topic_id] = record.name
        self.created.add(record.topic_id)

    def remove_topic(self, offset: int, record: topics.RemoveTopicRecord) -> None:
        self.configs.pop(self.names.pop(record.topic_id), None)
        self.partitions = {key: each for key, each in self.partitions.items() if key[0] != record.topic_id}

    def partition(self, offset: int, record: topics.PartitionRecord) -> None:
        after = Partition(
            tuple(record.replicas),
            tuple(record.directories),
            tuple(record.isr),
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            tuple(record.eligible_leader_replicas or ()),
            _known(record.last_known_elr or ()),
            record.leader,
            record.leader_recovery_state,
            record.leader_epoch,
            record.partition_epoch,
        )
        self._put((record.topic_id, record.partition_id), after)

    def change_partition(self, offset: int, record: topics.PartitionChangeRecord) -> None:
        """As PartitionRegistration.merge: a named leader raises the leader epoch, even if it leads already."""
        key = record.topic_id, record.partition_id
        before = self.partitions[key]
        changes: dict[str, Any] = {"partition_epoch": before.partition_epoch + 1}
        for name, value in _lists_of(record):
            if value is not None:
                changes[name] = tuple(value)
        if record.leader != _SAME_LEADER:
            changes |= {"leader": record.leader, "leader_epoch": before.leader_epoch + 1}
        if record.leader_recovery_state != _SAME:
            changes["leader_recovery_state"] = record.leader_recovery_state
        self._put(key, replace(before, **changes))

    def clear_elr(self, offset: int, record: topics.ClearElrRecord) -> None:
        """As TopicDelta.maybeClearElr: the epoch of each partition that has either ELR rises."""
        for key, each in [*self.partitions.items()]:
            if record.topic_name in ("", self.names[key[0]]) and (each.elr or each.last_known_elr):
                self._put(key, replace(each, elr=(), last_known_elr=(), partition_epoch=each.partition_epoch + 1))

    def _put(self, key: PartitionId, after: Partition) -> None:
        self.happened.partitions.append((key, self.partitions.get(key), after))
        self.partitions[key] = after

    # Brokers.

    def register(self, offset: int, record: brokers.RegisterBrokerRecord) -> None:
        after = Broker(
            record.broker_epoch,
            record.incarnation_id,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(sorted(record.log_dirs)),
        )
        self.happened.registrations.append((offset, record.broker_id, self.brokers.get(record.broker_id), after))
        self.brokers[record.broker_id] = after

    def unregister(self, offset: int, record: brokers.UnregisterBrokerRecord) -> None:
        self._registered(record.broker_id, record.broker_epoch)
        self.brokers.pop(record.broker_id, None)

    def fence(self, offset: int, record: brokers.FenceBrokerRecord) -> None:
        self._change(record.id, record.epoch, fenced=True)

    def unfence(self, offset: int, record: brokers.UnfenceBrokerRecord) -> None:
        self._change(record.id, record.epoch, fenced=False)

    def change_registration(self, offset: int, record: brokers.BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = _FENCING[record.fenced]
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = True
        if record.log_dirs:
            changes["directories"] = tuple(sorted(record.log_dirs))
        self._change(record.broker_id, record.broker_epoch, **changes)

    def _change(self, broker_id: int, epoch: int, **changes: Any) -> None:
        if self._registered(broker_id, epoch):
            self.brokers[broker_id] = replace(self.brokers[broker_id], **changes)

    def _registered(self, broker_id: int, epoch: int) -> bool:
        known = self.brokers.get(broker_id)
        if known is None or known.epoch != epoch:
            self.happened.stale.append(f"broker {broker_id} has {known}, and a record names epoch {epoch}")
        return known is not None

    # Settings.

    def config(self, offset: int, record: ConfigRecord) -> None:
        if record.resource_type == ConfigResourceType.TOPIC:
            own = self.configs.setdefault(record.resource_name, {})
            if record.value is None:
                own.pop(record.name, None)
            else:
                own[record.name] = record.value

    def feature(self, offset: int, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level


def _known(ids: Any) -> tuple[int, ...]:
    """Without broker -1: Kafka writes -1 into the last known ELR if there was no leader."""
    return tuple(each for each in ids if each != NO_LEADER)


def _lists_of(record: topics.PartitionChangeRecord) -> list[tuple[str, Any]]:
    last = record.last_known_elr
    return [
        ("replicas", record.replicas),
        ("directories", record.directories),
        ("isr", record.isr),
        ("removing", record.removing_replicas),
        ("adding", record.adding_replicas),
        ("elr", record.eligible_leader_replicas),
        ("last_known_elr", None if last is None else _known(last)),
    ]


_HANDLERS: Final[Mapping[type[MetadataRecord], Callable[[CommittedCluster, int, Any], None]]] = {
    topics.TopicRecord: CommittedCluster.topic,
    topics.RemoveTopicRecord: CommittedCluster.remove_topic,
    topics.PartitionRecord: CommittedCluster.partition,
    topics.PartitionChangeRecord: CommittedCluster.change_partition,
    topics.ClearElrRecord: CommittedCluster.clear_elr,
    brokers.RegisterBrokerRecord: CommittedCluster.register,
    brokers.UnregisterBrokerRecord: CommittedCluster.unregister,
    brokers.FenceBrokerRecord: CommittedCluster.fence,
    brokers.UnfenceBrokerRecord: CommittedCluster.unfence,
    brokers.BrokerRegistrationChangeRecord: CommittedCluster.change_registration,
    ConfigRecord: CommittedCluster.config,
    FeatureLevelRecord: CommittedCluster.feature,
}
