"""Creates and deletes topics and deletes records: CreateTopics, DeleteTopics, DeleteRecords."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class CreatableReplicaAssignment(Struct):
    """The replicas of one partition, as the caller wants them."""

    partition_index: int32
    broker_ids: list[int32]  # The first one is the preferred leader.


class CreatableTopicConfig(Struct):
    """A setting of the new topic."""

    name: str
    value: str | None = field(nullable="0+")


class CreatableTopic(Struct):
    """A topic to create."""

    name: str
    num_partitions: int32  # -1 for the broker's default (KIP-464), or if `assignments` are given.
    replication_factor: int16  # -1 for the broker's default (KIP-464), or if `assignments` are given.
    assignments: list[CreatableReplicaAssignment]  # Empty lets the controller place the replicas.
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Message, api_key=19, versions="0-7", flexible="5+"):
    """A client asks the controller for new topics."""

    topics: list[CreatableTopic]
    timeout_ms: int32 = field(default=60000)
    validate_only: bool = field(versions="1+")  # Only checks the request.


class CreatableTopicConfigs(Struct):
    """A setting of the created topic (KIP-525)."""

    name: str
    value: str | None = field(nullable="5+")
    read_only: bool
    config_source: int8 = field(default=-1, ignorable=True)  # As in DescribeConfigs.
    is_sensitive: bool


class CreatableTopicResult(Struct):
    """The new topic, or the error."""

    name: str
    topic_id: Uuid = field(versions="7+", ignorable=True)  # KIP-516.
    error_code: int16
    error_message: str | None = field(versions="1+", nullable="0+", ignorable=True)
    # The error because of which the client may not see the settings.
    topic_config_error_code: int16 = field(versions="5+", tag=0, tagged="5+", ignorable=True)
    # Partitions of the created topic (KIP-525); -1 if the client may not see them.
    num_partitions: int32 = field(versions="5+", default=-1, ignorable=True)
    replication_factor: int16 = field(versions="5+", default=-1, ignorable=True)
    # The topic's settings; null if the client may not see them.
    configs: list[CreatableTopicConfigs] | None = field(versions="5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Message, api_key=19, versions="0-7", flexible="5+"):
    """The controller's answer, topic by topic."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    topics: list[CreatableTopicResult]


class DeleteTopicState(Struct):
    """A topic by name or by id, never both (KIP-516)."""

    name: str | None = field(nullable="6+", default=None)  # Null if the topic is given by id.
    topic_id: Uuid


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    """A client asks the controller to delete topics."""

    topics: list[DeleteTopicState] = field(versions="6+")
    topic_names: list[str] = field(versions="0-5", ignorable=True)
    timeout_ms: int32


class DeletableTopicResult(Struct):
    """The result for one topic."""

    name: str | None = field(nullable="6+")  # Null for an id whose name the client may not see.
    topic_id: Uuid = field(versions="6+", ignorable=True)
    error_code: int16
    error_message: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    """The controller's answer, topic by topic."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    responses: list[DeletableTopicResult]


class DeleteRecordsPartition(Struct):
    """One partition, and the offset before which its records are to be deleted."""

    partition_index: int32
    offset: int64  # The first offset that remains; -1 for the high watermark.


class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """A client asks leaders to delete the first records of partitions (KIP-107)."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: int32


class DeleteRecordsPartitionResult(Struct):
    """The new start of one partition, or an error."""

    partition_index: int32
    low_watermark: int64  # The smallest log start offset of all replicas.
    error_code: int16


class DeleteRecordsTopicResult(Struct):
    """The answers for one topic."""

    name: str
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    """The leader's answer, partition by partition."""

    throttle_time_ms: int32
    topics: list[DeleteRecordsTopicResult]
