"""The events of a trace: what brokers and administrators did, and what the controller decided because of it.

An event's cause is data: a replay does it again. A `Consequence` is a decision of the controller and is only compared.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from kcore.schema.metadata_records_settings import ClientQuotaRecord
from kcore.types import Uuid

NO_LEADER: Final = -1


class Partition(NamedTuple):
    """A partition by its topic's name, which is the same on every cluster, and its index."""

    topic: str
    partition_index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition_index}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker registered. `is_clean`: after a controlled shutdown, with its previous epoch."""

    kind: ClassVar = "registration"
    broker_id: int
    rack: str | None
    directories: tuple[Uuid, ...]
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class Unfenced:
    """A broker was ready: its heartbeats no longer asked the controller to keep it fenced."""

    kind: ClassVar = "unfencing"
    broker_id: int


@dataclass(frozen=True, slots=True)
class MissedHeartbeats:
    """A broker ended without a request: the controller fenced it when its session ended."""

    kind: ClassVar = "missed heartbeats"
    broker_id: int


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker's heartbeats requested a controlled shutdown."""

    kind: ClassVar = "controlled shutdown"
    broker_id: int


@dataclass(frozen=True, slots=True)
class DirectoriesLost:
    """A broker's heartbeats reported that these directories are offline now."""

    kind: ClassVar = "directory loss"
    broker_id: int
    lost: tuple[Uuid, ...]


@dataclass(frozen=True, slots=True)
class Unregistration:
    """An administrator unregistered a broker."""

    kind: ClassVar = "unregistration"
    broker_id: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic with the replicas of each partition, and its settings."""

    name: str
    assignments: dict[int, tuple[int, ...]]
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class TopicsCreated:
    """Clients created topics."""

    kind: ClassVar = "topic creation"
    topics: tuple[NewTopic, ...]


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """An administrator added partitions to a topic; `assignments` are those of the new partitions."""

    kind: ClassVar = "more partitions"
    topic: str
    assignments: dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """An administrator deleted topics."""

    kind: ClassVar = "topic deletion"
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A leader's new ISR of a partition, and the recorded state before it."""

    partition: Partition
    leader: int
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]
    leader_recovery_state: int


@dataclass(frozen=True, slots=True)
class IsrsChanged:
    """A leader changed the ISRs of some of its partitions (AlterPartition)."""

    kind: ClassVar = "ISR change"
    leader: int
    changes: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True)
class Reassigned:
    """An administrator began reassignments, or cancelled them: None in place of the new replicas."""

    kind: ClassVar = "reassignment"
    moves: dict[Partition, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True)
class Elected:
    """Elections of preferred leaders, or unclean elections, by an administrator or by the controller itself."""

    kind: ClassVar = "election"
    partitions: tuple[Partition, ...]
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class DirectoriesAssigned:
    """A broker reported in which directories it has replicas (AssignReplicasToDirs)."""

    kind: ClassVar = "directory report"
    broker_id: int
    directories: dict[Partition, Uuid]


@dataclass(frozen=True, slots=True)
class FeaturesUpdated:
    """An administrator changed levels of features."""

    kind: ClassVar = "feature change"
    levels: dict[str, int]


class Setting(NamedTuple):
    """A changed setting of a resource; the value is None if the setting was removed."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigsAltered:
    """An administrator changed settings (IncrementalAlterConfigs)."""

    kind: ClassVar = "config change"
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class QuotasAltered:
    """An administrator changed quotas of clients."""

    kind: ClassVar = "quota change"
    quotas: tuple[ClientQuotaRecord, ...]


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """A broker requested a block of producer ids."""

    kind: ClassVar = "producer ids"
    broker_id: int


Cause = (
    Registration
    | Unfenced
    | MissedHeartbeats
    | ControlledShutdown
    | DirectoriesLost
    | Unregistration
    | TopicsCreated
    | PartitionsAdded
    | TopicsDeleted
    | IsrsChanged
    | Reassigned
    | Elected
    | DirectoriesAssigned
    | FeaturesUpdated
    | ConfigsAltered
    | QuotasAltered
    | ProducerIdsAllocated
)
KINDS: Final[tuple[str, ...]] = tuple(each.kind for each in Cause.__args__)
"""All kinds of causes."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """A decision of the controller that no request named, such as the election after a fencing."""

    kind: str
    partitions: tuple[Partition, ...] = ()
    broker_id: int = -1


@dataclass(frozen=True, slots=True)
class NotReplayed:
    """Records that a replay leaves out; `why` says why."""

    kind: str
    why: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the records of one batch show."""

    time_ms: int  # when the controller appended the batch, by its clock, since 1970
    offset: int  # of the last record that shows the event
    what: Cause | Consequence | NotReplayed


def name_of(what: Cause | Consequence | NotReplayed) -> str:
    """The kind of an event, for people."""
    if isinstance(what, Elected) and what.is_unclean:
        return "unclean election"
    return what.kind


def size_of(what: Cause | Consequence | NotReplayed) -> int:
    """How many topics, partitions, settings or brokers an event concerns."""
    match what:
        case TopicsCreated(topics=items) | TopicsDeleted(names=items) | IsrsChanged(changes=items):
            return len(items)
        case Elected(partitions=items) | ConfigsAltered(settings=items) | QuotasAltered(quotas=items):
            return len(items)
        case PartitionsAdded(assignments=found) | Reassigned(moves=found) | DirectoriesAssigned(directories=found):
            return len(found)
        case Consequence(partitions=items):
            return max(1, len(items))
        case NotReplayed(count=count):
            return count
        case _:
            return 1
