"""The groups of Kafka Streams: the coordinator knows the topology and assigns its tasks (KIP-1071)."""

from kcore.schema.kinds import int8, int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field


class KeyValue(Struct):
    """A client tag or a topic configuration."""

    key: str
    value: str


class TopicInfo(Struct):
    """An internal topic that the topology needs."""

    name: str
    partitions: int32  # 0 where the coordinator is to work it out.
    replication_factor: int16  # 0 for the broker's default.
    topic_configs: list[KeyValue]


class CopartitionGroup(Struct):
    """Topics that must have equally many partitions; indexes into the subtopology's lists."""

    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class StreamsGroupHeartbeatRequestSubtopology(Struct, kafka_name="Subtopology"):
    """A part of the topology; each of its tasks reads one partition number."""

    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]  # Internal topics that back the stores up.
    repartition_sink_topics: list[str]  # Internal topics that it writes to.
    repartition_source_topics: list[TopicInfo]  # Internal topics that it reads from.
    copartition_groups: list[CopartitionGroup]


class StreamsGroupHeartbeatRequestTopology(Struct, kafka_name="Topology"):
    """All that the application computes, in parts."""

    epoch: int32  # Of the topology; another one marks another version of the application.
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology]


class TaskIds(Struct):
    """Tasks of one subtopology by partition number."""

    subtopology_id: str
    partitions: list[int32]


class Endpoint(Struct):
    """Where a member answers queries."""

    host: str
    port: uint16


class TaskOffset(Struct):
    """How far a task's stores are."""

    subtopology_id: str
    partition: int32
    offset: int64


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0", flexible="0+"):
    """A member joins, reports, leaves. Null and -1 mean: as in the last heartbeat."""

    group_id: str
    member_id: str  # The member makes it up itself.
    member_epoch: int32  # 0 joins, -1 leaves, -2 leaves as a static member that will be back.
    endpoint_information_epoch: int32  # The newest endpoints that the member has heard of.
    instance_id: str | None = field(nullable="0+", default=None)  # Of a static member.
    rack_id: str | None = field(nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field(default=-1)  # How long it may take to give tasks up.
    topology: StreamsGroupHeartbeatRequestTopology | None = field(nullable="0+", default=None)  # Sent when joining.
    # What the member owns. Standby tasks keep copies of stores; warm-up tasks build them first.
    active_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    process_id: str | None = field(nullable="0+", default=None)  # Members of one process share stores on disk.
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)  # For interactive queries.
    client_tags: list[KeyValue] | None = field(nullable="0+", default=None)  # For placing standby tasks apart.
    # Cumulative changelog offsets; their end follows.
    task_offsets: list[TaskOffset] | None = field(nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(nullable="0+", default=None)
    shutdown_application: bool  # Asks all members to stop.


class Status(Struct):
    """Something that the member should know, such as a missing source topic."""

    status_code: int8
    status_detail: str


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str
    partitions: list[int32]


class EndpointToPartitions(Struct):
    """Which partitions a member answers queries for."""

    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0", flexible="0+"):
    """The member's epoch and, where they changed, its tasks."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str
    member_epoch: int32
    heartbeat_interval_ms: int32
    acceptable_recovery_lag: int32  # A warm-up task that is this close may become active.
    task_offset_interval_ms: int32  # How often to report task offsets.
    status: list[Status] | None = field(nullable="0+")  # Null where there is nothing to say.
    # Null where nothing changed, as with the other two.
    active_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    endpoint_information_epoch: int32
    # Null where nothing changed.
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(nullable="0+", default=None)


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0", flexible="0+"):
    """An administrator asks a coordinator for streams groups in full."""

    group_ids: list[str]
    include_authorized_operations: bool


class StreamsGroupDescribeResponseSubtopology(Struct, kafka_name="Subtopology"):
    """A part of the topology."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]  # Internal topics that it writes to.
    state_changelog_topics: list[TopicInfo]  # Internal topics that back the stores up.
    repartition_source_topics: list[TopicInfo]  # Internal topics that it reads from.


class StreamsGroupDescribeResponseTopology(Struct, kafka_name="Topology"):
    """What the application computes, in parts."""

    epoch: int32
    # Null while the group is not ready, for instance because a source topic is missing.
    subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = field(nullable="0+", default=None)


class Assignment(Struct):
    """The tasks that a member owns or is to own."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]  # They keep copies of stores.
    warmup_tasks: list[TaskIds]  # They build copies, to become active later.


class Member(Struct):
    """A member of the group."""

    member_id: str
    member_epoch: int32
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    client_id: str
    client_host: str
    topology_epoch: int32  # The version of the application that it runs.
    process_id: str  # Members of one process share stores on disk.
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)  # For interactive queries.
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]  # Cumulative changelog offsets; their end follows.
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment  # What it will own when all have caught up.
    is_classic: bool  # It still speaks the classic protocol.


class DescribedGroup(Struct):
    """A streams group with its topology and members."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32  # Goes up with every change of members, topics or topology.
    assignment_epoch: int32  # The group epoch for which the target was made.
    # Null where there is an error.
    topology: StreamsGroupDescribeResponseTopology | None = field(nullable="0+", default=None)
    members: list[Member]
    # A bit for each operation; the lowest integer where it was not asked for.
    authorized_operations: int32 = field(default=-(2**31))


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0", flexible="0+"):
    """The groups that were asked for."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
