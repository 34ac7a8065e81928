"""Changes of a topic's partitions: more partitions (KIP-195), other leaders (KIP-460), other replicas (KIP-455)."""

from enum import IntEnum

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    """The replicas of one new partition, as the caller wants them."""

    broker_ids: list[int32]  # The first one is the preferred leader.


class CreatePartitionsTopic(Struct):
    """A topic that gets more partitions."""

    name: str
    count: int32  # Number of all partitions, old and new.
    # Replicas of the new partitions; null lets the controller place them.
    assignments: list[CreatePartitionsAssignment] | None = field(nullable="0+")


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """An administrator asks the controller for more partitions."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: bool  # Only checks the request.


class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """The controller's answer, topic by topic."""

    throttle_time_ms: int32
    results: list[CreatePartitionsTopicResult]


class ElectionType(IntEnum):
    """ElectionType: which replica may become leader."""

    PREFERRED = 0  # The first replica of the assignment (KIP-183).
    UNCLEAN = 1  # Any replica, even outside the ISR (KIP-460).


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str
    partitions: list[int32]


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    """An administrator asks the controller to elect leaders now."""

    election_type: int8 = field(versions="1+")  # ElectionType
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+")  # Null asks for all.
    timeout_ms: int32 = field(default=60000)


class PartitionResult(Struct):
    """The result for one partition."""

    partition_id: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class ReplicaElectionResult(Struct):
    """The answers for one topic."""

    topic: str
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    """The controller's answer, partition by partition."""

    throttle_time_ms: int32
    error_code: int16 = field(versions="1+")
    replica_election_results: list[ReplicaElectionResult]


class ReassignablePartition(Struct):
    """The new replicas of one partition."""

    partition_index: int32
    # Null cancels the current reassignment.
    replicas: list[int32] | None = field(nullable="0+", default=None)


class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    """An administrator moves partitions to other brokers."""

    timeout_ms: int32 = field(default=60000)
    # If False, the controller refuses a different number of replicas (KIP-860).
    allow_replication_factor_change: bool = field(versions="1+", default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    """The result for one partition: its reassignment has begun, or failed."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class ReassignableTopicResponse(Struct):
    """The answers for one topic."""

    name: str
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    """The controller's answer, partition by partition."""

    throttle_time_ms: int32
    allow_replication_factor_change: bool = field(versions="1+", default=True, ignorable=True)
    error_code: int16
    error_message: str | None = field(nullable="0+")
    responses: list[ReassignableTopicResponse]


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str
    partition_indexes: list[int32]


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    """An administrator asks for the current reassignments."""

    timeout_ms: int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(nullable="0+", default=None)  # Null asks for all.


class OngoingPartitionReassignment(Struct):
    """A partition that is being reassigned."""

    partition_index: int32
    replicas: list[int32]  # All replicas, with those that the reassignment adds and removes.
    adding_replicas: list[int32]
    removing_replicas: list[int32]


class OngoingTopicReassignment(Struct):
    """The current reassignments of one topic."""

    name: str
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    """The current reassignments."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    topics: list[OngoingTopicReassignment]
