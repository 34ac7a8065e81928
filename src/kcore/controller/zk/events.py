"""The events of a controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kcore.controller.rules.error_responses import refused
from kcore.metadata.table.broker_table import Endpoint
from kcore.protocol_errors import Errors
from kcore.schema import (
    AllocateProducerIdsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    ControlledShutdownResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    UpdateFeaturesRequest,
    UpdateMetadataResponse,
)
from kcore.schema.configs import AlterConfigsRequest
from kcore.schema.scram import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.types import Int32s
from kcore.wire.columns import Columns


@dataclass(frozen=True, slots=True)
class BrokerFailed:
    """Brokers without a registration any more, by id."""

    broker_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class BrokerStarted:
    """A broker registered, new or as a new incarnation; its epoch is the czxid of its znode (KIP-380)."""

    broker_id: int
    broker_epoch: int
    endpoints: Sequence[Endpoint] = ()
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # Lowest and highest level (KIP-584).
    coordinates: bool = True  # Groups and transactions; else internal topics are not placed there.


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker asks to have its leaders moved away. `broker_epoch` -1: from before KIP-380, not checked."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """Lead where the first replica can: the partitions in `rows`, or all whose leader is another."""

    rows: Int32s | None = None


# The active controller's events (KafkaController's ControllerEvents of 3.9.1). Those with a `request_id` are answered.


class Event:
    """Whatever `ActiveController.handle` takes."""

    __slots__ = ()


class RequestEvent(Event):
    """An event that is a request, and needs a response."""

    __slots__ = ()
    request_id: int  # The edge's id of the request.
    request: Any

    def refused(self, error: Errors) -> Message:
        """The error response: nothing was done. Where a controller in ZooKeeper mode has one of its own, it says so."""
        return refused(self.request, error)


class Asker(NamedTuple):
    """Who asks, for quotas: the name of the principal, and the client's id."""

    user: str
    client_id: str | None


ANYBODY: Final = Asker("ANONYMOUS", "")


class PartitionMutation(RequestEvent):
    """A request that creates or deletes partitions: a quota on mutations counts them (KIP-599)."""

    __slots__ = ()
    version: int  # Of the request.
    asker: Asker


@dataclass(frozen=True, slots=True)
class Elected(Event):
    """`/controller` is ours: the epoch that was written with it, and the version of `/controller_epoch` then."""

    epoch: int
    epoch_version: int


@dataclass(frozen=True, slots=True)
class SessionLost(Event):
    """The ZooKeeper session has expired, and `/controller` with it."""


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """`/controller` changed or was deleted: there may be another controller."""

    broker_id: int  # The controller's id; -1 for none.


@dataclass(frozen=True, slots=True)
class BrokerChange(Event):
    """The children of `/brokers/ids` changed."""


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """A broker's znode changed: other endpoints."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicChange(Event):
    """The children of `/brokers/topics` changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """A topic's assignment changed: more partitions, perhaps."""

    topic: str


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(Event):
    """Brokers noted in ZooKeeper that log directories failed."""


@dataclass(frozen=True, slots=True)
class ConfigChange(Event):
    """There is a notification in ZooKeeper that a configuration changed."""


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable(Event):
    """A topic allows unclean elections from now on."""

    topic: str


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(Event):
    """A broker's response as columns, since it has all partitions; `broker_epoch`: to which the request was sent."""

    broker_id: int
    broker_epoch: int
    response: Columns


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived(Event):
    """A broker's answer."""

    broker_id: int
    broker_epoch: int
    response: UpdateMetadataResponse


@dataclass(frozen=True, slots=True)
class ControlledShutdownReceived(RequestEvent):
    """ControlledShutdown."""

    request_id: int
    request: ControlledShutdown

    def refused(self, error: Errors) -> Message:
        """No partitions are named."""
        return ControlledShutdownResponse(error_code=error)


# ISRs, reassignments, elections, deletions; and what administrators ask for.


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived(RequestEvent):
    """AlterPartition; `version` is the request's."""

    request_id: int
    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(Event):
    """Leaders from before 2.7 noted in ZooKeeper that they changed ISRs there."""


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment(RequestEvent):
    """An administrator moves partitions to other brokers, or calls that off."""

    request_id: int
    request: AlterPartitionReassignmentsRequest

    def refused(self, error: Errors) -> Message:
        """No partitions are named."""
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=None)


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments(RequestEvent):
    """An administrator asks what is being moved."""

    request_id: int
    request: ListPartitionReassignmentsRequest

    def refused(self, error: Errors) -> Message:
        """No partitions are named."""
        return ListPartitionReassignmentsResponse(error_code=error, error_message=None)


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment(Event):
    """`/admin/reassign_partitions` was created."""


@dataclass(frozen=True, slots=True)
class UpdateFeatures(RequestEvent):
    """An administrator wants other levels of features; `version` is the request's."""

    request_id: int
    request: UpdateFeaturesRequest
    version: int


@dataclass(frozen=True, slots=True)
class ElectLeaders(RequestEvent):
    """An administrator wants elections."""

    request_id: int
    request: ElectLeadersRequest


@dataclass(frozen=True, slots=True)
class ZkReplicaLeaderElection(Event):
    """`/admin/preferred_replica_election` was created."""


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection(Event):
    """It is time to bring leaders back to their preferred replicas: leader.imbalance.check.interval.seconds."""


@dataclass(frozen=True, slots=True)
class TopicDeletion(Event):
    """The children of `/admin/delete_topics` changed."""


@dataclass(frozen=True, slots=True)
class PartitionModificationsStep(Event):
    """The znodes of topics that PartitionModifications named are to be read; the controller's own."""


@dataclass(frozen=True, slots=True)
class ReassignmentStep(Event):
    """Moves whose new replicas are in the ISRs are to be ended; the controller's own."""


@dataclass(frozen=True, slots=True)
class TopicDeletionStep(Event):
    """The next part of a deletion that is too large for one event (`topics/deletion_steps.py`)."""


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived(Event):
    """A broker's response, as columns, to a StopReplica sent to this broker epoch.

    `delete`: the request was to delete all the replicas in the response; else to stop them.
    """

    broker_id: int
    broker_epoch: int
    delete: bool
    response: Columns


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed: what has waited too long is answered."""


@dataclass(frozen=True, slots=True)
class CreateTopics(PartitionMutation):
    """CreateTopics."""

    request_id: int
    request: CreateTopicsRequest
    version: int = 7
    asker: Asker = ANYBODY


@dataclass(frozen=True, slots=True)
class DeleteTopics(PartitionMutation):
    """DeleteTopics."""

    request_id: int
    request: DeleteTopicsRequest
    version: int
    asker: Asker = ANYBODY


@dataclass(frozen=True, slots=True)
class CreatePartitions(PartitionMutation):
    """CreatePartitions."""

    request_id: int
    request: CreatePartitionsRequest
    version: int = 3
    asker: Asker = ANYBODY


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials(RequestEvent):
    """AlterUserScramCredentials."""

    request_id: int
    request: AlterUserScramCredentialsRequest


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentials(RequestEvent):
    """DescribeUserScramCredentials."""

    request_id: int
    request: DescribeUserScramCredentialsRequest


@dataclass(frozen=True, slots=True)
class AlterConfigs(RequestEvent):
    """AlterConfigs: replaces all settings of topics, or of this node."""

    request_id: int
    request: AlterConfigsRequest
    is_proxied: bool = False  # As KIP-590's document has it: it may be about any broker.


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs(RequestEvent):
    """IncrementalAlterConfigs, of topics."""

    request_id: int
    request: IncrementalAlterConfigsRequest
    is_proxied: bool = False  # As of AlterConfigs.


@dataclass(frozen=True, slots=True)
class DescribeConfigs(RequestEvent):
    """DescribeConfigs, of topics; `version` is the request's."""

    request_id: int
    request: DescribeConfigsRequest
    version: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(RequestEvent):
    """A broker wants a block of producer ids."""

    request_id: int
    request: AllocateProducerIdsRequest
