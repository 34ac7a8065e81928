"""Partitions."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    """A part of CreatePartitionsRequest."""

    broker_ids: list[int32]


class CreatePartitionsTopic(Struct):
    """A part of CreatePartitionsRequest."""

    name: str
    count: int32
    assignments: list[CreatePartitionsAssignment] | None = field(nullable="0+")


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """CreatePartitionsRequest, as Kafka has it."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: bool


class CreatePartitionsTopicResult(Struct):
    """A part of CreatePartitionsResponse."""

    name: str
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """CreatePartitionsResponse, as Kafka has it."""

    throttle_time_ms: int32
    results: list[CreatePartitionsTopicResult]


class TopicPartitions(Struct):
    """A part of ElectLeadersRequest."""

    topic: str
    partitions: list[int32]


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    """ElectLeadersRequest, as Kafka has it."""

    election_type: int8 = field(versions="1+")
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+")
    timeout_ms: int32 = field(default=60000)


class PartitionResult(Struct):
    """A part of ElectLeadersResponse."""

    partition_id: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class ReplicaElectionResult(Struct):
    """A part of ElectLeadersResponse."""

    topic: str
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    """ElectLeadersResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16 = field(versions="1+")
    replica_election_results: list[ReplicaElectionResult]


class ReassignablePartition(Struct):
    """A part of AlterPartitionReassignmentsRequest."""

    partition_index: int32
    replicas: list[int32] | None = field(nullable="0+", default=None)


class ReassignableTopic(Struct):
    """A part of AlterPartitionReassignmentsRequest."""

    name: str
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    """AlterPartitionReassignmentsRequest, as Kafka has it."""

    timeout_ms: int32 = field(default=60000)
    allow_replication_factor_change: bool = field(versions="1+", default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    """A part of AlterPartitionReassignmentsResponse."""

    partition_index: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class ReassignableTopicResponse(Struct):
    """A part of AlterPartitionReassignmentsResponse."""

    name: str
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    """AlterPartitionReassignmentsResponse, as Kafka has it."""

    throttle_time_ms: int32
    allow_replication_factor_change: bool = field(versions="1+", default=True, ignorable=True)
    error_code: int16
    error_message: str | None = field(nullable="0+")
    responses: list[ReassignableTopicResponse]


class ListPartitionReassignmentsTopics(Struct):
    """A part of ListPartitionReassignmentsRequest."""

    name: str
    partition_indexes: list[int32]


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    """ListPartitionReassignmentsRequest, as Kafka has it."""

    timeout_ms: int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(nullable="0+", default=None)


class OngoingPartitionReassignment(Struct):
    """A part of ListPartitionReassignmentsResponse."""

    partition_index: int32
    replicas: list[int32]
    adding_replicas: list[int32]
    removing_replicas: list[int32]


class OngoingTopicReassignment(Struct):
    """A part of ListPartitionReassignmentsResponse."""

    name: str
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    """ListPartitionReassignmentsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    topics: list[OngoingTopicReassignment]
