"""Streams groups."""

from kcore.schema.kinds import int8, int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field


class KeyValue(Struct):
    """A part of StreamsGroupHeartbeatRequest."""

    key: str
    value: str


class TopicInfo(Struct):
    """A part of StreamsGroupHeartbeatRequest."""

    name: str
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


class CopartitionGroup(Struct):
    """A part of StreamsGroupHeartbeatRequest."""

    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class StreamsGroupHeartbeatRequestSubtopology(Struct, kafka_name="Subtopology"):
    """A part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class StreamsGroupHeartbeatRequestTopology(Struct, kafka_name="Topology"):
    """A part of StreamsGroupHeartbeatRequest."""

    epoch: int32
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology]


class TaskIds(Struct):
    """A part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str
    partitions: list[int32]


class Endpoint(Struct):
    """A part of StreamsGroupHeartbeatRequest."""

    host: str
    port: uint16


class TaskOffset(Struct):
    """A part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str
    partition: int32
    offset: int64


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0", flexible="0+"):
    """StreamsGroupHeartbeatRequest, as Kafka has it."""

    group_id: str
    member_id: str
    member_epoch: int32
    endpoint_information_epoch: int32
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    topology: StreamsGroupHeartbeatRequestTopology | None = field(nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    process_id: str | None = field(nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(nullable="0+", default=None)
    shutdown_application: bool


class Status(Struct):
    """A part of StreamsGroupHeartbeatResponse."""

    status_code: int8
    status_detail: str


class TopicPartition(Struct):
    """A part of StreamsGroupHeartbeatResponse."""

    topic: str
    partitions: list[int32]


class EndpointToPartitions(Struct):
    """A part of StreamsGroupHeartbeatResponse."""

    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0", flexible="0+"):
    """StreamsGroupHeartbeatResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str
    member_epoch: int32
    heartbeat_interval_ms: int32
    acceptable_recovery_lag: int32
    task_offset_interval_ms: int32
    status: list[Status] | None = field(nullable="0+")
    active_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    endpoint_information_epoch: int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(nullable="0+", default=None)


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0", flexible="0+"):
    """StreamsGroupDescribeRequest, as Kafka has it."""

    group_ids: list[str]
    include_authorized_operations: bool


class StreamsGroupDescribeResponseSubtopology(Struct, kafka_name="Subtopology"):
    """A part of StreamsGroupDescribeResponse."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


class StreamsGroupDescribeResponseTopology(Struct, kafka_name="Topology"):
    """A part of StreamsGroupDescribeResponse."""

    epoch: int32
    subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = field(nullable="0+", default=None)


class Assignment(Struct):
    """A part of StreamsGroupDescribeResponse."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class Member(Struct):
    """A part of StreamsGroupDescribeResponse."""

    member_id: str
    member_epoch: int32
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    client_id: str
    client_host: str
    topology_epoch: int32
    process_id: str
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool


class DescribedGroup(Struct):
    """A part of StreamsGroupDescribeResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32
    assignment_epoch: int32
    topology: StreamsGroupDescribeResponseTopology | None = field(nullable="0+", default=None)
    members: list[Member]
    authorized_operations: int32 = field(default=-2147483648)


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0", flexible="0+"):
    """StreamsGroupDescribeResponse, as Kafka has it."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
