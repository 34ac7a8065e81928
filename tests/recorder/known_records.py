"""The cluster's state that the recorder knows: the replayed records that the controller has appended."""

from dataclasses import dataclass, field
from typing import Any

from kcore.schema.structure import Message


@dataclass
class Broker:
    """A registration."""

    id: int
    epoch: int
    incarnation: str
    fenced: bool
    shutting: bool
    dirs: list[str]
    rack: str | None


@dataclass
class Partition:
    """As the log has it."""

    topic: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    epoch: int
    adding: list[int]
    removing: list[int]
    elr: list[int]
    recovery: int
    dirs: list[str]


@dataclass
class KnownRecords:
    """The state that the walk looks at."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)  # Name to id.
    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    configs: dict[tuple[int, str, str], str] = field(default_factory=dict)
    controllers: set[int] = field(default_factory=set)
    acls: dict[str, Any] = field(default_factory=dict)
    scram: set[tuple[str, int]] = field(default_factory=set)
    gone_ids: list[str] = field(default_factory=list)
    known_epochs: dict[int, list[int]] = field(default_factory=dict)

    def apply(self, message: Message) -> None:
        """A record takes effect; those that the walk does not look at pass by."""
        name = type(message).__name__
        if (takes := getattr(self, f"_{name}", None)) is not None:
            takes(message)

    def _RegisterBrokerRecord(self, m: Any) -> None:
        self.brokers[m.broker_id] = Broker(
            *(m.broker_id, m.broker_epoch, str(m.incarnation_id), m.fenced, m.in_controlled_shutdown),
            *([str(each) for each in m.log_dirs], m.rack),
        )
        self.known_epochs.setdefault(m.broker_id, []).append(m.broker_epoch)

    def _UnregisterBrokerRecord(self, m: Any) -> None:
        self.brokers.pop(m.broker_id, None)

    def _BrokerRegistrationChangeRecord(self, m: Any) -> None:
        broker = self.brokers[m.broker_id]
        if m.fenced:
            broker.fenced = m.fenced == 1
        if m.in_controlled_shutdown:
            broker.shutting = m.in_controlled_shutdown == 1
        if m.log_dirs:
            broker.dirs = [str(each) for each in m.log_dirs]

    def _FenceBrokerRecord(self, m: Any) -> None:
        self.brokers[m.id].fenced = True

    def _UnfenceBrokerRecord(self, m: Any) -> None:
        self.brokers[m.id].fenced = False

    def _TopicRecord(self, m: Any) -> None:
        self.topics[m.name] = str(m.topic_id)
        self.ids[str(m.topic_id)] = m.name

    def _RemoveTopicRecord(self, m: Any) -> None:
        topic = self.ids.pop(str(m.topic_id))
        del self.topics[topic]
        self.gone_ids.append(str(m.topic_id))
        for key in [each for each in self.partitions if each[0] == topic]:
            del self.partitions[key]
        self.configs = {key: value for key, value in self.configs.items() if key[:2] != (2, topic)}

    def _PartitionRecord(self, m: Any) -> None:
        topic = self.ids[str(m.topic_id)]
        self.partitions[topic, m.partition_id] = Partition(
            *(topic, m.partition_id, list(m.replicas), list(m.isr), m.leader, m.leader_epoch, m.partition_epoch),
            *(list(m.adding_replicas), list(m.removing_replicas), list(m.eligible_leader_replicas or [])),
            *(m.leader_recovery_state, [str(each) for each in m.directories]),
        )

    def _PartitionChangeRecord(self, m: Any) -> None:
        partition = self.partitions[self.ids[str(m.topic_id)], m.partition_id]
        for name, value in (
            ("isr", m.isr),
            ("replicas", m.replicas),
            ("adding", m.adding_replicas),
            ("removing", m.removing_replicas),
            ("elr", m.eligible_leader_replicas),
        ):
            if value is not None:
                setattr(partition, name, list(value))
        if m.leader != -2:
            partition.leader = m.leader
            partition.leader_epoch += 1
        if m.leader_recovery_state != -1:
            partition.recovery = m.leader_recovery_state
        if m.directories is not None:
            partition.dirs = [str(each) for each in m.directories]
        partition.epoch += 1

    def _ConfigRecord(self, m: Any) -> None:
        key = m.resource_type, m.resource_name, m.name
        if m.value is None:
            self.configs.pop(key, None)
        else:
            self.configs[key] = m.value

    def _FeatureLevelRecord(self, m: Any) -> None:
        self.features[m.name] = m.feature_level

    def _RegisterControllerRecord(self, m: Any) -> None:
        self.controllers.add(m.controller_id)

    def _UnregisterControllerRecord(self, m: Any) -> None:
        self.controllers.discard(m.controller_id)

    def _AccessControlEntryRecord(self, m: Any) -> None:
        self.acls[str(m.id)] = m

    def _RemoveAccessControlEntryRecord(self, m: Any) -> None:
        self.acls.pop(str(m.id), None)

    def _UserScramCredentialRecord(self, m: Any) -> None:
        self.scram.add((m.name, m.mechanism))

    def _RemoveUserScramCredentialRecord(self, m: Any) -> None:
        self.scram.discard((m.name, m.mechanism))

    def _ClearElrRecord(self, m: Any) -> None:
        for partition in self.partitions.values():
            if not m.topic_name or partition.topic == m.topic_name:
                partition.elr = []
