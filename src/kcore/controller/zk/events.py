"""The events of a controller: requests, responses of brokers, changes in ZooKeeper, and the controller's own timers.

Source: KafkaController's ControllerEvents of 3.9.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.node import error_responses, tokens
from kcore.node.zk.requester import NO_REQUESTER, Requester
from kcore.protocol_errors import Errors
from kcore.schema import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kcore.schema.structure import Message
from kcore.types import Int32s
from kcore.wire.columns import Columns

Request = TypeVar("Request", bound=Message, covariant=True)

# Inputs of `ZkController`, which decides and neither reads nor writes ZooKeeper.


@dataclass(frozen=True, slots=True)
class BrokerFailed:
    """The registrations of these brokers are gone from `/brokers/ids`."""

    broker_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class BrokerStarted:
    """A broker registered, new or as a new incarnation; its epoch is the czxid of its znode (KIP-380)."""

    broker_id: int
    broker_epoch: int
    endpoints: Sequence[Endpoint] = ()
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # Lowest and highest level (KIP-584).
    coordinates: bool = True  # False: no replica of an internal topic is placed on it.


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker asks the controller to move its leaders away. `broker_epoch` -1 (before KIP-380) is not checked."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """Elect the preferred replica of the partitions in `rows`, or of all that another replica leads."""

    rows: Int32s | None = None


# Inputs of `ActiveController`.


@dataclass(frozen=True)
class Event:
    """An event that `ActiveController.handle` takes. Two events of the same kind without data are equal."""

    @property
    def name(self) -> str:
        """The kind of event, in log lines and metrics."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class RequestEvent(Event, Generic[Request]):
    """A client or a broker sent a request, which needs one response."""

    request_id: int  # The server's number for the request.
    request: Request
    version: int
    requester: Requester = NO_REQUESTER
    is_proxied: bool = False  # A broker proxies it (KIP-590's document): it may alter the settings of any broker.

    @property
    def name(self) -> str:
        """The API of the request, such as CreateTopics."""
        return type(self.request).__name__.removesuffix("Request")

    def refused(self, error: Errors) -> Message:
        """The response with this error. For reassignments it names no partitions, as in KafkaController."""
        match self.request:
            case AlterPartitionReassignmentsRequest():
                return AlterPartitionReassignmentsResponse(error_code=error, error_message=None)
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse(error_code=error, error_message=None)
        if isinstance(self.request, tokens.OfTokens):
            return tokens.refused(self.request, self.version, self.requester.principal, error)
        return error_responses.refused(self.request, error)


@dataclass(frozen=True, slots=True)
class Elected(Event):
    """This node wrote `/controller`, and the next epoch to `/controller_epoch`, whose version is `epoch_version`."""

    epoch: int
    epoch_version: int


class SessionLost(Event):
    """The ZooKeeper session has expired, and `/controller` is deleted with it."""


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """`/controller` changed or was deleted: another node may be the controller."""

    broker_id: int  # The controller's id; -1 for none.


class BrokerChange(Event):
    """The children of `/brokers/ids` changed."""


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """The znode of a broker changed: the broker may have new endpoints."""

    broker_id: int


class TopicChange(Event):
    """The children of `/brokers/topics` changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """The znode of a topic changed: it may have more partitions."""

    topic: str


class LogDirEventNotification(Event):
    """Brokers notified the controller, through ZooKeeper, of failed log directories."""


class ConfigChange(Event):
    """A notification of changed settings was created below `/config/changes`."""


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable(Event):
    """A topic allows unclean elections from now on."""

    topic: str


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(Event):
    """A broker responded to the LeaderAndIsr that was sent to this broker epoch."""

    broker_id: int
    broker_epoch: int
    response: Columns


class IsrChangeNotification(Event):
    """Leaders from before 2.7 changed ISRs in state znodes, and notified the controller through ZooKeeper."""


class ZkPartitionReassignment(Event):
    """`/admin/reassign_partitions` was created."""


class ZkReplicaLeaderElection(Event):
    """`/admin/preferred_replica_election` was created."""


class AutoPreferredReplicaLeaderElection(Event):
    """The timer of leader.imbalance.check.interval.seconds fired: move leaders to their preferred replicas."""


class TopicDeletion(Event):
    """The children of `/admin/delete_topics` changed."""


class PartitionModificationsStep(Event):
    """Read the znodes of the topics that PartitionModifications events named; the controller's own event."""


class ReassignmentStep(Event):
    """Complete the reassignments whose new replicas are all in the ISRs; the controller's own event."""


class TopicDeletionStep(Event):
    """Continue a deletion that is too large for one event (`topics/deletion_steps.py`); the controller's own event."""


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived(Event):
    """A broker responded to the StopReplica that was sent to this broker epoch.

    `delete`: the request deleted all the replicas in the response; False: it only stopped them.
    """

    broker_id: int
    broker_epoch: int
    delete: bool
    response: Columns


class Tick(Event):
    """A timer fired: answer the requests whose time-out is over."""


@dataclass(frozen=True, slots=True)
class ExpireTokens(Event):
    """The timer of delegation.token.expiry.check.interval.ms fired: remove expired tokens."""

    wall_ms: int  # Now, in ms since 1970.


Kind: TypeAlias = Literal["created", "changed", "deleted", "children"]

# The events of paths whose children change.
CHILDREN: Final[dict[str, type[Event]]] = {
    znodes.BROKER_IDS: BrokerChange,
    znodes.TOPICS: TopicChange,
    znodes.DELETE_TOPICS: TopicDeletion,
    znodes.ISR_CHANGE_NOTIFICATION: IsrChangeNotification,
    znodes.LOG_DIR_EVENT_NOTIFICATION: LogDirEventNotification,
    znodes.CONFIG_CHANGES: ConfigChange,
}
# The events of paths that are created.
CREATED: Final[dict[str, type[Event]]] = {
    znodes.REASSIGN_PARTITIONS: ZkPartitionReassignment,
    znodes.PREFERRED_REPLICA_ELECTION: ZkReplicaLeaderElection,
}


def event_of(path: str, kind: Kind) -> Event | None:
    """The event of a watch that fired. None for a deleted broker znode, because the watch on its parent fires, too."""
    if kind == "children":
        return CHILDREN[path]() if path in CHILDREN else None
    if kind == "created" and path in CREATED:
        return CREATED[path]()
    parent, _, name = path.rpartition("/")
    if kind == "changed" and parent == znodes.BROKER_IDS and name.isdecimal():
        return BrokerModifications(int(name))
    if kind == "changed" and parent == znodes.TOPICS:
        return PartitionModifications(name)
    return None
